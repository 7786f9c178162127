#include "suites/reinforcement/alphazero/self_play.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/train/checkpoint.h"
#include "core/train/rank_talk.h"
#include "core/train/report_data.h"
#include "core/train/state_fields.h"
#include "mcts/any_search.h"
#include "suites/reinforcement/alphazero/game_look.h"
#include "suites/reinforcement/alphazero/shared_games.h"

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
    }
    count += static_cast<double>(game.positions());
  }
  return sum / count;
}

// Moves by chance that game `number` begins with; none of them ends it.
std::vector<mcts::PlayedMove<AnyGame>> opening_of(const BoardGame& game, int64_t most,
                                                  uint64_t seed, int64_t number) {
  constexpr uint64_t kOpening = 0x6f70656e;  // apart from other draws
  mcts::Random rng(seed, kOpening, static_cast<uint64_t>(number));
  std::vector<mcts::PlayedMove<AnyGame>> out;
  AnyGame state = game.start();
  mcts::ActionBuffer legal;
  for (uint32_t left = rng.below(static_cast<uint32_t>(most) + 1); left > 0; --left) {
    legal.clear();
    state.legal(legal);
    const Action action = legal[rng.below(static_cast<uint32_t>(legal.size()))];
    AnyGame next = state;
    next.apply(action);
    if (next.player() == mcts::kTerminal) {
      break;
    }
    out.push_back({.state = std::move(state), .action = action});
    state = std::move(next);
  }
  return out;
}

}  // namespace

// An iteration's games are few: it soon takes less hope where they were wrong, and only slowly more again.
void Resignation::learn(const Shown& shown) {
  constexpr double kHarder = 0.25;  // of what is left to -1
  constexpr double kEasier = 0.02;
  if (!below_ || shown.checked == 0) {
    return;
  }
  const double share = static_cast<double>(shown.wrong) / static_cast<double>(shown.checked);
  below_ = share > config_.false_resignations ? *below_ - kHarder * (*below_ + 1)
                                              : std::min(*config_.resign.value, *below_ + kEasier);
}

