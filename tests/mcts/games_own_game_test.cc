// A game written outside the library, and that the conformance checks find what may be wrong in one.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tests/mcts/conformance.h"
#include "tests/mcts/nim.h"

namespace mstrain::mcts {
namespace {

TEST(OwnGame, Conforms) { conformance::check_game<Nim>({.playouts = 50}); }

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

TEST(OwnGame, IsTheOneInTheDocumentation) {
  const std::string root = MSTRAIN_SOURCE_DIR;
  const std::string header = contents(root + "/tests/mcts/nim.h");
  const size_t begin = header.find("// Take one, two");
  ASSERT_NE(begin, std::string::npos);
  EXPECT_NE(contents(root + "/docs/adding_a_game.md").find(header.substr(begin)), std::string::npos)
      << "docs/adding_a_game.md shows another Nim than tests/mcts/nim.h";
}

enum class Fault {
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

template <Fault kFault>
struct FaultyNim : Nim {
  static constexpr int kSymmetries = 1;
  int player() const { return kFault == Fault::kEndless ? mover : Nim::player(); }
  void legal(ActionBuffer& out) const {
    if (kFault == Fault::kEndless) {
      out.push(0);
      return;
    }
    if (kFault == Fault::kNoAction && stones == 1) {
      return;
    }
    Nim::legal(out);
    if (kFault == Fault::kListsTwice && stones == 2) {
      out.push(2);
    }
    if (kFault == Fault::kOutOfRange && stones >= 4) {
      out.push(4);
    }
  }
  void apply(Action n) {
    Nim::apply(n);
    shared_stones = stones;
  }
  void undo(Action n) {
    Nim::undo(n);
    if (kFault == Fault::kUndo && n == 3) {
      mover = 1 - mover;
    }
  }
  uint64_t hash() const {
    return kFault == Fault::kHash            ? hash_mix(static_cast<uint64_t>(shared_stones))
           : kFault == Fault::kHashTooCoarse ? static_cast<uint64_t>(stones / 2)
                                             : Nim::hash();
  }
  std::string action_to_string(Action n) const {
    return kFault == Fault::kNotation && n == 3 ? "2" : Nim::action_to_string(n);
  }
  Action parse_action(std::string_view text) const { return parse_listed(*this, text); }
  std::string position() const {
    FaultyNim shown = *this;
    shown.stones = kFault == Fault::kSharedState ? shared_stones : stones;
    return shown.Nim::position();
  }
  static FaultyNim from_position(std::string_view text) {
    if (kFault == Fault::kCrashesOnText && text.size() < 2) {
      throw std::out_of_range("text");
    }
    FaultyNim out;
    static_cast<Nim&>(out) = Nim::from_position(text);
    if (kFault == Fault::kPosition) {
      out.mover = 0;
    }
    return out;
  }
  Returns<2> returns() const {
    return kFault == Fault::kReturns ? Returns<2>{2, -2} : Nim::returns();
  }
  Returns<2> rollout(Random& rng) const {
    Nim state = *this;
    while (state.player() != kTerminal) {
      ActionBuffer actions;
      state.legal(actions);
      const auto count = static_cast<uint32_t>(actions.size());
      state.apply(actions[kFault == Fault::kRollout ? count - 1 : rng.below(count)]);
    }
    return state.returns();
  }
  FaultyNim symmetry(int) const {
    FaultyNim out = *this;
    out.mover = kFault == Fault::kSymmetry ? 1 - mover : mover;
    return out;
  }
  static Action symmetry_action(int, Action n) { return n; }
};

template <Fault kFault>
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
  EXPECT_FALSE(finds_fault<Fault::kNone>());
  EXPECT_TRUE(finds_fault<Fault::kListsTwice>());
  EXPECT_TRUE(finds_fault<Fault::kOutOfRange>());
  EXPECT_TRUE(finds_fault<Fault::kNoAction>());
  EXPECT_TRUE(finds_fault<Fault::kUndo>());
  EXPECT_TRUE(finds_fault<Fault::kHash>());
  EXPECT_TRUE(finds_fault<Fault::kHashTooCoarse>());
  EXPECT_TRUE(finds_fault<Fault::kSharedState>());
  EXPECT_TRUE(finds_fault<Fault::kNotation>());
  EXPECT_TRUE(finds_fault<Fault::kPosition>());
  EXPECT_TRUE(finds_fault<Fault::kCrashesOnText>());
  EXPECT_TRUE(finds_fault<Fault::kReturns>());
  EXPECT_TRUE(finds_fault<Fault::kRollout>());
  EXPECT_TRUE(finds_fault<Fault::kSymmetry>());
  EXPECT_TRUE(finds_fault<Fault::kEndless>());
}

}  // namespace
}  // namespace mstrain::mcts
