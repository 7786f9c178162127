// A game written outside the library, and that the conformance checks find what may be wrong in one.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "mcts/conformance.h"
#include "tests/mcts/nim.h"

namespace mstrain::mcts {
namespace {

TEST(OwnGame, Conforms) { conformance::check_game<Nim>({.playouts = 50}); }

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

TEST(OwnGame, IsTheOneInTheDocumentation) {
  const std::string root = MSTRAIN_SOURCE_DIR;
  const std::string header = file_text(root + "/tests/mcts/nim.h");
  const size_t begin = header.find("// Take one, two");
  ASSERT_NE(begin, std::string::npos);
  EXPECT_NE(file_text(root + "/docs/adding_a_game.md").find(header.substr(begin)),
            std::string::npos)
      << "docs/adding_a_game.md shows another Nim than tests/mcts/nim.h";
}

enum class GameFault {
  kNone,
  kListsTwice,
  kOutOfRange,
  kNoAction,
  kUndo,
  kHash,
  kHashTooCoarse,
  kSharedState,
  kNotation,
  kPosition,
  kCrashesOnText,
  kReturns,
  kRollout,
  kSymmetry,
  kEndless
};

int shared_stones = 0;

template <GameFault kFault>
struct FaultyNim : Nim {
  static constexpr int kSymmetries = 1;
  int player() const { return kFault == GameFault::kEndless ? mover : Nim::player(); }
  void legal(ActionBuffer& out) const {
    if (kFault == GameFault::kEndless) {
      out.push(0);
      return;
    }
    if (kFault == GameFault::kNoAction && stones == 1) {
      return;
    }
    Nim::legal(out);
    if (kFault == GameFault::kListsTwice && stones == 2) {
      out.push(2);
    }
    if (kFault == GameFault::kOutOfRange && stones >= 4) {
      out.push(4);
    }
  }
  void apply(Action n) {
    Nim::apply(n);
    shared_stones = stones;
  }
  void undo(Action n) {
    Nim::undo(n);
    if (kFault == GameFault::kUndo && n == 3) {
      mover = 1 - mover;
    }
  }
  uint64_t hash() const {
    return kFault == GameFault::kHash            ? hash_mix(static_cast<uint64_t>(shared_stones))
           : kFault == GameFault::kHashTooCoarse ? static_cast<uint64_t>(stones / 2)
                                                 : Nim::hash();
  }
  std::string action_to_string(Action n) const {
    return kFault == GameFault::kNotation && n == 3 ? "2" : Nim::action_to_string(n);
  }
  Action parse_action(std::string_view text) const { return parse_listed(*this, text); }
  std::string position() const {
    FaultyNim shown = *this;
    shown.stones = kFault == GameFault::kSharedState ? shared_stones : stones;
    return shown.Nim::position();
  }
  static FaultyNim from_position(std::string_view text) {
    if (kFault == GameFault::kCrashesOnText && text.size() < 2) {
      throw std::out_of_range("text");
    }
    FaultyNim out;
    static_cast<Nim&>(out) = Nim::from_position(text);
    if (kFault == GameFault::kPosition) {
      out.mover = 0;
    }
    return out;
  }
  Returns<2> returns() const {
    return kFault == GameFault::kReturns ? Returns<2>{2, -2} : Nim::returns();
  }
  Returns<2> rollout(Random& rng) const {
    Nim state = *this;
    while (state.player() != kTerminal) {
      ActionBuffer actions;
      state.legal(actions);
      const auto count = static_cast<uint32_t>(actions.size());
      state.apply(actions[kFault == GameFault::kRollout ? count - 1 : rng.below(count)]);
    }
    return state.returns();
  }
  FaultyNim symmetry(int) const {
    FaultyNim out = *this;
    out.mover = kFault == GameFault::kSymmetry ? 1 - mover : mover;
    return out;
  }
  static Action symmetry_action(int, Action n) { return n; }
};

template <GameFault kFault>
bool finds_fault() {
  ::testing::TestPartResultArray found;
  {
    const ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &found);
    try {
      conformance::check_game<FaultyNim<kFault>>({.playouts = 8, .max_plies = 60});
    } catch (const std::exception&) {
      return true;
    }
  }
  for (int i = 0; i < found.size(); ++i) {
    if (found.GetTestPartResult(i).failed()) {
      return true;
    }
  }
  return false;
}

TEST(Conformance, FindsEveryPlantedFault) {
  EXPECT_FALSE(finds_fault<GameFault::kNone>());
  EXPECT_TRUE(finds_fault<GameFault::kListsTwice>());
  EXPECT_TRUE(finds_fault<GameFault::kOutOfRange>());
  EXPECT_TRUE(finds_fault<GameFault::kNoAction>());
  EXPECT_TRUE(finds_fault<GameFault::kUndo>());
  EXPECT_TRUE(finds_fault<GameFault::kHash>());
  EXPECT_TRUE(finds_fault<GameFault::kHashTooCoarse>());
  EXPECT_TRUE(finds_fault<GameFault::kSharedState>());
  EXPECT_TRUE(finds_fault<GameFault::kNotation>());
  EXPECT_TRUE(finds_fault<GameFault::kPosition>());
  EXPECT_TRUE(finds_fault<GameFault::kCrashesOnText>());
  EXPECT_TRUE(finds_fault<GameFault::kReturns>());
  EXPECT_TRUE(finds_fault<GameFault::kRollout>());
  EXPECT_TRUE(finds_fault<GameFault::kSymmetry>());
  EXPECT_TRUE(finds_fault<GameFault::kEndless>());
}

}  // namespace
}  // namespace mstrain::mcts
