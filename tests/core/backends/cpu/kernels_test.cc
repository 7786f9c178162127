// Kernels at sizes beyond one tile, one block or one thread's chunk, over views and with several thread counts, against
// the reference backend.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/isa.h"
#include "core/base/log.h"
#include "core/base/rng.h"
#include "core/ir/fallback.h"
#include "core/ops/adamw.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "core/runtime/context.h"
#include "core/tensor/host.h"

namespace mstrain {
namespace {

Tensor random(const Shape& shape, uint64_t seed, double low = -1, double high = 1) {
  Rng rng(seed);
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (float& value : values) {
    value = static_cast<float>(rng.uniform(low, high));
  }
  return tensor<float>(values, shape);
}

Tensor random_ids(const Shape& shape, uint64_t limit, uint64_t seed) {
  Rng rng(seed);
  std::vector<int32_t> values(static_cast<size_t>(shape.elements()));
  for (int32_t& value : values) {
    value = static_cast<int32_t>(rng.below(limit));
  }
  return tensor<int32_t>(values, shape);
}

Tensors run(const char* op, const Tensors& inputs, const Attrs& attrs, Backend backend,
            int threads = 1) {
  Context context;
  context.backend = backend;
  context.threads = threads;
  const ContextScope scope(context);
  return apply(*find_op(op), inputs, attrs, SourceLocation::current());
}

void expect_near(const Tensor& expected, const Tensor& actual, double tolerance,
                 const std::string& what) {
  const std::vector<double> x = to_doubles(expected);
  const std::vector<double> y = to_doubles(actual);
  ASSERT_EQ(x.size(), y.size());
  double scale = 0.1;  // results that cancel to nothing
  for (double value : x) {
    scale = std::isfinite(value) ? std::max(scale, std::abs(value)) : scale;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] != y[i]) {
      ASSERT_NEAR(x[i], y[i], tolerance * (scale + std::abs(x[i]))) << what << " at " << i;
    }
  }
}

// The cpu backend with 1, 2 and 3 threads is near the reference, and with one thread count the same twice.
void expect_right(const char* op, const Tensors& inputs, const Attrs& attrs = {},
                  double tolerance = 2e-6) {
  const Tensors expected = run(op, inputs, attrs, Backend::kReference);
  for (int threads : {1, 2, 3}) {
    const Tensors actual = run(op, inputs, attrs, Backend::kCpu, threads);
    const Tensors again = run(op, inputs, attrs, Backend::kCpu, threads);
    for (size_t i = 0; i < expected.size(); ++i) {
      expect_near(expected[i], actual[i], tolerance,
                  fmt::format("{} output {}, {} threads", op, i, threads));
      EXPECT_EQ(to_doubles(actual[i]), to_doubles(again[i])) << op << " differs between two runs";
    }
  }
}

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

