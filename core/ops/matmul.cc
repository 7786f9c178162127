#include "core/ops/matmul.h"

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

Types infer(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 2);
  const Shape& a = in[0].shape;
  const Shape& b = in[1].shape;
  if (in[0].dtype != in[1].dtype) {
    throw ShapeError(
        fmt::format("dtypes differ: {} and {}", name_of(in[0].dtype), name_of(in[1].dtype)),
        "convert one with cast()");
  }
  if (in[0].dtype == Dtype::kBool) {
    throw ShapeError("is not defined for bool", "convert it with cast()");
  }
  const int rank = a.rank();
  if (rank < 2 || b.rank() != rank) {
    throw ShapeError(fmt::format("needs two tensors of one rank of at least 2: {} x {}",
                                 to_string(a), to_string(b)));
  }
  const bool ta = attrs.flag("transpose_a");
  const bool tb = attrs.flag("transpose_b");
  const int64_t inner_a = a[rank - (ta ? 2 : 1)];
  const int64_t inner_b = b[rank - (tb ? 1 : 2)];
  if (inner_a != inner_b) {
    const bool fits = inner_a == b[rank - (tb ? 2 : 1)];
    throw ShapeError(fmt::format("inner dimensions differ: {}{} x {}{} ({} vs {})", to_string(a),
                                 ta ? "ᵀ" : "", to_string(b), tb ? "ᵀ" : "", inner_a, inner_b),
                     fits ? "did you forget transpose()?" : "");
  }
  Shape shape = a;
  for (int i = 0; i < rank - 2; ++i) {
    if (a[i] != b[i]) {
      throw ShapeError(fmt::format("leading dims differ: {} x {}", to_string(a), to_string(b)));
    }
  }
  shape[rank - 2] = a[rank - (ta ? 1 : 2)];
  shape[rank - 1] = b[rank - (tb ? 2 : 1)];
  return {{in[0].dtype, shape}};
}

Types infer_bias(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 3);
  const Types types = infer(in.first(2), attrs);
  if (in[2].dtype != in[0].dtype || in[2].shape.rank() != 1 ||
      in[2].shape[0] != types[0].shape.back()) {
    throw ShapeError(
        fmt::format("bias {} does not fit the result {}", to_string(in[2]), to_string(types[0])));
  }
  return types;
}

Types infer_add(std::span<const TensorType> in, const Attrs& attrs) {
  check(in.size() >= 3, "needs a, b and c");
  const Types types = in.size() == 3 ? infer(in.first(2), attrs) : infer_bias(in.first(3), attrs);
  if (!(in.back() == types[0])) {
    throw ShapeError(fmt::format("addend {} differs from the result {}", to_string(in.back()),
                                 to_string(types[0])));
  }
  return types;
}

Types infer_activation(std::span<const TensorType> in, const Attrs& attrs) {
  const std::string& name = attrs.text("activation");
  const auto* known =
      std::find(std::begin(kProductActivations), std::end(kProductActivations), name);
  if (known == std::end(kProductActivations)) {
    throw ShapeError(fmt::format("'{}' is no activation of a product", name));
  }
  if (!in.empty() && !is_floating(in[0].dtype)) {
    throw ShapeError(fmt::format("is not defined for {}", name_of(in[0].dtype)));
  }
  return infer_bias(in, attrs);
}

Tensor product(const Tensor& a, bool ta, const Tensor& b, bool tb);

Tensors jvp(const Application& node, std::span<const Tensor> t) {
  const auto term = [&](const Tensor& a, const Tensor& b) {
    return a && b ? apply1(node.op, {a, b}, node.attrs, kHere) : Tensor();
  };
  return {add_or_zero(term(t[0], node.inputs[1]), term(node.inputs[0], t[1]))};
}

