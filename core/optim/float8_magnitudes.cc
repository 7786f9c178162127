#include "core/optim/float8_magnitudes.h"

#include <array>

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/optim/muon.h"

namespace mstrain {

std::vector<size_t> float8_weights(std::span<const ParamSpec> specs) {
  constexpr int64_t kMultiple = 16;
  std::vector<size_t> out;
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto form = hidden_matrix(specs[i]);
    if (form && is_floating(specs[i].type.dtype)) {
      const Weight weight{{}, specs[i].type.shape, *form};
      if (weight.in().elements() % kMultiple == 0 && weight.out().elements() % kMultiple == 0) {
        out.push_back(i);
      }
    }
  }
  return out;
}

Tensor magnitudes_of(Tensors numbers) {
  for (Tensor& number : numbers) {
    number = reshape(number, {1});
  }
  const Tensor all = concat(numbers, 0);
  return reshape(all, {1, all.dim(0) / 3, 3});
}

Tensor first_magnitudes(const PrecisionConfig& config, size_t weights) {
  return copy(full({config.fp8_history, static_cast<int64_t>(weights), 3}, 0));
}

Tensor expected_magnitudes(const Tensor& history) { return max(history, {0}); }

Tensor next_magnitudes(const Tensor& history, const Tensor& most) {
  const Tensor last = where(isfinite(most), most, 0);
  return concat(std::array{expand_dims(last, 0), slice(history, 0, 0, history.dim(0) - 1)}, 0);
}

}  // namespace mstrain
