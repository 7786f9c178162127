// Kernels at sizes beyond one tile, one block or one thread's chunk, over views and with several thread counts, against
// the reference backend.
#include <functional>
#include <limits>

#include "core/base/log.h"
#include "core/ir/fallback.h"
#include "core/ops/adamw.h"
#include "core/ops/elementwise.h"
#include "core/ops/norm.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/tensor/jit.h"
#include "tests/core/backends/cpu/against_reference.h"
#include "tests/core/base/message_of.h"

namespace mstrain {
namespace {

TEST(CpuKernels, ReductionsOverAnyAxesOfLargeTensors) {
  const Tensor x = random({37, 3, 41, 70}, 1);
  for (const Shape& axes :
       {Shape{0}, Shape{1}, Shape{3}, Shape{0, 2}, Shape{1, 3}, Shape{0, 1, 2, 3}, Shape{0, 3}}) {
    for (const char* op : {"reduce_sum", "reduce_max", "reduce_min"}) {
      expect_right(op, {x}, {{"axes", axes}});
    }
  }
  expect_right("reduce_sum", {random({3000, 66}, 2)}, {{"axes", Shape{0}}});
  expect_right("reduce_sum", {cast(x, Dtype::kBF16)}, {{"axes", Shape{0, 2}}}, 1e-2);
  expect_right("sum_squares", {x});
  expect_right("argmax", {x}, {{"axis", int64_t{2}}});
  expect_right("cumsum", {x}, {{"axis", int64_t{0}}, {"reverse", true}});
}

// Of both a number a row and a parameter, where there are as many rows as numbers in each.
TEST(CpuKernels, AnOperandOfRowsThatIsAParameterTooIsReadAsEach) {
  constexpr int64_t kRows = 64;
  const Tensor x = random({kRows, kRows}, 61), bias = random({kRows}, 62);
  const Tensor weights = random({kRows, 3}, 63, 0.5, 2);
  const auto add = [](const Tensor& x, const Tensor& weight) {
    return x + expand_dims(max(x, {1}) * weight, 1);
  };
  const std::function<Tensor(const Tensor&, const Tensor&)> groups[] = {
      [&](const Tensor& x, const Tensor& weights) {
        const Tensor weight = select(weights, 1, 1);
        return layer_norm(tanh(add(x, weight)), weight, bias);
      },
      [&](const Tensor& x, const Tensor& weights) {
        const Tensor weight = select(weights, 1, 1);
        return add(layer_norm(x, weight, bias), weight);
      }};
  for (const auto& group : groups) {
    Context context;
    context.backend = backend_named("cpu");
    context.threads = 1;
    const ContextScope scope(context);
    expect_near(group(x, weights), jit(group)(x, weights), 1e-5, "fused");
  }
}

// Of a norm's weight: whatever its group computes beside them, and so however many rows lie in a tile.
TEST(CpuKernels, SumsOverRowsHaveTheSameBitsInAnyGroup) {
  Context context;
  context.threads = 1;
  const ContextScope scope(context);
  for (const int64_t n : {16, 100, 128, 384}) {
    const Shape shape{300, n};
    const Tensors inputs{random(shape, 1), random(shape, 2), random(shape, 3), random({n}, 4),
                         random({300}, 5, 0.5, 2)};
    // Gradients through a norm of in[2] with the weight in[3].
    const auto through = [](const Tensor& g, const Tensors& in) {
      return apply(*find_op("rms_norm_grad"), Tensors{g, in[2], in[3], in[4]}, Attrs(),
                   SourceLocation::current());
    };
    const std::function<Tensors(const Tensors&)> groups[] = {
        [&](const Tensors& in) { return through(in[0] * in[1], in); },
        [&](const Tensors& in) { return through(in[0] * in[1] + exp(in[0]), in); },
        [&](const Tensors& in) {
          const Tensor g = in[0] * in[1];
          const Tensors out = through(g, in);
          return Tensors{out[0] + in[0], out[1], abs(out[0]), tanh(in[1]) * g};
        }};
    for (const auto& group : groups) {
      const Tensors alone = group(inputs);
      const Tensors fused = jit(group)(inputs);
      EXPECT_EQ(to_vector<float>(fused[1]), to_vector<float>(alone[1])) << "rows of " << n;
    }
  }
}

TEST(CpuKernels, LongSumsKeepTheirDigits) {
  const int64_t n = 4'000'000;
  const Tensor x = tensor<float>(std::vector<float>(static_cast<size_t>(n), 0.1F), {n});
  const double exact = static_cast<double>(n) * static_cast<double>(0.1F);
  for (int threads : {1, 2}) {
    const double sum =
        item(run("reduce_sum", {x}, {{"axes", Shape{0}}}, backend_named("cpu"), threads)[0]);
    EXPECT_NEAR(sum / exact, 1, 1e-6);
    const double columns =
        to_doubles(run("reduce_sum", {reshape(x, {n / 4, 4})}, {{"axes", Shape{0}}},
                       backend_named("cpu"), threads)[0])[2];
    EXPECT_NEAR(columns / (exact / 4), 1, 3e-6);
  }
}

TEST(CpuKernels, ElementwiseOverViews) {
  const Tensor x = random({70, 50, 30}, 3);
  const Tensor y = random({30, 50, 70}, 4, 0.5, 2);
  const Tensor row = broadcast_to(random({30}, 5), {70, 50, 30});
  const Tensor column = broadcast_to(random({70, 1, 1}, 6), {70, 50, 30});
  const Tensor scalar_view = broadcast_to(random({}, 7), {70, 50, 30});
  const Tensor turned = transpose(y, {2, 1, 0});
  const Tensor wide = slice(random({70, 50, 61}, 8), 2, 1, 61, 2);
  for (const Tensor& other :
       {y.shape() == x.shape() ? y : turned, row, column, scalar_view, wide}) {
    expect_right("mul", {x, other});
    expect_right("sub", {other, x});
  }
  expect_right("where", {greater(turned, 1), row, x});
  expect_right("tanh", {transpose(x, {1, 0, 2})});
  expect_right("add", {flip(x, {0, 2}), x});
  for (const Shape& axes : {Shape{2, 1, 0}, Shape{1, 0, 2}, Shape{0, 2, 1}, Shape{2, 0, 1}}) {
    expect_right("copy", {transpose(x, axes)});
    expect_right("copy", {transpose(cast(x, Dtype::kF64), axes)});
    expect_right("copy", {transpose(cast(x, Dtype::kF16), axes)});
  }
}

TEST(CpuKernels, RowsOfManyLengths) {
  for (int64_t n : {1, 15, 65, 1030, 5000}) {
    const int64_t rows = 150000 / n / 4 + 3;
    const Tensor x = random({rows, n}, 33, -4, 4);
    const Tensor g = random({rows, n}, 34);
    const Tensor weight = random({n}, 35);
    expect_right("softmax", {x});
    expect_right("log_softmax", {x});
    expect_right("softmax_grad", {x, g}, {}, 1e-5);
    const Tensors norm =
        run("layer_norm", {x, weight, weight}, {{"eps", 1e-5}}, backend_named("reference"));
    // One element has no variance: its reciprocal is 1 / sqrt(eps).
    expect_right("layer_norm", {x, weight, weight}, {{"eps", 1e-5}}, 1e-5);
    if (n > 1) {
      expect_right("layer_norm_grad", {g, x, weight, norm[1], norm[2]}, {}, 1e-5);
    }
    const Tensor targets = random_ids({rows}, static_cast<uint64_t>(n), 36);
    const Attrs loss{{"ignore_index", int64_t{0}}, {"label_smoothing", 0.1}};
    expect_right("cross_entropy", {x, targets}, loss);
    const Tensors out = run("cross_entropy", {x, targets}, loss, backend_named("reference"));
    expect_right("cross_entropy_grad", {random({rows}, 37), x, targets, out[1]}, loss);
  }
}

// Scores that a mask leaves no number in the first kilobytes of a row.
TEST(CpuKernels, SoftmaxOfRowsThatBeginWithNothing) {
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  for (const int64_t n : {1030, 2050, 3000}) {
    std::vector<float> values(static_cast<size_t>(3 * n), kNothing);
    const auto row = [&](int64_t i) { return values.begin() + i * n; };
    row(0)[n - 1] = 1;
    std::fill(row(1) + 1024, row(1) + n, 0.5F);
    row(2)[0] = 2;
    const Tensor x = tensor<float>(values, {3, n});
    const Tensor targets =
        tensor<int32_t>(std::vector<int32_t>{static_cast<int32_t>(n - 1), 1025, 0}, {3});
    const Attrs loss{{"ignore_index", int64_t{-1}}, {"label_smoothing", 0.0}};
    for (const Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kBF16}) {
      expect_right("softmax", {cast(x, dtype)});
      expect_right("log_softmax", {cast(x, dtype)});
      expect_right("cross_entropy", {cast(x, dtype), targets}, loss);
    }
    // A row of nothing alone, and one that holds what is no number.
    std::fill(row(0), row(1), kNothing);
    row(1)[3] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<double> logs = to_doubles(
        run("log_softmax", {tensor<float>(values, {3, n})}, {}, backend_named("cpu"))[0]);
    for (int64_t i = 0; i < 2 * n; ++i) {
      ASSERT_TRUE(std::isnan(logs[static_cast<size_t>(i)])) << n << " " << i;
    }
  }
}

// Short ones are made several at a time.
TEST(CpuKernels, SoftmaxOfARowIsTheSameBesideOthers) {
  for (int64_t n : {1, 2, 3, 7, 8, 15, 16, 17}) {
    const Tensor x = random({70, n}, 51, -5, 5), g = random({70, n}, 52);
    for (const char* op : {"softmax", "log_softmax", "softmax_grad", "log_softmax_grad"}) {
      const bool grad = std::string_view(op).ends_with("grad");
      const auto made = [&](const Tensor& x, const Tensor& g) {
        return to_doubles(run(op, grad ? Tensors{x, g} : Tensors{x}, {}, backend_named("cpu"))[0]);
      };
      const std::vector<double> together = made(x, g);
      for (const int64_t row : {0, 33, 69}) {
        const auto one = [&](const Tensor& all) { return slice(all, 0, row, row + 1, 1) + 0; };
        const auto first = together.begin() + row * n;
        EXPECT_EQ(made(one(x), one(g)), std::vector<double>(first, first + n)) << op << " " << n;
      }
    }
  }
}

TEST(CpuKernels, CrossEntropyOfScoresThatGrowAlongTheRow) {
  const int64_t n = 4000;
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) {
    values.push_back(static_cast<float>(i) * 0.05F - 100.0F);
  }
  expect_right("cross_entropy", {tensor<float>(values, {1, n}), random_ids({1}, 4000, 38)},
               {{"ignore_index", int64_t{-1}}, {"label_smoothing", 0.0}});
}