TEST(CpuKernels, LongSumsKeepTheirDigits) {
  const int64_t n = 4'000'000;
  const Tensor x = tensor<float>(std::vector<float>(static_cast<size_t>(n), 0.1F), {n});
  const double exact = static_cast<double>(n) * static_cast<double>(0.1F);
  for (int threads : {1, 2}) {
    const double sum =
        item(run("reduce_sum", {x}, {{"axes", Shape{0}}}, Backend::kCpu, threads)[0]);
    EXPECT_NEAR(sum / exact, 1, 1e-6);
    const double columns = to_doubles(run("reduce_sum", {reshape(x, {n / 4, 4})},
                                          {{"axes", Shape{0}}}, Backend::kCpu, threads)[0])[2];
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

Attrs product(bool transpose_a, bool transpose_b, const std::string& epilogue = {}) {
  Attrs attrs{
      {"dims", fmt::format("{},{}->ac", transpose_a ? "ba" : "ab", transpose_b ? "cb" : "bc")}};
  if (!epilogue.empty()) {
    attrs.set("epilogue", epilogue);
    attrs.set("scale", 0.3);
  }
  return attrs;
}

TEST(CpuKernels, ProductsOfViewsInEveryOrientation) {
  for (bool transpose_a : {false, true}) {
    for (bool transpose_b : {false, true}) {
      const Attrs attrs = product(transpose_a, transpose_b);
      const Tensor a = random(transpose_a ? Shape{70, 33} : Shape{33, 70}, 9);
      const Tensor b = random(transpose_b ? Shape{65, 70} : Shape{70, 65}, 10);
      expect_right("dot_general", {a, b}, attrs);
      expect_right("dot_general", {transpose(transpose(a) + 0), b}, attrs);
      expect_right("dot_general", {a, transpose(transpose(b) + 0)}, attrs);
      expect_right("dot_general", {a, b, random({65}, 11)},
                   product(transpose_a, transpose_b, "bias"));
      expect_right("dot_general", {cast(a, Dtype::kF64), cast(b, Dtype::kF64)}, attrs);
      // Every other row and column: no library takes it.
      const auto sparse = [](const Tensor& x) {
        return slice(slice(x, 0, 0, x.dim(0) - x.dim(0) % 2, 2), 1, 1, x.dim(1), 2);
      };
      const Tensor c = random({66, 70}, 12);
      expect_right("dot_general",
                   {sparse(transpose_a ? transpose(c) + 0 : c),
                    sparse(transpose_b ? random({64, 71}, 13) : random({70, 64}, 13))},
                   attrs);
    }
  }
}

// The product with operand `which` packed beforehand, from memory that it has left; false where the kernel takes it as it
// lies.
bool check_packed(const Tensors& inputs, const Attrs& attrs, double tolerance, size_t which = 1) {
  const OpDef& op = *find_op("dot_general");
  const Tensor expected = run("dot_general", inputs, attrs, Backend::kReference)[0];
  std::vector<ViewType> views;
  std::vector<void*> addresses;
  for (const Tensor& input : inputs) {
    views.push_back(input.view());
    addresses.push_back(input.data());
  }
  const ViewType out = ViewType::dense(expected.type());
  for (int threads : {1, 2}) {
    const Kernel kernel =
        find_kernel(Backend::kCpu, op)
            ->prepare({op, attrs, views, std::span(&out, 1), threads, uint32_t{1} << which});
    if (kernel.packed.input < 0) {
      return false;
    }
    EXPECT_EQ(kernel.packed.input, static_cast<int>(which));
    const Tensor packed = tensor<uint8_t>(
        std::vector<uint8_t>(static_cast<size_t>(kernel.packed.bytes)), {kernel.packed.bytes});
    const Tensor workspace =
        tensor<uint8_t>(std::vector<uint8_t>(static_cast<size_t>(kernel.workspace_bytes)),
                        {kernel.workspace_bytes});
    kernel.packed.pack(inputs[which].data(), packed.data());
    addresses[which] = nullptr;
    // Where the kernel may, it adds to what lies in the result.
    const Tensor result = copy(kernel.in_place.empty() ? expected : inputs.back());
    if (!kernel.in_place.empty()) {
      addresses.back() = result.data();
    }
    void* const to = result.data();
    kernel.run({addresses, std::span(&to, 1), workspace.data(), packed.data()});
    expect_near(expected, result, tolerance, fmt::format("packed, {} threads", threads));
    addresses[which] = inputs[which].data();
  }
  return true;
}

TEST(CpuKernels, ProductsWithAPackedMatrix) {
  for (bool transpose_b : {false, true}) {
    for (int64_t rows : {1, 7, 300}) {
      for (Dtype dtype : {Dtype::kF32, Dtype::kBF16}) {
        const double tolerance = dtype == Dtype::kF32 ? 2e-6 : 1e-2;
        // One row reads a matrix only once, and 16 bits are f32 where the processor has no products of them.
        const bool must = rows > 1 && dtype == Dtype::kF32;
        const auto check = [&](const Tensors& inputs, const std::string& epilogue) {
          EXPECT_TRUE(check_packed(inputs, product(false, transpose_b, epilogue), tolerance) ||
                      !must)
              << rows << " rows, epilogue '" << epilogue << "'";
        };
        const Tensor a = cast(random({rows, 70}, 20), dtype);
        const Tensor b = cast(random(transpose_b ? Shape{65, 70} : Shape{70, 65}, 21), dtype);
        const Tensor bias = cast(random({65}, 22), dtype);
        check({a, b}, "");
        check({a, b, bias}, "bias");
        if (dtype == Dtype::kF32) {
          const Tensor addend = random({rows, 65}, 23);
          check({a, b, addend}, "add");
          check({a, b, bias, addend}, "bias add");
          check({a, b, addend}, "scale add");
          for (const char* activation : {"gelu", "gelu_tanh", "relu", "silu"}) {
            check({a, b, bias}, fmt::format("bias {}", activation));
          }
        }
      }
      // The columns of the result are those of the first operand.
      Attrs turned = product(false, transpose_b);
      turned.set("dims", std::string(transpose_b ? "ab,cb->ca" : "ab,bc->ca"));
      const Tensor b = random(transpose_b ? Shape{rows, 70} : Shape{70, rows}, 24);
      // oneDNN, which makes it with AVX-512, may take one that is transposed as it lies.
      EXPECT_TRUE(check_packed({random({65, 70}, 25), b}, turned, 2e-6, 0) || rows == 1 ||
                  isa() >= Isa::kAvx512);
    }
  }
}

// Rows enough that kernels pack b themselves.
TEST(CpuKernels, ProductsOfManyRows) {
  for (bool transpose_b : {false, true}) {
    const Tensor a = random({2100, 24}, 24);
    const Tensor b = random(transpose_b ? Shape{40, 24} : Shape{24, 40}, 25);
    expect_right("dot_general", {a, b}, product(false, transpose_b));
    expect_right("dot_general", {a, b, random({40}, 26)}, product(false, transpose_b, "bias"));
  }
}

// Products that are made in parts: of columns where b is large, of rows too where a is transposed.
TEST(CpuKernels, ProductsInParts) {
  const Tensor b = random({2800, 450}, 28);
  const Tensor bias = random({450}, 29);
  const Tensor addend = random({5, 450}, 30);
  for (bool transpose_a : {false, true}) {
    const Tensor a = random(transpose_a ? Shape{2800, 5} : Shape{5, 2800}, 27);
    expect_right("dot_general", {a, b}, product(transpose_a, false));
    expect_right("dot_general", {a, b, bias}, product(transpose_a, false, "bias"));
    expect_right("dot_general", {a, b, bias, addend}, product(transpose_a, false, "bias add"));
    expect_right("dot_general", {a, b, bias}, product(transpose_a, false, "bias relu"));
  }
  const Attrs transposed = product(true, false);
  expect_right("dot_general", {random({9, 6200}, 31), random({9, 11}, 32)}, transposed);
  expect_right("dot_general", {random({2800, 3100}, 33), random({2800, 3}, 34)}, transposed);
}

TEST(CpuKernels, BatchedProductsOfHeadsAndSharedMatrices) {
  const Attrs attrs{{"dims", std::string("abcd,abed->abce")}};
  const Tensor q = transpose(random({3, 20, 4, 16}, 14), {0, 2, 1, 3});
  const Tensor k = transpose(random({3, 25, 4, 16}, 15), {0, 2, 1, 3});
  expect_right("dot_general", {q, k}, attrs);
  expect_right("dot_general", {q, broadcast_to(random({25, 16}, 16), {3, 4, 25, 16})}, attrs);
  expect_right("dot_general",
               {random({3, 4, 20, 16}, 17), broadcast_to(random({25, 16}, 18), {3, 4, 25, 16})},
               attrs);
  expect_right("dot_general", {broadcast_to(random({20, 16}, 19), {3, 4, 20, 16}), k}, attrs);
  expect_right("dot_general", {cast(q, Dtype::kF64), cast(k, Dtype::kF64)}, attrs);
}

// Every arrangement in which heads are a dim of an operand or of the result.
TEST(CpuKernels, ProductsWhoseHeadsAreADim) {
  const auto expect_product = [](const char* dims, const Shape& a, const Shape& b,
                                 const std::string& epilogue = {}, const Tensors& terms = {}) {
    Tensors inputs{random(a, 40), random(b, 41)};
    inputs.insert(inputs.end(), terms.begin(), terms.end());
    Attrs attrs{{"dims", std::string(dims)}};
    if (!epilogue.empty()) {
      attrs.set("epilogue", epilogue);
    }
    expect_right("dot_general", inputs, attrs);
  };
  const Tensor bias = random({3, 4, 20}, 42);
  const Tensor sum = random({2, 37, 3, 4, 20}, 43);
  expect_product("abc,cdef->abdef", {2, 37, 40}, {40, 3, 4, 20});
  expect_product("abc,cdef->abdef", {2, 37, 40}, {40, 3, 4, 20}, "bias add", {bias, sum});
  expect_product("abc,decf->abdef", {2, 37, 40}, {3, 4, 40, 20}, "bias add", {bias, sum});
  expect_product("abc,dec->abde", {2, 37, 40}, {4, 20, 40});
  expect_product("abde,cde->abc", {2, 37, 4, 20}, {50, 4, 20});
  expect_product("adbe,cde->abc", {2, 4, 37, 20}, {50, 4, 20}, "bias", {random({50}, 44)});
  expect_product("abc,abdef->cdef", {2, 37, 40}, {2, 37, 3, 4, 20});
  expect_product("abde,acde->adbc", {2, 37, 4, 20}, {2, 41, 4, 20});
  expect_product("adbc,acde->abde", {2, 4, 37, 41}, {2, 41, 4, 20});
  expect_product("adbc,acde->aebd", {2, 4, 37, 41}, {2, 41, 4, 20});
}

// q, k, v are slices of one [b, t, 3, h, d] tensor.
Tensors heads(int64_t b, int64_t t, int64_t h, int64_t d, uint64_t seed) {
  const Tensor all = random({b, t, 3, h, d}, seed);
  return {select(all, 2, 0), select(all, 2, 1), select(all, 2, 2)};
}

TEST(CpuKernels, AttentionOverSlicesOfOneTensor) {
  for (bool causal : {false, true}) {
    for (int64_t t : {1, 64, 150}) {
      const Attrs attrs{{"causal", causal}, {"scale", 0.3}};
      // One head: queries and keys are spread over threads; six: heads are.
      for (int64_t h : {1, 3}) {
        Tensors inputs = heads(h == 1 ? 1 : 2, t, h, 20, 20);
        expect_right("attention", inputs, attrs, 5e-6);
        const Tensors out = run("attention", inputs, attrs, Backend::kReference);
        inputs.insert(inputs.begin(), random(out[0].shape(), 21));
        inputs.insert(inputs.end(), {out[0], out[1]});
        expect_right("attention_grad", inputs, attrs, 5e-6);
      }
    }
  }
}

TEST(CpuKernels, AttentionOfFewerQueriesOfOtherWidthWithBias) {
  for (bool causal : {false, true}) {
    for (const Shape& bias :
         {Shape{1, 1, 70, 133}, Shape{2, 1, 70, 133}, Shape{1, 3, 70, 133}, Shape{2, 3, 70, 133}}) {
      const Attrs attrs{{"causal", causal}, {"scale", -0.4}};
      Tensors inputs{random({2, 70, 3, 24}, 22), random({2, 133, 3, 24}, 23),
                     random({2, 133, 3, 40}, 24), random(bias, 25)};
      expect_right("attention", inputs, attrs, 5e-6);
      const Tensors out = run("attention", inputs, attrs, Backend::kReference);
      inputs.insert(inputs.begin(), random(out[0].shape(), 26));
      inputs.insert(inputs.end(), {out[0], out[1]});
      expect_right("attention_grad", inputs, attrs, 5e-6);
    }
  }
}

// A part of a larger draw, whose rows begin anywhere in the generator's blocks of four words.
TEST(CpuKernels, AttentionWithDropoutDrawsWhatTheReferenceDraws) {
  for (const auto& [t, s, causal] :
       {std::tuple(1, 1, false), {64, 64, true}, {150, 150, true}, {70, 133, false}}) {
    for (const int64_t h : {1, 3}) {  // one head: queries and keys are spread over threads
      const Attrs attrs{{"causal", causal},
                        {"scale", 0.3},
                        {"rate", 0.25},
                        {"site", int64_t{12345}},
                        {"whole", Shape{5, h + 1, t + 2, s + 3}}};
      const Tensor key = tensor<uint32_t>(std::vector<uint32_t>{17, 4}, {2});
      const Tensor offset = tensor<int32_t>(std::vector<int32_t>{3, 1, 2, 3}, {4});
      Tensors inputs{random({2, t, h, 20}, 51), random({2, s, h, 20}, 52),
                     random({2, s, h, 24}, 53), key, offset};
      expect_right("attention_dropout", inputs, attrs, 5e-6);
      const Tensors out = run("attention_dropout", inputs, attrs, Backend::kReference);
      inputs.insert(inputs.begin(), random(out[0].shape(), 54));
      inputs.insert(inputs.end(), {out[0], out[1]});
      expect_right("attention_dropout_grad", inputs, attrs, 5e-6);
    }
  }
}

TEST(CpuKernels, AttentionOfMoreQueriesThanKeysLeavesTheFirstOnesEmpty) {
  const Attrs attrs{{"causal", true}, {"scale", 0.2}};
  Tensors inputs{random({1, 90, 2, 16}, 27), random({1, 20, 2, 16}, 28),
                 random({1, 20, 2, 16}, 29)};
  expect_right("attention", inputs, attrs, 5e-6);
  const Tensors out = run("attention", inputs, attrs, Backend::kReference);
  inputs.insert(inputs.begin(), random(out[0].shape(), 30));
  inputs.insert(inputs.end(), {out[0], out[1]});
  expect_right("attention_grad", inputs, attrs, 5e-6);
}

// As in generation: few queries over a cache whose end a bias hides, or all of it.
TEST(CpuKernels, AttentionOfAFewQueriesOverPartOfACache) {
  for (int64_t t : {1, 3, 4, 5}) {
    for (int64_t seen : {0, 1, 17, 90, 133}) {
      std::vector<float> hidden;
      for (int64_t j = 0; j < 2 * 133; ++j) {
        const int64_t last = j < 133 ? seen : 133;
        const bool gap = j % 133 == 5;
        hidden.push_back(j % 133 < last && !gap ? 0.25F : -std::numeric_limits<float>::infinity());
      }
      const Tensor bias = copy(broadcast_to(tensor<float>(hidden, {2, 1, 1, 133}), {2, 1, t, 133}));
      const Tensor keys = slice(random({2, 140, 3, 24}, 33), 1, 4, 137);
      const Tensor values = slice(random({2, 133, 3, 48}, 34), 3, 8, 40);
      expect_right("attention", {random({2, t, 3, 24}, 32), keys, values, bias},
                   {{"causal", false}, {"scale", 0.3}}, 5e-6);
      expect_right("attention", {random({2, t, 3, 24}, 32), keys, values},
                   {{"causal", true}, {"scale", 0.3}}, 5e-6);
    }
  }
}

TEST(CpuKernels, AttentionIsTheSameForEveryThreadCount) {
  const Attrs attrs{{"causal", true}, {"scale", 0.25}};
  Tensors inputs = heads(1, 200, 1, 32, 31);
  const Tensors one = run("attention", inputs, attrs, Backend::kCpu, 1);
  inputs.insert(inputs.begin(), random(one[0].shape(), 32));
  inputs.insert(inputs.end(), {one[0], one[1]});
  const Tensors grads = run("attention_grad", inputs, attrs, Backend::kCpu, 1);
  for (int threads : {2, 3, 5}) {
    const Tensors again = run("attention_grad", inputs, attrs, Backend::kCpu, threads);
    for (size_t i = 0; i < grads.size(); ++i) {
      EXPECT_EQ(to_doubles(grads[i]), to_doubles(again[i])) << threads;
    }
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
        run("layer_norm", {x, weight, weight}, {{"eps", 1e-5}}, Backend::kReference);
    // One element has no variance: its reciprocal is 1 / sqrt(eps).
    expect_right("layer_norm", {x, weight, weight}, {{"eps", 1e-5}}, 1e-5);
    if (n > 1) {
      expect_right("layer_norm_grad", {g, x, weight, norm[1], norm[2]}, {}, 1e-5);
    }
    const Tensor targets = random_ids({rows}, static_cast<uint64_t>(n), 36);
    const Attrs loss{{"ignore_index", int64_t{0}}, {"label_smoothing", 0.1}};
    expect_right("cross_entropy", {x, targets}, loss);
    const Tensors out = run("cross_entropy", {x, targets}, loss, Backend::kReference);
    expect_right("cross_entropy_grad", {random({rows}, 37), x, targets, out[1]}, loss);
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

TEST(CpuKernels, GatherAndScatterAddOfRepeatedRows) {
  const Tensor x = random({50, 77}, 39);
  const Tensor ids = random_ids({40, 25}, 50, 40);
  expect_right("gather", {x, ids}, {{"axis", int64_t{0}}});
  expect_right("scatter_add", {x, ids, random({40, 25, 77}, 41)}, {{"axis", int64_t{0}}}, 1e-5);
  expect_right("scatter_add", {random({6, 50, 9}, 42), ids, random({6, 40, 25, 9}, 43)},
               {{"axis", int64_t{1}}}, 1e-5);
}

TEST(CpuKernels, IdsOfTheirOwnForEveryElementAndRowsThatAreReplaced) {
  const Tensor x = random({5, 300, 37}, 41);
  const Tensor ids = random_ids({5, 70, 37}, 300, 42);
  const Tensor updates = random({5, 70, 37}, 43);
  const Tensor rows = random_ids({400}, 300, 44);
  const Tensor replaced = random({5, 400, 37}, 45);
  const Attrs axis{{"axis", int64_t{1}}};
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kI64}) {
    const auto as = [&](const Tensor& t) { return cast(t * 100, dtype); };
    expect_right("take_along", {as(x), ids}, axis, 0);
    expect_right("scatter_add_along", {as(x), ids, as(updates)}, axis);
    expect_right("scatter_set", {as(x), rows, as(replaced)}, axis, 0);
    expect_right("scatter_add", {as(x), rows, as(replaced)}, axis);
  }
}

TEST(CpuKernels, SumsOfSixteenBitsAtIdsAreRoundedOnce) {
  const Tensor ones = full({2000, 3}, 1, Dtype::kBF16);
  const Tensor x = full({2, 3}, 256, Dtype::kBF16);  // each 1 alone would be lost beside it
  for (const char* op : {"scatter_add", "scatter_add_along"}) {
    const bool along = std::string_view(op).ends_with("along");
    const Tensor ids = zeros({Dtype::kI32, along ? Shape{2000, 3} : Shape{2000}});
    for (int threads : {1, 2}) {
      const Tensor y = run(op, {x, ids, ones}, {{"axis", int64_t{0}}}, Backend::kCpu, threads)[0];
      EXPECT_EQ(to_doubles(y), (std::vector<double>{2256, 2256, 2256, 256, 256, 256})) << op;
    }
  }
}

// Few different values, so that many are equal, with the ones that comparisons treat apart.
Tensor numbers_to_order(const Shape& shape, Dtype dtype, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (float& value : values) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const float kRare[] = {std::nanf(""), kInfinity, -kInfinity, 0.0F, -0.0F};
    value = rng.below(8) == 0 && is_floating(dtype)
                ? kRare[rng.below(5)]
                : static_cast<float>(static_cast<int>(rng.below(100)) - 50) / 4;
  }
  return cast(tensor<float>(values, shape), dtype);
}

TEST(CpuKernels, OrderOfLongAndShortLinesOfEveryType) {
  for (const Dtype dtype : kAllDtypes) {
    if (dtype == Dtype::kBool) {
      continue;
    }
    for (const auto& [shape, axis] : std::vector<std::pair<Shape, int64_t>>{
             {{3, 700}, 1}, {{700, 3}, 0}, {{2, 33, 5}, 1}, {{1500}, 0}}) {
      const Tensor x = numbers_to_order(shape, dtype, static_cast<uint64_t>(axis) + 1);
      for (const bool descending : {false, true}) {
        const Attrs attrs{{"axis", axis}, {"descending", descending}};
        const std::vector<double> expected =
            to_doubles(run("argsort", {x}, attrs, Backend::kReference)[0]);
        EXPECT_EQ(to_doubles(run("argsort", {x}, attrs, Backend::kCpu, 2)[0]), expected)
            << name_of(dtype);
        const Tensor sorted = run("sort", {x}, attrs, Backend::kCpu, 2)[0];
        const Tensor slow = run("sort", {x}, attrs, Backend::kReference)[0];
        EXPECT_EQ(std::memcmp(sorted.data(), slow.data(), static_cast<size_t>(slow.type().bytes())),
                  0)
            << name_of(dtype);
      }
    }
    const Tensor x = numbers_to_order({2, 900}, dtype, 9);
    for (const int64_t k : {1, 5, 50, 112, 113, 900}) {
      const Tensors expected = run("topk", {x}, {{"k", k}}, Backend::kReference);
      const Tensors actual = run("topk", {x}, {{"k", k}}, Backend::kCpu, 2);
      EXPECT_EQ(to_doubles(actual[1]), to_doubles(expected[1])) << name_of(dtype) << ", k " << k;
      EXPECT_EQ(std::memcmp(actual[0].data(), expected[0].data(),
                            static_cast<size_t>(expected[0].type().bytes())),
                0);
    }
  }
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
    fallback_kernel(Backend::kCpu, {*find_op("topk"), attrs, std::span(&in, 1), out});
    fallback_kernel(Backend::kReference, {*find_op("topk"), attrs, std::span(&in, 1), out});
  }
  set_log_sink(before);
  EXPECT_EQ(
      told,
      (std::vector<std::string>{
          "topk: the cpu backend has no kernel for f32; the reference, which is slow, runs it",
          "topk: the cpu backend has no kernel for i32; the reference, which is slow, runs it"}));
}

TEST(CpuKernels, WrongIdsAreNamedAndNothingIsWritten) {
  const Tensor ids = tensor<int32_t>(std::vector<int32_t>{3, 0, 70}, {3});
  try {
    run("gather", {random({65, 4}, 44), ids}, {{"axis", int64_t{0}}}, Backend::kCpu, 2);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("gather: id 70 at position 2 is outside of [0, 65)"),
              std::string::npos)
        << error.what();
  }
  EXPECT_THROW(run("cross_entropy", {random({3, 65}, 45), ids},
                   {{"ignore_index", int64_t{-1}}, {"label_smoothing", 0.0}}, Backend::kCpu, 2),
               Error);
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
