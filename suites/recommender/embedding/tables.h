// Which fields share a table, what its rows are, and the keys under which it has them.
//
// Fields of one kind (a vector, a single weight, or both; of ids, pooled by largest values, or summed up, or of numbers) share a table, so
// that a batch is one lookup. The id of a field is row `first + id` of its table; open-ended ids are hashed together with their field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/tensor.h"
#include "embedding_cache/cache.h"
#include "suites/recommender/data/samples.h"
#include "suites/recommender/embedding/table_config.h"

namespace mstrain::recommender {

// Whether a key is that of an id without a bound, which does not tell its field.
bool is_open_ended(embedding_cache::Id key);

// What a model asks of the fields of its samples.
struct FieldUse {
  bool has_vectors = true;  // a vector of `width` floats for each id
  bool has_weights = true;  // a single weight for each id
  int64_t width = 16;
  bool embeds_numeric =
      false;  // numeric columns are ids too, which count as often as the column says
  std::optional<std::string> group_by;  // field whose ids are the samples' groups
  // By name; none: all fields. Others have no vectors, or no weights.
  std::optional<std::vector<std::string>> vectors_of, weights_of;
};

struct TableField {
  bool is_numeric = false;
  size_t index = 0;  // in SampleSchema::numeric or ::fields
  std::string name;
  uint64_t rows = 0;   // 0: open-ended
  uint64_t first = 0;  // key of its id 0
  embedding_cache::Pooling pooling = embedding_cache::Pooling::kSum;
  bool is_bag = false;  // any number of ids a sample
  double ids = 1;       // of a sample, in the mean
};

struct TableSpec {
  std::string name;
  bool has_vectors = false, has_weights = false;
  bool takes_largest = false;  // pooled by Pooling::kMax
  // An id for each column of numbers. Its weight counts as often as the column says, its vector once: numbers are given beside.
  bool is_numeric = false;
  std::vector<TableField> fields;

  uint32_t vector_segment() const { return 0; }
  uint32_t weight_segment() const { return has_vectors ? 1 : 0; }
  // Rows that there can be; none: some ids are open-ended.
  std::optional<uint64_t> rows() const;
  uint64_t ids_of(uint64_t samples) const;  // about
  // At most, where `samples` samples have all ids that come, beside `others` that have rows already.
  uint64_t rows_of(uint64_t samples, uint64_t others = 0) const;
};

class Tables {
 public:
  // Throws Error naming a field that `use` names and the schema does not have, or that has several ids where one is wanted.
  Tables(const SampleSchema& schema, const FieldUse& use);

  const std::vector<TableSpec>& specs() const { return specs_; }
  int64_t width() const { return width_; }
  int64_t numeric() const { return numeric_; }  // columns that enter as numbers alone
  const std::vector<std::string>& numbers() const { return numbers_; }  // names of all columns
  int64_t columns() const { return columns_; }                          // all that batches have
  int64_t vectors() const;  // fields with vectors, of all tables
  bool has_weights() const;
  // The place of the groups' field in SampleSchema::fields.
  const std::optional<size_t>& group() const { return group_; }

  // Batches are {labels f32 [rows], numeric f32 [rows, columns] where there are any, of each table vectors f32 [rows, fields, width]
  // and sums of weights f32 [rows], where it has them, and groups i64 [rows] where there are any}.
  Types batch_types(int64_t rows) const;
  std::vector<size_t> looked_up() const;  // their places

 private:
  std::vector<TableSpec> specs_;
  std::vector<std::string> numbers_;
  int64_t width_ = 0, numeric_ = 0, columns_ = 0;
  std::optional<size_t> group_;
};

class Placement;

// Of a rank's cache. `memory` bytes bound host_rows that are left open, and so do the ids that `samples` samples can have. The directory
// is left to the caller.
embedding_cache::Options cache_options(const Tables& tables, const Placement& placement,
                                       const EmbeddingConfig& embedding, const CacheConfig& cache,
                                       uint64_t seed, int threads, int64_t memory, int64_t samples);

// Rows of each table in the memory of a device, of which `memory` bytes bound what is left open; none of a table whose bags take the largest.
// Empty: none at all.
std::vector<uint64_t> device_rows(const Tables& tables, const Placement& placement,
                                  const embedding_cache::Options& options, const CacheConfig& cache,
                                  int64_t memory);

// The positions of a batch in one table, sample by sample and in these field by field.
struct TableKeys {
  std::vector<embedding_cache::Id> ids;
  std::vector<uint32_t>
      field_offsets;  // of the bags of each field of each sample; empty: one id each
  std::vector<uint32_t> sample_offsets;  // of all ids of a sample
  std::vector<float> weights;            // by position, what counts of it; empty: 1
};
// Throws Error for an id that its field does not have.
TableKeys keys_of(const TableSpec& table, const SampleBatch& batch);

}  // namespace mstrain::recommender
