// What mcts_play found out, without the types of a game, as text and as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace mstrain::mcts::play {

struct ActionRow {
  std::string action;
  uint64_t visits = 0;
  double value = 0;  // for the player to move
  double prior = 0;
  bool proven = false;
  double weight = 0;  // in the search's policy: shares of the visits, or Gumbel's improved policy
};

struct Analysis {
  std::string game;
  std::string position;  // as the game writes it
  std::string drawing;
  int player = 0;  // to move
  std::string best_action;
  double value = 0;  // for the player to move
  bool proven = false;
  std::vector<ActionRow> root;  // most visited first
  std::vector<std::string> principal_variation;
  uint64_t simulations = 0;
  uint64_t nodes = 0;
  uint64_t tree_bytes = 0;
  double seconds = 0;
};

struct SelfPlay {
  std::string game;
  int64_t games = 0;
  std::vector<int64_t> wins;  // of each player; a game is won by who gets most
  int64_t draws = 0;
  std::vector<double> mean_return;  // of each player
  double lowest = 0, highest = 0;   // returns of the first player
  double mean_plies = 0;
  double seconds = 0;
};

struct Bench {
  std::string game;
  double simulations_per_second = 0;  // median of `repeats`
  double bytes_per_node = 0;          // 0 where the search does not count them
  int64_t simulations = 0;
  int repeats = 0;
  uint64_t nodes = 0;
};

std::string to_text(const Analysis& a);
std::string to_text(const SelfPlay& s);
std::string to_text(const Bench& b);
OrderedJson to_json(const Analysis& a);
OrderedJson to_json(const SelfPlay& s);
OrderedJson to_json(const Bench& b);

// The visit table alone, `rows` lines at most, and one line with value and principal variation.
std::string visit_table(const Analysis& a, size_t rows);
std::string thinking_line(const Analysis& a);

}  // namespace mstrain::mcts::play
