// Attention and its gradient written with other operations: what every kernel must give.
#include <limits>

#include "core/ops/accumulation.h"
#include "core/ops/attention_form.h"
#include "core/ops/build.h"
#include "core/ops/dot_general.h"
#include "core/ops/index.h"
#include "core/ops/random.h"
#include "core/ops/random_draw.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The forward pass's inputs, by what they are.
class Attention {
 public:
  Attention(const Attrs& attrs, std::span<const Tensor> in)
      : attrs_(attrs),
        in_(in),
        form_(attrs, types_of(in)),
        n_(check_attention(types_of(in), form_, attrs)) {}

  const AttentionForm& form() const { return form_; }
  const AttentionDims& dims() const { return n_; }
  Tensor q() const { return by_group(widened(in_[0])); }
  Tensor k() const { return widened(in_[1]); }
  Tensor v() const { return widened(in_[2]); }

  // [b, t, h, x] with heads by their key heads: [b, t, key_heads, group, x].
  Tensor by_group(const Tensor& x) const {
    return reshape(x, {n_.b, n_.t, n_.key_heads, n_.group(), x.dim(3)});
  }
  // The same for [b, h, t, s].
  Tensor scores_by_group(const Tensor& x) const {
    return reshape(x, {n_.b, n_.key_heads, n_.group(), n_.t, n_.s});
  }
  Tensor by_head(const Tensor& x) const { return flatten(x, 1, 2); }

  // [b, h, t, s]: scaled, biased, and -inf where a key is not visible.
  Tensor scores() const {
    Tensor x = by_head(dot_general(q(), k(), {"btkgd", "bskd", "bkgts"})) * form_.scale;
    if (form_.bias != 0) {
      x = x + widened(in_[form_.bias]);
    }
    if (form_.table != 0) {
      const Tensor table = widened(in_[form_.table]);
      x = x + transpose(gather(flatten(table, 0, 1), rows_of_table(), 0), {0, 3, 1, 2});
    }
    if (form_.causal) {
      x = where(less_equal(distances(), 0), x, -kInfinity);
    }
    if (form_.window > 0) {
      x = where(greater(distances(), -form_.window), x, -kInfinity);
    }
    if (form_.mask != 0) {
      x = where(reshape(in_[form_.mask], {n_.b, 1, 1, n_.s}), x, -kInfinity);
    }
    if (form_.segments != 0) {
      const Tensor seen = equal(reshape(in_[form_.segments], {n_.b, 1, n_.t, 1}),
                                reshape(in_[form_.segments + 1], {n_.b, 1, 1, n_.s}));
      x = where(seen, x, -kInfinity);
    }
    return x;
  }

  // `x` [b, h, t, s] times what dropout multiplies probabilities by, which is 1 where nothing is drawn.
  Tensor dropped(const Tensor& x) const {
    if (form_.draw == 0) {
      return x;
    }
    const double keep = 1 - attrs_.number("rate");
    Attrs drawn{{"kind", std::string("uniform")},
                {"dtype", Dtype::kF32},
                {"shape", x.shape()},
                {"site", attrs_.integer("site")},
                {"whole", attrs_.ints("whole")}};
    if (attrs_.find(kPastEnd) != nullptr) {
      drawn.set(kPastEnd, attrs_.flag(kPastEnd));
    }
    const Tensor u =
        apply1(random_ops()[0], {in_[form_.draw], in_[form_.draw + 1]}, std::move(drawn), kHere);
    return x * where(less(u, keep), full(x.shape(), 1 / keep, x.dtype()), 0);
  }

  // From that of the scores, [b, h, t, s].
  Tensor bias_gradient(const Tensor& ds) const {
    const Tensor& bias = in_[form_.bias];
    Shape repeated;
    for (int i : {0, 1}) {
      if (bias.dim(i) == 1) {
        repeated.push_back(i);
      }
    }
    return cast(repeated.rank() == 0 ? ds : sum(ds, repeated, true), bias.dtype());
  }
  Tensor table_gradient(const Tensor& ds) const {
    const Tensor& table = in_[form_.table];
    const Tensor rows = broadcast_to(rows_of_table(), {n_.b, n_.t, n_.s});
    const Tensor none = zeros({ds.dtype(), {table.dim(0) * table.dim(1), n_.h}});
    const Tensor sums = scatter_add(none, rows, transpose(ds, {0, 2, 3, 1}), 0);
    return cast(reshape(sums, table.shape()), table.dtype());
  }