TEST(CpuKernels, TheReferenceInPlaceOfAMissingKernelIsToldOnceForAnOperationAndType) {
  std::vector<std::string> told;
  const LogSink before = set_log_sink([&](LogLevel level, std::string_view message) {
    if (level == LogLevel::kWarning) {
      told.emplace_back(message);
    }
  });
  const Attrs attrs{{"k", int64_t{1}}};
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF32, Dtype::kI32, Dtype::kF32}) {
    const ViewType in = ViewType::dense({dtype, {4}});
    const ViewType out[] = {ViewType::dense({dtype, {1}}), ViewType::dense({Dtype::kI32, {1}})};
    fallback_kernel(backend_named("cpu"), {*find_op("topk"), attrs, std::span(&in, 1), out});
    EXPECT_EQ(error_of([&] {
                fallback_kernel(backend_named("reference"),
                                {*find_op("topk"), attrs, std::span(&in, 1), out});
              }),
              fmt::format("topk: the reference back end has no kernel for {}, and leaves nothing "
                          "to another",
                          name_of(dtype)));
  }
  set_log_sink(before);
  EXPECT_EQ(
      told,
      (std::vector<std::string>{
          "topk: the cpu backend has no kernel for f32; the reference, which is slow, runs it",
          "topk: the cpu backend has no kernel for i32; the reference, which is slow, runs it"}));
}

TEST(CpuKernels, AdamwAndRandomOverSeveralChunks) {
  const Shape shape{300, 401};
  const auto number = [](float value) { return tensor<float>(std::vector<float>{value}, {}); };
  expect_right("adamw",
               {random(shape, 46), random(shape, 47), random(shape, 48), random(shape, 49, 0, 1),
                number(0.01F), number(0.5F), number(0.3F), number(0.2F)},
               {{"beta1", 0.9},
                {"beta2", 0.99},
                {"eps", 1e-8},
                {"weight_decay", 0.1},
                {"decayed", int64_t{1}}});
  const Tensor keys = tensor<uint32_t>(std::vector<uint32_t>{1, 2, 3, 4}, {2, 2});
  for (const char* kind : {"uniform", "normal"}) {
    expect_right("random", {keys},
                 {{"kind", std::string(kind)},
                  {"dtype", Dtype::kF32},
                  {"shape", Shape{9001}},
                  {"site", int64_t{-5}}});
  }
  expect_right("random", {keys},
               {{"kind", std::string("bits")},
                {"dtype", Dtype::kU32},
                {"shape", Shape{9001}},
                {"site", int64_t{-5}}},
               0);
}

}  // namespace
}  // namespace mstrain
