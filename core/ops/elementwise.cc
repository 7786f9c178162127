#include "core/ops/elementwise.h"

#include <array>

#include "core/ops/build.h"
#include "core/ops/scalar_math.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

using X = std::span<const Tensor>;
using T = const Tensor&;

// Scalar functions with the signature of a row.
#define MSTRAIN_ONE(name)                                            \
  double eval_##name(const double* x) { return scalar::name(x[0]); } \
  [[maybe_unused]] int64_t int_##name(const int64_t* x) { return scalar::name(x[0]); }
MSTRAIN_UNARY_NUMERIC(MSTRAIN_ONE)
#undef MSTRAIN_ONE
#define MSTRAIN_ONE(name) \
  double eval_##name(const double* x) { return scalar::name(x[0]); }
MSTRAIN_UNARY_FLOATING(MSTRAIN_ONE)
#undef MSTRAIN_ONE
#define MSTRAIN_TWO(name)                                                  \
  double eval_##name(const double* x) { return scalar::name(x[0], x[1]); } \
  int64_t int_##name(const int64_t* x) { return scalar::name(x[0], x[1]); }
MSTRAIN_BINARY_NUMERIC(MSTRAIN_TWO)
MSTRAIN_COMPARISONS(MSTRAIN_TWO)
#undef MSTRAIN_TWO
#define MSTRAIN_TWO(name) \
  double eval_##name(const double* x) { return scalar::name(x[0], x[1]); }
MSTRAIN_BINARY_FLOATING(MSTRAIN_TWO)
#undef MSTRAIN_TWO

double eval_and(const double* x) { return x[0] != 0 && x[1] != 0; }
double eval_or(const double* x) { return x[0] != 0 || x[1] != 0; }
double eval_not(const double* x) { return x[0] == 0; }
int64_t int_and(const int64_t* x) { return static_cast<int64_t>(x[0] != 0 && x[1] != 0); }
int64_t int_or(const int64_t* x) { return static_cast<int64_t>(x[0] != 0 || x[1] != 0); }
int64_t int_not(const int64_t* x) { return static_cast<int64_t>(x[0] == 0); }
double eval_where(const double* x) { return x[0] != 0 ? x[1] : x[2]; }
int64_t int_where(const int64_t* x) { return x[0] != 0 ? x[1] : x[2]; }

Tensor zero(X, T, T) { return {}; }
constexpr auto kAny = DtypeClass::kAny;
constexpr auto kFloating = DtypeClass::kFloating;
constexpr auto kNumeric = DtypeClass::kNumeric;

