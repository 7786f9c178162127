// Cross-entropy and softmax as CUDA text, run by the emulator, against the reference back end.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "core/ops/build.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "core/ops/softmax.h"
#include "core/tensor/host.h"
#include "tests/conformance/cases.h"
#include "tests/core/backends/cuda/emulated.h"

namespace mstrain::cuda {
namespace {

// By -inf, and by numbers whose multiples have no float.
TEST(CudaLosses, OfRowsThatAMaskEmptiesWhereTheyBeginAreThoseOfTheReference) {
  constexpr size_t n = 3000;
  for (const float nothing : {-std::numeric_limits<float>::infinity(), -3e38F}) {
    std::vector<float> values(4 * n, nothing);
    values[n - 1] = 1;
    std::fill_n(values.begin() + n + 1024, n - 1024, 0.5F);
    values[2 * n] = 2;
    if (std::isfinite(nothing)) {
      values[3 * n + 1] = 3;  // else there is nothing at all
    }
    const std::vector<int32_t> targets{n - 1, 1025, 0, 7};
    for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16}) {
      const auto losses_on = [&](const Backend* backend) {
        const ContextScope scope(context_of(backend));
        const Tensor x = cast(tensor<float>(values, {4, n}), dtype);
        Tensors made = apply(kCrossEntropy, std::array{x, tensor<int32_t>(targets, {4})},
                             {{"ignore_index", int64_t{-1}}, {"label_smoothing", 0.0}},
                             SourceLocation::current());
        made.push_back(softmax(x));
        made.push_back(log_softmax(x));
        return made;
      };
      const Tensors actual = losses_on(emulated_backend());
      const Tensors expected = losses_on(backend_named("reference"));
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(difference(actual[i], expected[i], {1e-2, 1}), "")
            << "result " << i << " of " << name_of(dtype) << " and " << nothing;
      }
    }
  }
}

}  // namespace
}  // namespace mstrain::cuda
