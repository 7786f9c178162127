// What a checkpoint of AlphaZero plays with.
#pragma once

#include <memory>
#include <string>

#include "core/base/files.h"
#include "core/tensor/params.h"
#include "suites/reinforcement/alphazero/config.h"
#include "suites/reinforcement/alphazero/evaluator.h"
#include "suites/reinforcement/alphazero/network.h"

namespace mstrain::alphazero {

inline constexpr const char* kAgentFile = "agent.yaml";  // of a checkpoint

struct AgentConfig {
  std::string game;
  SearchKind search = SearchKind::kPuct;
  double puct_c = 1.25;
  int64_t gumbel_considered = 16;
  double discount = 1;
  NetworkConfig network;

  explicit AgentConfig(const Config& config = {});

  template <class V>
  void fields(V& v) {
    v("game", game, "that it plays", rule::required());
    v("search", search, "how", rule::one_of({"puct", "gumbel"}));
    v("puct_c", puct_c, "exploration of PUCT", rule::at_least(0));
    v("gumbel_considered", gumbel_considered, "root actions of sequential halving",
      rule::at_least(1));
    v("discount", discount, "of a result for each move until it comes", rule::above(0).at_most(1));
    v("network", network, "its network");
  }

  // Of a search that plays to win: without noise, and proving results where the search can.
  mcts::SearchConfig search_config() const;
  // The same network by this search.
  void search_by(SearchKind kind);
};

// A network with its weights, ready to evaluate.
class Agent {
 public:
  // `threads` evaluate, on the current context's device.
  Agent(const AgentConfig& config, Params params, int threads, int64_t cache);

  const AgentConfig& config() const { return config_; }
  void search_by(SearchKind kind) { config_.search_by(kind); }
  const BoardGame& game() const { return game_; }
  const char* policy() const { return policy_of(config_.search); }
  mcts::AnyEvaluator<AnyGame>& evaluator() { return caching_.any(); }

 private:
  AgentConfig config_;
  BoardGame game_;
  NetworkEvaluator network_;
  CachingEvaluator caching_;
};

// `path`: a checkpoint, or a run, whose newest it is. Throws IoError and ConfigError.
std::unique_ptr<Agent> load_agent(FileSystem& files, const std::string& path, int threads);

// Writes what load_agent() reads into `folder`, which is made where it is missing.
void save_agent(FileSystem& files, const std::string& folder, const AgentConfig& config,
                const Params& params);

}  // namespace mstrain::alphazero
