// A searched tree as a drawing: SVG for documents, DOT for Graphviz.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mstrain::mcts::play {

struct PictureNode {
  std::string action;  // that leads here; empty at the root
  int player = 0;      // who took it; -1 chance, -2 at the root
  uint64_t visits = 0;
  double value = 0;  // for the player who took the action; at the root for the player to move
  std::vector<PictureNode> children;  // most visited first
  uint64_t hidden = 0;                // visited children that are not drawn
};

struct Picture {
  std::string title;
  std::string board;  // monospaced lines beside the root
  double low = -1;    // range of values, for colours
  double high = 1;
  PictureNode root;
};

// Standalone, no scripts, readable on light and dark pages.
std::string to_svg(const Picture& picture);
std::string to_dot(const Picture& picture);

}  // namespace mstrain::mcts::play
