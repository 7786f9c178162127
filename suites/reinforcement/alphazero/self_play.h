// Games between steps: before every `algorithm.steps` steps the network, as it is then, plays `algorithm.games` against itself;
// and every `evaluation.interval` iterations matches, against UCT and against itself as it was at the last ones.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/train/metrics_file.h"
#include "core/train/trainer.h"
#include "suites/reinforcement/alphazero/agent.h"
#include "suites/reinforcement/alphazero/match.h"
#include "suites/reinforcement/alphazero/replay.h"

namespace mstrain::alphazero {

// At how little hope games are given up. It stays where few of those who would have given up, in games that are played out, did not lose.
class Resignation {
 public:
  explicit Resignation(const AlgorithmConfig& config)
      : config_(config), below_(config.resign.value) {}

  std::optional<double> below() const { return below_; }
  // What an iteration's games have shown of it.
  struct Shown {
    int64_t given_up = 0;  // games that ended so
    // Games that were played out after somebody would have given up; those in which that player did not lose.
    int64_t checked = 0, wrong = 0;
  };
  void learn(const Shown& shown);
  void restore(double below) { below_ = below; }

 private:
  const AlgorithmConfig& config_;
  std::optional<double> below_;
};

class SelfPlay final : public Callback {
 public:
  // All must outlive it. `ranks` share the games and matches; null: there is one. Once `stop` is set on any of them, games under way are
  // given up, and the run ends: one that goes on plays them again from their beginning. Of `directory`, the run's, are
  // `selves`, where the networks that took part in matches stay, a folder for each, as `mstrain arena` takes them, and kEvaluationsFile, for
  // the report, with a row for each match, or each of some where there are many.
  SelfPlay(const Config& config, const BoardGame& game, Replay& replay, FileSystem& files,
           std::string directory, const std::atomic<bool>& stop, Ranks* ranks = nullptr);

  bool wants(int64_t step, Moment moment) override;
  void on_start(Trainer&) override;
  void on_state(Trainer& trainer, Moment moment) override;

  std::string name() const override { return "self_play"; }
  Json state() const override;
  void restore(const Json& state) override;

 private:
  bool plays(int64_t step, Moment moment) const;
  bool competes(int64_t step, Moment moment) const;
  int64_t steps_between_matches() const;
  // What an iteration's games came to, on all ranks.
  struct Iteration {
    std::vector<LearnedGame> games;
    Resignation::Shown shown;
    // Of the rank that played longest; of all ranks; not made, as they were kept from before.
    double seconds = 0, evaluations = 0, kept = 0;
    double busy = 0;  // share of that time in which their evaluators' threads worked
  };
  Iteration play_share(uint64_t seed, int64_t number);
  void play(Trainer& trainer);
  void compete(Trainer& trainer);
  // As Trainer::note(); what no row has yet is kept in checkpoints. Not for times, which are not of the state.
  void note(Trainer& trainer, const std::string& name, double value);
  MatchResult compete_with(Contestant& own, Contestant& other, const Trainer& trainer);
  std::string selves() const;
  std::string self_at(int64_t step) const;

  const Config& config_;
  const BoardGame& game_;
  Replay& replay_;
  FileSystem& files_;
  std::string directory_;
  const std::atomic<bool>& stop_;
  Ranks* ranks_;
  std::unique_ptr<NetworkEvaluator> network_;  // of the run's context
  int64_t competed_ = 0;                       // the step of the last match
  double elo_ = 0;                             // then, above the network of step 0
  Resignation resignation_;
  std::unique_ptr<MetricsFile> looks_;   // at matches
  const Trainer* trainer_ = nullptr;     // of the run
  std::map<std::string, double> noted_;  // the last of each name
};

// config.games games, in the order of their numbers, from `first_game` on; `evaluator` answers for all of them. A game is a function of
// the seed and its number, whatever `threads` is.
struct PlayedGames {
  std::vector<mcts::PlayedGame<AnyGame>> games;
  mcts::SearchCounters counters;
};
PlayedGames play_games(const AlgorithmConfig& config, const BoardGame& game, uint64_t seed,
                       int threads, mcts::AnyEvaluator<AnyGame>& evaluator,
                       std::optional<double> resign_below = {}, int64_t first_game = 0);

}  // namespace mstrain::alphazero
