#include "core/nn/attention.h"

#include <limits>

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/matmul.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/ops/softmax.h"
#include "core/runtime/context.h"

namespace mstrain {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// softmax of the scaled, biased and masked scores; rows without a visible key are 0.
Tensor probabilities(const Tensor& q_bhtd, const Tensor& k_bhsd, const AttentionOptions& options) {
  const int64_t t = q_bhtd.dim(2);
  const int64_t s = k_bhsd.dim(2);
  const double scale = options.scale.value_or(
      1 / std::sqrt(static_cast<double>(std::max<int64_t>(q_bhtd.dim(3), 1))));
  Tensor scores = matmul(q_bhtd, k_bhsd, {.transpose_b = true}) * scale;
  if (options.bias) {
    scores = scores + options.bias;
  }
  if (options.causal) {
    const Tensor visible = less_equal(iota({t, s}, 1), iota({t, s}, 0) + (s - t));
    scores = where(visible, scores, -kInfinity);
  }
  if (!options.bias && !(options.causal && t > s)) {
    return softmax(scores);
  }
  const Tensor some = greater(max(stop_gradient(scores), {3}, true), -kInfinity);
  return where(some, softmax(where(some, scores, 0)), 0);
}

}  // namespace

Tensor attention(const Params& p, const Tensor& q_bthd, const Tensor& k_bshd, const Tensor& v_bshe,
                 double dropout_rate, const AttentionOptions& options) {
  if (dropout_rate == 0 || !current_context().training) {
    const NameScope scope = NameScope::absolute(p.path());
    return attention(q_bthd, k_bshd, v_bshe, options);
  }
  const auto by_head = [](const Tensor& x) { return transpose(x, {0, 2, 1, 3}); };
  const Tensor kept =
      dropout(p, probabilities(by_head(q_bthd), by_head(k_bshd), options), dropout_rate);
  return by_head(matmul(kept, by_head(v_bshe)));
}

Tensor multi_head_attention(const Params& p, const Tensor& x_btc, const Tensor& memory_bsc,
                            const MultiHeadAttentionOptions& options) {
  const int64_t width = x_btc.dim(-1);
  check(options.heads > 0 && width % options.heads == 0, "{}: {} heads do not divide a width of {}",
        p.path(), options.heads, width);
  const Shape by_head{options.heads, width / options.heads};
  const LinearOptions projection{.bias = options.bias};
  const Tensor q_bthd = linear(p / "q_proj", x_btc, by_head, projection);
  const Tensor k_bshd = linear(p / "k_proj", memory_bsc, by_head, projection);
  const Tensor v_bshd = linear(p / "v_proj", memory_bsc, by_head, projection);
  const Tensor out_bthd =
      attention(p / "dropout", q_bthd, k_bshd, v_bshd, options.dropout, {.causal = options.causal});
  return linear(p / "out_proj", out_bthd, {width}, {.in_dims = 2, .bias = options.bias});
}

}  // namespace mstrain