 private:
  // [b|1, 1, t, s]: how far behind the query a key lies.
  Tensor distances() const {
    const Tensor between = iota({n_.t, n_.s}, 1) - iota({n_.t, n_.s}, 0);
    return form_.start == 0 ? reshape(between - (n_.s - n_.t), {1, 1, n_.t, n_.s})
                            : between - reshape(in_[form_.start], {n_.b, 1, 1, 1});
  }

  // [b|1, t, s]: which row of the table, whose batch and buckets are one dim, each score adds.
  Tensor rows_of_table() const {
    const RelativeBuckets& buckets = *form_.buckets;
    const Tensor distance = squeeze(distances(), 1);
    const Tensor size = buckets.bidirectional ? abs(distance) : maximum(-distance, 0);
    Tensor bucket = minimum(size, buckets.exact());
    const std::vector<int64_t> least = buckets.least_sizes();
    for (auto i = static_cast<size_t>(buckets.exact() + 1); i < least.size(); ++i) {
      bucket = bucket + cast(greater_equal(size, least[i]), Dtype::kI32);
    }
    if (buckets.bidirectional) {
      bucket = bucket + cast(greater(distance, 0), Dtype::kI32) * buckets.of_direction();
    }
    const int64_t tables = in_[form_.table].dim(0);
    return tables == 1 ? bucket : bucket + iota({tables, 1, 1}, 0) * buckets.count;
  }

  const Attrs& attrs_;
  std::span<const Tensor> in_;
  AttentionForm form_;
  AttentionDims n_;
};

}  // namespace

Tensors decompose_attention(const Attrs& attrs, std::span<const Tensor> in) {
  const Attention a(attrs, in);
  const Tensor x = a.scores();
  const Tensor greatest = stop_gradient(max(x, {3}, true));
  const Tensor shift = where(greater(greatest, -kInfinity), greatest, 0);
  const Tensor e = exp(x - shift);
  const Tensor total = sum(e, {3}, true);
  const Tensor some = greater(total, 0);
  const Tensor divisor = where(some, total, 1);
  const Tensor lse = where(some, log(divisor) + shift, -kInfinity);
  const Tensor p = a.scores_by_group(a.dropped(e / divisor));
  const Tensor out = flatten(dot_general(p, a.v(), {"bkgts", "bske", "btkge"}), 2, 3);
  return {cast(out, in[0].dtype()), squeeze(lse, 3)};
}

// Flash attention's backward formulas (Dao et al. 2022): p from lse, dS = p (dP - Σ g out). With dropout's factors f the result
// is Σ p f v, so dP has f too, and Σ g out stays what it was.
Tensors decompose_attention_grad(const Attrs& attrs, std::span<const Tensor> in) {
  const Attention a(attrs, in.subspan(1, in.size() - 3));
  const Tensor g = widened(in[0]);
  const Tensor out = widened(in[in.size() - 2]);
  const Tensor lse = expand_dims(in[in.size() - 1], 3);
  const Tensor shift = where(greater(lse, -kInfinity), lse, 0);
  const Tensor p = exp(a.scores() - shift);
  const Tensor g_by_group = a.by_group(g);
  const Tensor dp =
      a.dropped(a.by_head(dot_general(g_by_group, a.v(), {"btkge", "bske", "bkgts"})));
  const Tensor delta = expand_dims(transpose(sum(g * out, {3}), {0, 2, 1}), 3);
  const Tensor ds = p * (dp - delta);
  const Tensor ds_by_group = a.scores_by_group(ds);
  const Tensor dropped_by_group = a.scores_by_group(a.dropped(p));
  const double scale = a.form().scale;
  const Dtype dtype = in[1].dtype();
  Tensors result{
      cast(flatten(dot_general(ds_by_group, a.k(), {"bkgts", "bskd", "btkgd"}), 2, 3) * scale,
           dtype),
      cast(dot_general(ds_by_group, a.q(), {"bkgts", "btkgd", "bskd"}) * scale, dtype),
      cast(dot_general(dropped_by_group, g_by_group, {"bkgts", "btkge", "bske"}), dtype)};
  if (a.form().bias != 0) {
    result.push_back(a.bias_gradient(ds));
  }
  if (a.form().table != 0) {
    result.push_back(a.table_gradient(ds));
  }
  return result;
}

}  // namespace mstrain
