#include "core/ops/elementwise.h"

#include <array>
#include <limits>

#include "core/ops/alias.h"
#include "core/ops/build.h"
#include "core/ops/layouts.h"
#include "core/ops/scalar_math.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

using X = std::span<const Tensor>;
using T = const Tensor&;
using Kind = ElementwiseOp::Kind;
constexpr auto kWide = Precision::kWide;
constexpr double kTwoOverSqrtPi = 1.1283791670955126;

constexpr double kLn2 = scalar::kLn2;
constexpr double kLn10 = scalar::kLn10;

// What derivatives in the table are written with.

Tensor zero() { return {}; }

// Where a factor has become zero in f64 too, the other one need not grow any more: at infinity 0 · ∞ would be no number.
Tensor within(T x, double bound) { return minimum(maximum(x, -bound), bound); }

Tensor silu_slope(T x, T z, T t) {
  const Tensor s = sigmoid(x);
  const auto rest = 1 - s;  // here, since compilers differ in which factor they make first
  return t * (s + minimum(z, 40) * rest);
}

// (cos x - sinc x) / x; near 0 its series, -x/3 + x³/30 - x⁵/840 (the next term is below 1e-13 there).
Tensor sinc_slope(T x) {
  const Tensor far = abs(x) > 0.03;
  const Tensor at = where(far, x, 1);
  const Tensor x2 = x * x;
  return where(far, (cos(x) - sinc(x)) / at, x * (x2 * (1.0 / 30 - x2 / 840) - 1.0 / 3));
}

Tensor quick_gelu_slope(T x, T t) {
  const Tensor s = sigmoid(scalar::kQuickGelu * x);
  return t * s * (1 + scalar::kQuickGelu * within(x, 80) * (1 - s));
}

Tensor mish_slope(T x, T t) {
  const Tensor s = tanh(softplus(x));
  return t * (s + within(x, 80) * sigmoid(x) * (1 - s * s));
}

// y / (x² + y²), in units of the larger magnitude, so that nothing overflows; 0 at the origin and at infinity.
Tensor angle_slope(T x, T y) {
  const Tensor larger = maximum(abs(x), abs(y));
  const Tensor plain = logical_and(larger > 0, isfinite(larger));
  const Tensor unit = where(plain, larger, 1);
  const Tensor a = where(plain, x, 1) / unit;
  const Tensor b = where(plain, y, 0) / unit;
  return b / ((a * a + b * b) * unit);
}

// x of a length z: its sign where it is infinite, 0 where nothing has a length.
Tensor share_of(T x, T z) {
  const Tensor far = isinf(x);
  return where(far, sign(x), where(far, 0, x) / where(equal(z, 0), 1, z));
}

// gelu''(x) = φ(x) (2 - x²)
Tensor gelu_curve(T whole) {
  const Tensor x = within(whole, 40);
  return (scalar::kInvSqrt2Pi * exp(-0.5 * x * x)) * (2 - x * x);
}

// With u = √(2/π)(x + c x³), s = tanh u: the derivative of ½(1 + s + x s') where s' = (1 - s²)u'.
Tensor gelu_tanh_curve(T whole) {
  const Tensor x = within(whole, 40);
  const Tensor x2 = x * x;
  const Tensor s = tanh(scalar::kSqrt2OverPi * (x + scalar::kGeluCubic * x * x2));
  const Tensor du = scalar::kSqrt2OverPi * (1 + 3 * scalar::kGeluCubic * x2);
  const Tensor ddu = 6 * scalar::kSqrt2OverPi * scalar::kGeluCubic * x;
  const Tensor ds = 1 - s * s;
  return ds * du + 0.5 * x * ds * (ddu - 2 * s * du * du);
}

// floor(x / y) as the remainder z took it. z = y: x has the other sign and is nothing beside y, which may be infinite.
Tensor whole_quotient(T x, T y, T z) { return where(equal(z, y), -1, round((x - z) / y)); }

// By x. x^0 is constant, also where 1 / x is infinite; a power that has vanished stays so, however large y is.
Tensor pow_slope_x(T x, T y, T t) {
  const Tensor constant = logical_and(equal(y, 0), equal(1 / (1 / x), 0));
  const Tensor power = pow(where(constant, 1, x), y - 1);
  const Tensor vanished = logical_and(equal(power, 0), equal(1 / y, 0));
  return t * where(vanished, 0, y) * power;
}

// By y. x = 0: x^y is constant in y > 0, although log x is not finite; so is a power that has vanished.
Tensor pow_slope_y(T x, T z, T t) {
  const Tensor varies = logical_and(x > 0, not_equal(z, 0));
  return where(varies, t * z * log(where(varies, x, 1)), 0);
}

