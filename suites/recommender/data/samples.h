// Samples of a recommender: numbers, ids by field, and whether the user clicked. They are read by index, so that orders, ranks and going on
// are arithmetic.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "embedding_cache/bags.h"

namespace mstrain::recommender {

struct FieldSpec {
  std::string name;
  uint64_t rows = 0;    // ids are below it; 0: open-ended hashes of 64 bits
  bool is_bag = false;  // a sample has any number of ids
  embedding_cache::Pooling pooling = embedding_cache::Pooling::kSum;  // of a bag
  double ids = 1;                                                     // of a sample, in the mean
};

struct SampleSchema {
  std::vector<std::string> numeric;
  std::vector<FieldSpec> fields;  // categorical, crossed and bucketised alike
};

struct SampleBatch {
  struct Field {
    std::vector<uint64_t> ids;
    std::vector<uint32_t> offsets;  // [samples + 1]; empty: one id a sample
  };
  int64_t samples = 0;
  std::vector<float> labels;   // [samples], 0 or 1
  std::vector<float> numeric;  // [samples, numeric]
  std::vector<Field> fields;
};

// Any thread may use it.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual const SampleSchema& schema() const = 0;
  virtual int64_t samples() const = 0;
  // Throws IoError.
  virtual void read(std::span<const int64_t> samples, SampleBatch& out) const = 0;
  virtual std::string identity() const = 0;  // equal for equal data
  // Log-odds, by the model that made them, of samples that read() gave: none can be better. Empty: nobody knows it.
  virtual std::vector<double> true_log_odds(const SampleBatch& /*batch*/) const { return {}; }
};

// Samples [first, first + count) of another source.
std::shared_ptr<const SampleSource> part_of(std::shared_ptr<const SampleSource> all, int64_t first,
                                            int64_t count);

}  // namespace mstrain::recommender
