#include "suites/reinforcement/alphazero/replay.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/tensor/host.h"

namespace mstrain::alphazero {
namespace {

class Draws final : public BatchStream {
 public:
  Draws(const Replay& replay, const BoardGame& game, uint64_t seed, const DrawOptions& options,
        int64_t first)
      : replay_(replay), game_(game), seed_(seed), options_(options), samples_(first) {}

  Tensors next() override {
    check(replay_.positions() > 0, "replay: no game was played yet");
    const int64_t rows = options_.part.rows();
    const auto size = static_cast<size_t>(game_.input_size());
    const auto actions = static_cast<size_t>(game_.actions());
    HostWrite x({Dtype::kF32, {rows, game_.planes(), game_.rows(), game_.columns()}});
    HostWrite policy({Dtype::kF32, {rows, game_.actions()}});
    HostWrite value({Dtype::kF32, {rows}});
    std::ranges::fill(policy.values<float>(), 0.0F);
    for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
      const int64_t sample = samples_ + options_.part.sample(static_cast<int64_t>(row));
      mcts::Random rng(seed_, 0x7265706c, static_cast<uint64_t>(sample));
      const auto [played, move] =
          replay_.at(static_cast<int64_t>(rng.below(static_cast<uint32_t>(replay_.positions()))));
      const int k =
          options_.symmetries
              ? static_cast<int>(rng.below(static_cast<uint32_t>(game_.playable().symmetries())))
              : 0;
      AnyGame state = game_.start();
      for (size_t i = 0; i < move; ++i) {
        state.apply(played.moves[i].action);
      }
      const LearnedGame::Move& target = played.moves[move];
      game_.encode(k == 0 ? state : game_.playable().symmetry(state, k),
                   x.values<float>().subspan(row * size, size));
      for (const auto& [action, share] : target.policy) {
        policy.values<float>()[row * actions + game_.playable().symmetry_action(k, action)] = share;
      }
      const auto mover = static_cast<size_t>(state.player());
      float result = played.result_of(state.player());
      if (options_.discount != 1) {  // as in the tree: of what the game pays, where 0 stays 0
        const auto moves_left = static_cast<double>(played.moves.size() - move);
        Results paid = game_.results_of(result, state.player());
        paid[mover] *= static_cast<float>(std::pow(options_.discount, moves_left));
        result = game_.value_of(paid, state.player());
      }
      value.values<float>()[row] = result + options_.search_value * (target.value - result);
    }
    samples_ += options_.part.batch;
    return {x.finish(), policy.finish(), value.finish()};
  }
  int64_t samples() const override { return samples_; }

 private:
  const Replay& replay_;
  const BoardGame& game_;
  uint64_t seed_;
  DrawOptions options_;
  int64_t samples_;
};

}  // namespace

LearnedGame learned(const mcts::PlayedGame<AnyGame>& played, const BoardGame& game,
                    int64_t iteration) {
  check(played.finished, "self-play: game {} did not end", played.number);
  // The search's discount is in played.returns, but not in what a game ends with.
  Results returns = played.returns;
  if (!played.given_up) {
    AnyGame end = played.moves.back().state;
    end.apply(played.moves.back().action);
    returns = end.returns();
  }
  LearnedGame out{.iteration = iteration, .result = game.value_of(returns, 0)};
  for (const auto& move : played.moves) {
    LearnedGame::Move& to = out.moves.emplace_back();
    to.action = move.action;
    Results values{};
    const int player = move.state.player();
    values[static_cast<size_t>(player)] = static_cast<float>(move.value);
    to.value = std::clamp(game.value_of(values, player), -1.0F, 1.0F);
    for (const auto& edge : move.edges) {
      if (edge.weight > 0) {
        to.policy.emplace_back(edge.action, static_cast<float>(edge.weight));
      }
    }
  }
  return out;
}

size_t LearnedGame::opening() const {
  const auto first =
      std::ranges::find_if(moves, [](const Move& move) { return !move.policy.empty(); });
  return static_cast<size_t>(first - moves.begin());
}

Replay::Replay(FileSystem& files, std::string folder, const BoardGame& game, int64_t window)
    : files_(files), folder_(std::move(folder)), game_(game), window_(window) {}

void Replay::add(LearnedGame game) {
  const int64_t positions = game.positions();
  ends_.push_back((ends_.empty() ? dropped_ : ends_.back()) + positions);
  positions_ += positions;
  games_.push_back(std::move(game));
  while (positions_ - games_.front().positions() >= window_) {
    const int64_t oldest = games_.front().positions();
    positions_ -= oldest;
    dropped_ += oldest;
    games_.pop_front();
    ends_.pop_front();
  }
}

double Replay::age() const {
  double sum = 0;
  for (const LearnedGame& game : games_) {
    sum += static_cast<double>(game.positions()) *
           static_cast<double>(iterations_ - 1 - game.iteration);
  }
  return positions_ == 0 ? 0 : sum / static_cast<double>(positions_);
}

Replay::Place Replay::at(int64_t index) const {
  check(index >= 0 && index < positions_, "replay: position {} of {}", index, positions_);
  const int64_t place = dropped_ + index;
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), place);
  const LearnedGame& game = games_[static_cast<size_t>(end - ends_.begin())];
  const int64_t begin = *end - game.positions();
  return {game, game.opening() + static_cast<size_t>(place - begin)};
}

std::unique_ptr<BatchStream> draw_from(const Replay& replay, const BoardGame& game, uint64_t seed,
                                       const DrawOptions& options, int64_t first) {
  return std::make_unique<Draws>(replay, game, seed, options, first);
}

}  // namespace mstrain::alphazero