// d: derivative for each input times t. x: inputs, z: result.
// clang-format off: a row a line
constexpr ElementwiseOp kRows[] = {
    {"neg", 1, kNumeric, {[](X, T, T t) { return -t; }}, 1, eval_neg, int_neg, {{-2, 2}}},
    {"abs",
     1,
     kNumeric,
     {[](X x, T, T t) { return t * sign(x[0]); }},
     0,
     eval_abs,
     int_abs,
     {{-2, 2}},
     false,
     1,
     false},
    {"sign", 1, kNumeric, {zero}, 0, eval_sign, int_sign, {{-2, 2}}, false, 1, false},
    {"identity", 1, kAny, {[](X, T, T t) { return t; }}, 1, eval_identity, int_identity, {{-2, 2}}},
    {"stop_gradient", 1, kAny, {zero}, 0, eval_identity, int_identity, {{-2, 2}}, false, 1, false},
    {"relu",
     1,
     kNumeric,
     {[](X x, T, T t) { return where(x[0] > 0, t, 0); }},
     0,
     eval_relu,
     int_relu,
     {{-2, 2}},
     false,
     1,
     false},
    {"floor", 1, kFloating, {zero}, 0, eval_floor, nullptr, {{-3, 3}}, false, 1, false},
    {"ceil", 1, kFloating, {zero}, 0, eval_ceil, nullptr, {{-3, 3}}, false, 1, false},
    {"round", 1, kFloating, {zero}, 0, eval_round, nullptr, {{-3, 3}}, false, 1, false},
    {"sqrt",
     1,
     kFloating,
     {[](X, T z, T t) { return t * 0.5 / z; }},
     0,
     eval_sqrt,
     nullptr,
     {{0.1, 4}},
     false,
     2},
    {"rsqrt",
     1,
     kFloating,
     {[](X, T z, T t) { return t * -0.5 * z * z * z; }},
     0,
     eval_rsqrt,
     nullptr,
     {{0.1, 4}},
     false,
     3},
    {"exp",
     1,
     kFloating,
     {[](X, T z, T t) { return t * z; }},
     0,
     eval_exp,
     nullptr,
     {{-4, 4}},
     false,
     8},
    {"expm1",
     1,
     kFloating,
     {[](X, T z, T t) { return t * (z + 1); }},
     0,
     eval_expm1,
     nullptr,
     {{-4, 4}},
     false,
     10},
    {"log",
     1,
     kFloating,
     {[](X x, T, T t) { return t / x[0]; }},
     0,
     eval_log,
     nullptr,
     {{0.1, 5}},
     false,
     8},
    {"log1p",
     1,
     kFloating,
     {[](X x, T, T t) { return t / (x[0] + 1); }},
     0,
     eval_log1p,
     nullptr,
     {{-0.5, 5}},
     false,
     10},
    {"sin",
     1,
     kFloating,
     {[](X x, T, T t) { return t * cos(x[0]); }},
     0,
     eval_sin,
     nullptr,
     {{-4, 4}},
     false,
     10},
    {"cos",
     1,
     kFloating,
     {[](X x, T, T t) { return t * -sin(x[0]); }},
     0,
     eval_cos,
     nullptr,
     {{-4, 4}},
     false,
     10},
    {"tanh",
     1,
     kFloating,
     {[](X, T z, T t) { return t * (1 - z * z); }},
     0,
     eval_tanh,
     nullptr,
     {{-3, 3}},
     false,
     12},
    {"erf",
     1,
     kFloating,
     {[](X x, T, T t) { return t * 1.1283791670955126 * exp(-(x[0] * x[0])); }},
     0,
     eval_erf,
     nullptr,
     {{-3, 3}},
     false,
     14},
    {"sigmoid",
     1,
     kFloating,
     {[](X, T z, T t) { return t * z * (1 - z); }},
     0,
     eval_sigmoid,
     nullptr,
     {{-4, 4}},
     false,
     10},
    {"softplus",
     1,
     kFloating,
     {[](X x, T, T t) { return t * sigmoid(x[0]); }},
     0,
     eval_softplus,
     nullptr,
     {{-4, 4}},
     false,
     20},
    {"silu",
     1,
     kFloating,
     {[](X x, T z, T t) {
       const Tensor s = sigmoid(x[0]);
       return t * (s + z * (1 - s));
     }},
     0,
     eval_silu,
     nullptr,
     {{-4, 4}},
     false,
     11},
    {"gelu",
     1,
     kFloating,
     {[](X x, T, T t) { return gelu_grad(x[0], t); }},
     0,
     eval_gelu,
     nullptr,
     {{-3, 3}},
     false,
     17},
    {"gelu_tanh",
     1,
     kFloating,
     {[](X x, T, T t) { return gelu_tanh_grad(x[0], t); }},
     0,
     eval_gelu_tanh,
     nullptr,
     {{-3, 3}},
     false,
     19},
    // gelu''(x) = φ(x) (2 - x²)
    {"gelu_grad",
     2,
     kFloating,
     {[](X x, T, T t) {
        return t * x[1] * (scalar::kInvSqrt2Pi * exp(-0.5 * x[0] * x[0])) * (2 - x[0] * x[0]);
      },
      [](X x, T, T t) { return gelu_grad(x[0], t); }},
     2,
     eval_gelu_grad,
     nullptr,
     {{-3, 3}, {-2, 2}},
     false,
     25},
    {"gelu_tanh_grad",
     2,
     kFloating,
     {[](X x, T, T t) {
        // u = √(2/π)(x + c x³), s = tanh u: the derivative of ½(1 + s + x s') with s' = (1 - s²)u'.
        const Tensor x2 = x[0] * x[0];
        const Tensor s = tanh(scalar::kSqrt2OverPi * (x[0] + scalar::kGeluCubic * x[0] * x2));
        const Tensor du = scalar::kSqrt2OverPi * (1 + 3 * scalar::kGeluCubic * x2);
        const Tensor ddu = 6 * scalar::kSqrt2OverPi * scalar::kGeluCubic * x[0];
        const Tensor ds = 1 - s * s;
        return t * x[1] * (ds * du + 0.5 * x[0] * ds * (ddu - 2 * s * du * du));
      },
      [](X x, T, T t) { return gelu_tanh_grad(x[0], t); }},
     2,
     eval_gelu_tanh_grad,
     nullptr,
     {{-3, 3}, {-2, 2}},
     false,
     27},
    {"add",
     2,
     kNumeric,
     {[](X, T, T t) { return t; }, [](X, T, T t) { return t; }},
     3,
     eval_add,
     int_add,
     {{-2, 2}, {-2, 2}}},
    {"sub",
     2,
     kNumeric,
     {[](X, T, T t) { return t; }, [](X, T, T t) { return -t; }},
     3,
     eval_sub,
     int_sub,
     {{-2, 2}, {-2, 2}}},
    {"mul",
     2,
     kNumeric,
     {[](X x, T, T t) { return t * x[1]; }, [](X x, T, T t) { return t * x[0]; }},
     3,
     eval_mul,
     int_mul,
     {{-2, 2}, {-2, 2}}},
    {"div",
     2,
     kNumeric,
     {[](X x, T, T t) { return t / x[1]; }, [](X x, T z, T t) { return -t * (z / x[1]); }},
     1,
     eval_div,
     int_div,
     {{-2, 2}, {0.5, 2}}},
    {"minimum",
     2,
     kNumeric,
     {[](X x, T, T t) { return where(x[0] <= x[1], t, 0); },
      [](X x, T, T t) { return where(x[0] <= x[1], 0, t); }},
     0,
     eval_minimum,
     int_minimum,
     {{-2, 2}, {-2, 2}},
     false,
     1,
     false},
    {"maximum",
     2,
     kNumeric,
     {[](X x, T, T t) { return where(x[0] >= x[1], t, 0); },
      [](X x, T, T t) { return where(x[0] >= x[1], 0, t); }},
     0,
     eval_maximum,
     int_maximum,
     {{-2, 2}, {-2, 2}},
     false,
     1,
     false},
    {"remainder",
     2,
     kNumeric,
     {[](X, T, T t) { return t; },
      [](X x, T z, T t) { return -t * stop_gradient(round((x[0] - z) / x[1])); }},
     0,
     eval_remainder,
     int_remainder,
     {{-2, 2}, {0.5, 2}},
     false,
     4,
     false},
    {"pow",
     2,
     kFloating,
     {[](X x, T, T t) { return t * x[1] * pow(x[0], x[1] - 1); },
      // x = 0: x^y is constant in y > 0, although log x is not finite.
      [](X x, T z, T t) {
        const Tensor positive = x[0] > 0;
        return where(positive, t * z * log(where(positive, x[0], 1)), 0);
      }},
     0,
     eval_pow,
     nullptr,
     {{0.2, 3}, {-2, 2}},
     false,
     20},
    {"equal", 2, kAny, {zero, zero}, 0, eval_equal, int_equal, {{-2, 2}, {-2, 2}}, true, 1, false},
    {"not_equal",
     2,
     kAny,
     {zero, zero},
     0,
     eval_not_equal,
     int_not_equal,
     {{-2, 2}, {-2, 2}},
     true,
     1,
     false},
    {"less", 2, kAny, {zero, zero}, 0, eval_less, int_less, {{-2, 2}, {-2, 2}}, true, 1, false},
    {"less_equal",
     2,
     kAny,
     {zero, zero},
     0,
     eval_less_equal,
     int_less_equal,
     {{-2, 2}, {-2, 2}},
     true,
     1,
     false},
    {"greater",
     2,
     kAny,
     {zero, zero},
     0,
     eval_greater,
     int_greater,
     {{-2, 2}, {-2, 2}},
     true,
     1,
     false},
    {"greater_equal",
     2,
     kAny,
     {zero, zero},
     0,
     eval_greater_equal,
     int_greater_equal,
     {{-2, 2}, {-2, 2}},
     true,
     1,
     false},
    {"logical_and",
     2,
     DtypeClass::kBool,
     {zero, zero},
     0,
     eval_and,
     int_and,
     {{0, 2}, {0, 2}},
     false,
     1,
     false},
    {"logical_or",
     2,
     DtypeClass::kBool,
     {zero, zero},
     0,
     eval_or,
     int_or,
     {{0, 2}, {0, 2}},
     false,
     1,
     false},
    {"logical_not", 1, DtypeClass::kBool, {zero}, 0, eval_not, int_not, {{0, 2}}, false, 1, false},
    {"where",
     3,
     kAny,
     {zero, [](X x, T, T t) { return where(x[0], t, 0); },
      [](X x, T, T t) { return where(x[0], 0, t); }},
     6,
     eval_where,
     int_where,
     {{0, 2}, {-2, 2}, {-2, 2}}},
    {"cast",
     1,
     kAny,
     {[](X x, T z, T t) -> Tensor {
       // t has the dtype of z as a tangent and is converted back as a cotangent; both directions are a cast.
       return is_floating(x[0].dtype()) && is_floating(z.dtype())
                  ? cast(t, t.dtype() == z.dtype() ? x[0].dtype() : z.dtype())
                  : Tensor();
     }},
     1,
     eval_identity,
     int_identity,
     {{-3, 3}}},
};
// clang-format on
constexpr size_t kNumRows = std::size(kRows);

