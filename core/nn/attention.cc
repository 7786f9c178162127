#include "core/nn/attention.h"

#include "core/nn/random_scope.h"
#include "core/runtime/context.h"

namespace mstrain {

Tensor attention(const Params& p, const Tensor& q_bthd, const Tensor& k_bshd, const Tensor& v_bshe,
                 double dropout_rate, const AttentionOptions& options) {
  const NameScope scope = NameScope::absolute(p.path());
  AttentionOptions with_dropout = options;
  if (dropout_rate != 0 && current_context().training) {
    const Shape draw{q_bthd.dim(0), q_bthd.dim(2), q_bthd.dim(1), k_bshd.dim(1)};
    with_dropout.dropout = {.rate = dropout_rate,
                            .key = RandomScope::key(p.path()),
                            .part = RandomScope::part(p.path(), draw)};
  }
  return attention(q_bthd, k_bshd, v_bshe, with_dropout);
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
