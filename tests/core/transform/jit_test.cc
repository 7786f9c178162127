#include "core/tensor/jit.h"

#include <thread>

#include "core/ops/index.h"
#include "core/runtime/context.h"
#include "core/transform/jacobian.h"
#include "core/transform/vmap.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Jit, IsRecordedOncePerTypeOfItsArguments) {
  int calls = 0;
  const auto f = jit([&](const Tensor& x, const Tensor& scale) {
    ++calls;
    return sum(x * scale);
  });
  for (double scale : {1.0, 2.0, 3.0}) {
    EXPECT_EQ(item(f(f64({1, 2}), f64(scale))), 3 * scale);
  }
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(f.compile_count(), 1);
  EXPECT_EQ(f.last_reason(), "first call");
  EXPECT_EQ(item(f(f64({1, 2, 3}), f64(1))), 6);
  EXPECT_EQ(f.compile_count(), 2);
  EXPECT_THAT(f.last_reason(), HasSubstr("is f64[3], was f64[2]"));
  EXPECT_EQ(item(f(f64({5, 2}), f64(1))), 7);
  EXPECT_EQ(item(f(f64({5, 2, 1}), f64(1))), 8);
  EXPECT_EQ(f.compile_count(), 2);
  EXPECT_EQ(item(f(vector({1, 2}), scalar(2))), 6);
  EXPECT_EQ(f.compile_count(), 3);
  EXPECT_THAT(f.last_reason(), HasSubstr("is f32[2], was f64[3]"));
}

TEST(Jit, ChangingNumbersThatAreTensorsDoNotCompileAgain) {
  const auto step = jit([](const Tensor& w, const Tensor& lr, const Tensor& t) {
    return std::pair(w - lr * grad([](const Tensor& x) { return sum(x * x); })(w), t + 1);
  });
  Tensor w = f64({1, -2});
  Tensor t = scalar(0, Dtype::kI64);
  for (int i = 0; i < 5; ++i) {
    std::tie(w, t) = step(w, f64(0.1 / (i + 1)), t);
  }
  EXPECT_EQ(step.compile_count(), 1);
  EXPECT_EQ(item(t), 5);
}

TEST(Jit, ContextsHaveProgramsOfTheirOwn) {
  const auto f = jit([](const Tensor& x) { return current_context().training ? x * 2 : x; });
  const Tensor x = f64(3);
  EXPECT_EQ(item(f(x)), 3);
  Context context = current_context();
  context.training = true;
  const ContextScope scope(context);
  EXPECT_EQ(item(f(x)), 6);
  EXPECT_EQ(f.compile_count(), 2);
  EXPECT_THAT(f.last_reason(), HasSubstr("the context changed"));
}

TEST(Jit, ReadingAValueInsideIsAnErrorThatNamesTheLine) {
  const auto line = std::to_string(__LINE__ + 1);
  const auto f = jit([](const Tensor& x) { return item(sum(x)) > 0 ? x : -x; });
  EXPECT_THAT(error_of([&] {
                f(f64({1, 2}));
              }),
              HasSubstr("tests/core/transform/jit_test.cc:" + line));
  const auto g = jit([](const Tensor& x) { return x * to_doubles(x)[0]; });
  EXPECT_THAT(error_of([&] { g(f64({1, 2})); }), HasSubstr("has no value yet"));
  // Nothing is left half done: the next call works.
  EXPECT_EQ(item(jit([](const Tensor& x) { return x + 1; })(f64(1))), 2);
  EXPECT_EQ(Trace::innermost(), nullptr);
}

TEST(Jit, TensorsKeptFromInsideAreErrorsWhereTheyAreUsed) {
  Tensor kept;
  const auto keep = jit([&](const Tensor& x) {
    kept = x * 2;
    return x;
  });
  keep(f64(1));
  EXPECT_THAT(error_of([&] { kept + f64(1); }),
              HasSubstr("was computed inside a traced function that has ended"));
  EXPECT_THAT(error_of([&] { item(kept); }), HasSubstr("has no value yet"));
  EXPECT_THAT(error_of([&] { jit([&](const Tensor& x) { return x + kept; })(f64(1)); }),
              HasSubstr("jit_test.cc"));
  EXPECT_THAT(error_of([&] { jit([&](const Tensor&) { return kept; })(f64(1)); }),
              HasSubstr("uses or returns a tensor of type f64[]"));
  EXPECT_THAT(error_of([&] { grad([&](const Tensor& x) { return x * kept; })(f64(1)); }),
              HasSubstr("traced function that has ended"));
  EXPECT_THAT(error_of([&] {
                vmap([&](const Tensor& x) { return x * kept; })(f64({1, 2}));
              }),
              HasSubstr("traced function that has ended"));
  EXPECT_THAT(error_of([&] { keep(kept); }), HasSubstr("traced function that has ended"));
}