PlayedGames play_games(const AlgorithmConfig& config, const BoardGame& game, uint64_t seed,
                       int threads, mcts::AnyEvaluator<AnyGame>& evaluator,
                       std::optional<double> resign_below, int64_t first_game) {
  const int64_t trees = std::min(config.parallel_games, config.games);
  const mcts::SearchConfig search{
      .seed = seed,
      .puct_c = config.puct_c,
      .noise_fraction = config.search == SearchKind::kPuct ? config.noise_fraction : 0,
      .noise_alpha = config.noise_alpha,
      .gumbel_considered = config.gumbel_considered,
      .discount = config.discount,
      .memory_limit = kTreeBytes};
  const mcts::SelfPlayOptions options{
      .batch = {.trees = trees, .groups = std::min<int64_t>(2, trees), .threads = threads},
      .games = config.games,
      .first_game = first_game,
      .simulations = config.simulations,
      .reuse = config.search == SearchKind::kPuct,
      .temperature_moves = config.temperature_moves,
      .resign_below = resign_below,
      .played_out = config.played_out};
  PlayedGames out;
  out.counters = mcts::any_searches().self_play(
      policy_of(config.search), search, options,
      [&](int64_t number) {
        AnyGame state = game.start();
        for (const auto& move : opening_of(game, config.random_moves, seed, number)) {
          state.apply(move.action);
        }
        return state;
      },
      evaluator,
      [&](mcts::PlayedGame<AnyGame>&& played) {
        auto opening = opening_of(game, config.random_moves, seed, played.number);
        played.moves.insert(played.moves.begin(), std::make_move_iterator(opening.begin()),
                            std::make_move_iterator(opening.end()));
        out.games.push_back(std::move(played));
      });
  std::sort(out.games.begin(), out.games.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return out;
}

SelfPlay::SelfPlay(const Config& config, const BoardGame& game, Replay& replay, FileSystem& files,
                   std::string directory, const std::atomic<bool>& stop, Ranks* ranks)
    : config_(config),
      game_(game),
      replay_(replay),
      files_(files),
      directory_(std::move(directory)),
      stop_(stop),
      ranks_(ranks),
      resignation_(config.algorithm) {}

bool SelfPlay::plays(int64_t step, Moment moment) const {
  return moment == Moment::kStep && step % config_.algorithm.steps == 0 &&
         replay_.iterations() == step / config_.algorithm.steps;
}

int64_t SelfPlay::steps_between_matches() const {
  return config_.algorithm.steps * *config_.evaluation.interval.value;
}

bool SelfPlay::competes(int64_t step, Moment moment) const {
  if (config_.evaluation.interval.is_word() || step == 0 || step == competed_ ||
      moment == Moment::kInterrupted) {
    return false;
  }
  return moment == Moment::kFinished || step % steps_between_matches() == 0;
}

bool SelfPlay::wants(int64_t step, Moment moment) {
  return plays(step, moment) || competes(step, moment);
}

void SelfPlay::on_start(Trainer& trainer) {
  trainer_ = &trainer;
  for (const auto& [name, value] : noted_) {
    trainer.note(name, value);
  }
  looks_ = std::make_unique<MetricsFile>(files_, join_path(directory_, kEvaluationsFile),
                                         MetricsKept(trainer.step()));
  network_ = std::make_unique<NetworkEvaluator>(game_, PolicyValueNetwork(config_.network, game_),
                                                config_.algorithm.play_threads());
  network_->heed(stop_);
}

void SelfPlay::on_state(Trainer& trainer, Moment moment) {
  network_->set_params(trainer.params());
  try {
    if (trainer.step() == 0 && moment == Moment::kStep) {
      files_.remove_all(selves());  // of an earlier run
      if (!config_.evaluation.interval.is_word()) {
        save_agent(files_, self_at(0), AgentConfig(config_), trainer.params());
      }
    }
    if (competes(trainer.step(), moment)) {
      compete(trainer);
      if (moment == Moment::kFinished ||
          reinforcement::is_looked_at(trainer.step() / steps_between_matches() - 1)) {
        OrderedJson row{{"step", trainer.step()}};
        row.update(look_at(replay_, game_));
        looks_->write(row);
      }
    }
    if (plays(trainer.step(), moment)) {
      play(trainer);
    }
  } catch (const Stopped&) {
    trainer.end(Trainer::End::kInterrupted, "games under way are given up");
  }
  network_->set_params({});
}

void SelfPlay::note(Trainer& trainer, const std::string& name, double value) {
  trainer.note(name, value);
  noted_[name] = value;
}

SelfPlay::Iteration SelfPlay::play_share(uint64_t seed, int64_t number) {
  const Share share = share_of(ranks_, config_.algorithm.games);
  AlgorithmConfig own = config_.algorithm;
  own.games = share.count;
  own.parallel_games = std::max<int64_t>(1, share_of(ranks_, own.parallel_games).count);
  CachingEvaluator evaluator(*network_, game_, own.cache);
  const double busy = network_->busy_seconds();
  const int64_t evaluations = network_->evaluations();
  PlayedGames played;
  play_together(ranks_, "self-play", [&] {
    if (own.games > 0) {
      played = play_games(own, game_, seed, network_->threads(), evaluator.any(),
                          resignation_.below(), share.first);
    }
  });
  std::vector<LearnedGame> games;
  Resignation::Shown shown;
  for (const auto& game : played.games) {
    shown.given_up += game.given_up ? 1 : 0;
    if (game.gives_up >= 0 && !game.given_up) {
      ++shown.checked;
      shown.wrong += game_.value_of(game.returns, game.gives_up) >= 0 ? 1 : 0;
    }
    games.push_back(learned(game, game_, number));
  }
  const std::vector<double> seconds =
      gathered(ranks_, std::vector<double>{played.counters.seconds}, "self-play");
  const std::vector<double> own_counts = {
      static_cast<double>(shown.given_up),
      static_cast<double>(shown.checked),
      static_cast<double>(shown.wrong),
      static_cast<double>(network_->evaluations() - evaluations),
      static_cast<double>(evaluator.hits()),
      network_->busy_seconds() - busy,
      static_cast<double>(network_->threads())};
  const std::vector<double> counts = gathered(ranks_, own_counts, "self-play");
  const auto sum = [&](size_t number) {
    double total = 0;
    for (size_t at = number; at < counts.size(); at += own_counts.size()) {
      total += counts[at];
    }
    return total;
  };
  const double longest = *std::ranges::max_element(seconds);
  return {.games = games_of_all(ranks_, std::move(games)),
          .shown = {.given_up = static_cast<int64_t>(sum(0)),
                    .checked = static_cast<int64_t>(sum(1)),
                    .wrong = static_cast<int64_t>(sum(2))},
          .seconds = longest,
          .evaluations = sum(3),
          .kept = sum(4),
          .busy = sum(5) / (longest * sum(6))};
}

void SelfPlay::play(Trainer& trainer) {
  const AlgorithmConfig& algorithm = config_.algorithm;
  const int64_t number = replay_.iterations();
  const uint64_t seed =
      mcts::Random(trainer.progress().seed, 0x67616d65, static_cast<uint64_t>(number)).next_u64();
  Iteration iteration = play_share(seed, number);
  const Resignation::Shown& shown = iteration.shown;
  Tally first;
  double positions = 0, length = 0;
  double result = 0;  // of the first player, as the game counts
  for (const LearnedGame& game : iteration.games) {
    positions += static_cast<double>(game.positions());
    length += static_cast<double>(game.moves.size());
    result += static_cast<double>(game_.results_of(game.result, 0)[0]);
    ++(game.result > 0 ? first.wins : game.result < 0 ? first.losses : first.draws);
  }
  const double entropy = mean_entropy(iteration.games);
  for (LearnedGame& game : iteration.games) {
    replay_.add(std::move(game));
  }
  replay_.end_iteration();
  const auto count = static_cast<double>(algorithm.games);
  note(trainer, "iteration", static_cast<double>(number));
  note(trainer, "game_length", length / count);
  std::string results;
  if (game_.start().players() == 2) {
    note(trainer, "first_player_wins", static_cast<double>(first.wins) / count);
    note(trainer, "draws", static_cast<double>(first.draws) / count);
    results = fmt::format("first player {:.0f} % won, {:.0f} % drawn",
                          100 * static_cast<double>(first.wins) / count,
                          100 * static_cast<double>(first.draws) / count);
  } else {
    note(trainer, "mean_result", result / count);
    results = fmt::format("mean result {:.3f}", result / count);
  }
  if (const auto below = resignation_.below()) {
    note(trainer, "resigned", static_cast<double>(shown.given_up) / count);
    note(trainer, "resign_below", *below);
    note(trainer, "resign_checked", static_cast<double>(shown.checked));
    note(trainer, "resign_wrong", static_cast<double>(shown.wrong));
  }
  resignation_.learn(shown);
  note(trainer, "policy_entropy", entropy);
  note(trainer, "replay_positions", static_cast<double>(replay_.positions()));
  note(trainer, "replay_age", replay_.age());
  trainer.note("self_play_positions_per_second", positions / iteration.seconds);
  trainer.note("evaluations_per_second", iteration.evaluations / iteration.seconds);
  trainer.note("evaluator_busy", iteration.busy);
  log_info(
      "iteration {}: {} games of {:.1f} moves in {:.1f} s, {:.0f} positions/s, {:.0f} "
      "evaluations/s ({:.0f} % kept from before), evaluator busy {:.0f} %; {}",
      number, algorithm.games, length / count, iteration.seconds, positions / iteration.seconds,
      iteration.evaluations / iteration.seconds,
      100 * iteration.kept / std::max(1.0, iteration.evaluations + iteration.kept),
      100 * iteration.busy, results);
}

std::string SelfPlay::selves() const { return join_path(directory_, "selves"); }
std::string SelfPlay::self_at(int64_t step) const {
  return join_path(selves(), checkpoint_name(step));
}

MatchResult SelfPlay::compete_with(Contestant& own, Contestant& other, const Trainer& trainer) {
  const uint64_t seed =
      mcts::Random(trainer.progress().seed, 0x6d61746368, static_cast<uint64_t>(trainer.step()))
          .next_u64();
  const MatchResult result =
      play_match(game_, own, other, config_.evaluation.games, seed, stop_, ranks_);
  const Tally tally = result.all();
  log_info("{} against {}: {} won, {} drawn, {} lost; Elo {} ({} to {})", own.name(), other.name(),
           tally.wins, tally.draws, tally.losses, elo_text(result.elo()),
           elo_text(result.elo_low()), elo_text(result.elo_high()));
  return result;
}

void SelfPlay::compete(Trainer& trainer) {
  const MatchConfig& match = config_.evaluation;
  const AgentConfig agent(config_);
  CachingEvaluator evaluator(*network_, game_, config_.algorithm.cache);
  const auto own = network_contestant(fmt::format("step {}", trainer.step()), agent,
                                      evaluator.any(), match.simulations);
  const auto uct = uct_contestant(game_, match.uct, network_->threads());
  // Where all games were won, or lost, the end of the interval that is bounded.
  const auto bounded = [](const MatchResult& result) {
    const auto elo = result.elo() ? result.elo() : result.elo_low();
    return elo ? elo : result.elo_high();
  };
  const MatchResult against_uct = compete_with(*own, *uct, trainer);
  note(trainer, "match_score", against_uct.score());
  if (const auto elo = bounded(against_uct)) {
    note(trainer, "match_elo", *elo);
  }
  // A run that began without matches has no self to begin with.
  if (files_.exists(self_at(competed_))) {
    const auto earlier = load_agent(files_, self_at(competed_), network_->threads());
    const auto before = network_contestant(fmt::format("step {}", competed_), earlier->config(),
                                           earlier->evaluator(), match.simulations);
    elo_ += bounded(compete_with(*own, *before, trainer)).value_or(0);
    note(trainer, "elo", elo_);
  }
  save_agent(files_, self_at(trainer.step()), agent, trainer.params());
  competed_ = trainer.step();
}

Json SelfPlay::state() const {
  Json out{{"competed", competed_}, {"elo", elo_}};
  if (const auto below = resignation_.below()) {
    out["resign_below"] = *below;
  }
  for (const auto& [name, value] : noted_) {
    if (trainer_->notes().contains(name)) {
      out["noted"][name] = value;
    }
  }
  return out;
}

void SelfPlay::restore(const Json& state) {
  competed_ = state_count(state, "competed", "self_play");
  elo_ = state_number(state, "elo", "self_play");
  if (resignation_.below() && state.contains("resign_below")) {
    resignation_.restore(state_number(state, "resign_below", "self_play"));
  }
  if (state.contains("noted")) {
    for (const auto& [name, value] : state["noted"].items()) {
      noted_[name] = state_number(state["noted"], name.c_str(), "self_play");
    }
  }
}

}  // namespace mstrain::alphazero
