#include "core/transform/float8.h"

#include <optional>

#include "core/ops/elementwise.h"
#include "core/ops/float8.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/transform/custom_vjp.h"

namespace mstrain {
namespace {

// Of rows first, which are many, and no short ones: what makes x finds them on its way.
Tensor largest_magnitude(const Tensor& x) {
  constexpr int64_t kShort = 512;
  Shape rows = x.shape();
  while (rows.rank() > 1 && rows.back() < kShort) {
    const int64_t last = rows.back();
    rows = Shape(std::span(rows.begin(), static_cast<size_t>(rows.rank() - 1)));
    rows[rows.rank() - 1] *= last;
  }
  const Tensor of_rows = max(reshape(abs(x), rows), {-1});
  return cast(of_rows.rank() > 0 ? max(of_rows) : of_rows, Dtype::kF32);
}

struct Rounded {
  Tensor most;
  Float8Tensor tensor;
};
Rounded rounded(const Tensor& x, const Tensor& expected, Float8 format, int64_t margin) {
  const Tensor most = largest_magnitude(x);
  return {most, encode_float8(x, expected, most, format, margin)};
}

// `expected`: of a, of b, of the gradient.
Tensor product(const Tensor& a, const Tensor& b, const DotDims& dims, const Tensors& expected,
               int64_t margin) {
  const auto forward = [=](const Tensor& x, const Tensor& y, const Tensors& e) {
    const Rounded x8 = rounded(x, e[0], Float8::kE4M3, margin);
    const Rounded y8 = rounded(y, e[1], Float8::kE4M3, margin);
    return std::pair(float8_product(x8.tensor, y8.tensor, dims),
                     Tensors{x8.tensor.codes, x8.tensor.unit, y8.tensor.codes, y8.tensor.unit,
                             x8.most, y8.most, e[2]});
  };
  const auto backward = [=](const Tensors& kept, const Tensor& cotangent) {
    const Float8Tensor x8{kept[0], kept[1]}, y8{kept[2], kept[3]};
    const Rounded z8 = rounded(cotangent, kept[6], Float8::kE5M2, margin);
    return std::tuple(float8_product(z8.tensor, y8, {dims.out, dims.b, dims.a}),
                      float8_product(x8, z8.tensor, {dims.a, dims.out, dims.b}),
                      Tensors{kept[4], kept[5], z8.most});
  };
  return custom_vjp(forward, backward)(a, b, expected);
}

// Which of the weights each input of a program is.
using Weights = std::vector<std::optional<size_t>>;

class Float8Replay {
 public:
  Float8Replay(const Float8Products& products)
      : products_(products), is_done_(products.weights.size(), false) {}

  Tensors run(const Graph& graph, std::span<const Tensor> inputs, const Weights& weights) {
    check(inputs.size() == graph.inputs().size(), "a program of {} inputs was given {}",
          graph.inputs().size(), inputs.size());
    std::vector<Tensors> results(graph.size());
    Weights of_node(graph.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      results[graph.inputs()[i].node] = {inputs[i]};
      of_node[graph.inputs()[i].node] = weights[i];
    }
    const std::vector<bool> live = graph.live();
    for (NodeId id = 0; id < graph.size(); ++id) {
      const Node& node = graph.node(id);
      if (!live[id] || node.op == &kInputOp) {
        continue;
      }
      Tensors operands;
      Weights own;
      for (const Value& value : node.inputs) {
        operands.push_back(results[value.node][value.output]);
        own.push_back(of_node[value.node]);
      }
      if (node.op->kind == OpKind::kMovement && own.size() == 1) {
        of_node[id] = own[0];
      }
      const PlaceScope place = PlaceScope::again(node.place);
      results[id] = apply_node(node, operands, own);
    }
    Tensors outputs;
    for (const Value& value : graph.outputs()) {
      outputs.push_back(results[value.node][value.output]);
    }
    return outputs;
  }

 private:
  Tensors apply_node(const Node& node, Tensors& operands, const Weights& weights) {
    if (node.op->precision == Precision::kInside) {
      return apply_inside(node, operands, weights);
    }
    const bool is_product = node.op == &kDotGeneral && !has_epilogue(node.attrs) &&
                            node.outputs[0].dtype == Dtype::kBF16 &&
                            weights[0].has_value() != weights[1].has_value();
    const size_t weight = is_product ? (weights[0] ? *weights[0] : *weights[1]) : 0;
    if (!is_product || is_done_[weight]) {
      return apply(*node.op, operands, node.attrs, node.where);
    }
    is_done_[weight] = true;
    Tensors expected(products_.expected.begin() + static_cast<ptrdiff_t>(3 * weight),
                     products_.expected.begin() + static_cast<ptrdiff_t>(3 * weight + 3));
    if (weights[0]) {
      std::swap(expected[0], expected[1]);
    }
    return {product(operands[0], operands[1], dot_dims(node.attrs), expected, products_.margin)};
  }

  // What the body then uses from outside becomes an operand.
  Tensors apply_inside(const Node& node, Tensors& operands, const Weights& weights) {
    Tensors captures;
    const GraphPtr body = trace_program(
        types_of(operands),
        [&](std::span<const Tensor> in) { return run(*node.attrs.graph("body"), in, weights); },
        &captures);
    operands.insert(operands.end(), captures.begin(), captures.end());
    return apply(*node.op, operands, node.attrs.with("body", body), node.where);
  }

  const Float8Products& products_;
  std::vector<bool> is_done_;
};

}  // namespace

Tensors run_in_float8(const Graph& program, std::span<const Tensor> inputs,
                      const Float8Products& products) {
  check(products.expected.size() == 3 * products.weights.size(),
        "in_float8: {} magnitudes are expected of {} weights", products.expected.size(),
        products.weights.size());
  Weights weights(inputs.size());
  for (size_t i = 0; i < products.weights.size(); ++i) {
    weights.at(products.weights[i]) = i;
  }
  return Float8Replay(products).run(program, inputs, weights);
}

}  // namespace mstrain
