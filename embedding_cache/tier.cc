#include "embedding_cache/tier.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace mstrain::embedding_cache {

void read_through(std::span<Tier* const> tiers, uint32_t table, std::span<const Id> ids,
                  std::byte* const* into, bool* found) {
  tiers.front()->read(table, ids, into, found);
  if (tiers.size() == 1 || std::all_of(found, found + ids.size(), [](bool b) { return b; })) {
    return;
  }
  std::vector<size_t> at;
  std::vector<Id> left;
  std::vector<std::byte*> left_into;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!found[i]) {
      at.push_back(i);
      left.push_back(ids[i]);
      left_into.push_back(into[i]);
    }
  }
  const auto left_found = std::make_unique<bool[]>(left.size());
  read_through(tiers.subspan(1), table, left, left_into.data(), left_found.get());
  for (size_t i = 0; i < left.size(); ++i) {
    found[at[i]] = left_found[i];
  }
}

void write_through(std::span<Tier* const> tiers, std::span<const RowWrite> rows) {
  for (auto tier = tiers.rbegin(); tier != tiers.rend(); ++tier) {
    (*tier)->write(rows);
  }
}

}  // namespace mstrain::embedding_cache
