// The replay in files: safetensors with a row for each game, each move and each share of a policy.
#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/io/safetensors.h"
#include "suites/reinforcement/alphazero/replay.h"

namespace mstrain::alphazero {
namespace {

constexpr const char* kSuffix = ".safetensors";

// All that a replay holds, as columns.
struct Columns {
  std::vector<int64_t> iteration;  // of each game
  std::vector<int32_t> moves;
  std::vector<float> result;
  std::vector<int32_t> action;  // of each move
  std::vector<float> value;
  std::vector<int32_t> shares;
  std::vector<int32_t> share_action;  // of each share
  std::vector<float> share;

  template <class F>
  void each(const F& f) {
    f("game.iteration", iteration, Dtype::kI64);
    f("game.moves", moves, Dtype::kI32);
    f("game.result", result, Dtype::kF32);
    f("move.action", action, Dtype::kI32);
    f("move.value", value, Dtype::kF32);
    f("move.shares", shares, Dtype::kI32);
    f("share.action", share_action, Dtype::kI32);
    f("share.value", share, Dtype::kF32);
  }
};

Columns columns_of(const std::deque<LearnedGame>& games) {
  Columns out;
  for (const LearnedGame& game : games) {
    out.iteration.push_back(game.iteration);
    out.moves.push_back(static_cast<int32_t>(game.moves.size()));
    out.result.push_back(game.result);
    for (const LearnedGame::Move& move : game.moves) {
      out.action.push_back(static_cast<int32_t>(move.action));
      out.value.push_back(move.value);
      out.shares.push_back(static_cast<int32_t>(move.policy.size()));
      for (const auto& [action, share] : move.policy) {
        out.share_action.push_back(static_cast<int32_t>(action));
        out.share.push_back(share);
      }
    }
  }
  return out;
}

bool is_legal(const AnyGame& state, int32_t action) {
  if (state.player() < 0) {
    return false;
  }
  mcts::ActionBuffer legal;
  state.legal(legal);
  return action >= 0 &&
         std::find(legal.begin(), legal.end(), static_cast<Action>(action)) != legal.end();
}

bool is_share(float value, float low) { return value >= low && value <= 1; }

// Game after game. Throws IoError where the columns do not fit each other or a move is none of the game.
std::vector<LearnedGame> games_of(const Columns& in, const BoardGame& rules,
                                  const std::string& path) {
  const auto expect = [&](bool holds, std::string_view what) {
    if (!holds) {
      throw IoError(fmt::format("{}: {}", path, what));
    }
  };
  expect(in.moves.size() == in.iteration.size() && in.result.size() == in.iteration.size() &&
             in.value.size() == in.action.size() && in.shares.size() == in.action.size() &&
             in.share.size() == in.share_action.size(),
         "columns of one kind of row have different lengths");
  std::vector<LearnedGame> games;
  size_t move = 0;
  size_t share = 0;
  for (size_t g = 0; g < in.iteration.size(); ++g) {
    LearnedGame& game = games.emplace_back();
    game.iteration = in.iteration[g];
    game.result = in.result[g];
    expect(game.iteration >= 0 && is_share(game.result, -1),
           "a game has no such iteration or result");
    expect(in.moves[g] > 0 && static_cast<size_t>(in.moves[g]) <= in.action.size() - move,
           "a game has more moves than there are");
    AnyGame state = rules.start();
    for (const size_t end = move + static_cast<size_t>(in.moves[g]); move < end; ++move) {
      expect(is_legal(state, in.action[move]), "a game has a move that its rules do not know");
      LearnedGame::Move& to = game.moves.emplace_back();
      to.action = static_cast<Action>(in.action[move]);
      to.value = in.value[move];
      expect(is_share(to.value, -1) && in.shares[move] >= 0 &&
                 static_cast<size_t>(in.shares[move]) <= in.share.size() - share,
             "a move has no such value, or more shares than there are");
      for (const size_t last = share + static_cast<size_t>(in.shares[move]); share < last;
           ++share) {
        expect(is_legal(state, in.share_action[share]) && is_share(in.share[share], 0),
               "a policy has an action that is not legal, or a share that is none");
        to.policy.emplace_back(static_cast<Action>(in.share_action[share]), in.share[share]);
      }
      expect(!to.policy.empty() || game.opening() == game.moves.size(),
             "a move behind the first that was searched for has no policy");
      state.apply(to.action);
    }
    expect(game.positions() > 0, "a game has no move that was searched for");
  }
  expect(move == in.action.size() && share == in.share.size(), "there are rows of no game");
  return games;
}

}  // namespace

void Replay::write(const std::string& path) const {
  Columns columns = columns_of(games_);
  std::vector<SafetensorsWriter::Tensor> tensors;
  columns.each([&](const char* name, const auto& values, Dtype dtype) {
    tensors.push_back({name, dtype, {static_cast<int64_t>(values.size())}});
  });
  SafetensorsWriter writer(files_, path, tensors,
                           {{"game", game_.name()},
                            {"iterations", std::to_string(iterations_)},
                            {"dropped", std::to_string(dropped_)}});
  for (const TensorEntry& entry : writer.entries()) {
    columns.each([&](const char* name, const auto& values, Dtype) {
      if (entry.name == name) {
        writer.append(entry.name, std::as_bytes(std::span(values)));
      }
    });
  }
  writer.finish();
}

void Replay::read(const std::string& path) {
  const SafetensorsFile file(files_, path);
  const auto text = [&](const char* key) {
    const auto found = file.metadata().find(key);
    if (found == file.metadata().end()) {
      throw IoError(fmt::format("{}: its metadata have no {}", path, key));
    }
    return found->second;
  };
  const auto count = [&](const char* key) {
    const std::string digits = text(key);
    if (digits.empty() || digits.size() > 18 ||
        digits.find_first_not_of("0123456789") != std::string::npos) {
      throw IoError(fmt::format("{}: {} is {}; expected a number", path, key, digits));
    }
    return static_cast<int64_t>(std::stoll(digits));
  };
  if (text("game") != game_.name()) {
    throw IoError(
        fmt::format("{}: holds games of {}; expected {}", path, text("game"), game_.name()));
  }
  Columns columns;
  columns.each([&](const char* name, auto& values, Dtype dtype) {
    const TensorEntry& entry = file.at(name);
    if (entry.dtype != dtype || entry.shape.size() != 1) {
      throw IoError(fmt::format("{}: {} is no row of {}", path, name, safetensors_name(dtype)));
    }
    const std::span<const std::byte> bytes = file.data(entry);
    values.resize(bytes.size() / sizeof(values[0]));
    std::memcpy(values.data(), bytes.data(), bytes.size());
  });
  std::vector<LearnedGame> games = games_of(columns, game_, path);
  games_.clear();
  ends_.clear();
  positions_ = 0;
  iterations_ = count("iterations");
  dropped_ = count("dropped");
  for (LearnedGame& game : games) {
    add(std::move(game));
  }
}

void Replay::resume(const std::optional<std::string>& id) {
  if (id) {
    check(id->find('/') == std::string::npos, "replay: {} is no name of one", *id);
    read(join_path(folder_, *id));
    return;
  }
  files_.remove_all(folder_);  // of a run that saved no checkpoint
  games_.clear();
  ends_.clear();
  positions_ = dropped_ = iterations_ = 0;
}

std::string Replay::prepare(int64_t step) {
  create_directories_durably(files_, folder_);
  const std::string id = fmt::format("step-{:08}{}", step, kSuffix);
  write(join_path(folder_, id));
  return id;
}

void Replay::confirm(const std::string& id, const std::vector<std::string>& needed) {
  for (const std::string& name : files_.list(folder_)) {
    if (name.ends_with(kSuffix) && name < id &&  // later ones are on their way
        std::find(needed.begin(), needed.end(), name) == needed.end()) {
      files_.remove(join_path(folder_, name));
    }
  }
}

}  // namespace mstrain::alphazero