// With A = op(a), B = op(b): dA = G Bᵀ, dB = Aᵀ G, in the orientation of a and b.
Tensors vjp(const Application& node, std::span<const Tensor> ct) {
  const bool ta = node.attrs.flag("transpose_a");
  const bool tb = node.attrs.flag("transpose_b");
  const Tensor& a = node.inputs[0];
  const Tensor& b = node.inputs[1];
  const Tensor& g = ct[0];
  return {ta ? product(b, tb, g, true) : product(g, false, b, !tb),
          tb ? product(g, true, a, ta) : product(a, !ta, g, false)};
}

Tensors batch(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
              std::span<const bool> batched, int64_t size) {
  const bool ta = attrs.flag("transpose_a");
  // A batch of left matrices against one right matrix is one taller product.
  if (batched[0] && !batched[1] && in[1].rank() == 2 && !ta) {
    const Shape& shape = in[0].shape();
    const Tensor rows = reshape(in[0], {shape[0] * shape[1], shape[2]});
    const Tensor result = apply1(op, {rows, in[1]}, attrs, kHere);
    return {reshape(result, {shape[0], shape[1], result.dim(1)})};
  }
  return apply(op, batch_all(in, batched, size), attrs, kHere);
}

// The product and what is added to it, one after the other.
Tensors decompose_sum(const Attrs& attrs, std::span<const Tensor> in) {
  Tensor sum = product(in[0], attrs.flag("transpose_a"), in[1], attrs.flag("transpose_b"));
  for (const Tensor& term : in.subspan(2)) {
    sum = sum + term;
  }
  return {sum};
}

Tensors decompose_activation(const Attrs& attrs, std::span<const Tensor> in) {
  return apply(*find_op(attrs.text("activation")), decompose_sum(attrs, in), {}, kHere);
}

Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs& attrs) {
  const int64_t k = in[0].shape[in[0].shape.rank() - (attrs.flag("transpose_a") ? 2 : 1)];
  return elementwise_cost(in, out, 2.0 * static_cast<double>(k));
}

std::vector<Sample> samples(Dtype t) {
  std::vector<Sample> result;
  const auto add = [&](const Shape& a, const Shape& b, bool ta, bool tb) {
    result.push_back(
        {{{{t, a}, -1, 1}, {{t, b}, -1, 1}}, {{"transpose_a", ta}, {"transpose_b", tb}}});
  };
  add({3, 4}, {4, 5}, false, false);
  add({17, 9}, {17, 33}, true, false);
  add({6, 9}, {31, 9}, false, true);
  add({4, 3}, {5, 4}, true, true);
  add({2, 3, 4, 5}, {2, 3, 5, 2}, false, false);
  add({2, 5, 4}, {2, 3, 5}, true, true);
  add({1, 1}, {1, 1}, false, false);
  add({0, 4}, {4, 3}, false, false);
  add({3, 0}, {0, 2}, false, false);
  return result;
}

std::vector<Sample> samples_bias(Dtype t) {
  std::vector<Sample> result = samples(t);
  for (Sample& sample : result) {
    const Shape& b = sample.inputs[1].type.shape;
    const int64_t n = b[b.rank() - (sample.attrs.flag("transpose_b") ? 2 : 1)];
    sample.inputs.push_back({{t, {n}}, -1, 1});
  }
  return result;
}

std::vector<Sample> with_addend(std::vector<Sample> result, InferRule rule) {
  for (Sample& sample : result) {
    Types types;
    for (const SampleInput& input : sample.inputs) {
      types.push_back(input.type);
    }
    sample.inputs.push_back({rule(types, sample.attrs)[0], -1, 1});
  }
  return result;
}
std::vector<Sample> samples_add(Dtype t) { return with_addend(samples(t), infer); }
std::vector<Sample> samples_bias_add(Dtype t) { return with_addend(samples_bias(t), infer_bias); }

std::vector<Sample> samples_activation(Dtype t) {
  std::vector<Sample> result;
  for (std::string_view name : kProductActivations) {
    for (Sample& sample : samples_bias(t)) {
      sample.attrs.set("activation", std::string(name));
      result.push_back(std::move(sample));
    }
  }
  return result;
}

