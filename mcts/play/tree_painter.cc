#include "mcts/play/tree_painter.h"

#include <algorithm>
#include <utility>

namespace mstrain::mcts::play {

PictureNode TreePainter::paint(int64_t nodes, double root_value) {
  found_.clear();
  found_.push_back({.shown = {.player = -2, .visits = tree_.root_visits(), .value = root_value},
                    .block = tree_.root_block(),
                    .state = root_});
  std::vector<size_t> open = {0};
  const auto fewer = [this](size_t a, size_t b) {
    const uint64_t x = found_[a].shown.visits;
    const uint64_t y = found_[b].shown.visits;
    return x != y ? x < y : a > b;
  };
  for (int64_t drawn = 0; !open.empty() && drawn < nodes; ++drawn) {
    std::pop_heap(open.begin(), open.end(), fewer);
    const size_t at = open.back();
    open.pop_back();
    found_[at].drawn = true;
    const size_t first = found_.size();
    add_children(at);
    for (size_t child = first; child < found_.size(); ++child) {
      open.push_back(child);
      std::push_heap(open.begin(), open.end(), fewer);
    }
  }
  return collect(0);
}

void TreePainter::add_children(size_t at) {
  if (found_[at].block <= kPending) {
    return;
  }
  const Block block(tree_.arena().at(found_[at].block));
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < block.header().count; ++i) {
    if (block.visits()[i] > 0) {
      order.push_back(i);
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return block.visits()[a] > block.visits()[b]; });
  for (const uint32_t i : order) {
    const Action action = search_.action(block, i);
    Found child{.block = block.children()[i], .state = found_[at].state};
    child.shown = {.action = action_text(child.state, action),
                   .player = block.header().player,
                   .visits = tree_.visits_of(found_[at].block, i)};
    child.shown.value = tree_.sum_of(found_[at].block, i) / static_cast<double>(child.shown.visits);
    child.state.apply(action);
    found_[at].children.push_back(found_.size());
    found_.push_back(std::move(child));
  }
}

PictureNode TreePainter::collect(size_t at) const {
  PictureNode out = found_[at].shown;
  for (const size_t child : found_[at].children) {
    if (found_[child].drawn) {
      out.children.push_back(collect(child));
    } else {
      ++out.hidden;
    }
  }
  return out;
}

}  // namespace mstrain::mcts::play
