#include "core/ops/fused.h"

#include <algorithm>

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/layouts.h"
#include "core/ops/norm.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/ops/softmax.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

bool is_sum(const OpDef& op) { return op.fold == Fold::kSum || op.fold == Fold::kSumSquares; }
bool folds(const OpDef& op, std::span<const TensorType> inputs) {
  return op.fold != Fold::kNone && is_floating(inputs[0].dtype);
}

// How a reduction takes dims apart; dims of size 1 belong to neither side.
struct Folding {
  int64_t kept = 1, folded = 1;
  bool trailing = true, leading = true;  // where the folded dims lie
};
Folding folding_of(const Attrs& attrs, const Shape& shape) {
  const Attr* const axes = attrs.find("axes");  // all of them where it does not say
  Folding result;
  bool seen_kept = false, seen_folded = false;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool folded = axes == nullptr || std::ranges::count(std::get<Shape>(*axes), i) > 0;
    (folded ? result.folded : result.kept) *= shape[i];
    if (shape[i] == 1) {
      continue;
    }
    result.trailing = result.trailing && (folded || !seen_folded);
    result.leading = result.leading && (!folded || !seen_kept);
    (folded ? seen_folded : seen_kept) = true;
  }
  return result;
}

std::optional<FusedRole> fold_role(const Folding& folding, const OpDef& op,
                                   const FusedExtent& extent, int64_t longest) {
  const bool sum = is_sum(op);
  if (op.fold != Fold::kSumSquares && folding.trailing && folding.kept == extent.rows &&
      folding.folded == extent.n && extent.n <= longest) {
    return FusedRole::kFoldRow;
  }
  if (sum && folding.kept == 1) {
    return FusedRole::kFoldAll;
  }
  const bool columns = sum && folding.leading && folding.folded == extent.rows &&
                       folding.kept == extent.n && extent.n <= longest;
  return columns ? std::optional(FusedRole::kFoldColumns) : std::nullopt;
}

// Whether a broadcast repeats each of `rows` numbers n times in a row.
bool spreads_rows(const Shape& from, const Shape& to, const FusedExtent& extent) {
  int64_t repeated = 1;
  int i = to.rank() - 1;
  const auto before = [&](int d) {
    const int at = d - (to.rank() - from.rank());
    return at < 0 ? 1 : from[at];
  };
  for (; i >= 0 && before(i) == 1 && repeated * to[i] <= extent.n; --i) {
    repeated *= to[i];
  }
  for (; i >= 0; --i) {
    if (before(i) != to[i]) {
      return false;
    }
  }
  return repeated == extent.n;
}

FusedExtent extent_in(const Attrs& attrs) { return {attrs.integer("rows"), attrs.integer("n")}; }

Types infer(std::span<const TensorType> in, const Attrs& attrs) {
  const Graph& body = *attrs.graph("body");
  const FusedExtent extent = extent_in(attrs);
  const Types expected = body.types(body.inputs());
  if (!std::equal(in.begin(), in.end(), expected.begin(), expected.end())) {
    throw ShapeError("the inputs are not those of the body");
  }
  const std::vector<bool> live = body.live();
  for (NodeId id = 0; id < body.size(); ++id) {
    const Node& node = body.node(id);
    if (live[id] && node.op != &kInputOp &&
        !fused_role(*node.op, node.attrs, body.types(node.inputs), node.outputs, extent,
                    extent.n)) {
      throw ShapeError(fmt::format("{} of {} has no place among {} rows of {}", node.op->name,
                                   to_string(node.outputs[0]), extent.rows, extent.n));
    }
  }
  return body.types(body.outputs());
}

Tensors decompose(const Attrs& attrs, std::span<const Tensor> in) {
  return replay(*attrs.graph("body"), in);
}

Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs& attrs) {
  const Graph& body = *attrs.graph("body");
  const std::vector<bool> live = body.live();
  Cost total = elementwise_cost(in, out, 0);
  for (NodeId id = 0; id < body.size(); ++id) {
    const Node& node = body.node(id);
    if (live[id] && node.op->cost != nullptr) {
      total.flops += node.op->cost(body.types(node.inputs), node.outputs, node.attrs).flops;
    }
  }
  return total;
}

using Body = Tensors (*)(std::span<const Tensor>);

Sample sample(const Types& types, const FusedExtent& extent, Body body) {
  Tensors captures;
  const GraphPtr graph = trace_program(types, body, &captures);
  std::vector<SampleInput> inputs;
  for (const TensorType& type : types) {
    inputs.push_back({type, 0.2, 1.5});
  }
  return {inputs, {{"body", graph}, {"rows", extent.rows}, {"n", extent.n}}};
}