// t has the dtype of z as a tangent and is converted back as a cotangent; both directions are a cast.
Tensor cast_back(X x, T z, T t) {
  return is_floating(x[0].dtype()) && is_floating(z.dtype())
             ? cast(t, t.dtype() == z.dtype() ? x[0].dtype() : z.dtype())
             : Tensor();
}

std::optional<Aliased> alias_cast(const Attrs& attrs, std::span<const ViewType> in, size_t) {
  return in[0].type.dtype == attrs.dtype("dtype") ? alias::each(attrs, in, 0) : std::nullopt;
}

// A row's function of `arity` scalars in the types of the oracle.
template <class T, int arity, class F>
T evaluate(const T* x) {
  if constexpr (arity == 1) {
    return static_cast<T>(F()(x[0]));
  } else if constexpr (arity == 2) {
    return static_cast<T>(F()(x[0], x[1]));
  } else {
    return static_cast<T>(F()(x[0], x[1], x[2]));
  }
}

template <DtypeClass types, int arity, class F>
constexpr ElementwiseOp row(std::string_view name, F, Kind kind,
                            std::array<ElementwiseOp::Derivative, 3> derivatives,
                            const ElementwiseTraits& traits) {
  ElementwiseOp row{.name = name, .arity = arity, .dtypes = types};
  std::copy(derivatives.begin(), derivatives.end(), row.derivatives);
  if constexpr (types != DtypeClass::kInteger) {
    row.evaluate = evaluate<double, arity, F>;
  }
  if constexpr (types != DtypeClass::kFloating) {
    row.evaluate_integers = evaluate<int64_t, arity, F>;
  }
  row.traits = traits;
  row.kind = kind;
  return row;
}

// clang-format off
#define BY(derivative)                                                    \
  [](X in, [[maybe_unused]] T z, [[maybe_unused]] T t) -> Tensor {        \
    [[maybe_unused]] const Tensor& x = in[0];                             \
    [[maybe_unused]] const Tensor& y = in[in.size() > 1 ? 1 : 0];         \
    return derivative;                                                    \
  }
#define UNARY(name, types, value, dx, ...)                                                     \
  row<DtypeClass::types, 1>(#name, [](auto x) { return scalar::name(x); }, Kind::kNumbers,     \
                            {BY(dx)}, ElementwiseTraits{__VA_ARGS__}),
#define BINARY(name, types, value, dx, dy, ...)                                                \
  row<DtypeClass::types, 2>(#name, [](auto x, auto y) { return scalar::name(x, y); },          \
                            Kind::kNumbers, {BY(dx), BY(dy)}, ElementwiseTraits{__VA_ARGS__}),
#define COMPARISON(name, value)                                                                \
  row<DtypeClass::kAny, 2>(#name, [](auto x, auto y) { return scalar::name(x, y); },           \
                           Kind::kComparison, {BY(zero()), BY(zero())}, ElementwiseTraits{.smooth = false}),
#define PREDICATE(name, value)                                                                 \
  row<DtypeClass::kFloating, 1>(#name, [](auto x) { return scalar::name(x); },                 \
                                Kind::kComparison, {BY(zero())}, ElementwiseTraits{.smooth = false}),
#define INTEGER1(name, value, ...)                                                             \
  row<DtypeClass::kInteger, 1>(#name, [](auto x) { return scalar::name(x); }, Kind::kNumbers,  \
                               {BY(zero())}, ElementwiseTraits{__VA_ARGS__}),
#define INTEGER2(name, value, ...)                                                             \
  row<DtypeClass::kInteger, 2>(#name, [](auto x, auto y) { return scalar::name(x, y); },       \
                               Kind::kNumbers, {BY(zero()), BY(zero())},                       \
                               ElementwiseTraits{__VA_ARGS__}),
#define CONDITION1(name, value)                                                                \
  row<DtypeClass::kBool, 1>(#name, [](auto x) { return scalar::name(x); }, Kind::kCondition,   \
                            {BY(zero())}, ElementwiseTraits{.range = {{0, 2}}, .smooth = false}),
#define CONDITION2(name, value)                                                                \
  row<DtypeClass::kBool, 2>(#name, [](auto x, auto y) { return scalar::name(x, y); },          \
                            Kind::kCondition, {BY(zero()), BY(zero())},                        \
                            ElementwiseTraits{.range = {{0, 2}, {0, 2}}, .smooth = false}),
#define SELECTION(name)                                                                        \
  row<DtypeClass::kAny, 3>(#name, [](auto c, auto x, auto y) { return c != 0 ? x : y; },       \
                           Kind::kSelection,                                                   \
                           {BY(zero()), BY(where(x, t, 0)), BY(where(x, 0, t))},               \
                           ElementwiseTraits{.range = {{0, 2}}, .linear = {0b110}}),