extern const std::array<OpDef, kNumRows> kDefs;

const ElementwiseOp& row_of(const OpDef& op) { return kRows[&op - kDefs.data()]; }

Types infer(const ElementwiseOp& row, std::span<const TensorType> inputs, const Attrs& attrs) {
  expect_inputs(inputs, row.arity);
  const bool selects = row.name == "where";
  const TensorType& first = inputs[selects ? 1 : 0];
  for (const TensorType& type : inputs) {
    if (!(type.shape == first.shape)) {
      throw ShapeError(
          fmt::format("shapes differ: {} and {}", to_string(first.shape), to_string(type.shape)));
    }
    if (type.dtype != first.dtype && !(selects && &type == inputs.data())) {
      throw ShapeError(
          fmt::format("dtypes differ: {} and {}", name_of(first.dtype), name_of(type.dtype)),
          "convert one with cast()");
    }
    if (!accepts(row.dtypes, type.dtype)) {
      throw ShapeError(fmt::format("is not defined for {}", name_of(type.dtype)),
                       "convert it with cast()");
    }
  }
  if (selects && inputs[0].dtype != Dtype::kBool) {
    throw ShapeError(fmt::format("the condition is {}, not bool", name_of(inputs[0].dtype)),
                     "compare it with 0");
  }
  if (row.name == "cast") {
    return {{attrs.dtype("dtype"), first.shape}};
  }
  return {{row.comparison ? Dtype::kBool : first.dtype, first.shape}};
}

