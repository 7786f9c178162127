// linear_cross_entropy and its gradient, where they meet: the logits of both are made once. Wide ones in chunks of rows, so
// that they never exist as a whole:
//
//   logits = x W (+ b)                       for each chunk of rows:
//   loss, lse = cross_entropy(logits)    ->    logits, loss, lse, dlogits of these rows
//   dlogits = cross_entropy_grad(g, …)         dx of these rows; dW += xᵀ dlogits; db += Σ dlogits
//   dx = dlogits Wᵀ; dW = xᵀ dlogits
//
// The first chunk comes before the loop: it has what rows do not divide, and its products write the sums that the loop
// goes on with in place; a tensor that dW alone is added to is what the sum begins with. A gradient whose g depends on a
// loss comes after it, and makes the logits again.
#include <algorithm>
#include <array>
#include <map>

#include "core/compile/loss_heads.h"
#include "core/compile/passes.h"
#include "core/compile/rewrite.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/linear_cross_entropy.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

// Writes the programs of a head with operations.
class Writer {
 public:
  Writer(const Graph& graph, const LossHeads& heads, const LossHead& head,
         const std::vector<Tensors>& rebuilt)
      : graph_(graph), head_(head), attrs_(graph.node(head.place()).attrs), rebuilt_(rebuilt) {
    const auto used = [&](const std::optional<NodeId>& node, size_t output) {
      return node && output < graph.node(*node).outputs.size() && heads.used(*node, output);
    };
    gives_loss_ = used(head.loss, 0);
    gives_logsumexp_ = used(head.loss, 1);
    gives_best_ = used(head.loss, 2);
    gives_dx_ = used(head.gradient, 0);
    sums_weight_ = used(head.gradient, 1);
    sums_bias_ = used(head.gradient, 2);
  }

  // By output of the operations; what nobody reads is empty.
  struct Result {
    Tensors loss{3}, gradient{3};
  };

  Result run() const {
    const Tensor x = rebuilt(head_.x);
    Rows rows{shaped(x, {head_.rows, x.dim(-1)}), per_row(head_.targets), {}, {}};
    rows.g = head_.g ? per_row(*head_.g) : Tensor();
    rows.logsumexp = head_.loss ? Tensor() : per_row(*head_.logsumexp);
    const Whole whole{rebuilt(head_.weight), head_.bias ? rebuilt(*head_.bias) : Tensor()};
    Sums before;
    if (head_.addend) {
      before.weight = shaped(rebuilt(*head_.addend), whole.weight.shape());
    }
    return in_shape(head_.chunk >= head_.rows ? part(before, whole, rows)
                                              : chunked(before, whole, rows));
  }

 private:
  // Empty tensors are not there.
  struct Whole {
    Tensor weight, bias;
  };
  struct Rows {
    Tensor x, targets, g, logsumexp;
  };
  struct Sums {
    Tensor weight, bias;
  };
  struct Part {
    Sums sums;
    Tensor loss, logsumexp, best, dx;
  };

  const Tensor& rebuilt(const Value& value) const { return rebuilt_[value.node][value.output]; }
  static Tensor shaped(const Tensor& x, const Shape& shape) {
    return x.shape() == shape ? x : reshape(x, shape);
  }
  Tensor per_row(const Value& value) const { return shaped(rebuilt(value), {head_.rows}); }

  // Sums over the rows so far and these, and what each of these has.
  Part part(const Sums& before, const Whole& whole, const Rows& rows) const {
    Part out;
    const Tensor logits = linear_head::logits(attrs_, rows.x, whole.weight, whole.bias);
    Tensor logsumexp = rows.logsumexp;
    if (head_.loss) {
      const Tensors losses = linear_head::losses(attrs_, logits, rows.targets);
      logsumexp = losses[1];
      out.loss = gives_loss_ ? losses[0] : Tensor();
      out.logsumexp = gives_logsumexp_ ? losses[1] : Tensor();
      out.best = gives_best_ ? argmax(logits) : Tensor();
    }
    if (head_.gradient) {
      const PlaceScope place(graph_.node(*head_.gradient).place);
      const Tensor d =
          linear_head::logits_gradient(attrs_, rows.g, logits, rows.targets, logsumexp);
      if (gives_dx_) {
        out.dx = linear_head::x_gradient(attrs_, d, whole.weight);
      }
      if (sums_weight_) {
        const Tensor sum = linear_head::weight_gradient(attrs_, d, rows.x);
        out.sums.weight = before.weight.defined() ? before.weight + sum : sum;
      }
      if (sums_bias_) {
        const Tensor sum = mstrain::sum(d, {0});
        out.sums.bias = before.bias.defined() ? before.bias + sum : sum;
      }
    }
    return out;
  }

  // The members that are there, in one order.
  static Tensors pack(std::initializer_list<Tensor> members) {
    Tensors out;
    std::copy_if(members.begin(), members.end(), std::back_inserter(out),
                 [](const Tensor& x) { return x.defined(); });
    return out;
  }
  static Tensors pack(const Part& part) {
    return pack({part.sums.weight, part.sums.bias, part.loss, part.logsumexp, part.best, part.dx});
  }
  // Replaces the members of a part that are there, from `values` on.
  static Part unpack(Part like, std::span<const Tensor> values) {
    for (Tensor* member :
         {&like.sums.weight, &like.sums.bias, &like.loss, &like.logsumexp, &like.best, &like.dx}) {
      if (member->defined()) {
        *member = values[0];
        values = values.subspan(1);
      }
    }
    return like;
  }

