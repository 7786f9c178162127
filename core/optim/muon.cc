#include "core/optim/muon.h"

#include <algorithm>
#include <cmath>

#include "core/ops/accumulation.h"
#include "core/ops/matmul.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

constexpr int kSteps = 5;
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;  // Jordan's, steepest at 0
constexpr double kTiny = 1e-7;
constexpr double kSizeOfAdamw = 0.2;  // root of the mean square of its steps, over the rate

bool is_number(std::string_view word) {
  return !word.empty() &&
         std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::optional<MatrixForm> hidden_matrix(const ParamSpec& spec) {
  std::string_view rest = spec.name;
  bool in_layer = false;
  for (size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
    in_layer = in_layer || is_number(rest.substr(0, dot));
    rest.remove_prefix(dot + 1);
  }
  if (!in_layer || !spec.decay) {
    return std::nullopt;
  }
  const bool is_kernel = !spec.matrix && spec.type.shape.rank() == 4;
  return is_kernel ? MatrixForm{.in_dims = 3, .out_first = true} : spec.matrix;
}

Tensor orthogonalised(const Tensor& x) {
  check(x.rank() == 2, "orthogonalised: {} is no matrix", to_string(x.type()));
  const bool is_tall = x.dim(0) > x.dim(1);
  const Tensor wide = is_tall ? transpose(x, {1, 0}) : x;
  Tensor y = wide / (sqrt(sum(square(wide))) + kTiny);
  for (int i = 0; i < kSteps; ++i) {
    const Tensor gram = matmul(y, y, {.transpose_b = true});
    y = kA * y + matmul(kB * gram + kC * matmul(gram, gram), y);
  }
  return is_tall ? transpose(y, {1, 0}) : y;
}

ParameterStep muon_matrix(const OptimizerConfig& config, const AdamwScalars& scalars,
                          const ParameterStep& step) {
  const Tensor p = widened(step.parameter);
  const Tensor g = widened(step.gradient) * scalars.grad_scale;
  const Tensor velocity = config.momentum * widened(step.slots[0]) + g;
  const Tensor part = config.nesterov ? g + config.momentum * velocity : velocity;
  const Tensor whole = step.shard == nullptr ? part : whole_of(part, *step.shard);
  const Weight weight{whole, whole.shape(), *step.matrix};
  const Shape first = step.matrix->out_first ? weight.out() : weight.in();
  const Shape last = step.matrix->out_first ? weight.in() : weight.out();
  const int64_t rows = first.elements();
  const int64_t columns = last.elements();
  const double size = kSizeOfAdamw * std::sqrt(static_cast<double>(std::max(rows, columns)));
  const Tensor turned =
      reshape(orthogonalised(reshape(whole, {rows, columns})) * size, whole.shape());
  Tensor direction = step.shard == nullptr ? turned : part_of(turned, *step.shard);
  if (step.decay && config.weight_decay > 0) {
    direction = direction + config.weight_decay * p;
  }
  return rounded(step, p - scalars.lr * direction, {velocity});
}

}  // namespace mstrain
