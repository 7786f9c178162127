#include "suites/reinforcement/env/games.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "mcts/play/playable.h"
#include "suites/reinforcement/env/board_picture.h"
#include "suites/reinforcement/env/episodes.h"
#include "suites/reinforcement/env/one_environment.h"

namespace mstrain::reinforcement {
namespace {

using mcts::Action;
using mcts::AnyGame;

EnvSpec spec_of(const mcts::play::GameEntry& entry, const mcts::play::Playable& game) {
  const auto [planes, rows, columns] = game.observation_shape();
  const AnyGame start = game.start();
  constexpr double kUnbounded = std::numeric_limits<double>::infinity();
  const Shape shape = rows == 1 && columns == 1 ? Shape{planes} : Shape{planes, rows, columns};
  return {.name = std::string(entry.name),
          .about = "a game of mcts/",
          .observation = Space::box(shape, -kUnbounded, kUnbounded),
          .action = Space::discrete(start.max_actions()),
          .state_size = 0,
          .time_limit = 0,
          .agents = start.players(),
          .turns = true,
          .masks = true};
}

// One game that is being played.
struct Table {
  AnyGame state;
  std::vector<Action> moves;  // those of chance among them
};

class GameDynamics final : public Dynamics {
 public:
  GameDynamics(const mcts::play::GameEntry& entry, int64_t n)
      : game_(entry.make()), spec_(spec_of(entry, *game_)), tables_(static_cast<size_t>(n)) {}

  const EnvSpec& spec() const override { return spec_; }
  int64_t size() const override { return static_cast<int64_t>(tables_.size()); }

  void begin(int64_t i, EpisodeClock& clock) override {
    Table& table = at(i);
    table = {game_->start(), {}};
    EnvRandom random = clock.random(i);
    meet_chance(table, random, {});
  }

  void step(const Actions& actions, const uint8_t* still, EpisodeClock& clock, float* rewards,
            uint8_t* terminated) override {
    const auto agents = static_cast<size_t>(spec_.agents);
    for (int64_t i = 0; i < size(); ++i) {
      if (still != nullptr && still[i] != 0) {
        continue;
      }
      Table& table = at(i);
      const std::span<float> paid(rewards + static_cast<size_t>(i) * agents, agents);
      std::fill(paid.begin(), paid.end(), 0.0F);
      const int64_t action = actions.discrete[i * spec_.agents + table.state.player()];
      apply(table, static_cast<Action>(action), paid);
      EnvRandom random = clock.random(i);
      meet_chance(table, random, paid);
      const bool is_over = table.state.player() == mcts::kTerminal;
      if (is_over) {
        add(table.state.returns(), paid);
      }
      terminated[i] = is_over ? 1 : 0;
    }
  }

  void observe(float* out) const override {
    for (int64_t i = 0; i < size(); ++i) {
      observe_one(i, out + i * spec_.agents * spec_.observation.size());
    }
  }
  void observe_one(int64_t i, float* out) const override {
    const int64_t numbers = spec_.observation.size();
    for (int agent = 0; agent < spec_.agents; ++agent) {
      game_->observe(at(i).state, agent, {out + agent * numbers, static_cast<size_t>(numbers)});
    }
  }
  void get_state(int64_t /*i*/, double* /*out*/) const override {}  // state_size is 0
  void set_state(int64_t /*i*/, const double* /*state*/) override {}

  void save(ByteWriter& out) const override {
    for (const Table& table : tables_) {
      out.put<uint64_t>(table.moves.size());
      out.put_all(table.moves);
    }
  }
  void load(ByteReader& in) override {
    for (Table& table : tables_) {
      const auto count = in.get<uint64_t>();
      const auto moves = in.get_all<Action>(count);
      table = {game_->start(), {}};
      for (Action move : moves) {
        const bool is_known = can_follow(table.state, move);
        check(is_known, "{}: a saved game whose move {} is not legal", spec_.name, move);
        apply(table, move, {});
      }
    }
  }

  void mask(int64_t i, uint8_t* out) const override {
    const AnyGame& state = at(i).state;
    std::fill(out, out + spec_.agents * spec_.action.n, 0);
    if (state.player() >= 0) {
      mcts::ActionBuffer legal;
      state.legal(legal);
      for (Action action : legal) {
        out[state.player() * spec_.action.n + action] = 1;
      }
    }
  }
  int32_t to_move(int64_t i) const override { return std::max(at(i).state.player(), -1); }

  // A board by its planes: colours for two of them, shades for more; else numbers as bars.
  Image picture(int64_t i) const override {
    std::vector<float> seen(static_cast<size_t>(spec_.agents * spec_.observation.size()));
    observe_one(i, seen.data());
    if (spec_.observation.shape.rank() != 3) {
      return bars(spec_, seen);
    }
    return BoardPicture(*game_, spec_.name).draw(seen).take();
  }

 private:
  Table& at(int64_t i) { return tables_[static_cast<size_t>(i)]; }
  const Table& at(int64_t i) const { return tables_[static_cast<size_t>(i)]; }

  static void add(const mcts::Returns<AnyGame::kPlayers>& values, std::span<float> paid) {
    for (size_t agent = 0; agent < paid.size(); ++agent) {
      paid[agent] += values[agent];
    }
  }
  static void apply(Table& table, Action action, std::span<float> paid) {
    table.state.apply(action);
    table.moves.push_back(action);
    if (table.state.pays_rewards()) {
      add(table.state.rewards(), paid);
    }
  }
  void meet_chance(Table& table, EnvRandom& random, std::span<float> paid) const {
    mcts::ChanceBuffer outcomes;
    while (table.state.player() == mcts::kChance) {
      outcomes.clear();
      table.state.chance(outcomes);
      double left = random.uniform();
      Action drawn = outcomes[outcomes.size() - 1].action;
      for (const auto& outcome : outcomes) {
        left -= outcome.probability;
        if (left < 0) {
          drawn = outcome.action;
          break;
        }
      }
      apply(table, drawn, paid);
    }
  }
  static bool can_follow(const AnyGame& state, Action move) {
    if (state.player() >= 0) {
      mcts::ActionBuffer legal;
      state.legal(legal);
      return std::find(legal.begin(), legal.end(), move) != legal.end();
    }
    if (state.player() == mcts::kChance) {
      mcts::ChanceBuffer outcomes;
      state.chance(outcomes);
      return std::any_of(outcomes.begin(), outcomes.end(),
                         [&](const auto& outcome) { return outcome.action == move; });
    }
    return false;
  }

  std::unique_ptr<mcts::play::Playable> game_;
  EnvSpec spec_;
  std::vector<Table> tables_;
};

std::unique_ptr<VectorEnv> make_game(const EnvConfig& config, int64_t n) {
  auto dynamics = std::make_unique<GameDynamics>(mcts::play::find_game(config.called()), n);
  const int64_t limit = time_limit_of(config, dynamics->spec());
  return make_episodes(std::move(dynamics), config.reset, limit);
}

}  // namespace

void add_game_environments() {
  for (const mcts::play::GameEntry& entry : mcts::play::all_games()) {
    add_environment({spec_of(entry, *entry.make()), make_game});
  }
}

}  // namespace mstrain::reinforcement
