// Picks the most visited part of a tree for a drawing.
#pragma once

#include <cstdint>
#include <vector>

#include "mcts/play/playable.h"
#include "mcts/play/tree_picture.h"

namespace mstrain::mcts::play {

// Of a search that has a tree, whose root is `root`.
class TreePainter {
 public:
  TreePainter(const OwnSearch& search, const AnyGame& root)
      : search_(search), tree_(*search.tree()), root_(root) {}

  // The root and the `nodes` - 1 most visited others; each is visited less than its parent, so they form a tree.
  PictureNode paint(int64_t nodes, double root_value);

 private:
  struct Found {
    PictureNode shown;
    uint32_t block = kNoBlock;
    AnyGame state;
    std::vector<size_t> children;
    bool drawn = false;
  };

  void add_children(size_t at);
  PictureNode collect(size_t at) const;

  const OwnSearch& search_;
  const TreeBlocks& tree_;
  const AnyGame& root_;
  std::vector<Found> found_;
};

}  // namespace mstrain::mcts::play
