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
};

// The result, and gradients of its sum with random weights. q, k and v are slices of one tensor where their sizes are equal.
Tensors results_of(const Form& form) {
  const auto make = [&](int64_t length, int64_t heads, uint64_t seed) {
    return cast(random_like(filled({Dtype::kF32, {form.b, length, heads, form.d}}, 0), seed) * 2,
                form.dtype);
  };
  const Tensor g = make(form.t, form.heads, 4);
  const Tensors x{make(form.t, form.heads, 1), make(form.s, form.key_heads, 2),
                  make(form.s, form.key_heads, 3)};
  return value_and_grad([&](const Tensors& x) {
           const Tensor out =
               attention(x[0], x[1], x[2], {.causal = form.causal, .window = form.window});
           return sum(cast(out * g, Dtype::kF32));
         })(x)
      .second;
}

TEST(CudaAttention, GradientsAreThoseOfTheReference) {
  for (const Form& form :
       std::initializer_list<Form>{{2, 20, 20, 2, 2, 16, true},
                                   {1, 70, 70, 1, 1, 32, true},
                                   {1, 9, 80, 2, 1, 16, true},
                                   {1, 80, 33, 2, 2, 16},
                                   {1, 100, 100, 1, 1, 16, true, 30},
                                   {1, 40, 40, 2, 1, 128, true, 0, Dtype::kF16}}) {
    SCOPED_TRACE(fmt::format("b {} t {} s {} heads {} of {} d {} causal {} window {}", form.b,
                             form.t, form.s, form.heads, form.key_heads, form.d, form.causal,
                             form.window));
    const auto on = [&](const Backend* backend) {
      const ContextScope scope(context_of(backend));
      return results_of(form);
    };
    const int64_t before = launches();
    const Tensors actual = on(emulated_backend());
    EXPECT_GT(launches(), before);
    const Tensors expected = on(backend_named("reference"));
    for (size_t i = 0; i < expected.size(); ++i) {
      double most = 0;
      for (double value : to_doubles(expected[i])) {
        most = std::max(most, std::abs(value));
      }
      // The reference keeps scores in f32; tiles hold probabilities as 16-bit numbers.
      EXPECT_EQ(difference(actual[i], expected[i], {0.02, most}), "") << "gradient " << i;
    }
  }
}

}  // namespace
}  // namespace mstrain::cuda
