#include "mcts/search/muzero.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/config_check.h"
#include "core/base/error.h"
#include "mcts/search/gumbel.h"
#include "mcts/search/muzero_tree.h"

namespace mstrain::mcts {

MuZeroSearch::MuZeroSearch(const MuZeroConfig& config) : config_(config) {
  check_config(config, "muzero");
  check(config.width() <= 65535,
        "muzero search: {} actions and chance codes; 65535 are possible together", config.width());
  for (int64_t i = 0; i < config.roots; ++i) {
    trees_.push_back(std::make_unique<MuZeroTree>(config_, static_cast<uint64_t>(i)));
  }
  if (config.threads > 1) {
    pool_ = std::make_unique<ThreadPool>(static_cast<int>(config.threads - 1));
  }
}

MuZeroSearch::~MuZeroSearch() = default;

template <class Body>
void MuZeroSearch::for_each_root(const Body& body) {
  const auto chunk = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      body(i);
    }
  };
  if (pool_ != nullptr) {
    pool_->parallel_for(config_.roots, std::max<int64_t>(1, config_.roots / (4 * config_.threads)),
                        chunk);
  } else {
    chunk(0, config_.roots);
  }
}

namespace {

void check_size(const char* what, size_t size, int64_t expected) {
  check(size == static_cast<size_t>(expected), "muzero search: {} has {} numbers; {} expected",
        what, size, expected);
}

// A policy row may hold minus infinity, but not only that, and nothing that is not a number.
void check_row(const float* row, int64_t actions, int64_t root) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  bool bad = false;
  bool finite = false;
  for (int64_t a = 0; a < actions; ++a) {
    bad |= !(row[a] < kInfinity);
    finite |= row[a] > -kInfinity;
  }
  check(!bad && finite,
        "muzero search: the logits of root {} hold no finite one, or something that is no number",
        root);
}

}  // namespace

void MuZeroSearch::set_roots(std::span<const float> logits, std::span<const float> values,
                             std::span<const float> sampled) {
  check_size("logits", logits.size(), config_.roots * config_.actions);
  check_size("values", values.size(), config_.roots);
  check_size("sampled", sampled.size(), config_.roots * config_.actions * config_.action_size);
  ++games_;
  started_ = gathered_ = false;
  done_ = 0;
  for_each_root([&](int64_t i) {
    const float* const row = logits.data() + i * config_.actions;
    check_row(row, config_.actions, i);
    check(std::isfinite(values[i]), "muzero search: the value of root {} is {}", i, values[i]);
    trees_[i]->begin({.reward = 0,
                      .value = values[i],
                      .logits = row,
                      .sampled = sampled.data() + i * config_.actions * config_.action_size},
                     games_);
  });
  started_ = true;
}

void MuZeroSearch::gather(std::span<uint32_t> nodes, std::span<uint32_t> actions,
                          std::span<float> vectors) {
  check(started_ && !gathered_, "muzero search: gather() before set_roots() or before scatter()");
  check(done_ < config_.simulations, "muzero search: all {} simulations are done",
        config_.simulations);
  check_size("nodes", nodes.size(), config_.roots);
  check_size("actions", actions.size(), config_.roots);
  check_size("vectors", vectors.size(), config_.roots * config_.action_size);
  for_each_root([&](int64_t i) {
    MuZeroTree& tree = *trees_[i];
    std::tie(nodes[i], actions[i]) = tree.descend();
    if (config_.action_size > 0 && actions[i] < tree.actions) {
      std::copy_n(
          tree.sampled.data() + (nodes[i] * config_.actions + actions[i]) * config_.action_size,
          config_.action_size, vectors.data() + i * config_.action_size);
    }
  });
  gathered_ = true;
}

