#include "core/nn/attention.h"

#include <limits>

#include "core/ops/build.h"
#include "core/ops/einsum.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/ops/softmax.h"
#include "core/runtime/context.h"

namespace mstrain {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// softmax of the scaled, biased and masked scores [b, h, t, s]; rows without a visible key are 0.
Tensor probabilities(const Tensor& q_bthd, const Tensor& k_bshd, const AttentionOptions& options) {
  const int64_t t = q_bthd.dim(1);
  const int64_t s = k_bshd.dim(1);
  const double scale = options.scale.value_or(
      1 / std::sqrt(static_cast<double>(std::max<int64_t>(q_bthd.dim(3), 1))));
  Tensor scores = einsum("bthd,bshd->bhts", {q_bthd, k_bshd}) * scale;
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
  const Tensor kept = dropout(p, probabilities(q_bthd, k_bshd, options), dropout_rate);
  return einsum("bhts,bshe->bthe", {kept, v_bshe});
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
