#include "mcts/play/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace mstrain::mcts::play {
namespace {

std::string joined(const std::vector<std::string>& words, size_t most) {
  std::string out;
  for (size_t i = 0; i < words.size() && i < most; ++i) {
    out += (i == 0 ? "" : " ") + words[i];
  }
  return words.size() > most ? out + " ..." : out;
}

// JSON has no infinities; a search makes none.
double rounded(double value) { return std::round(value * 1e6) / 1e6; }

}  // namespace

std::string visit_table(const Analysis& a, size_t rows) {
  uint64_t most = 1;
  uint64_t total = 0;
  for (const ActionRow& row : a.root) {
    most = std::max(most, row.visits);
    total += row.visits;
  }
  std::string out = "  action       visits   share    value\n";
  for (size_t i = 0; i < a.root.size() && i < rows; ++i) {
    const ActionRow& row = a.root[i];
    out += fmt::format(
        "  {:<8} {:>10}  {:5.1f}%  {:+7.3f}{} {}\n", row.action, row.visits,
        total == 0 ? 0.0 : 100.0 * static_cast<double>(row.visits) / static_cast<double>(total),
        row.value, row.proven ? " proven" : "       ",
        std::string(static_cast<size_t>(30 * row.visits / most), '#'));
  }
  if (a.root.size() > rows) {
    out += fmt::format("  and {} more\n", a.root.size() - rows);
  }
  return out;
}

std::string thinking_line(const Analysis& a) {
  return fmt::format("value {:+.3f}{}  line {}", a.value, a.proven ? " (proven)" : "",
                     joined(a.principal_variation, 12));
}

std::string to_text(const Analysis& a) {
  return fmt::format(
      "{}player {} to move{}\n\n{}\nbest action {}\n{}\n{} simulations, {} nodes, {} KiB, {:.3f} "
      "s\n",
      a.drawing, a.player + 1, a.position.empty() ? "" : "; position " + a.position,
      visit_table(a, 20), a.best_action, thinking_line(a), a.simulations, a.nodes,
      a.tree_bytes / 1024, a.seconds);
}

std::string to_text(const SelfPlay& s) {
  std::string out = fmt::format("{}: {} games, {:.1f} plies each, {:.2f} s\n", s.game, s.games,
                                s.mean_plies, s.seconds);
  if (s.wins.size() == 1) {
    return out + fmt::format("result {:.4f} on average, from {:.4f} to {:.4f}\n", s.mean_return[0],
                             s.lowest, s.highest);
  }
  for (size_t player = 0; player < s.wins.size(); ++player) {
    out += fmt::format("player {} wins {} ({:.1f}%), result {:+.4f} on average\n", player + 1,
                       s.wins[player],
                       100.0 * static_cast<double>(s.wins[player]) / static_cast<double>(s.games),
                       s.mean_return[player]);
  }
  return out + fmt::format("draws {}\n", s.draws);
}

std::string to_text(const Bench& b) {
  return fmt::format(
      "{}: {:.0f} simulations per second (median of {} runs of {}), {:.2f} bytes per node, {} "
      "nodes\n",
      b.game, b.simulations_per_second, b.repeats, b.simulations, b.bytes_per_node, b.nodes);
}

OrderedJson to_json(const Analysis& a) {
  OrderedJson root = OrderedJson::array();
  for (const ActionRow& row : a.root) {
    OrderedJson one = {{"action", row.action},
                       {"visits", row.visits},
                       {"value", rounded(row.value)},
                       {"prior", rounded(row.prior)}};
    if (row.proven) {
      one["proven"] = true;
    }
    root.push_back(one);
  }
  return {{"game", a.game},
          {"position", a.position},
          {"player", a.player},
          {"best_action", a.best_action},
          {"value", rounded(a.value)},
          {"proven", a.proven},
          {"root", root},
          {"principal_variation", a.principal_variation},
          {"simulations", a.simulations},
          {"nodes", a.nodes},
          {"tree_bytes", a.tree_bytes}};
}

OrderedJson to_json(const SelfPlay& s) {
  return {{"game", s.game},
          {"games", s.games},
          {"wins", s.wins},
          {"draws", s.draws},
          {"mean_return", s.mean_return},
          {"lowest_return", s.lowest},
          {"highest_return", s.highest},
          {"mean_plies", s.mean_plies}};
}

OrderedJson to_json(const Bench& b) {
  return {{"game", b.game},
          {"simulations_per_second", std::round(b.simulations_per_second)},
          {"bytes_per_node",
           b.bytes_per_node > 0 ? OrderedJson(rounded(b.bytes_per_node)) : OrderedJson()},
          {"simulations", b.simulations},
          {"nodes", b.nodes},
          {"repeats", b.repeats}};
}

}  // namespace mstrain::mcts::play