  Part chunked(const Sums& before, const Whole& whole, const Rows& rows) const {
    const int64_t loops = (head_.rows - 1) / head_.chunk;
    const int64_t first = head_.rows - loops * head_.chunk;
    const auto begin = [&](const Tensor& x) { return x.defined() ? slice(x, 0, 0, first) : x; };
    const Part begun = part(
        before, whole, {begin(rows.x), begin(rows.targets), begin(rows.g), begin(rows.logsumexp)});
    // The loop over all other chunks: carries the sums, gives rows.
    const Tensors sums = pack({begun.sums.weight, begun.sums.bias});
    const Tensors constants = pack({whole.weight, whole.bias});
    Tensors inputs = sums;
    inputs.insert(inputs.end(), constants.begin(), constants.end());
    Types types = types_of(inputs);
    for (const Tensor& x : pack({rows.x, rows.targets, rows.g, rows.logsumexp})) {
      const Tensor rest = slice(x, 0, first, head_.rows);
      const Shape chunk = x.shape().without(0).with_inserted(0, head_.chunk);
      types.push_back({x.dtype(), chunk});
      inputs.push_back(reshape(rest, chunk.with_inserted(0, loops)));
    }
    Tensors none;
    const GraphPtr body = trace_program(
        types, [&](std::span<const Tensor> args) { return pack(turn(args, begun, whole, rows)); },
        &none);
    const Tensors after = apply(*find_op("scan"), inputs,
                                {{"body", body},
                                 {"carries", static_cast<int64_t>(sums.size())},
                                 {"constants", static_cast<int64_t>(constants.size())},
                                 {"length", loops},
                                 {"reverse", false},
                                 {"keep_carries", false},
                                 {"loss_chunks", true}},
                                graph_.node(head_.place()).where);
    Tensors joined(after.begin(), after.begin() + static_cast<int64_t>(sums.size()));
    const Tensors heads = pack(begun);
    for (size_t i = sums.size(); i < after.size(); ++i) {
      joined.push_back(concat(std::array{heads[i], flatten(after[i], 0, 1)}, 0));
    }
    return unpack(begun, joined);
  }

  // A turn of the loop on `args`: sums, constants and rows, as far as they are there.
  Part turn(std::span<const Tensor> args, const Part& begun, const Whole& whole,
            const Rows& rows) const {
    const auto take = [&](const Tensor& like) {
      if (!like.defined()) {
        return Tensor();
      }
      const Tensor taken = args[0];
      args = args.subspan(1);
      return taken;
    };
    Sums sums;
    sums.weight = take(begun.sums.weight);
    sums.bias = take(begun.sums.bias);
    Whole constants;
    constants.weight = take(whole.weight);
    constants.bias = take(whole.bias);
    Rows chunk;
    chunk.x = take(rows.x);
    chunk.targets = take(rows.targets);
    chunk.g = take(rows.g);
    chunk.logsumexp = take(rows.logsumexp);
    return part(sums, constants, chunk);
  }

  Result in_shape(const Part& part) const {
    const Shape& rows = graph_.type(head_.targets).shape;
    const auto each = [&](const Tensor& x) { return x.defined() ? shaped(x, rows) : x; };
    Result result;
    result.loss = {each(part.loss), each(part.logsumexp), each(part.best)};
    const Tensor dx = part.dx.defined() ? shaped(part.dx, graph_.type(head_.x).shape) : Tensor();
    result.gradient = {dx, part.sums.weight, part.sums.bias};
    return result;
  }

  const Graph& graph_;
  const LossHead& head_;
  const Attrs& attrs_;
  const std::vector<Tensors>& rebuilt_;
  bool gives_loss_ = false, gives_logsumexp_ = false, gives_best_ = false;
  bool gives_dx_ = false, sums_weight_ = false, sums_bias_ = false;
};

}  // namespace

GraphPtr chunk_loss(const Graph& graph, int64_t chunks, const BackendLimits& limits) {
  const LossHeads heads(graph, chunks, limits);
  std::map<const Node*, Tensors> made;  // of gradients that came with their loss
  return rewrite(
      graph,
      [&](const RewriteNode& it) -> std::optional<Tensors> {
        for (const LossHead& head : heads.all()) {
          if (&graph.node(head.place()) == &it.node) {
            const Writer::Result result = Writer(graph, heads, head, it.rebuilt).run();
            if (head.loss && head.gradient) {
              made[&graph.node(*head.gradient)] = result.gradient;
            }
            return head.loss ? result.loss : result.gradient;
          }
          if (head.gradient && &graph.node(*head.gradient) == &it.node) {
            return made.at(&it.node);
          }
          if (head.addition && &graph.node(*head.addition) == &it.node) {
            return Tensors{reshape(it.rebuilt[*head.gradient][1], it.node.outputs[0].shape)};
          }
        }
        return std::nullopt;
      },
      heads.order());
}

}  // namespace mstrain
