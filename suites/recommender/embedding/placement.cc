#include "suites/recommender/embedding/placement.h"

#include <algorithm>
#include <cmath>

#include "core/base/hash.h"

namespace mstrain::recommender {

Placement::Placement(const Tables& tables, EmbeddingWay way, int64_t ranks)
    : ranks_(ranks), fields_(tables.specs().size()), wholes_(tables.specs().size()) {
  if (way != EmbeddingWay::kTableWise) {
    return;
  }
  struct Whole {
    size_t table;
    const TableField* field;
  };
  std::vector<Whole> wholes;
  for (size_t t = 0; t < tables.specs().size(); ++t) {
    for (const TableField& field : tables.specs()[t].fields) {
      if (field.rows > 0) {
        wholes.push_back({t, &field});
      }
    }
  }
  std::stable_sort(wholes.begin(), wholes.end(),
                   [](const Whole& a, const Whole& b) { return a.field->rows > b.field->rows; });
  std::vector<uint64_t> rows(static_cast<size_t>(ranks));
  for (const auto& [table, field] : wholes) {
    const auto least = std::min_element(rows.begin(), rows.end());
    *least += field->rows;
    fields_[table].push_back({field->first + field->rows, static_cast<int>(least - rows.begin())});
  }
  for (std::vector<Field>& fields : fields_) {
    std::sort(fields.begin(), fields.end(),
              [](const Field& a, const Field& b) { return a.end < b.end; });
  }
  for (size_t t = 0; ranks > 1 && t < tables.specs().size(); ++t) {
    const TableSpec& spec = tables.specs()[t];
    for (size_t f = 0; f < spec.fields.size(); ++f) {
      const TableField& field = spec.fields[f];
      if (spec.has_vectors && !spec.has_weights && !spec.takes_largest && field.rows > 0 &&
          field.is_bag) {
        wholes_[t].push_back(
            {f, owner(t, field.first), field.pooling == embedding_cache::Pooling::kMean});
      }
    }
  }
}

int Placement::owner(size_t table, embedding_cache::Id key) const {
  const std::vector<Field>& fields = fields_[table];
  if (!fields.empty() && !is_open_ended(key)) {
    return std::upper_bound(fields.begin(), fields.end(), key,
                            [](uint64_t id, const Field& field) { return id < field.end; })
        ->owner;
  }
  return static_cast<int>(hash_combine(table + 1, key) % static_cast<uint64_t>(ranks_));
}

uint64_t Placement::share(size_t table, uint64_t rows) const {
  if (ranks_ == 1) {
    return rows;
  }
  std::vector<uint64_t> whole(static_cast<size_t>(ranks_));
  uint64_t begin = 0;
  for (const Field& field : fields_[table]) {
    whole[static_cast<size_t>(field.owner)] += field.end - begin;
    begin = field.end;
  }
  const auto dealt =
      static_cast<double>(rows - std::min(rows, begin)) / static_cast<double>(ranks_);
  const auto spread = static_cast<uint64_t>(std::ceil(dealt + 6 * std::sqrt(dealt) + 8));
  return std::min(rows, *std::max_element(whole.begin(), whole.end()) + spread);
}

}  // namespace mstrain::recommender
