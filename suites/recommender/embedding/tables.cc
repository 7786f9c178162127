#include "suites/recommender/embedding/tables.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "suites/recommender/embedding/placement.h"

namespace mstrain::recommender {
namespace {

using embedding_cache::Id;
using embedding_cache::Pooling;

constexpr uint64_t kHashed = uint64_t{1} << 63;  // keys of open-ended ids; all others are below

std::vector<std::string> names_in(const SampleSchema& schema, bool embeds_numeric) {
  std::vector<std::string> names;
  if (embeds_numeric) {
    names = schema.numeric;
  }
  for (const FieldSpec& field : schema.fields) {
    names.push_back(field.name);
  }
  return names;
}

bool is_named(const std::optional<std::vector<std::string>>& names, const std::string& name) {
  return !names || std::find(names->begin(), names->end(), name) != names->end();
}

void check_known(const std::optional<std::vector<std::string>>& asked,
                 const std::vector<std::string>& known, const char* key) {
  for (const std::string& name : asked.value_or(std::vector<std::string>())) {
    check(std::find(known.begin(), known.end(), name) != known.end(),
          "{}: the data have no field {}{}", key, name, did_you_mean(name, known));
  }
}

}  // namespace

bool is_open_ended(Id key) { return key >= kHashed; }

std::optional<uint64_t> TableSpec::rows() const {
  uint64_t sum = 0;
  for (const TableField& field : fields) {
    if (field.rows == 0) {
      return std::nullopt;
    }
    sum += field.rows;
  }
  return sum;
}

uint64_t TableSpec::ids_of(uint64_t samples) const {
  double of_each = 0;
  for (const TableField& field : fields) {
    of_each += field.ids;
  }
  return static_cast<uint64_t>(std::ceil(of_each * static_cast<double>(samples)));
}

uint64_t TableSpec::rows_of(uint64_t samples, uint64_t others) const {
  uint64_t sum = others;
  for (const TableField& field : fields) {
    const auto ids = static_cast<uint64_t>(std::ceil(field.ids * static_cast<double>(samples)));
    sum += field.rows == 0 ? ids : std::min(field.rows, ids);
  }
  return std::min(sum, rows().value_or(sum));
}

Tables::Tables(const SampleSchema& schema, const FieldUse& use)
    : numbers_(schema.numeric),
      width_(use.width),
      numeric_(use.embeds_numeric ? 0 : std::ssize(schema.numeric)),
      columns_(std::ssize(schema.numeric)) {
  const std::vector<std::string> names = names_in(schema, use.embeds_numeric);
  check_known(use.vectors_of, names, "model.vector_fields");
  check_known(use.weights_of, names, "model.wide_fields");
  const auto add = [&](TableField field) {
    const bool vectors = use.has_vectors && is_named(use.vectors_of, field.name);
    const bool weights = use.has_weights && is_named(use.weights_of, field.name);
    if (!vectors && !weights) {
      return;
    }
    const bool largest = field.pooling == Pooling::kMax;
    auto table = std::find_if(specs_.begin(), specs_.end(), [&](const TableSpec& spec) {
      return spec.has_vectors == vectors && spec.has_weights == weights &&
             spec.takes_largest == largest && spec.is_numeric == field.is_numeric;
    });
    if (table == specs_.end()) {
      std::string name = vectors && weights ? "rows" : vectors ? "vectors" : "weights";
      name += largest ? "_of_largest" : field.is_numeric ? "_of_numbers" : "";
      specs_.push_back({name, vectors, weights, largest, field.is_numeric, {}});
      table = specs_.end() - 1;
    }
    if (!table->fields.empty()) {
      const TableField& last = table->fields.back();
      field.first = last.first + last.rows;
    }
    table->fields.push_back(std::move(field));
  };
  for (size_t i = 0; use.embeds_numeric && i < schema.numeric.size(); ++i) {
    add({.is_numeric = true, .index = i, .name = schema.numeric[i], .rows = 1});
  }
  for (size_t i = 0; i < schema.fields.size(); ++i) {
    const FieldSpec& field = schema.fields[i];
    add({.index = i,
         .name = field.name,
         .rows = field.rows,
         .pooling = field.is_bag ? field.pooling : Pooling::kSum,
         .is_bag = field.is_bag,
         .ids = field.ids});
  }
  for (size_t i = 0; use.group_by && i < schema.fields.size(); ++i) {
    const FieldSpec& field = schema.fields[i];
    if (field.name == *use.group_by) {
      check(!field.is_bag, "{} has several ids in a sample: samples are grouped by a field of one",
            field.name);
      group_ = i;
    }
  }
  check(!use.group_by || group_, "no field of one id is called {}{}", use.group_by.value_or(""),
        did_you_mean(use.group_by.value_or(""), names));
  check(!specs_.empty(), "the data have no field that the model looks up");
}

int64_t Tables::vectors() const {
  int64_t sum = 0;
  for (const TableSpec& spec : specs_) {
    sum += spec.has_vectors ? std::ssize(spec.fields) : 0;
  }
  return sum;
}

bool Tables::has_weights() const {
  return std::any_of(specs_.begin(), specs_.end(),
                     [](const TableSpec& spec) { return spec.has_weights; });
}

Types Tables::batch_types(int64_t rows) const {
  Types types{{Dtype::kF32, {rows}}};
  if (columns_ > 0) {
    types.push_back({Dtype::kF32, {rows, columns_}});
  }
  for (const TableSpec& spec : specs_) {
    if (spec.has_vectors) {
      types.push_back({Dtype::kF32, {rows, std::ssize(spec.fields), width_}});
    }
    if (spec.has_weights) {
      types.push_back({Dtype::kF32, {rows}});
    }
  }
  if (group_) {
    types.push_back({Dtype::kI64, {rows}});
  }
  return types;
}

std::vector<size_t> Tables::looked_up() const {
  std::vector<size_t> places;
  const size_t count = batch_types(1).size() - (group_ ? 1 : 0);
  for (size_t i = columns_ > 0 ? 2 : 1; i < count; ++i) {
    places.push_back(i);
  }
  return places;
}

embedding_cache::Options cache_options(const Tables& tables, const Placement& placement,
                                       const EmbeddingConfig& embedding, const CacheConfig& cache,
                                       uint64_t seed, int threads, int64_t memory,
                                       int64_t samples) {
  embedding_cache::Options options;
  options.seed = seed;
  options.store = cache.store;
  options.threads = threads;
  options.check_shadow = cache.check_shadow;
  options.wait_seconds = cache.wait_seconds;
  for (size_t t = 0; t < tables.specs().size(); ++t) {
    const TableSpec& spec = tables.specs()[t];
    embedding_cache::TableOptions table{.name = spec.name, .host_rows = 1};
    if (spec.has_vectors) {
      table.segments.push_back(
          {static_cast<uint32_t>(tables.width()), embedding.optimizer, embedding.init});
    }
    if (spec.has_weights) {
      table.segments.push_back({1, embedding.wide_optimizer, embedding.wide_init});
    }
    table.policy = cache.policy;
    table.admission = embedding.admission;
    table.eviction = embedding.eviction;
    const embedding_cache::RowLayout layout(table);
    constexpr uint64_t kMost = uint64_t{1} << 31;
    const uint64_t share = static_cast<uint64_t>(memory) / (2 * tables.specs().size());
    const uint64_t fit = std::clamp<uint64_t>(share / layout.record_bytes(), 1, kMost);
    const uint64_t all = placement.share(t, spec.rows_of(static_cast<uint64_t>(samples)));
    table.host_rows = cache.host_rows.is_word() ? std::clamp<uint64_t>(all, 1, fit)
                                                : static_cast<uint64_t>(*cache.host_rows.value);
    options.tables.push_back(std::move(table));
  }
  return options;
}

std::vector<uint64_t> device_rows(const Tables& tables, const Placement& placement,
                                  const embedding_cache::Options& options, const CacheConfig& cache,
                                  int64_t memory) {
  std::vector<uint64_t> out;
  if (cache.device_rows == 0) {
    return out;
  }
  uint64_t all = 0;
  for (size_t t = 0; t < options.tables.size(); ++t) {
    const embedding_cache::RowLayout layout(options.tables[t]);
    const TableSpec& spec = tables.specs()[t];
    const bool fits = !spec.takes_largest && !layout.learns_always();
    const uint64_t there_are =
        placement.share(t, spec.rows().value_or(options.tables[t].host_rows));
    const uint64_t share =
        static_cast<uint64_t>(memory) / (4 * options.tables.size()) / layout.record_bytes();
    const uint64_t wanted = cache.device_rows.is_word()
                                ? std::min(share, there_are)
                                : static_cast<uint64_t>(*cache.device_rows.value);
    // Of an open-ended table nobody knows how many there will be.
    out.push_back(!fits ? 0 : spec.rows() ? std::min(wanted, there_are) : wanted);
    all += out.back();
  }
  return all == 0 ? std::vector<uint64_t>() : out;
}

TableKeys keys_of(const TableSpec& table, const SampleBatch& batch) {
  const auto samples = static_cast<size_t>(batch.samples);
  TableKeys keys;
  bool is_single = true;
  bool is_weighted = false;
  size_t positions = 0;
  const size_t columns = batch.samples == 0 ? 0 : batch.numeric.size() / samples;
  for (const TableField& field : table.fields) {
    is_weighted = is_weighted || field.is_numeric || field.pooling == Pooling::kMean;
    if (field.is_numeric) {
      positions += samples;
    } else {
      const SampleBatch::Field& given = batch.fields[field.index];
      is_single = is_single && given.offsets.empty();
      positions += given.ids.size();
    }
  }
  keys.ids.reserve(positions);
  keys.weights.reserve(is_weighted ? positions : 0);
  keys.sample_offsets.reserve(samples + 1);
  keys.sample_offsets.push_back(0);
  if (!is_single) {
    keys.field_offsets.reserve(samples * table.fields.size() + 1);
    keys.field_offsets.push_back(0);
  }
  for (size_t s = 0; s < samples; ++s) {
    for (const TableField& field : table.fields) {
      if (field.is_numeric) {
        keys.ids.push_back(field.first);
        keys.weights.push_back(batch.numeric[s * columns + field.index]);
      } else {
        const SampleBatch::Field& given = batch.fields[field.index];
        const size_t begin = given.offsets.empty() ? s : given.offsets[s];
        const size_t end = given.offsets.empty() ? s + 1 : given.offsets[s + 1];
        for (size_t i = begin; i < end; ++i) {
          const uint64_t id = given.ids[i];
          check(field.rows == 0 || id < field.rows, "field {} has {} rows, and a sample id {}",
                field.name, field.rows, id);
          keys.ids.push_back(field.rows > 0 ? field.first + id
                                            : kHashed | hash_combine(field.index + 1, id));
        }
        if (is_weighted) {
          const float weight = field.pooling == Pooling::kMean && end > begin
                                   ? 1.0F / static_cast<float>(end - begin)
                                   : 1.0F;
          keys.weights.insert(keys.weights.end(), end - begin, weight);
        }
      }
      if (!is_single) {
        keys.field_offsets.push_back(static_cast<uint32_t>(keys.ids.size()));
      }
    }
    keys.sample_offsets.push_back(static_cast<uint32_t>(keys.ids.size()));
  }
  return keys;
}

}  // namespace mstrain::recommender
