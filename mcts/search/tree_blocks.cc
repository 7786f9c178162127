#include "mcts/search/tree_blocks.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "mcts/search/compact.h"

namespace mstrain::mcts {

uint32_t* TreeBlocks::slot(const DescentPath& d) {
  if (d.path.empty()) {
    return &root_child_;
  }
  const Step& last = d.path[d.path.size() - 1];
  return block_at(last.block).children() + last.edge;
}

void TreeBlocks::clear() {
  arena_.reset();
  totals_.clear();
  root_child_ = kNoBlock;
  counts_.edges = 0;
}

void TreeBlocks::keep(uint32_t root, uint32_t min_visits) {
  std::vector<std::pair<uint32_t, uint32_t>> moved;
  root_child_ = compact(arena_, format_, root, min_visits, moved);
  totals_.move_blocks(moved);
  counts_.edges = static_cast<uint32_t>(count_edges(arena_, root_child_));
}

void TreeBlocks::prune() {
  if (root_child_ > kPending) {
    keep(root_child_, pruning_threshold(arena_, format_, root_child_));
  }
  full_ = stuck_ = arena_.used_bytes() > arena_.limit_bytes() / 4 * 3;
}

uint32_t TreeBlocks::leader() const {
  const uint32_t root = read_child<Access::kShared>(&root_child_);
  uint32_t best = 0;
  if (root > kPending) {
    const Block block = block_at(root);
    for (uint32_t i = 1; i < block.header().count; ++i) {
      if (read<Access::kShared>(block.visits() + i) >
          read<Access::kShared>(block.visits() + best)) {
        best = i;
      }
    }
  }
  return best;
}

uint64_t TreeBlocks::visits_of(uint32_t block, uint32_t edge) const {
  const uint32_t place = present(block);
  const uint32_t shown = Block(arena_.at(place)).visits()[edge];
  return static_cast<uint64_t>(totals_.find(Totals::key(place, kVisitColumn, edge), shown));
}

double TreeBlocks::sum_of(uint32_t block, uint32_t edge) const {
  const uint32_t place = present(block);
  const float shown = Block(arena_.at(place)).sums()[edge];
  return totals_.find(Totals::key(place, kSumColumn, edge), shown);
}

std::vector<std::pair<uint32_t, uint32_t>> TreeBlocks::main_line(uint32_t first) const {
  std::vector<std::pair<uint32_t, uint32_t>> line;
  uint32_t index = root_child_;
  while (index > kPending && block_at(index).header().player >= 0) {
    const Block block = block_at(index);
    uint32_t best = line.empty() ? first : 0;
    for (uint32_t i = 1; !line.empty() && i < block.header().count; ++i) {
      if (visits_of(index, i) > visits_of(index, best)) {
        best = i;
      }
    }
    if (!line.empty() && (block.header().count == 0 || block.visits()[best] == 0)) {
      break;
    }
    line.emplace_back(index, best);
    index = block.children()[best];
  }
  return line;
}

double TreeBlocks::root_mean() const {
  double sum = 0;
  double visits = 0;
  for (uint32_t i = 0; i < block_at(root_child_).header().count; ++i) {
    sum += sum_of(root_child_, i);
    visits += static_cast<double>(visits_of(root_child_, i));
  }
  return visits > 0 ? sum / visits : 0;
}

// Threads that share the tree take memory by chunks, or they would pass the arena's end and each other's blocks to and fro.
uint32_t TreeBlocks::allocate(DescentPath& d, uint32_t words, bool shared) {
  if (!shared) {
    return arena_.allocate(words);
  }
  Arena::Chunk& chunk = *d.memory;
  if (chunk.end - chunk.begin < words) [[unlikely]] {
    arena_.close(chunk);
    chunk = arena_.open(words);
    if (chunk.end == chunk.begin) {
      return 0;
    }
  }
  return std::exchange(chunk.begin, chunk.begin + words);
}

uint32_t TreeBlocks::add_block(DescentPath& d, int player, size_t count, uint32_t capacity,
                               bool shared) {
  check(capacity <= kMostEdges, "game: {} actions in one state; {} are possible", capacity,
        kMostEdges);
  const uint32_t words = format_.words(capacity);
  const uint32_t index = allocate(d, words, shared);
  if (index == 0) {
    write<Access::kShared>(&full_, true);
    return kNoBlock;
  }
  std::byte* base = arena_.at(index);
  std::memset(base, 0, size_t{words} * Arena::kWord);
  auto& header = *reinterpret_cast<BlockHeader*>(base);
  header.capacity = static_cast<uint16_t>(capacity);
  header.count = static_cast<uint16_t>(count);
  header.player = static_cast<int8_t>(player);
  (shared ? d.fresh_edges : counts_.edges) += static_cast<uint32_t>(count);
  return index;
}

uint32_t TreeBlocks::enlarge(DescentPath& d, uint32_t index) {
  const Block block = block_at(index);
  const uint32_t count = block.header().count;
  const uint32_t capacity = std::min<uint32_t>(kMostEdges, std::max(4U, 2 * count));
  if (capacity == count) {
    return kNoBlock;
  }
  const uint32_t larger_index = add_block(d, block.header().player, 0, capacity, false);
  if (larger_index == kNoBlock) {
    return kNoBlock;
  }
  const Block larger(arena_.at(larger_index));
  const auto copy = [&](void* to, const void* from, size_t bytes) {
    std::memcpy(to, from, bytes * count);
  };
  copy(larger.visits(), block.visits(), 4);
  copy(larger.sums(), block.sums(), 4);
  copy(larger.children(), block.children(), 4);
  for (uint32_t i = 0; i < format_.policy_columns + format_.bound_columns; ++i) {
    copy(larger.policy_column(i), block.policy_column(i), 4);
  }
  copy(larger.priors(format_), block.priors(format_), format_.prior_bytes);
  copy(larger.actions(format_), block.actions(format_), format_.action_bytes);
  larger.header().count = block.header().count;
  larger.header().opened = block.header().opened;
  if ((block.header().flags & kExactFlag) != 0) {
    larger.header().flags |= kExactFlag;
    for (uint32_t column = 0; column < kPolicyColumn + format_.policy_columns; ++column) {
      for (uint32_t i = 0; i < count; ++i) {
        totals_.copy(Totals::key(index, column, i), Totals::key(larger_index, column, i));
      }
    }
  }
  block.header().flags |= kMovedFlag;
  std::memcpy(&block.header(), &larger_index, sizeof larger_index);
  return larger_index;
}

void TreeBlocks::note_exact(const Block& block, bool shared) {
  uint8_t* flags = &block.header().flags;
  if ((read<Access::kShared>(flags) & kExactFlag) == 0) {
    if (shared) {
      __atomic_fetch_or(flags, kExactFlag, __ATOMIC_RELAXED);
    } else {
      *flags |= kExactFlag;
    }
  }
}

uint32_t TreeBlocks::count_exactly(uint32_t index, Block block, uint32_t edge, int32_t many,
                                   bool shared) {
  uint32_t* shown = block.visits() + edge;
  note_exact(block, shared);
  const uint64_t key = Totals::key(present(index), kVisitColumn, edge);
  const auto change = [&](double n) { return n + many; };
  if (shared) {
    totals_.update<true>(key, shown, 1, change);
  } else {
    totals_.update<false>(key, shown, 1, change);
  }
  return read<Access::kShared>(shown);
}

void TreeBlocks::change_exactly(uint32_t index, Block block, uint32_t column, uint32_t edge,
                                uint32_t visits, SumChange change, bool shared) {
  note_exact(block, shared);
  const uint32_t place = present(index);
  // A count that its column cannot show leaves the mean as it is.
  const uint64_t counted = Totals::key(place, kVisitColumn, edge);
  const double exact = visits < kCountFrom ? visits
                       : shared            ? totals_.find<true>(counted, visits)
                                           : totals_.find<false>(counted, visits);
  const uint64_t key = Totals::key(place, column, edge);
  float* shown = block.column(column) + edge;
  const auto changed = [&](double sum) { return change(sum, exact); };
  if (shared) {
    totals_.update<true>(key, shown, visits / exact, changed);
  } else {
    totals_.update<false>(key, shown, visits / exact, changed);
  }
}

void TreeBlocks::add_results(uint32_t index, uint32_t edge, int32_t many, double sum) {
  const Block block = block_at(index);
  const uint32_t n = add_visits<Access::kShared>(index, block, edge, many);
  change_sum<Access::kShared>(index, block, kSumColumn, edge, n,
                              [&]<class F>(F before, F) { return before + static_cast<F>(sum); });
}

void TreeBlocks::gather(DescentPath& d, const Step& step, float value) {
  for (auto& g : d.gathered) {
    if (g.block == step.block && g.edge == step.edge) {
      ++g.visits;
      g.sum += static_cast<double>(value);
      return;
    }
  }
  d.gathered.push_back({step.block, step.edge, 1, static_cast<double>(value)});
  if (d.gathered.size() >= 48) {
    settle(d);
  }
}

void TreeBlocks::settle(DescentPath& d) {
  for (const auto& g : d.gathered) {
    add_results(g.block, g.edge, static_cast<int32_t>(g.visits), g.sum);
  }
  d.gathered.clear();
  if (d.gathered_roots > 0) {
    add<Access::kShared>(&counts_.root_visits, d.gathered_roots);
    d.gathered_roots = 0;
  }
  add<Access::kShared>(&counts_.edges, std::exchange(d.fresh_edges, 0U));
}

void TreeBlocks::retire(DescentPath& d) {
  settle(d);
  arena_.close(d.chunk);
}

void TreeBlocks::open_root(int64_t threads) {
  constexpr int64_t kFewestShares = 16;
  constexpr int64_t kSharesOfThread = 8;
  by_subtrees_ = true;
  open_share_ = static_cast<uint32_t>(std::max(kFewestShares, kSharesOfThread * threads));
  if (root_child_ > kPending) {
    block_at(root_child_).header().claim = kOpen;
  }
}

void TreeBlocks::mark_path(DescentPath& d, uint32_t many) {
  for (const Step& step : d.path) {
    const Block block = block_at(step.block);
    const auto n = static_cast<double>(read<Access::kShared>(block.visits() + step.edge));
    const auto sum = static_cast<double>(read<Access::kShared>(block.sums() + step.edge));
    const double given = n > 0 ? many * (sum / n) : 0.0;
    add_results(step.block, step.edge, static_cast<int32_t>(many), given);
    d.marks.push_back({step.block, step.edge, many, given});
  }
}

void TreeBlocks::unmark(DescentPath& d, size_t from, size_t to) {
  for (size_t i = from; i < to; ++i) {
    const auto& mark = d.marks[i];
    add_results(mark.block, mark.edge, -static_cast<int32_t>(mark.visits), -mark.sum);
  }
}

}  // namespace mstrain::mcts
