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
GameFault planted = GameFault::kNone;

struct FaultyNim : Nim {
  static constexpr int kSymmetries = 1;
  int player() const { return planted == GameFault::kEndless ? mover : Nim::player(); }
  void legal(ActionBuffer& out) const {
    if (planted == GameFault::kEndless) {
      out.push(0);
      return;
    }
    if (planted == GameFault::kNoAction && stones == 1) {
      return;
    }
    Nim::legal(out);
    if (planted == GameFault::kListsTwice && stones == 2) {
      out.push(2);
    }
    if (planted == GameFault::kOutOfRange && stones >= 4) {
      out.push(4);
    }
  }
  void apply(Action n) {
    Nim::apply(n);
    shared_stones = stones;
  }
  void undo(Action n) {
    Nim::undo(n);
    if (planted == GameFault::kUndo && n == 3) {
      mover = 1 - mover;
    }
  }
  uint64_t hash() const {
    return planted == GameFault::kHash            ? hash_mix(static_cast<uint64_t>(shared_stones))
           : planted == GameFault::kHashTooCoarse ? static_cast<uint64_t>(stones / 2)
                                                  : Nim::hash();
  }
  std::string action_to_string(Action n) const {
    return planted == GameFault::kNotation && n == 3 ? "2" : Nim::action_to_string(n);
  }
  Action parse_action(std::string_view text) const { return parse_listed(*this, text); }
  std::string position() const {
    FaultyNim shown = *this;
    shown.stones = planted == GameFault::kSharedState ? shared_stones : stones;
    return shown.Nim::position();
  }
  static FaultyNim from_position(std::string_view text) {
    if (planted == GameFault::kCrashesOnText && text.size() < 2) {
      throw std::out_of_range("text");
    }
    FaultyNim out;
    static_cast<Nim&>(out) = Nim::from_position(text);
    if (planted == GameFault::kPosition) {
      out.mover = 0;
    }
    return out;
  }
  Returns<2> returns() const {
    return planted == GameFault::kReturns ? Returns<2>{2, -2} : Nim::returns();
  }
  Returns<2> rollout(Random& rng) const {
    Nim state = *this;
    while (state.player() != kTerminal) {
      ActionBuffer actions;
      state.legal(actions);
      const auto count = static_cast<uint32_t>(actions.size());
      state.apply(actions[planted == GameFault::kRollout ? count - 1 : rng.below(count)]);
    }
    return state.returns();
  }
  FaultyNim symmetry(int) const {
    FaultyNim out = *this;
    out.mover = planted == GameFault::kSymmetry ? 1 - mover : mover;
    return out;
  }
  static Action symmetry_action(int, Action n) { return n; }
};

bool finds_fault(GameFault fault) {
  planted = fault;
  ::testing::TestPartResultArray found;
  {
    const ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &found);
    try {
      conformance::check_game<FaultyNim>({.playouts = 8, .max_plies = 60});
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
  EXPECT_FALSE(finds_fault(GameFault::kNone));
  EXPECT_TRUE(finds_fault(GameFault::kListsTwice));
  EXPECT_TRUE(finds_fault(GameFault::kOutOfRange));
  EXPECT_TRUE(finds_fault(GameFault::kNoAction));
  EXPECT_TRUE(finds_fault(GameFault::kUndo));
  EXPECT_TRUE(finds_fault(GameFault::kHash));
  EXPECT_TRUE(finds_fault(GameFault::kHashTooCoarse));
  EXPECT_TRUE(finds_fault(GameFault::kSharedState));
  EXPECT_TRUE(finds_fault(GameFault::kNotation));
  EXPECT_TRUE(finds_fault(GameFault::kPosition));
  EXPECT_TRUE(finds_fault(GameFault::kCrashesOnText));
  EXPECT_TRUE(finds_fault(GameFault::kReturns));
  EXPECT_TRUE(finds_fault(GameFault::kRollout));
  EXPECT_TRUE(finds_fault(GameFault::kSymmetry));
  EXPECT_TRUE(finds_fault(GameFault::kEndless));
}

}  // namespace
}  // namespace mstrain::mcts