TEST(Jit, ValuesKeptFromAnEagerGradientStayValid) {
  Tensor kept;
  grad([&](const Tensor& x) {
    kept = x * 2;
    return kept * x;
  })(f64(3));
  EXPECT_EQ(item(kept + 1), 7);
}

TEST(Jit, EmptyTensorsAreErrors) {
  const auto f = jit([](const Tensor& x) { return x; });
  EXPECT_THAT(error_of([&] { f(Tensor()); }), HasSubstr("empty tensor"));
  EXPECT_THAT(error_of([] { jit([](const Tensor&) { return Tensor(); })(f64(1)); }),
              HasSubstr("empty tensor"));
}

TEST(Jit, CapturedTensorsAreFixedWhenTheFunctionIsRecorded) {
  Tensor w = f64(2);
  const auto f = jit([&](const Tensor& x) { return x * w; });
  EXPECT_EQ(item(f(f64(3))), 6);
  w = f64(100);
  EXPECT_EQ(item(f(f64(3))), 6);
}

TEST(Jit, InsideAnotherTransformIsTheFunctionItself) {
  const auto f = jit([](const Tensor& x) { return sum(sin(x) * x); });
  const Tensor x = random_tensor({4}, 1);
  const auto plain = [](const Tensor& t) { return sum(sin(t) * t); };
  expect_equal(grad(f)(x), grad(plain)(x));
  expect_equal(in_both_modes(hessian(f), x), hessian(plain)(x));
  EXPECT_EQ(f.compile_count(), 0);
}

TEST(Jit, ResultsAreNotOverwrittenByTheNextCall) {
  const auto f = jit([](const Tensor& x) { return std::pair(x * 2, x + 1); });
  const auto first = f(f64({1, 2}));
  const auto second = f(f64({3, 4}));
  EXPECT_THAT(to_doubles(first.first), testing::ElementsAre(2, 4));
  EXPECT_THAT(to_doubles(first.second), testing::ElementsAre(2, 3));
  EXPECT_THAT(to_doubles(second.first), testing::ElementsAre(6, 8));
}

// The state is written in place before an id turns out to be wrong.
TEST(Jit, AFailedRunLosesWhatWasGivenAwayAndNothingElse) {
  const auto f = jit(
      [](const Tensor& state, const Tensor& ids) {
        const Tensor next = state * 2;
        return std::pair(next, gather(next, ids));
      },
      {.donate = {0}});
  const auto ids = [](int32_t id) { return tensor<int32_t>(std::vector<int32_t>{id}, {1}); };
  const Tensor held = f64({1, 2, 3});
  const auto earlier = f(copy(held), ids(1));
  EXPECT_THROW(to_doubles(f(held, ids(7)).second), Error);
  EXPECT_THAT(to_doubles(held), ElementsAre(1, 2, 3));
  Tensor given = copy(held);
  const Buffer memory = given.buffer();
  EXPECT_THROW(to_doubles(f(std::move(given), ids(7)).second), Error);
  EXPECT_FALSE(given.defined());
  EXPECT_TRUE(memory.unique());  // the program holds on to nothing
  EXPECT_THAT(to_doubles(earlier.first), ElementsAre(2, 4, 6));
  EXPECT_THAT(to_doubles(earlier.second), ElementsAre(4));
  for (int i = 0; i < 3; ++i) {
    const auto [next, chosen] = f(copy(held), ids(2));
    EXPECT_THAT(to_doubles(next), ElementsAre(2, 4, 6));
    EXPECT_THAT(to_doubles(chosen), ElementsAre(6));
  }
}

TEST(Jit, DonatedArgumentsMayBeTakenOverAndOthersNever) {
  const auto f = jit([](const Tensor& x, const Tensor& y) { return x + y; }, {.donate = {0}});
  Tensor x = random_tensor({64}, 2);
  const Tensor kept = x;
  const std::vector<double> before = to_doubles(x);
  const Tensor y = random_tensor({64}, 3);
  const Tensor expected = x + y;
  expect_equal(f(x, y), expected);  // still held by `kept`, so that it is copied
  EXPECT_EQ(to_doubles(kept), before);
  Tensor own = random_tensor({64}, 2);
  expect_equal(f(std::move(own), y), expected);
}