// Sizes around tiles of 1,024 elements, short and long rows, nothing at all.
std::vector<Sample> samples(Dtype t) {
  std::vector<Sample> result;
  const Dtype wide = t == Dtype::kF64 ? t : Dtype::kF32;
  for (int64_t n : {0, 1, 7, 1023, 1024, 1025}) {
    const TensorType x{t, {n}};
    result.push_back(sample({x, x}, {1, n}, [](std::span<const Tensor> in) {
      const Tensor a = in[0] * in[1];
      const Tensor one = filled(a.type(), 1);
      return Tensors{a, exp(-a) + in[0], where(in[0] < one, in[0], one)};
    }));
  }
  for (const FusedExtent& extent : {FusedExtent{1, 1}, {5, 3}, {9, 128}, {3, 1030}, {2, 4099}}) {
    const TensorType x{t, {extent.rows, extent.n}};
    const TensorType parameter{t, {extent.n}};
    const TensorType row{wide, {extent.rows}};
    result.push_back(sample({x}, extent, [](std::span<const Tensor> in) {
      const Tensor shifted = in[0] - max(in[0], {1}, true);
      const Tensor e = exp(shifted);
      return Tensors{e / sum(e, {1}, true), min(in[0], {1})};
    }));
    result.push_back(sample({x, x, parameter, parameter}, extent, [](std::span<const Tensor> in) {
      const Tensor stream = in[0] + in[1];
      return Tensors{stream, gelu_tanh(layer_norm(stream, in[2], in[3], 1e-5))};
    }));
    result.push_back(sample({x, row}, extent, [](std::span<const Tensor> in) {
      const Tensor scale =
          cast(expand_dims(rsqrt(in[1] + filled(in[1].type(), 1)), 1), in[0].dtype());
      const Tensor y = softmax(in[0]) * scale;
      return Tensors{y, sum(y, {0}), sum_squares(y)};
    }));
  }
  return result;
}

constexpr OpDef kDefs[] = {
    {.name = "fused",
     .infer = infer,
     .jvp = jvp_by_decomposition,
     .vjp = vjp_by_decomposition,
     .batch = batch_by_decomposition,
     .decompose = decompose,
     .cost = cost,
     .layout = layout::whole,
     .samples = samples,
     .title = [](const Attrs& attrs) { return fused_name(*attrs.graph("body")); }}};

}  // namespace

std::span<const OpDef> fused_ops() { return kDefs; }
const OpDef& fused_op() { return kDefs[0]; }

bool is_fused_parameter(const OpDef& op, size_t i) { return ((op.rows.parameters >> i) & 1U) != 0; }

bool is_fused_column_sum(const OpDef& op, size_t i) {
  return ((op.rows.column_sums >> i) & 1U) != 0;
}

std::optional<FusedExtent> fused_extent(const OpDef& op, const Attrs& attrs,
                                        std::span<const TensorType> inputs, int64_t longest) {
  if (op.rows.whole_rows) {
    const Shape& x = inputs[0].shape;
    return FusedExtent{x.elements() / std::max<int64_t>(x.back(), 1), x.back()};
  }
  if (folds(op, inputs)) {
    const Folding folding = folding_of(attrs, inputs[0].shape);
    // What sums up everything has no rows to ask for; a short reduce_sum does, so that others may read its result.
    if (folding.kept == 1 && is_sum(op) &&
        (op.fold == Fold::kSumSquares || folding.folded > longest)) {
      return std::nullopt;
    }
    return folding.trailing ? FusedExtent{folding.kept, folding.folded}
                            : FusedExtent{folding.folded, folding.kept};
  }
  return std::nullopt;
}

std::optional<FusedRole> fused_role(const OpDef& op, const Attrs& attrs,
                                    std::span<const TensorType> inputs,
                                    std::span<const TensorType> outputs, const FusedExtent& extent,
                                    int64_t longest) {
  const int64_t full = extent.elements();
  const auto walked = [&](const TensorType& type) {
    return type.elements() == full || type.elements() == extent.rows;
  };
  if (op.repeats_number) {
    return walked(outputs[0]) ? std::optional(FusedRole::kConstant) : std::nullopt;
  }
  if (op.kind == OpKind::kElementwise) {
    return walked(outputs[0]) ? std::optional(FusedRole::kMap) : std::nullopt;
  }
  if (op.order != Order::kOther) {
    if (inputs[0].elements() == outputs[0].elements() && walked(outputs[0])) {
      return FusedRole::kMove;
    }
    const bool spreads = op.order == Order::kRepeated && inputs[0].elements() == extent.rows &&
                         outputs[0].elements() == full && extent.n <= longest &&
                         spreads_rows(inputs[0].shape, outputs[0].shape, extent);
    return spreads ? std::optional(FusedRole::kSpread) : std::nullopt;
  }
  if (inputs.empty() || inputs[0].elements() != full || full == 0) {
    return std::nullopt;
  }
  if (op.rows.whole_rows) {
    const bool rows = inputs[0].shape.back() == extent.n && extent.n <= longest;
    return rows ? std::optional(FusedRole::kRow) : std::nullopt;
  }
  if (folds(op, inputs)) {
    return fold_role(folding_of(attrs, inputs[0].shape), op, extent, longest);
  }
  return std::nullopt;
}

Tensors fused_program(const GraphPtr& body, const FusedExtent& extent,
                      std::span<const Tensor> inputs) {
  return apply(kDefs[0], inputs, {{"body", body}, {"rows", extent.rows}, {"n", extent.n}}, kHere);
}

std::string fused_name(const Graph& body) {
  std::vector<std::string_view> names;
  const std::vector<bool> live = body.live();
  for (NodeId id = 0; id < body.size(); ++id) {
    const OpDef& op = *body.node(id).op;
    const bool computes =
        &op != &kInputOp && op.kind != OpKind::kMovement && op.kind != OpKind::kSource;
    if (live[id] && computes && std::find(names.begin(), names.end(), op.name) == names.end()) {
      names.push_back(op.name);
    }
  }
  std::string result;
  for (std::string_view name : names) {
    result += fmt::format("{}{}", result.empty() ? "" : " + ", name);
  }
  return result;
}

}  // namespace mstrain
