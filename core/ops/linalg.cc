// Cholesky's decomposition, systems of equations and determinants.
#include "core/ops/linalg.h"

#include <array>

#include "core/ops/layouts.h"
#include "core/ops/linalg_common.h"
#include "core/ops/reduce.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

Types infer_cholesky(std::span<const TensorType> in, const Attrs&) {
  expect_inputs(in, 1);
  square_size(in[0]);
  return {in[0]};
}

Types infer_solve(std::span<const TensorType> in, const Attrs&) {
  expect_inputs(in, 2);
  const int64_t n = square_size(in[0]);
  if (matrix_size(in[1]).rows != n || !(batch_of(in[0].shape) == batch_of(in[1].shape))) {
    throw ShapeError(fmt::format("{} and {} are no system of equations", to_string(in[0].shape),
                                 to_string(in[1].shape)));
  }
  if (in[0].dtype != in[1].dtype) {
    throw ShapeError(
        fmt::format("dtypes differ: {} and {}", name_of(in[0].dtype), name_of(in[1].dtype)),
        "convert one with cast()");
  }
  return {in[1]};
}

Types infer_slogdet(std::span<const TensorType> in, const Attrs&) {
  expect_inputs(in, 1);
  square_size(in[0]);
  const TensorType type{in[0].dtype, batch_of(in[0].shape)};
  return {type, type};
}

// L' = L Φ(L⁻¹ A' L⁻ᵀ), where Φ takes the lower triangle and half of the diagonal (Murray 2016).
Tensors jvp_cholesky(const Application& node, std::span<const Tensor> t) {
  const Tensor l = widened(node.outputs[0]);
  const Tensor half = triangular_solve(l, from_lower(widened(t[0])));
  const Tensor s = triangular_solve(l, transpose(half));
  return {cast(matmul(l, 0.5 * (tril(s) + tril(s, -1))), node.outputs[0].dtype())};
}

Tensors jvp_solve(const Application& node, std::span<const Tensor> t) {
  Tensor right = t[1];
  if (t[0].defined()) {
    const Tensor moved = matmul(t[0], node.outputs[0]);
    right = right.defined() ? right - moved : -moved;
  }
  return {apply1(node.op, {node.inputs[0], right}, node.attrs, kHere)};
}

Tensors vjp_solve(const Application& node, std::span<const Tensor> ct) {
  const Tensor b = apply1(node.op, {transpose(node.inputs[0]), ct[0]}, node.attrs, kHere);
  return {-matmul(b, node.outputs[0], {.transpose_b = true}), b};
}

TriangularOptions triangle_of(const Attrs& attrs) {
  return {attrs.flag("lower"), attrs.flag("transpose")};
}

Tensor triangle(const Tensor& x, bool lower) { return lower ? tril(x) : triu(x); }

Tensors jvp_triangular(const Application& node, std::span<const Tensor> t) {
  const auto [lower, transposed] = triangle_of(node.attrs);
  Tensor right = t[1];
  if (t[0].defined()) {
    const Tensor moved =
        matmul(triangle(t[0], lower), node.outputs[0], {.transpose_a = transposed});
    right = right.defined() ? right - moved : -moved;
  }
  return {apply1(node.op, {node.inputs[0], right}, node.attrs, kHere)};
}

Tensors vjp_triangular(const Application& node, std::span<const Tensor> ct) {
  const auto [lower, transposed] = triangle_of(node.attrs);
  const Tensor& x = node.outputs[0];
  const Tensor b =
      apply1(node.op, {node.inputs[0], ct[0]}, node.attrs.with("transpose", !transposed), kHere);
  const Tensor a =
      transposed ? matmul(x, b, {.transpose_b = true}) : matmul(b, x, {.transpose_b = true});
  return {-triangle(a, lower), b};
}

// d ln |det A| = tr(A⁻¹ dA)
Tensor gradient_of_slogdet(const Application& node) {
  const OpDef& solve = linalg_ops()[1];
  const Tensor& a = node.inputs[0];
  const Tensor one = broadcast_to(eye(a.dim(-1), -1, a.dtype()), a.shape());
  const Attr* const function = node.attrs.find(kDerivativeOf);
  return apply1(solve, {transpose(a), one},
                {{kDerivativeOf, function == nullptr ? std::string("slogdet") : *function}}, kHere);
}

Tensors jvp_slogdet(const Application& node, std::span<const Tensor> t) {
  return {Tensor(), sum(t[0] * gradient_of_slogdet(node), {-2, -1})};
}

Tensors vjp_slogdet(const Application& node, std::span<const Tensor> ct) {
  if (!ct[1].defined()) {
    return Tensors(1);
  }
  return {expand_dims(expand_dims(ct[1], -1), -1) * gradient_of_slogdet(node)};
}

Cost cost_cholesky(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return cubic_cost(in, out, 1.0 / 3);
}
Cost cost_lu(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return cubic_cost(in, out, 2.0 / 3);
}
Cost cost_triangular(std::span<const TensorType> in, std::span<const TensorType> out,
                     const Attrs&) {
  Cost cost = elementwise_cost(in, out, 0);
  cost.flops = static_cast<double>(out[0].elements()) * static_cast<double>(in[0].shape.back());
  return cost;
}