TEST(Jit, ResultsMayBeArgumentsOrConstantsAndRepeat) {
  const auto f = jit([](const Tensor& x) {
    return std::vector<Tensor>{x, x, x * 1, full({2}, 7, Dtype::kF64),
                               transpose(reshape(x, {1, 2}))};
  });
  const Tensor x = f64({1, 2});
  const auto result = f(x);
  expect_equal(result[0], x);
  expect_equal(result[1], x);
  expect_equal(result[2], x);
  EXPECT_THAT(to_doubles(result[3]), testing::ElementsAre(7, 7));
  EXPECT_EQ(result[4].shape(), Shape({2, 1}));
}

TEST(Jit, StridedArgumentsAreRead) {
  const auto f = jit([](const Tensor& x) { return x * 2; });
  const Tensor x = random_tensor({3, 4}, 4);
  expect_equal(f(transpose(x)), transpose(x) * 2);
  expect_equal(f(transpose(random_tensor({3, 4}, 5))), transpose(random_tensor({3, 4}, 5)) * 2);
  EXPECT_EQ(f.compile_count(), 1);
}

// Calls f(thread) from four threads.
template <class F>
void from_threads(const F& f) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&f, i] { f(i); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(Jit, ThreadsCallOneFunctionAtOnce) {
  const auto square = jit([](const Tensor& x) { return x * x; });
  const auto f = jit(
      [&](const Tensor& x, const Tensor& y) {
        const Tensor table = matmul(expand_dims(sin(x), 1), expand_dims(square(y), 0));
        return std::pair(sum(cumsum(table, 0), {1}), sum(table));
      },
      {.tells = false});
  const auto plain = [](const Tensor& x, const Tensor& y) {
    const Tensor table = matmul(expand_dims(sin(x), 1), expand_dims(y * y, 0));
    return std::pair(sum(cumsum(table, 0), {1}), sum(table));
  };
  for (const bool same_shapes : {true, false}) {
    from_threads([&](int thread) {
      for (int round = 0; round < 25; ++round) {
        const auto seed = static_cast<uint64_t>(100 * thread + round);
        const Tensor x = random_tensor({same_shapes ? 40 : 41 + thread + 4 * (round % 3)}, seed);
        const auto [rows, total] = f(x, x);
        const auto [expected_rows, expected_total] = plain(x, x);
        expect_near(rows, expected_rows, 1e-11);
        expect_near(total, expected_total, 1e-11);
      }
    });
    EXPECT_EQ(f.compile_count(), same_shapes ? 1 : 13);
  }
}

TEST(Jit, ThreadsDonateToOneFunctionAtOnce) {
  const auto step =
      jit([](const Tensor& x, const Tensor& by) { return x * 2 + by; }, {.donate = {0}});
  from_threads([&](int thread) {
    Tensor x = full({64}, thread, Dtype::kF64);
    const Tensor kept = x;
    for (int round = 0; round < 20; ++round) {
      x = step(std::move(x), full({64}, -thread, Dtype::kF64));
    }
    expect_equal(x, kept);
  });
}

TEST(Jit, AFunctionMayCallItself) {
  using Recursive = std::function<Tensor(const Tensor&, int)>;
  Recursive call;
  const auto f =
      jit([&](const Tensor& x, int times) { return times == 0 ? x : call(x * 2, times - 1); });
  call = [&](const Tensor& x, int times) { return f(x, times); };
  EXPECT_EQ(item(f(f64(3), 4)), 48);
}

TEST(Jit, ShapeErrorsNameTheUsersLine) {
  const auto line = std::to_string(__LINE__ + 1);
  const auto f = jit([](const Tensor& x) { return matmul(x, random_tensor({3, 2}, 1)); });
  const std::string error = error_of([&] { f(random_tensor({2, 2}, 1)); });
  EXPECT_THAT(error, HasSubstr("matmul: inner dimensions differ: [2, 2] x [3, 2] (2 vs 3)"));
  EXPECT_THAT(error, HasSubstr("jit_test.cc:" + line));
}

}  // namespace
}  // namespace mstrain
