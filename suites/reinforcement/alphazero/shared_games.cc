#include "suites/reinforcement/alphazero/shared_games.h"

#include "core/train/rank_talk.h"
#include "suites/reinforcement/alphazero/evaluator.h"
#include "suites/reinforcement/env/bytes.h"

namespace mstrain::alphazero {
namespace {

constexpr const char* kGames = "games of self-play";

void put(reinforcement::ByteWriter& to, const LearnedGame& game) {
  to.put(game.iteration);
  to.put(game.result);
  to.put<uint64_t>(game.moves.size());
  for (const LearnedGame::Move& move : game.moves) {
    to.put(move.action);
    to.put(move.value);
    to.put<uint64_t>(move.policy.size());
    for (const auto& [action, share] : move.policy) {
      to.put(action);
      to.put(share);
    }
  }
}

LearnedGame get(reinforcement::ByteReader& from) {
  LearnedGame game{.iteration = from.get<int64_t>(), .result = from.get<float>()};
  for (auto moves = from.get<uint64_t>(); moves > 0; --moves) {
    LearnedGame::Move& move = game.moves.emplace_back();
    move.action = from.get<Action>();
    move.value = from.get<float>();
    for (auto shares = from.get<uint64_t>(); shares > 0; --shares) {
      const auto action = from.get<Action>();
      move.policy.emplace_back(action, from.get<float>());
    }
  }
  return game;
}

}  // namespace

Share share_of(const Ranks* ranks, int64_t count) {
  const int64_t all = ranks == nullptr ? 1 : ranks->mesh().ranks();
  const int64_t rank = ranks == nullptr ? 0 : ranks->rank();
  const int64_t first = count * rank / all;
  return {first, count * (rank + 1) / all - first};
}

void play_together(Ranks* ranks, std::string_view what, const std::function<void()>& play) {
  bool stopped = false;
  work_together(ranks, what, [&] {
    try {
      play();
    } catch (const Stopped&) {
      stopped = true;
    }
  });
  if (least(ranks, stopped ? 0 : 1, what) == 0) {
    throw Stopped();
  }
}

std::vector<LearnedGame> games_of_all(Ranks* ranks, std::vector<LearnedGame> own) {
  if (ranks == nullptr) {
    return own;
  }
  reinforcement::ByteWriter written;
  written.put<uint64_t>(own.size());
  for (const LearnedGame& game : own) {
    put(written, game);
  }
  std::string joined;
  for (const std::string& theirs : told_to_first(ranks, written.take(), kGames)) {
    joined += theirs;
  }
  const std::string all = told(ranks, joined, kGames);
  reinforcement::ByteReader read(all, kGames);
  std::vector<LearnedGame> games;
  for (int64_t rank = 0; rank < ranks->mesh().ranks(); ++rank) {
    for (auto count = read.get<uint64_t>(); count > 0; --count) {
      games.push_back(get(read));
    }
  }
  read.expect_end();
  return games;
}

}  // namespace mstrain::alphazero