#define CONVERSION(name)                                                                       \
  row<DtypeClass::kAny, 1>(#name, [](auto x) { return x; }, Kind::kConversion, {cast_back},    \
                           ElementwiseTraits{.range = {{-3, 3}}, .precision = Precision::kAny, .alias = alias_cast, .linear = {1}}),

constexpr ElementwiseOp kRows[] = {
#include "core/ops/elementwise_table.inc"
};
#undef BY
// clang-format on
constexpr size_t kNumRows = std::size(kRows);

extern const std::array<OpDef, kNumRows> kDefs;

const ElementwiseOp& row_of(const OpDef& op) { return kRows[&op - kDefs.data()]; }

Types infer(const ElementwiseOp& row, std::span<const TensorType> inputs, const Attrs& attrs) {
  expect_inputs(inputs, row.arity);
  const bool selects = row.kind == Kind::kSelection;
  const TensorType& first = inputs[row.worked_input()];
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
  if (row.kind == Kind::kConversion) {
    return {{attrs.dtype("dtype"), first.shape}};
  }
  return {{row.kind == Kind::kComparison ? Dtype::kBool : first.dtype, first.shape}};
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
    if (tangents[i].defined()) {
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
  return elementwise_cost(inputs, outputs, kRows[kRow].traits.flops);
}

template <size_t kRow>
std::vector<Sample> samples(Dtype dtype) {
  const ElementwiseOp& row = kRows[kRow];
  std::vector<Sample> result;
  for (const Shape& shape :
       {Shape{}, Shape{1}, Shape{7}, Shape{3, 33}, Shape{2, 0, 3}, Shape{2, 1030}}) {
    Sample sample;
    for (int i = 0; i < row.arity; ++i) {
      const bool condition = row.kind == Kind::kSelection && i == 0;
      sample.inputs.push_back({{condition ? Dtype::kBool : dtype, shape},
                               row.traits.range[i].low,
                               row.traits.range[i].high});
    }
    if (row.kind == Kind::kConversion) {
      for (Dtype to : kAllDtypes) {
        sample.attrs = {{"dtype", to}};
        result.push_back(sample);
      }
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
                .batch = batch,
                .cost = cost<kRow>,
                .layout = layout::elementwise,
                .samples = samples<kRow>,
                .smooth = kRows[kRow].traits.smooth,
                .precision = kRows[kRow].traits.precision,
                .alias = kRows[kRow].traits.alias,
                .neutral = kRows[kRow].traits.neutral,
                .distinct = kRows[kRow].traits.distinct}...};
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
  check(!row_of(op).traits.divides || !y.is_number() || y.number() != 0 || is_floating(a.dtype()),
        "{}: {} is divided by 0, at {}", op.name, to_string(a.type()), to_string(y.where()));
  return apply1(op, {a, b}, {}, x.where());
}

}  // namespace

const ElementwiseOp* elementwise_op(const OpDef& op) {
  const bool ours = &op >= kDefs.data() && &op < kDefs.data() + kNumRows;
  return ours ? &row_of(op) : nullptr;
}

size_t elementwise_index(const OpDef& op) { return static_cast<size_t>(&op - kDefs.data()); }

std::span<const OpDef> elementwise_ops() { return kDefs; }

// clang-format off
#define UNARY(name, ...) \
  Tensor name(const Arg& x) { static const OpDef& op = def_of(#name); return unary(op, x); }
#define BINARY(name, ...) \
  Tensor name(const Arg& x, const Arg& y) { static const OpDef& op = def_of(#name); return binary(op, x, y); }
#define COMPARISON(name, ...) BINARY(name)
#define PREDICATE(name, ...) UNARY(name)
#define INTEGER1(name, ...) UNARY(name)
#define INTEGER2(name, ...) BINARY(name)
#define CONDITION1(name, ...) UNARY(name)
#define CONDITION2(name, ...) BINARY(name)
// clang-format on
#include "core/ops/elementwise_table.inc"

Tensor square(const Arg& x) { return mul(x, x); }

Tensor clip(const Arg& x, const Arg& low, const Arg& high) {
  return minimum({maximum(x, low), x.where()}, high);
}

Tensor nan_to_num(const Arg& arg, double nan, std::optional<double> positive,
                  std::optional<double> negative) {
  const Tensor& x = arg.tensor();
  if (!is_floating(x.dtype())) {
    return x;
  }
  const double most = x.dtype() == Dtype::kF64    ? std::numeric_limits<double>::max()
                      : x.dtype() == Dtype::kF32  ? double{std::numeric_limits<float>::max()}
                      : x.dtype() == Dtype::kBF16 ? 0x1.fep127
                                                  : 65504.0;
  const Tensor finite_ends = where(x > 0, full(x.shape(), positive.value_or(most), x.dtype()),
                                   full(x.shape(), negative.value_or(-most), x.dtype()));
  return where(isnan(arg), nan, where(isinf(x), finite_ends, x));
}

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

}  // namespace mstrain