constexpr OpDef sum_op(std::string_view name, InferRule infer, SampleRule samples) {
  return {.name = name,
          .kind = OpKind::kComposite,
          .dtypes = DtypeClass::kNumeric,
          .infer = infer,
          .jvp = jvp_by_decomposition,
          .vjp = vjp_by_decomposition,
          .batch = batch_by_decomposition,
          .decompose = decompose_sum,
          .cost = cost,
          .samples = samples};
}

constexpr OpDef kDefs[] = {
    {.name = "matmul",
     .kind = OpKind::kContract,
     .dtypes = DtypeClass::kNumeric,
     .infer = infer,
     .jvp = jvp,
     .vjp = vjp,
     .linear = 3,
     .batch = batch,
     .cost = cost,
     .samples = samples},
    sum_op("matmul_bias", infer_bias, samples_bias),
    sum_op("matmul_add", infer_add, samples_add),
    sum_op("matmul_bias_add", infer_add, samples_bias_add),
    {.name = "matmul_bias_activation",
     .kind = OpKind::kComposite,
     .infer = infer_activation,
     .jvp = jvp_by_decomposition,
     .vjp = vjp_by_decomposition,
     .batch = batch_by_decomposition,
     .decompose = decompose_activation,
     .cost = cost,
     .samples = samples_activation,
     .smooth = false},  // relu
};

Tensor product(const Tensor& a, bool ta, const Tensor& b, bool tb) {
  return apply1(kDefs[0], {a, b}, {{"transpose_a", ta}, {"transpose_b", tb}}, kHere);
}

}  // namespace

const OpDef& kMatmulBias = kDefs[1];
const OpDef& kMatmulAdd = kDefs[2];
const OpDef& kMatmulBiasAdd = kDefs[3];
const OpDef& kMatmulBiasActivation = kDefs[4];

std::span<const OpDef> matmul_ops() { return kDefs; }

Tensor matmul(const Arg& arg_a, const Arg& arg_b, const MatmulOptions& options) {
  Tensor a = arg_a.tensor();
  Tensor b = arg_b.tensor();
  check(a.rank() >= 1 && b.rank() >= 1, "matmul: a scalar is no matrix: {} x {}, at {}",
        to_string(a.shape()), to_string(b.shape()), to_string(arg_a.where()));
  const bool row = a.rank() == 1;
  const bool column = b.rank() == 1;
  a = row ? reshape(a, {1, a.dim(0)}) : a;
  b = column ? reshape(b, {b.dim(0), 1}) : b;
  const Attrs attrs{{"transpose_a", options.transpose_a && !row},
                    {"transpose_b", options.transpose_b && !column}};

  Tensor result;
  if (a.rank() > 2 && b.rank() == 2 && !attrs.flag("transpose_a")) {
    const Tensor rows = flatten(a, 0, a.rank() - 2);
    Shape shape = a.shape();
    result = apply1(kDefs[0], {rows, b}, attrs, arg_a.where());
    shape[shape.rank() - 1] = result.dim(1);
    result = reshape(result, shape);
  } else {
    const Shape leading =
        broadcast_shape("matmul", Shape(std::span(a.shape().begin(), a.shape().end() - 2)),
                        Shape(std::span(b.shape().begin(), b.shape().end() - 2)), arg_a.where());
    const auto widen = [&](const Tensor& x) {
      Shape shape = leading;
      shape.push_back(x.dim(-2));
      shape.push_back(x.dim(-1));
      return broadcast_to(x, shape);
    };
    result = apply1(kDefs[0], {widen(a), widen(b)}, attrs, arg_a.where());
  }
  if (row) {
    result = squeeze(result, -2);
  }
  return column ? squeeze(result, -1) : result;
}

}  // namespace mstrain