void MuZeroSearch::scatter(std::span<const float> rewards, std::span<const float> values,
                           std::span<const float> logits, std::span<const float> sampled) {
  check(gathered_, "muzero search: scatter() before gather()");
  check_size("rewards", rewards.size(), config_.roots);
  check_size("values", values.size(), config_.roots);
  check_size("logits", logits.size(), config_.roots * config_.width());
  check_size("sampled", sampled.size(), config_.roots * config_.actions * config_.action_size);
  for (int64_t i = 0; i < config_.roots; ++i) {
    check(std::isfinite(rewards[i]) && std::isfinite(values[i]),
          "muzero search: root {}: reward {}, value {}", i, rewards[i], values[i]);
    const float* const row = logits.data() + i * config_.width();
    if (trees_[i]->reaches_afterstate()) {
      check_row(row + config_.actions, config_.chance_codes, i);
    } else {
      check_row(row, config_.actions, i);
    }
  }
  for_each_root([&](int64_t i) {
    trees_[i]->expand({.reward = rewards[i],
                       .value = values[i],
                       .logits = logits.data() + i * config_.width(),
                       .sampled = sampled.data() + i * config_.actions * config_.action_size});
  });
  gathered_ = false;
  ++done_;
}

const MuZeroTree& MuZeroSearch::searched(int64_t root) const {
  const MuZeroTree& tree = *trees_.at(root);
  check(started_, "muzero search: nothing is known of root {} before set_roots()", root);
  return tree;
}

std::vector<uint32_t> MuZeroSearch::visits(int64_t root) const {
  return searched(root).root_visits;
}
std::vector<float> MuZeroSearch::action_values(int64_t root) const {
  return searched(root).root_values;
}

std::vector<float> MuZeroSearch::policy(int64_t root) const {
  const MuZeroTree& tree = searched(root);
  if (config_.gumbel) {
    std::vector<float> logits = tree.improved_logits();
    softmax(logits, logits);
    return logits;
  }
  std::vector<float> result(tree.root_visits.begin(), tree.root_visits.end());
  const float total = static_cast<float>(done_);
  for (float& p : result) {
    p = total > 0 ? p / total : 0;
  }
  return result;
}

float MuZeroSearch::value(int64_t root) const { return searched(root).nodes[0].mean(); }

uint32_t MuZeroSearch::best_action(int64_t root) const {
  const MuZeroTree& tree = searched(root);
  const auto most = std::max_element(tree.root_visits.begin(), tree.root_visits.end());
  if (!config_.gumbel) {
    return static_cast<uint32_t>(most - tree.root_visits.begin());
  }
  const std::vector<float> improved = tree.improved_logits();
  uint32_t best = tree.considered[0];
  for (const uint32_t a : tree.considered) {
    if (tree.root_visits[a] > tree.root_visits[best] ||
        (tree.root_visits[a] == tree.root_visits[best] &&
         tree.gumbel[a] + improved[a] > tree.gumbel[best] + improved[best])) {
      best = a;
    }
  }
  return best;
}

uint64_t MuZeroSearch::bytes_moved() const {
  uint64_t sum = 0;
  for (const auto& tree : trees_) {
    sum += tree->bytes;
  }
  return sum;
}

void run_muzero(MuZeroSearch& search, const MuZeroConfig& config, RecurrentEvaluator& network,
                std::span<const float> root_hidden) {
  const int64_t roots = config.roots;
  const int64_t hidden = network.hidden_size();
  check_size("root_hidden", root_hidden.size(), roots * hidden);
  const int64_t vector_size = roots * config.action_size;
  std::vector<float> states(
      static_cast<size_t>((config.simulations + 1) * roots * hidden));  // [node, root, hidden]
  std::copy(root_hidden.begin(), root_hidden.end(), states.begin());
  std::vector<uint32_t> nodes(roots);
  std::vector<uint32_t> actions(roots);
  std::vector<float> vectors(vector_size);
  std::vector<float> rows(roots * hidden);
  std::vector<float> rewards(roots);
  std::vector<float> values(roots);
  std::vector<float> logits(roots * config.width());
  std::vector<float> sampled(vector_size * config.actions);
  for (int64_t s = search.done(); s < config.simulations; ++s) {
    search.gather(nodes, actions, vectors);
    for (int64_t i = 0; i < roots; ++i) {
      std::copy_n(states.data() + (nodes[i] * roots + i) * hidden, hidden,
                  rows.data() + i * hidden);
    }
    const std::span<float> next(states.data() + (s + 1) * roots * hidden,
                                static_cast<size_t>(roots * hidden));
    network.recurrent(roots, rows, actions, vectors, next, rewards, values, logits, sampled);
    search.scatter(rewards, values, logits, sampled);
  }
}

}  // namespace mstrain::mcts
