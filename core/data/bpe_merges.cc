#include "core/data/bpe_merges.h"

#include <algorithm>
#include <bit>

#include "core/base/hash.h"

namespace mstrain {
namespace {

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

BpeMerges::BpeMerges(std::span<const Merge> merges)
    : table_(std::bit_ceil(std::max<size_t>(2, 2 * merges.size()))) {
  for (size_t i = 0; i < merges.size(); ++i) {
    const Merge& merge = merges[i];
    auto& entry = const_cast<Entry&>(find(merge.left, merge.right));
    entry = {pair_key(merge.left, merge.right), merge.rank.value_or(static_cast<uint32_t>(i)),
             merge.result};
  }
}

const BpeMerges::Entry& BpeMerges::find(int32_t left, int32_t right) const {
  const uint64_t key = pair_key(left, right);
  const size_t mask = table_.size() - 1;
  for (size_t i = hash_mix(key) & mask;; i = (i + 1) & mask) {
    const Entry& entry = table_[i];
    if (entry.pair == key || entry.rank == kNoRank) {
      return entry;
    }
  }
}

void BpeMerges::apply(std::vector<int32_t>& ids, Work& work) const {
  if (ids.size() < kShort) {
    apply_short(ids, work);
  } else {
    apply_long(ids, work);
  }
}

void BpeMerges::apply_short(std::vector<int32_t>& ids, Work& work) const {
  size_t n = ids.size();
  if (n < 2) {
    return;
  }
  // ranks[i], results[i]: of the pair (i, i + 1).
  work.ranks.resize(n);
  work.results.resize(n);
  const auto look_up = [&](size_t i) {
    const Entry& entry = find(ids[i], ids[i + 1]);
    work.ranks[i] = entry.rank;
    work.results[i] = entry.result;
  };
  for (size_t i = 0; i + 1 < n; ++i) {
    look_up(i);
  }
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (work.ranks[i] < work.ranks[best]) {
        best = i;
      }
    }
    if (work.ranks[best] == kNoRank) {
      break;
    }
    ids[best] = work.results[best];
    for (size_t i = best + 1; i + 1 < n; ++i) {
      ids[i] = ids[i + 1];
      work.ranks[i] = work.ranks[i + 1];
      work.results[i] = work.results[i + 1];
    }
    --n;
    if (best + 1 < n) {
      look_up(best);
    }
    if (best > 0) {
      look_up(best - 1);
    }
  }
  ids.resize(n);
}

void BpeMerges::apply_long(std::vector<int32_t>& ids, Work& work) const {
  const auto n = static_cast<int32_t>(ids.size());
  auto& symbols = work.symbols;
  auto& heap = work.heap;
  symbols.resize(ids.size());
  heap.clear();
  const auto later = [](const Work::Candidate& a, const Work::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  };
  const auto propose = [&](int32_t at, bool sift) {
    if (at < 0 || symbols[at].after < 0) {
      return;
    }
    const int32_t left = symbols[at].id;
    const int32_t right = symbols[symbols[at].after].id;
    const uint32_t rank = find(left, right).rank;
    if (rank != kNoRank) {
      heap.push_back({rank, at, left, right});
      if (sift) {
        std::push_heap(heap.begin(), heap.end(), later);
      }
    }
  };
  for (int32_t i = 0; i < n; ++i) {
    symbols[i] = {ids[i], i - 1, i + 1 < n ? i + 1 : -1};
  }
  for (int32_t i = 0; i < n; ++i) {
    propose(i, false);
  }
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Work::Candidate best = heap.back();
    heap.pop_back();
    Work::Symbol& symbol = symbols[best.at];
    // A symbol that was merged into the one before it has id -1, and so equals no left side.
    if (symbol.id != best.left || symbol.after < 0 || symbols[symbol.after].id != best.right) {
      continue;
    }
    Work::Symbol& gone = symbols[symbol.after];
    symbol.id = find(best.left, best.right).result;
    symbol.after = gone.after;
    gone.id = -1;
    if (symbol.after >= 0) {
      symbols[symbol.after].before = best.at;
    }
    propose(symbol.before, true);
    propose(best.at, true);
  }
  size_t count = 0;
  for (int32_t i = 0; i >= 0; i = symbols[i].after) {
    ids[count++] = symbols[i].id;
  }
  ids.resize(count);
}

}  // namespace mstrain