// A rule of OpDef is a plain function that knows its operation by the row's number.
template <size_t kRow>
Types infer_row(std::span<const TensorType> inputs, const Attrs& attrs) {
  return infer(kRows[kRow], inputs, attrs);
}

Tensors jvp(const Application& node, std::span<const Tensor> tangents) {
  const ElementwiseOp& row = row_of(node.op);
  Tensor sum;
  for (size_t i = 0; i < tangents.size(); ++i) {
    if (tangents[i]) {
      sum = add_or_zero(sum, row.derivatives[i](node.inputs, node.outputs[0], tangents[i]));
    }
  }
  return {sum};
}

// A diagonal operator is its own transpose.
Tensors vjp(const Application& node, std::span<const Tensor> cotangents) {
  const ElementwiseOp& row = row_of(node.op);
  Tensors result;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    result.push_back(row.derivatives[i](node.inputs, node.outputs[0], cotangents[0]));
  }
  return result;
}

Tensors batch(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs,
              std::span<const bool> batched, int64_t size) {
  return apply(op, batch_all(inputs, batched, size), attrs, SourceLocation::current());
}

template <size_t kRow>
Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs&) {
  return elementwise_cost(inputs, outputs, kRows[kRow].flops);
}

template <size_t kRow>
std::vector<Sample> samples(Dtype dtype) {
  const ElementwiseOp& row = kRows[kRow];
  std::vector<Sample> result;
  for (const Shape& shape :
       {Shape{}, Shape{1}, Shape{7}, Shape{3, 33}, Shape{2, 0, 3}, Shape{2, 1030}}) {
    Sample sample;
    for (int i = 0; i < row.arity; ++i) {
      const bool condition = row.name == "where" && i == 0;
      sample.inputs.push_back(
          {{condition ? Dtype::kBool : dtype, shape}, row.ranges[i].low, row.ranges[i].high});
    }
    if (row.name == "cast") {
      for (Dtype to : kAllDtypes) {
        sample.attrs = {{"dtype", to}};
        result.push_back(sample);
      }
    } else if (row.name == "identity") {
      sample.attrs = {{"tag", int64_t{0}}};
      result.push_back(sample);
    } else {
      result.push_back(sample);
    }
  }
  return result;
}