std::vector<Sample> samples_square(Dtype t) {
  std::vector<Sample> result;
  for (const Shape& shape :
       {Shape{4, 4}, Shape{2, 3, 3}, Shape{1, 1}, Shape{0, 3, 3}, Shape{33, 33}}) {
    result.push_back({{regular(t, shape)}, {}});
  }
  return result;
}

std::vector<Sample> samples_solve(Dtype t) {
  const auto sample = [&](const Shape& a, const Shape& b) {
    return Sample{{regular(t, a), {{t, b}, -2, 2}}, {}};
  };
  return {sample({4, 4}, {4, 2}), sample({2, 3, 3}, {2, 3, 1}), sample({1, 1}, {1, 1}),
          sample({3, 3}, {3, 0}), sample({17, 17}, {17, 5})};
}

std::vector<Sample> samples_triangular(Dtype t) {
  std::vector<Sample> result;
  for (const bool lower : {true, false}) {
    for (const bool transposed : {false, true}) {
      for (Sample sample : samples_solve(t)) {
        sample.attrs = {{"lower", lower}, {"transpose", transposed}};
        result.push_back(std::move(sample));
      }
    }
  }
  return result;
}

constexpr auto kContract = OpKind::kContract;
constexpr auto kWide = Precision::kWide;

constexpr OpDef kDefs[] = {{.name = "cholesky",
                            .kind = kContract,
                            .infer = infer_cholesky,
                            .jvp = jvp_cholesky,
                            .batch = batch_leading,
                            .cost = cost_cholesky,
                            .layout = layout::leading<2>,
                            .samples = samples_square,
                            .precision = kWide},
                           {.name = "solve",
                            .kind = kContract,
                            .infer = infer_solve,
                            .jvp = jvp_solve,
                            .vjp = vjp_solve,
                            .batch = batch_leading,
                            .cost = cost_lu,
                            .layout = layout::leading<2>,
                            .samples = samples_solve,
                            .precision = kWide},
                           {.name = "triangular_solve",
                            .kind = kContract,
                            .infer = infer_solve,
                            .jvp = jvp_triangular,
                            .vjp = vjp_triangular,
                            .batch = batch_leading,
                            .cost = cost_triangular,
                            .layout = layout::leading<2>,
                            .samples = samples_triangular,
                            .precision = kWide},
                           {.name = "slogdet",
                            .kind = kContract,
                            .infer = infer_slogdet,
                            .jvp = jvp_slogdet,
                            .vjp = vjp_slogdet,
                            .batch = batch_leading,
                            .cost = cost_lu,
                            .layout = layout::leading<2>,
                            .samples = samples_square,
                            .precision = kWide}};

// Both operands with the same leading dims; b may be a vector.
Tensor solve_system(const OpDef& op, const Arg& a, const Arg& b, const Attrs& attrs) {
  const Tensor& matrix = a.tensor();
  check(matrix.rank() >= 2 && b.tensor().rank() >= 1,
        "{}: {} and {} are no system of equations, at {}", op.name, to_string(matrix.shape()),
        to_string(b.tensor().shape()), to_string(a.where()));
  const bool vector = b.tensor().rank() == 1;
  const Tensor right = vector ? expand_dims(b, -1) : b.tensor();
  const Shape batch =
      broadcast_shape(op.name, batch_of(matrix.shape()), batch_of(right.shape()), a.where());
  const auto repeated = [&](const Tensor& x) {
    return broadcast_to(x, with_matrix(batch, x.dim(-2), x.dim(-1)));
  };
  const Tensor x = apply1(op, {repeated(matrix), repeated(right)}, attrs, a.where());
  return vector ? squeeze(x, -1) : x;
}

}  // namespace

std::span<const OpDef> linalg_ops() { return kDefs; }

Tensor cholesky(const Arg& a) {
  expect_square(a, "cholesky");
  return apply1(kDefs[0], {symmetric_part(a)}, {}, a.where());
}

Tensor solve(const Arg& a, const Arg& b) { return solve_system(kDefs[1], a, b, {}); }

Tensor triangular_solve(const Arg& a, const Arg& b, const TriangularOptions& options) {
  return solve_system(kDefs[2], a, b, {{"lower", options.lower}, {"transpose", options.transpose}});
}

Tensor inverse(const Arg& a) {
  expect_square(a, "inverse");
  const int64_t n = a.tensor().dim(-1);
  return solve(a, eye(n, n, a.tensor().dtype()));
}

LogDeterminant slogdet(const Arg& a) {
  const Tensors results = apply(kDefs[3], std::array{a.tensor()}, {}, a.where());
  return {results[0], results[1]};
}

Tensor det(const Arg& a) {
  const Tensors results =
      apply(kDefs[3], std::array{a.tensor()}, {{kDerivativeOf, std::string("det")}}, a.where());
  return results[0] * exp(results[1]);
}

}  // namespace mstrain
