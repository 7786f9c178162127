#include "suites/reinforcement/alphazero/self_play.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/train/state_fields.h"
#include "mcts/any_search.h"

namespace mstrain::alphazero {
namespace {

constexpr int64_t kTreeBytes = int64_t{1} << 28;  // addresses; pages are taken as they are needed

double mean_entropy(const std::vector<LearnedGame>& games) {
  double sum = 0;
  double count = 0;
  for (const LearnedGame& game : games) {
    for (const LearnedGame::Move& move : game.moves) {
      for (const auto& [action, share] : move.policy) {
        sum -= static_cast<double>(share) * std::log(static_cast<double>(share));
      }
      ++count;
    }
  }
  return sum / count;
}

}  // namespace

int64_t PlayedGames::positions() const {
  int64_t sum = 0;
  for (const auto& game : games) {
    sum += static_cast<int64_t>(game.moves.size());
  }
  return sum;
}

PlayedGames play_games(const AlgorithmConfig& config, const BoardGame& game, uint64_t seed,
                       int threads, mcts::AnyEvaluator<AnyGame>& evaluator) {
  const int64_t trees = std::min(config.parallel_games, config.games);
  const mcts::SearchConfig search{
      .seed = seed,
      .puct_c = config.puct_c,
      .noise_fraction = config.search == SearchKind::kPuct ? config.noise_fraction : 0,
      .noise_alpha = config.noise_alpha,
      .gumbel_considered = config.gumbel_considered,
      .memory_limit = kTreeBytes};
  const mcts::SelfPlayOptions options{
      .batch = {.trees = trees, .groups = std::min<int64_t>(2, trees), .threads = threads},
      .games = config.games,
      .simulations = config.simulations,
      .reuse = config.search == SearchKind::kPuct,
      .temperature_moves = config.temperature_moves};
  PlayedGames out;
  out.counters = mcts::any_searches().self_play(
      policy_of(config.search), search, options, [&](int64_t) { return game.start(); }, evaluator,
      [&](mcts::PlayedGame<AnyGame>&& played) { out.games.push_back(std::move(played)); });
  std::sort(out.games.begin(), out.games.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return out;
}

SelfPlay::SelfPlay(const Config& config, const BoardGame& game, Replay& replay,
                   const std::atomic<bool>& stop)
    : config_(config), game_(game), replay_(replay), stop_(stop) {}

bool SelfPlay::plays(int64_t step, Moment moment) const {
  return moment == Moment::kStep && step % config_.algorithm.steps == 0 &&
         replay_.iterations() == step / config_.algorithm.steps;
}

bool SelfPlay::competes(int64_t step, Moment moment) const {
  if (config_.evaluation.interval.is_word() || game_.start().players() != 2 || step == 0 ||
      step == competed_ || moment == Moment::kInterrupted) {
    return false;
  }
  return moment == Moment::kFinished ||
         step % (config_.algorithm.steps * *config_.evaluation.interval.value) == 0;
}

bool SelfPlay::wants(int64_t step, Moment moment) {
  return plays(step, moment) || competes(step, moment);
}

void SelfPlay::on_start(Trainer&) {
  network_ = std::make_unique<NetworkEvaluator>(game_, PolicyValueNetwork(config_.network, game_),
                                                config_.algorithm.play_threads());
  network_->heed(stop_);
}

void SelfPlay::on_state(Trainer& trainer, Moment moment) {
  network_->set_params(trainer.params());
  try {
    if (competes(trainer.step(), moment)) {
      compete(trainer);
    }
    if (plays(trainer.step(), moment)) {
      play(trainer);
    }
  } catch (const Stopped&) {
    log_debug("step {}: games were given up", trainer.step());
  }
  network_->set_params({});
}

void SelfPlay::play(Trainer& trainer) {
  const AlgorithmConfig& algorithm = config_.algorithm;
  const int64_t iteration = replay_.iterations();
  CachingEvaluator evaluator(*network_, game_, algorithm.cache);
  const double busy = network_->busy_seconds();
  const int64_t evaluations = network_->evaluations();
  const uint64_t seed =
      mcts::Random(trainer.progress().seed, 0x67616d65, static_cast<uint64_t>(iteration))
          .next_u64();
  const PlayedGames played =
      play_games(algorithm, game_, seed, network_->threads(), evaluator.any());
  std::vector<LearnedGame> games;
  Tally first;
  for (const auto& game : played.games) {
    games.push_back(learned(game, game_, iteration));
    const float result = games.back().result;
    ++(result > 0 ? first.wins : result < 0 ? first.losses : first.draws);
  }
  const double entropy = mean_entropy(games);
  for (LearnedGame& game : games) {
    replay_.add(std::move(game));
  }
  replay_.end_iteration();
  const auto count = static_cast<double>(algorithm.games);
  const double seconds = played.counters.seconds;
  const auto positions = static_cast<double>(played.positions());
  const double share =
      (network_->busy_seconds() - busy) / (seconds * static_cast<double>(network_->threads()));
  const auto computed = static_cast<double>(network_->evaluations() - evaluations);
  trainer.note("iteration", static_cast<double>(iteration));
  trainer.note("game_length", positions / count);
  trainer.note("first_player_wins", static_cast<double>(first.wins) / count);
  trainer.note("draws", static_cast<double>(first.draws) / count);
  trainer.note("policy_entropy", entropy);
  trainer.note("replay_positions", static_cast<double>(replay_.positions()));
  trainer.note("replay_age", replay_.age());
  trainer.note("self_play_positions_per_second", positions / seconds);
  trainer.note("evaluations_per_second", computed / seconds);
  trainer.note("evaluator_busy", share);
  log_info(
      "iteration {}: {} games of {:.1f} moves in {:.1f} s, {:.0f} positions/s, {:.0f} "
      "evaluations/s ({:.0f} % kept from before), evaluator busy {:.0f} %; first player {:.0f} % "
      "won, {:.0f} % drawn",
      iteration, algorithm.games, positions / count, seconds, positions / seconds,
      computed / seconds,
      100 * static_cast<double>(evaluator.hits()) /
          std::max(1.0, computed + static_cast<double>(evaluator.hits())),
      100 * share, 100 * static_cast<double>(first.wins) / count,
      100 * static_cast<double>(first.draws) / count);
}

void SelfPlay::compete(Trainer& trainer) {
  const MatchConfig& match = config_.evaluation;
  CachingEvaluator evaluator(*network_, game_, config_.algorithm.cache);
  const auto own = network_contestant(fmt::format("step {}", trainer.step()), AgentConfig(config_),
                                      evaluator.any(), match.simulations);
  const auto uct = uct_contestant(game_, match.uct, network_->threads());
  const uint64_t seed =
      mcts::Random(trainer.progress().seed, 0x6d61746368, static_cast<uint64_t>(trainer.step()))
          .next_u64();
  const MatchResult result = play_match(game_, *own, *uct, match.games, seed, stop_);
  competed_ = trainer.step();
  const Tally tally = result.all();
  trainer.note("match_score", result.score());
  // Where every game was won, the bound that the games do give.
  if (const auto elo = result.elo() ? result.elo() : result.elo_low()) {
    trainer.note("match_elo", *elo);
  }
  log_info("step {}: {} against {}: {} won, {} drawn, {} lost; Elo {} ({} to {})", trainer.step(),
           own->name(), uct->name(), tally.wins, tally.draws, tally.losses, elo_text(result.elo()),
           elo_text(result.elo_low()), elo_text(result.elo_high()));
}

Json SelfPlay::state() const { return {{"competed", competed_}}; }

void SelfPlay::restore(const Json& state) {
  competed_ = state_count(state, "competed", "self_play");
}

}  // namespace mstrain::alphazero
