// Attention as CUDA text, run by the emulator, against the reference back end.
#include <gtest/gtest.h>

#include "core/ops/attention.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "core/transform/grad.h"
#include "tests/conformance/cases.h"
#include "tests/core/backends/cuda/emulated.h"

namespace mstrain::cuda {
namespace {

struct Form {
  int64_t b, t, s, heads, key_heads, d;
  bool causal = false;
  int64_t window = 0;
  Dtype dtype = Dtype::kBF16;
  std::optional<Shape> bias = {};
  int64_t buckets = 0, max_distance = 16;
  bool bidirectional = false, masked = false, segmented = false, placed = false;
  double dropout = 0;
  Shape axes = {0, 1, 2, 3};  // the order in which q, k and v lie in memory
};

// Gradients of the result's sum with random weights: of q, k, v and what is learned beside them; then the result.
Tensors results_of(const Form& form) {
  const auto make = [&](int64_t length, int64_t heads, uint64_t seed) {
    const Shape shape{form.b, length, heads, form.d};
    Shape lying = shape, back = shape;
    for (int i = 0; i < 4; ++i) {
      lying[i] = shape[static_cast<int>(form.axes[i])];
      back[static_cast<int>(form.axes[i])] = i;
    }
    return transpose(cast(random_like(filled({Dtype::kF32, lying}, 0), seed) * 2, form.dtype),
                     back);
  };
  const Tensor g = make(form.t, form.heads, 4);
  const auto make_numbers = [&](const Shape& shape, uint64_t seed) {
    return cast(random_like(filled({Dtype::kF32, shape}, 0), seed), form.dtype);
  };
  Tensors x{make(form.t, form.heads, 1), make(form.s, form.key_heads, 2),
            make(form.s, form.key_heads, 3)};
  if (form.bias) {
    x.push_back(make_numbers(*form.bias, 5));
  }
  if (form.buckets > 0) {
    x.push_back(make_numbers({form.buckets, form.heads}, 6));
  }
  const auto every = [](int64_t length, int64_t n) {  // 0, 0, …, 1, 1, …
    return cast(floor(cast(iota({length}, 0), Dtype::kF32) / static_cast<double>(n)), Dtype::kI32);
  };
  const auto result = [&](const Tensors& x) {
    AttentionOptions options{.causal = form.causal, .window = form.window};
    size_t next = 3;
    if (form.bias) {
      options.bias = x[next++];
    }
    if (form.buckets > 0) {
      options.relative = RelativeBias{x[next++], form.max_distance, form.bidirectional};
    }
    if (form.masked) {  // the second sample lacks its last keys
      options.key_mask = less(iota({form.b, form.s}, 1) + iota({form.b, form.s}, 0) * 7,
                              static_cast<double>(form.s));
    }
    if (form.segmented) {
      options.query_segments = every(form.t, 13);
      options.key_segments = every(form.s, 13);
    }
    if (form.placed) {
      options.start = iota({form.b}, 0) * 9 - 3;
    }
    if (form.dropout > 0) {
      options.dropout = AttentionDropout{.rate = form.dropout, .key = rng_key(7)};
    }
    return attention(x[0], x[1], x[2], options);
  };
  Tensors results =
      value_and_grad([&](const Tensors& x) { return sum(cast(result(x) * g, Dtype::kF32)); })(x)
          .second;
  results.push_back(result(x));
  return results;
}

void expect_results_of_the_reference(const Backend* backend, std::initializer_list<Form> forms) {
  const auto on = [](const Backend* which, const Form& form) {
    const ContextScope scope(context_of(which));
    return results_of(form);
  };
  {
    const OnlyPrepared ahead;
    for (const Form& form : forms) {
      on(backend, form);
    }
  }
  for (const Form& form : forms) {
    SCOPED_TRACE(fmt::format("b {} t {} s {} heads {} of {} d {} causal {} window {}", form.b,
                             form.t, form.s, form.heads, form.key_heads, form.d, form.causal,
                             form.window) +
                 fmt::format(" buckets {} masked {} segmented {} placed {} dropout {}",
                             form.buckets, form.masked, form.segmented, form.placed, form.dropout));
    const int64_t before = launches();
    const Tensors actual = on(backend, form);
    EXPECT_GT(launches(), before);
    const Tensors expected = on(backend_named("reference"), form);
    for (size_t i = 0; i < expected.size(); ++i) {
      double most = 0;
      for (double value : to_doubles(expected[i])) {
        most = std::max(most, std::abs(value));
      }
      // The reference keeps scores in f32; tiles hold probabilities as 16-bit numbers, and so results differ, whose rounding a
      // bias by distance adds up over all rows.
      EXPECT_EQ(difference(actual[i], expected[i], {i < 3 ? 0.02 : 0.05, most}), "")
          << "result " << i;
    }
  }
}

TEST(CudaAttention, IsThatOfTheReference) {
  expect_results_of_the_reference(
      emulated_backend(),
      {{2, 20, 20, 2, 2, 16, true},
       {1, 70, 70, 1, 1, 32, true},
       {1, 9, 80, 2, 1, 16, true},
       {1, 80, 33, 2, 2, 16},
       {1, 100, 100, 1, 1, 16, true, 30},
       {1, 40, 40, 2, 1, 128, true, 0, Dtype::kF16},
       {.b = 2,
        .t = 20,
        .s = 30,
        .heads = 2,
        .key_heads = 1,
        .d = 16,
        .bias = Shape{1, 2, 20, 30},
        .masked = true},
       {.b = 2,
        .t = 20,
        .s = 20,
        .heads = 2,
        .key_heads = 2,
        .d = 16,
        .causal = true,
        .bias = Shape{2, 1, 20, 20},
        .dropout = 0.3},
       {.b = 2,
        .t = 70,
        .s = 70,
        .heads = 2,
        .key_heads = 2,
        .d = 16,
        .buckets = 8,
        .bidirectional = true,
        .masked = true},
       {.b = 1,
        .t = 20,
        .s = 40,
        .heads = 2,
        .key_heads = 2,
        .d = 128,
        .causal = true,
        .buckets = 6,
        .segmented = true},
       {.b = 2,
        .t = 20,
        .s = 40,
        .heads = 2,
        .key_heads = 1,
        .d = 32,
        .causal = true,
        .window = 9,
        .buckets = 6,
        .placed = true,
        .dropout = 0.2},
       {.b = 1, .t = 40, .s = 40, .heads = 1, .key_heads = 1, .d = 16, .segmented = true},
       {.b = 1, .t = 40, .s = 40, .heads = 2, .key_heads = 1, .d = 64, .axes = {0, 3, 2, 1}}});
}

// Several tiles and pieces of work for a block; parts of tiles; queries that see nothing; what is copied number by number.
TEST(CudaAttention, OfWarpGroupsIsThatOfTheReference) {
  const auto form = [](int64_t t, int64_t s, int64_t d, bool causal) {
    return Form{.b = 1, .t = t, .s = s, .heads = 1, .key_heads = 1, .d = d, .causal = causal};
  };
  Form grouped = form(260, 260, 64, true), window = form(200, 200, 64, true),
       turned = form(70, 70, 64, true), half = form(140, 140, 128, true);
  grouped.heads = 2;
  window.window = 40;
  window.axes = {0, 2, 1, 3};
  turned.axes = {0, 3, 2, 1};
  half.dtype = Dtype::kF16;
  expect_results_of_the_reference(emulated_backend_of_sm_90a(),
                                  {grouped, window, turned, half, form(70, 140, 64, true),
                                   form(140, 70, 64, true), form(40, 400, 128, false)});
}

}  // namespace
}  // namespace mstrain::cuda
