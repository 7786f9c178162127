#include "mcts/c_api/abi_game.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

namespace mstrain::mcts {
namespace {

void done(const char* what, int code) {
  if (code != 0) {
    throw GameError(fmt::format("game: {} returned {}", what, code));
  }
}

void check_finite(const char* what, int player, float value) {
  if (!std::isfinite(value)) {
    throw GameError(
        fmt::format("game: {} gave player {} {}; expected a finite number", what, player, value));
  }
}

void check_distinct(const char* what, std::span<const Action> actions) {
  thread_local std::vector<Action> sorted;
  sorted.assign(actions.begin(), actions.end());
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    throw GameError(fmt::format("game: {} gave action {} twice", what, *twice));
  }
}

}  // namespace

AbiGame::AbiGame(const mst_mcts_game& from)
    : table(from),
      facts{.players = static_cast<int>(from.players),
            .max_actions = from.max_actions,
            .min_return = from.min_return,
            .max_return = from.max_return,
            .zero_sum = from.zero_sum != 0,
            .chance = from.chance != nullptr,
            .rewards = from.rewards != nullptr,
            .undo = from.undo != nullptr,
            .samples = from.sample_action != nullptr,
            .hash = from.hash != nullptr,
            .information = from.determinize != nullptr} {}

AbiState::AbiState(const AbiGame& game, const void* state)
    : game_(&game), bytes_(game.table.state_size) {
  std::memcpy(bytes_.data(), state, bytes_.size());
}

bool AbiState::assign(const State& other) {
  if (&other.facts() != &facts()) {
    return false;
  }
  bytes_ = static_cast<const AbiState&>(other).bytes_;
  return true;
}

int AbiState::player() const {
  const int player = table().player(table().context, data());
  if (player < MST_MCTS_TERMINAL || player >= facts().players) {
    throw GameError(
        fmt::format("game: player gave {}; there are {} players", player, facts().players));
  }
  return player;
}

void AbiState::legal(ActionBuffer& out) const {
  const size_t before = out.size();
  out.resize(before + table().max_actions);
  uint32_t count = 0;
  done("legal", table().legal(table().context, data(), out.data() + before, &count));
  room("legal", count);
  bool ascends = true;
  for (uint32_t i = 0; i < count; ++i) {
    known("legal", out[before + i]);
    ascends = ascends && (i == 0 || out[before + i - 1] < out[before + i]);
  }
  if (!ascends) {
    check_distinct("legal", std::span(out.data() + before, count));
  }
  out.resize(before + count);
}

void AbiState::apply(Action action) {
  done("apply", table().apply(table().context, bytes_.data(), action));
}

Returns<AnyGame::kPlayers> AbiState::returns() const {
  Returns<AnyGame::kPlayers> out{};
  done("returns", table().returns(table().context, data(), out.data()));
  const AnyGame::Facts& known = facts();
  double sum = 0;
  for (int p = 0; p < known.players; ++p) {
    sum += static_cast<double>(out[p]);
    check_finite("returns", p, out[p]);
    if (known.min_return < known.max_return &&
        !(out[p] >= known.min_return && out[p] <= known.max_return)) {
      throw GameError(fmt::format("game: returns gave player {} {}; the range stated is [{}, {}]",
                                  p, out[p], known.min_return, known.max_return));
    }
  }
  if (known.zero_sum && !(std::abs(sum) <= 1e-4 * (1 + std::abs(static_cast<double>(out[0]))))) {
    throw GameError(fmt::format("game: returns sum to {}; zero_sum is stated", sum));
  }
  return out;
}

Returns<AnyGame::kPlayers> AbiState::rollout(Random& rng) const {
  if (table().rollout == nullptr) {
    return State::rollout(rng);
  }
  Returns<AnyGame::kPlayers> out{};
  done("rollout", table().rollout(table().context, data(), rng.next_u64(), out.data()));
  for (int p = 0; p < facts().players; ++p) {
    check_finite("rollout", p, out[p]);
  }
  return out;
}

void AbiState::chance(ChanceBuffer& out) const {
  if (table().chance == nullptr) {
    throw GameError("game: player() is MST_MCTS_CHANCE, but there is no chance callback");
  }
  std::vector<uint32_t> actions(table().max_actions);
  std::vector<float> probabilities(table().max_actions);
  uint32_t count = 0;
  done("chance",
       table().chance(table().context, data(), actions.data(), probabilities.data(), &count));
  room("chance", count);
  for (uint32_t i = 0; i < count; ++i) {
    out.push({known("chance", actions[i]), probabilities[i]});
  }
}

Returns<AnyGame::kPlayers> AbiState::rewards() const {
  Returns<AnyGame::kPlayers> out{};
  done("rewards", table().rewards(table().context, data(), out.data()));
  return out;
}

void AbiState::undo(Action action) {
  done("undo", table().undo(table().context, bytes_.data(), action));
}

Action AbiState::sample_action(Random& rng) const {
  uint32_t action = 0;
  done("sample_action", table().sample_action(table().context, data(), rng.next_u64(), &action));
  return known("sample_action", action);
}

uint64_t AbiState::hash() const {
  if (table().hash == nullptr) {
    throw GameError("game: a graph needs the hash callback");
  }
  return table().hash(table().context, data());
}

void AbiState::determinize(int player, Random& rng) {
  if (table().determinize == nullptr || table().information_key == nullptr) {
    throw GameError("game: information sets need the callbacks determinize and information_key");
  }
  done("determinize", table().determinize(table().context, bytes_.data(), player, rng.next_u64()));
}

uint64_t AbiState::information_key(int player) const {
  if (table().information_key == nullptr) {
    throw GameError("game: information sets need the callbacks determinize and information_key");
  }
  return table().information_key(table().context, data(), player);
}

void AbiState::observe(float* out) const {
  done("observe", table().observe(table().context, data(), player(), out));
}

void AbiState::room(const char* what, uint32_t count) const {
  if (count > table().max_actions) {
    throw GameError(fmt::format("game: {} gave {} actions; max_actions is {}", what, count,
                                table().max_actions));
  }
}

Action AbiState::known(const char* what, uint32_t action) const {
  if (action >= table().max_actions) {
    throw GameError(fmt::format("game: {} gave action {}; max_actions is {}", what, action,
                                table().max_actions));
  }
  return action;
}

}  // namespace mstrain::mcts