template <size_t... kRow>
constexpr std::array<OpDef, kNumRows> make_defs(std::index_sequence<kRow...>) {
  return {OpDef{.name = kRows[kRow].name,
                .kind = OpKind::kElementwise,
                .dtypes = kRows[kRow].dtypes,
                .infer = infer_row<kRow>,
                .jvp = jvp,
                .vjp = vjp,
                .linear = kRows[kRow].linear,
                .batch = batch,
                .cost = cost<kRow>,
                .samples = samples<kRow>,
                .smooth = kRows[kRow].smooth}...};
}
// Before any code runs, so that start-up may register the operations in any order of object files.
constinit const std::array<OpDef, kNumRows> kDefs = make_defs(std::make_index_sequence<kNumRows>());

const OpDef& def_of(std::string_view name) {
  for (const OpDef& def : kDefs) {
    if (def.name == name) {
      return def;
    }
  }
  fail("no elementwise operation {}", name);
}

Tensor unary(const OpDef& op, const Arg& x) { return apply1(op, {x.tensor()}, {}, x.where()); }

Tensor binary(const OpDef& op, const Arg& x, const Arg& y) {
  const auto [a, b] = broadcast_together(op.name, x, y);
  return apply1(op, {a, b}, {}, x.where());
}

}  // namespace

const ElementwiseOp* elementwise_op(const OpDef& op) {
  const bool ours = &op >= kDefs.data() && &op < kDefs.data() + kNumRows;
  return ours ? &row_of(op) : nullptr;
}

std::span<const OpDef> elementwise_ops() { return kDefs; }

#define MSTRAIN_FUNCTION(name)              \
  Tensor name(const Arg& x) {               \
    static const OpDef& op = def_of(#name); \
    return unary(op, x);                    \
  }
#define MSTRAIN_FUNCTIONS(F) \
  F(neg) F(abs) F(sign) F(relu) F(stop_gradient) F(logical_not) MSTRAIN_UNARY_FLOATING(F)
MSTRAIN_FUNCTIONS(MSTRAIN_FUNCTION)
#undef MSTRAIN_FUNCTION
#undef MSTRAIN_FUNCTIONS
#define MSTRAIN_FUNCTION(name)              \
  Tensor name(const Arg& x, const Arg& y) { \
    static const OpDef& op = def_of(#name); \
    return binary(op, x, y);                \
  }
MSTRAIN_BINARY_NUMERIC(MSTRAIN_FUNCTION)
MSTRAIN_BINARY_FLOATING(MSTRAIN_FUNCTION)
MSTRAIN_COMPARISONS(MSTRAIN_FUNCTION)
MSTRAIN_FUNCTION(logical_and)
MSTRAIN_FUNCTION(logical_or)
#undef MSTRAIN_FUNCTION

Tensor square(const Arg& x) { return mul(x, x); }

Tensor where(const Arg& condition, const Arg& x, const Arg& y) {
  static const OpDef& op = def_of("where");
  const auto [a, b] = broadcast_together(op.name, x, y);
  const Shape shape =
      broadcast_shape(op.name, condition.tensor().shape(), a.shape(), condition.where());
  return apply1(op,
                {broadcast_to(condition, shape), broadcast_to(a, shape), broadcast_to(b, shape)},
                {}, condition.where());
}

Tensor cast(const Arg& x, Dtype dtype) {
  static const OpDef& op = def_of("cast");
  return x.tensor().dtype() == dtype ? x.tensor()
                                     : apply1(op, {x.tensor()}, {{"dtype", dtype}}, x.where());
}

Tensor tagged_identity(const Tensor& x, int64_t tag) {
  static const OpDef& op = def_of("identity");
  return apply1(op, {x}, {{"tag", tag}}, SourceLocation::current());
}

}  // namespace mstrain
