// Orthogonal decompositions: QR, singular values, eigenvalues of symmetric matrices. They state how tangents pass;
// reverse mode follows by transposing that.
#include <array>

#include "core/ops/layouts.h"
#include "core/ops/linalg.h"
#include "core/ops/linalg_common.h"

namespace mstrain {
namespace {

Types infer_qr(std::span<const TensorType> in, const Attrs&) {
  expect_inputs(in, 1);
  const auto [m, n] = matrix_size(in[0]);
  if (m < n) {
    throw ShapeError(fmt::format("{} is wider than high", to_string(in[0].shape)));
  }
  return {in[0], {in[0].dtype, with_matrix(batch_of(in[0].shape), n, n)}};
}

Types infer_svd(std::span<const TensorType> in, const Attrs&) {
  expect_inputs(in, 1);
  const auto [m, n] = matrix_size(in[0]);
  const int64_t k = std::min(m, n);
  const Shape batch = batch_of(in[0].shape);
  const Dtype dtype = in[0].dtype;
  return {{dtype, with_matrix(batch, m, k)},
          {dtype, batch.with_inserted(batch.rank(), k)},
          {dtype, with_matrix(batch, k, n)}};
}

Types infer_eigh(std::span<const TensorType> in, const Attrs&) {
  expect_inputs(in, 1);
  const int64_t n = square_size(in[0]);
  const Shape batch = batch_of(in[0].shape);
  return {{in[0].dtype, batch.with_inserted(batch.rank(), n)}, in[0]};
}

Tensors cast_all(const Tensors& tensors, Dtype dtype) {
  Tensors result;
  for (const Tensor& x : tensors) {
    result.push_back(cast(x, dtype));
  }
  return result;
}

// With C = A' R⁻¹ and Ω the antisymmetric matrix that has the lower triangle of Qᵀ C: Q' = C - Q (Qᵀ C - Ω),
// R' = (Qᵀ C - Ω) R.
Tensors jvp_qr(const Application& node, std::span<const Tensor> t) {
  const Tensor q = widened(node.outputs[0]);
  const Tensor r = widened(node.outputs[1]);
  const Tensor da = widened(t[0]);
  const Tensor c =
      transpose(triangular_solve(r, transpose(da), {.lower = false, .transpose = true}));
  const Tensor qc = matmul(q, c, {.transpose_a = true});
  const Tensor below = tril(qc, -1);
  const Tensor upper = qc - (below - transpose(below));
  return cast_all({c - matmul(q, upper), matmul(upper, r)}, node.outputs[0].dtype());
}

// 1 / difference, 0 where it is 0.
Tensor inverse_or_zero(const Tensor& difference) {
  const Tensor none = equal(difference, 0);
  return where(none, 0, 1 / where(none, 1, difference));
}

// Element (i, j) is values[j] or values[i].
Tensor by_column(const Tensor& values) { return expand_dims(values, -2); }
Tensor by_row(const Tensor& values) { return expand_dims(values, -1); }

// With P = Vᵀ A' V: the values move by its diagonal, V' = V (P ∘ F), F_ij = 1 / (λ_j - λ_i).
Tensors jvp_eigh(const Application& node, std::span<const Tensor> t) {
  const Tensor values = widened(node.outputs[0]);
  const Tensor v = widened(node.outputs[1]);
  const Tensor p = matmul(v, matmul(from_lower(widened(t[0])), v), {.transpose_a = true});
  const Tensor f = inverse_or_zero(by_column(values) - by_row(values));
  return cast_all({diagonal(p), matmul(v, f * p)}, node.outputs[0].dtype());
}

// With P = Uᵀ A' V: S' is its diagonal, and F_ij = 1 / (s_j² - s_i²) turns what is left into rotations of U and V; what of
// A' V and A'ᵀ U lies outside of their columns is added where there is an outside (Townsend 2016).
Tensors jvp_svd(const Application& node, std::span<const Tensor> t) {
  const Tensor u = widened(node.outputs[0]);
  const Tensor s = widened(node.outputs[1]);
  const Tensor v = transpose(widened(node.outputs[2]));
  const Tensor da = widened(t[0]);
  const Tensor av = matmul(da, v);
  const Tensor p = matmul(u, av, {.transpose_a = true});
  const Tensor pt = transpose(p);
  const Tensor sj = by_column(s);
  const Tensor si = by_row(s);
  const Tensor f = inverse_or_zero((sj - si) * (sj + si));
  Tensor du = matmul(u, f * (p * sj + si * pt));
  Tensor dv = matmul(v, f * (si * p + pt * sj));
  if (u.dim(-2) > u.dim(-1)) {
    du = du + (av - matmul(u, p)) * inverse_or_zero(sj);
  }
  if (v.dim(-2) > v.dim(-1)) {
    dv = dv + (matmul(da, u, {.transpose_a = true}) - matmul(v, pt)) * inverse_or_zero(sj);
  }
  return cast_all({du, diagonal(p), transpose(dv)}, node.outputs[0].dtype());
}

Cost cost_qr(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return cubic_cost(in, out, 4);
}
Cost cost_values(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return cubic_cost(in, out, 10);
}

std::vector<Sample> samples_of(Dtype t, std::initializer_list<Shape> shapes) {
  std::vector<Sample> result;
  for (const Shape& shape : shapes) {
    result.push_back({{regular(t, shape)}, {}});
  }
  return result;
}
std::vector<Sample> samples_qr(Dtype t) {
  return samples_of(t, {{4, 3}, {3, 3}, {2, 5, 2}, {1, 1}, {0, 4, 2}, {3, 0}});
}
std::vector<Sample> samples_svd(Dtype t) {
  return samples_of(t, {{4, 3}, {3, 3}, {2, 2, 5}, {1, 1}, {0, 4, 2}, {0, 2}});
}
std::vector<Sample> samples_eigh(Dtype t) {
  return samples_of(t, {{4, 4}, {2, 3, 3}, {1, 1}, {0, 3, 3}, {0, 0}});
}

constexpr OpDef decomposition(std::string_view name, InferRule infer, JvpRule jvp, CostRule cost,
                              SampleRule samples) {
  return {.name = name,
          .kind = OpKind::kContract,
          .infer = infer,
          .jvp = jvp,
          .batch = batch_leading,
          .cost = cost,
          .layout = layout::leading<2>,
          .samples = samples,
          .precision = Precision::kWide};
}

constexpr OpDef kDefs[] = {decomposition("qr", infer_qr, jvp_qr, cost_qr, samples_qr),
                           decomposition("svd", infer_svd, jvp_svd, cost_values, samples_svd),
                           decomposition("eigh", infer_eigh, jvp_eigh, cost_values, samples_eigh)};

}  // namespace

std::span<const OpDef> decomposition_ops() { return kDefs; }

Qr qr(const Arg& arg) {
  const Tensor& a = arg.tensor();
  const int64_t m = a.rank() < 2 ? 0 : a.dim(-2);
  const int64_t n = a.rank() < 2 ? 0 : a.dim(-1);
  // Of a wide matrix the first columns decide.
  const Tensor high = m < n ? slice(arg, -1, 0, m) : a;
  const Tensors results = apply(kDefs[0], std::array{high}, {}, arg.where());
  if (m >= n) {
    return {results[0], results[1]};
  }
  const Tensor rest = matmul(results[0], slice(arg, -1, m, n), {.transpose_a = true});
  return {results[0], concat(std::array{results[1], rest}, -1, arg.where())};
}

Svd svd(const Arg& a) {
  const Tensors results = apply(kDefs[1], std::array{a.tensor()}, {}, a.where());
  return {results[0], results[1], results[2]};
}

Eigh eigh(const Arg& a) {
  expect_square(a, "eigh");
  const Tensors results = apply(kDefs[2], std::array{symmetric_part(a)}, {}, a.where());
  return {results[0], results[1]};
}

}  // namespace mstrain
