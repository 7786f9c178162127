// Trees of every container, what is static in them, and a tensor that is asked whether it is true.
#include "core/tensor/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "core/transform/grad.h"
#include "core/transform/scan.h"
#include "core/transform/vmap.h"
#include "tests/core/base/message_of.h"

namespace mstrain {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

enum class Mode { kPlain, kSquared };

struct Settings {
  Tensor scale;
  std::array<Tensor, 2> pair;
  std::map<std::string, Tensor> named;
  std::optional<Tensor> shift;
  int power = 1;
  double rate = 0.5;
  Mode mode = Mode::kPlain;
  std::string name = "one";

  template <class V>
  void fields(V& v) {
    v("scale", scale);
    v("pair", pair);
    v("named", named);
    v("shift", shift);
    v("power", power);
    v("rate", rate);
    v("mode", mode);
    v("name", name);
  }
};

Settings settings() {
  return {scalar(2), {scalar(3), scalar(4)}, {{"a", scalar(5)}, {"b", scalar(6)}}, std::nullopt};
}

Tensor total(const Settings& s) {
  Tensor sum = s.scale * s.pair[0] * s.pair[1] + s.named.at("a") * s.named.at("b");
  if (s.shift.has_value()) {
    sum += *s.shift;
  }
  for (int i = 1; i < s.power; ++i) {
    sum *= s.scale;
  }
  return s.mode == Mode::kSquared ? square(sum) : sum * s.rate;
}

TEST(Tree, HoldsArraysMapsAndOptionals) {
  std::vector<std::string> paths;
  EXPECT_EQ(flatten_tree(settings(), &paths).size(), 5U);
  EXPECT_THAT(paths, ElementsAre("scale", "pair.0", "pair.1", "named.a", "named.b"));
  Settings s = settings();
  s.shift = scalar(7);
  flatten_tree(s, &(paths = {}));
  EXPECT_EQ(paths.back(), "shift");
  EXPECT_EQ(statics_of(s), "power = 1\nrate = 0.5\nmode = 0\nname = one\n");
}

TEST(Tree, DerivativesOfAStructLeaveItsNumbersAsTheyAre) {
  const Settings gradient = grad(total)(settings());
  EXPECT_EQ(item(gradient.scale), 6);
  EXPECT_EQ(item(gradient.pair[1]), 3);
  EXPECT_EQ(item(gradient.named.at("a")), 3);
  EXPECT_FALSE(gradient.shift.has_value());
  EXPECT_EQ(gradient.rate, 0.5);
}

TEST(Tree, MapAppliesAFunctionToLeavesThatStandInOnePlace) {
  const Settings doubled =
      tree_map([](const Tensor& a, const Tensor& b) { return a + b; }, settings(), settings());
  EXPECT_EQ(item(doubled.named.at("b")), 12);
  EXPECT_EQ(doubled.name, "one");
  EXPECT_THAT(error_of([] {
                tree_map([](const Tensor& a, const Tensor&) { return a; },
                         std::vector{scalar(1), scalar(2)}, std::vector{scalar(1)});
              }),
              HasSubstr("tree_map: trees of 2 and 1 tensors"));
}

TEST(Tree, AJittedFunctionIsCompiledAgainForOtherNumbersAndSaysWhy) {
  const auto f = jit(total);
  Settings s = settings();
  EXPECT_EQ(item(f(s)), 27);
  s.scale = scalar(3);
  EXPECT_EQ(item(f(s)), 33);
  EXPECT_EQ(f.compile_count(), 1);
  s.rate = 0.25;
  EXPECT_EQ(item(f(s)), 16.5);
  EXPECT_EQ(f.compile_count(), 2);
  EXPECT_THAT(f.last_reason(), AllOf(HasSubstr("argument 0.rate = 0.25 (was: 0.rate = 0.5)"),
                                     HasSubstr("tensors are not")));
  s.mode = Mode::kSquared;
  EXPECT_EQ(item(f(s)), 66 * 66);
  s.shift = scalar(1);
  EXPECT_EQ(item(f(s)), 67 * 67);
  EXPECT_THAT(f.last_reason(), HasSubstr("6 tensors under other names"));
  EXPECT_EQ(item(f(settings())), 27) << "the first program is kept";
  EXPECT_EQ(f.compile_count(), 4);
}

TEST(Tree, PlainNumbersAreArgumentsOfJittedAndOfBatchedFunctions) {
  const auto f = [](const Tensor& x, double scale, bool negate) {
    return negate ? -(x * scale) : x * scale;
  };
  const auto compiled = jit(f);
  EXPECT_EQ(item(compiled(scalar(3), 0.5, true)), -1.5);
  EXPECT_EQ(item(compiled(scalar(3), 0.5, false)), 1.5);
  EXPECT_EQ(compiled.compile_count(), 2);
  EXPECT_EQ(to_doubles(vmap(f)(vector({1, 2}), 2.0, true)), (std::vector<double>{-2, -4}));
  // Trees of one form but of other types are other calls.
  const auto any = jit([](const auto& t) { return std::get<0>(t) + std::get<1>(t); });
  EXPECT_EQ(item(any(std::pair(scalar(1), scalar(2)))), 3);
  EXPECT_EQ(item(any(std::array{scalar(1), scalar(2)})), 3);
  EXPECT_EQ(any.compile_count(), 2);
}

TEST(Tree, ALoopWhoseStepChangesANumberIsAnError) {
  const auto step = [](const std::pair<Tensor, int>& carry, const Tensor& x) {
    return std::pair(std::pair(carry.first + x, carry.second + 1), x);
  };
  EXPECT_THAT(error_of([&] {
                scan(step, std::pair(scalar(0), 0), vector({1, 2}));
              }),
              AllOf(HasSubstr("scan: a step changes a number of the carry"),
                    HasSubstr("make it a tensor")));
}

TEST(Grad, IsTakenWithRespectToTheArgumentsThatAreNamed) {
  const auto f = [](const Tensor& x, double scale, const Tensor& y) { return scale * x * y * y; };
  EXPECT_EQ(item(grad(f)(scalar(2), 3.0, scalar(5))), 75);
  EXPECT_EQ(item(grad<2>(f)(scalar(2), 3.0, scalar(5))), 60);
  const auto [dx, dy] = grad<0, 2>(f)(scalar(2), 3.0, scalar(5));
  EXPECT_EQ(item(dx), 75);
  EXPECT_EQ(item(dy), 60);
  const auto [value, swapped] = value_and_grad<2, 0>(f)(scalar(2), 3.0, scalar(5));
  EXPECT_EQ(item(value), 150);
  EXPECT_EQ(item(std::get<0>(swapped)), 60);
  EXPECT_EQ(item(grad<0>(grad<2>(f))(scalar(2), 3.0, scalar(5))), 30);
}

TEST(Truth, IsThatOfABoolOfOneElementInEagerMode) {
  const auto branch = [](const Tensor& a) { return a > 0 ? a : -10 * a; };
  EXPECT_EQ(item(branch(scalar(-1))), 10);
  EXPECT_EQ(item(branch(scalar(1))), 1);
  EXPECT_EQ(item(grad(branch)(scalar(-1))), -10) << "the function runs on values";
  int steps = 0;
  for (Tensor x = scalar(1); x < 100; x *= 3) {
    ++steps;
  }
  EXPECT_EQ(steps, 5);
  EXPECT_FALSE(Tensor().defined());
  EXPECT_TRUE(scalar(0).defined());
}

TEST(Truth, OfATracedTensorIsAnErrorThatNamesTheLine) {
  const auto branch = [](const Tensor& a) { return a > 0 ? a : -a; };
  const std::string line = fmt::format("tree_test.cc:{}", __LINE__ - 1);
  for (const std::string& error : {error_of([&] { jit(branch)(scalar(1)); }), error_of([&] {
                                     vmap(branch)(vector({1, 2}));
                                   }),
                                   error_of([&] { jit(grad(branch))(scalar(1)); })}) {
    EXPECT_THAT(error, AllOf(HasSubstr("has no value yet"), HasSubstr(line), HasSubstr("where()")));
  }
}

TEST(Truth, OfAnythingElseIsAnError) {
  EXPECT_THAT(error_of([] { static_cast<void>(scalar(1) ? 1 : 0); }),
              AllOf(HasSubstr("f32[] is asked whether it is true"), HasSubstr("compare it")));
  EXPECT_THAT(error_of([] {
                static_cast<void>(vector({1, 2}) > 0 ? 1 : 0);
              }),
              AllOf(HasSubstr("bool[2]"), HasSubstr("all() or any()")));
  EXPECT_THAT(error_of([] { static_cast<void>(Tensor() ? 1 : 0); }), HasSubstr("defined()"));
}

TEST(Numbers, ThatATypeDoesNotHaveAreErrorsAtTheCallersLine) {
  const Tensor i = vector({1, 2}, Dtype::kI32);
  EXPECT_THAT(error_of([&] { i + 0.5; }), AllOf(HasSubstr("add: 0.5 is no number of type i32"),
                                                HasSubstr("tree_test.cc"), HasSubstr("cast()")));
  EXPECT_THAT(error_of([&] { 0.5 * i; }), HasSubstr("mul: 0.5 is no number of type i32"));
  EXPECT_THAT(error_of([&] { where(i > 1, i, 0.5); }), HasSubstr("where: 0.5"));
  EXPECT_THAT(error_of([&] { cast(i, Dtype::kU8) + 256; }),
              HasSubstr("256 is no number of type u8"));
  EXPECT_THAT(error_of([&] { cast(i, Dtype::kU8) + -1; }), HasSubstr("-1 is no number of type u8"));
  EXPECT_THAT(error_of([&] { i / 0; }),
              AllOf(HasSubstr("div: i32[2] is divided by 0"), HasSubstr("tree_test.cc")));
  EXPECT_THAT(error_of([&] { remainder(i, 0); }), HasSubstr("remainder: i32[2] is divided by 0"));
  EXPECT_EQ(to_doubles(i + 1.0), (std::vector<double>{2, 3}));
  EXPECT_EQ(item(scalar(1) / 0), std::numeric_limits<double>::infinity());
}

TEST(Shapes, ThatDoNotExistAreErrorsAtTheCallersLine) {
  EXPECT_THAT(error_of([] { full({-1}, 0); }),
              AllOf(HasSubstr("full: a dim of [-1] is negative"), HasSubstr("tree_test.cc")));
  EXPECT_THAT(error_of([] { iota({2, -3}, 0); }), HasSubstr("iota: a dim of [2, -3] is negative"));
  EXPECT_THAT(error_of([] {
                reshape(zeros({Dtype::kF32, {6}}), {-2, -3});
              }),
              HasSubstr("a dim of [-2, -3] is negative"));
  EXPECT_THAT(error_of([] { broadcast_to(scalar(1), {-4}); }), HasSubstr("is negative"));
  EXPECT_THAT(error_of([] {
                zeros({Dtype::kF32, {2, 3}}).dim(7);
              }),
              AllOf(HasSubstr("dim(7) of f32[2, 3]"), HasSubstr("tree_test.cc")));
  EXPECT_EQ(zeros({Dtype::kF32, {2, 3}}).dim(-2), 2);
}

TEST(Jit, DonatingAnArgumentThatDoesNotExistIsAnError) {
  const auto f = jit([](const Tensor& x) { return x; }, {.donate = {3}});
  EXPECT_THAT(error_of([&] { f(scalar(1)); }),
              HasSubstr("donate names argument 3, the call has 1"));
}

}  // namespace
}  // namespace mstrain
