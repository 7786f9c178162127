#include "suites/recommender/embedding/device_batch.h"

#include <algorithm>

namespace mstrain::recommender {
namespace {

// By position: the bag that it is in.
std::vector<int32_t> bags_of(const std::vector<uint32_t>& offsets) {
  std::vector<int32_t> bags;
  bags.reserve(offsets.back());
  for (size_t bag = 0; bag + 1 < offsets.size(); ++bag) {
    bags.insert(bags.end(), offsets[bag + 1] - offsets[bag], static_cast<int32_t>(bag));
  }
  return bags;
}

template <class T>
std::vector<T> chosen(const std::vector<T>& from, const std::vector<int32_t>& order) {
  std::vector<T> out(order.size());
  std::transform(order.begin(), order.end(), out.begin(),
                 [&](int32_t i) { return from[static_cast<size_t>(i)]; });
  return out;
}

// With one part for each id.
DeviceBatch in_order(const std::vector<embedding_cache::Id>& ids) {
  DeviceBatch out;
  embedding_cache::Dedup().run(ids, out.distinct);
  const embedding_cache::Positions positions = positions_by_id(out.distinct);
  out.order.assign(positions.order.begin(), positions.order.end());
  out.parts.assign(positions.begin.begin(), positions.begin.end());
  return out;
}

}  // namespace

DeviceBatch device_batch(const std::vector<embedding_cache::Id>& ids) { return in_order(ids); }

DeviceBatch device_batch(const TableSpec& table, const TableKeys& keys, int64_t micro_batches) {
  DeviceBatch out = in_order(keys.ids);
  const std::vector<int32_t> samples = bags_of(keys.sample_offsets);
  if (table.has_weights) {
    out.weights = chosen(samples, out.order);
  }
  if (!keys.field_offsets.empty()) {
    out.vectors = chosen(bags_of(keys.field_offsets), out.order);
  }
  if (!keys.weights.empty()) {
    out.scales = chosen(keys.weights, out.order);
    out.scales_vectors = !table.is_numeric;
  }
  if (micro_batches > 1) {
    const auto each = static_cast<int32_t>(std::ssize(keys.sample_offsets) - 1) /
                      static_cast<int32_t>(micro_batches);
    const auto turn = [&](int32_t i) {
      return samples[static_cast<size_t>(out.order[static_cast<size_t>(i)])] / each;
    };
    const std::vector<int32_t> begins = std::exchange(out.parts, {});
    for (size_t id = 0; id + 1 < begins.size(); ++id) {
      out.ids.push_back(static_cast<int32_t>(out.parts.size()));
      for (int32_t i = begins[id]; i < begins[id + 1]; ++i) {
        if (i == begins[id] || turn(i) != turn(i - 1)) {
          out.parts.push_back(i);
        }
      }
    }
    out.ids.push_back(static_cast<int32_t>(out.parts.size()));
    out.parts.push_back(begins.back());
  }
  return out;
}

}  // namespace mstrain::recommender
