// Tile loops of the elementwise operations.
#include "core/backends/cpu/vector/isa.h"
// Other headers after it.
#include <type_traits>

#include "core/backends/cpu/loops.h"
#include "core/ops/scalar_convert.h"

namespace mstrain::cpu::MSTRAIN_ISA {
namespace {

// A row's function on tiles: F takes scalars. Results of type bool are bytes.
template <class T, class F>
MSTRAIN_FLATTEN void unary(int64_t n, const void* const* inputs, void* output) {
  using Z = std::conditional_t<std::is_same_v<decltype(F()(T())), bool>, uint8_t, T>;
  const T* x = static_cast<const T*>(inputs[0]);
  Z* z = static_cast<Z*>(output);
  MSTRAIN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    z[i] = static_cast<Z>(F()(x[i]));
  }
}

template <class T, class F>
MSTRAIN_FLATTEN void binary(int64_t n, const void* const* inputs, void* output) {
  using Z = std::conditional_t<std::is_same_v<decltype(F()(T(), T())), bool>, uint8_t, T>;
  const T* x = static_cast<const T*>(inputs[0]);
  const T* y = static_cast<const T*>(inputs[1]);
  Z* z = static_cast<Z*>(output);
  MSTRAIN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    z[i] = static_cast<Z>(F()(x[i], y[i]));
  }
}

template <class T>
void select(int64_t n, const void* const* inputs, void* output) {
  const uint8_t* c = static_cast<const uint8_t*>(inputs[0]);
  const T* x = static_cast<const T*>(inputs[1]);
  const T* y = static_cast<const T*>(inputs[2]);
  T* z = static_cast<T*>(output);
  MSTRAIN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const T a = x[i];
    const T b = y[i];
    z[i] = c[i] != 0 ? a : b;
  }
}

// Classes of types: whether integers are among them.
constexpr bool kFloating = false, kNumeric = true, kAny = true;

// F takes one T or two.
template <class T, class F>
constexpr TileLoop loop_of(F) {
  if constexpr (std::is_invocable_v<F, T>) {
    return unary<T, F>;
  } else {
    return binary<T, F>;
  }
}

template <bool integers, class F>
constexpr ElementwiseLoop loops_of(const char* name, F f) {
  ElementwiseLoop loop{name, loop_of<float>(f), loop_of<double>(f)};
  if constexpr (integers) {
    loop.i64 = loop_of<int64_t>(f);
  }
  return loop;
}

// clang-format off
#define ONE(name) [](auto x) { return scalar::name(x); }
#define TWO(name) [](auto x, auto y) { return scalar::name(x, y); }
#define UNARY(name, types, ...) loops_of<types>(#name, ONE(name)),
#define BINARY(name, types, ...) loops_of<types>(#name, TWO(name)),
#define COMPARISON(name, ...) loops_of<true>(#name, TWO(name)),
#define PREDICATE(name, ...) loops_of<kFloating>(#name, ONE(name)),
#define INTEGER1(name, ...) {#name, nullptr, nullptr, loop_of<int64_t>(ONE(name))},
#define INTEGER2(name, ...) {#name, nullptr, nullptr, loop_of<int64_t>(TWO(name))},
#define CONDITION1(name, ...) {#name, nullptr, nullptr, nullptr, loop_of<uint8_t>(ONE(name))},
#define CONDITION2(name, ...) {#name, nullptr, nullptr, nullptr, loop_of<uint8_t>(TWO(name))},
#define SELECTION(name) {#name, select<float>, select<double>, select<int64_t>},
#define CONVERSION(name) {#name},
// clang-format on
constexpr ElementwiseLoop kRows[] = {
#include "core/ops/elementwise_table.inc"
};

// Of their own, so that no two instruction sets share their code.
uint16_t to_bf16(float value) { return scalar::to_bf16(value); }
float from_bf16(uint16_t bits) { return scalar::from_bf16(bits); }
uint16_t to_f16(float value) { return scalar::to_f16(value); }
float from_f16(uint16_t bits) { return scalar::from_f16(bits); }

template <class From, class To, To (*f)(From)>
MSTRAIN_FLATTEN void convert(int64_t n, const void* input, void* output) {
  const From* x = static_cast<const From*>(input);
  To* z = static_cast<To*>(output);
  for (int64_t i = 0; i < n; ++i) {
    z[i] = f(x[i]);
  }
}
template <class From, class To>
To wrap(From x) {
  return static_cast<To>(x);
}
template <class From>
uint8_t to_bool(From x) {
  return x != 0 ? 1 : 0;
}
template <class From>
uint16_t any_to_bf16(From x) {
  return to_bf16(static_cast<float>(x));
}
template <class From>
uint16_t any_to_f16(From x) {
  return to_f16(static_cast<float>(x));
}
template <class From, class To>
To saturate(From x) {
  return scalar::saturate<From, To>(x);
}

template <class From>
constexpr void fill_float_stores(ConvertLoop* stores) {
  stores[static_cast<int>(Dtype::kF64)] = convert<From, double, wrap<From, double>>;
  stores[static_cast<int>(Dtype::kF32)] = convert<From, float, wrap<From, float>>;
  stores[static_cast<int>(Dtype::kBF16)] = convert<From, uint16_t, any_to_bf16<From>>;
  stores[static_cast<int>(Dtype::kF16)] = convert<From, uint16_t, any_to_f16<From>>;
  stores[static_cast<int>(Dtype::kBool)] = convert<From, uint8_t, to_bool<From>>;
}
template <class From>
constexpr void fill_saturating_stores(ConvertLoop* stores) {
  stores[static_cast<int>(Dtype::kI64)] = convert<From, int64_t, saturate<From, int64_t>>;
  stores[static_cast<int>(Dtype::kI32)] = convert<From, int32_t, saturate<From, int32_t>>;
  stores[static_cast<int>(Dtype::kI8)] = convert<From, int8_t, saturate<From, int8_t>>;
  stores[static_cast<int>(Dtype::kU32)] = convert<From, uint32_t, saturate<From, uint32_t>>;
  stores[static_cast<int>(Dtype::kU16)] = convert<From, uint16_t, saturate<From, uint16_t>>;
  stores[static_cast<int>(Dtype::kU8)] = convert<From, uint8_t, saturate<From, uint8_t>>;
}

constexpr ElementwiseLoops make_loops() {
  ElementwiseLoops loops = {kRows, static_cast<int>(std::size(kRows)), {}, {}};
  ConvertLoop* load = loops.load;
  load[static_cast<int>(Dtype::kF64)] = convert<double, double, wrap<double, double>>;
  load[static_cast<int>(Dtype::kF32)] = convert<float, float, wrap<float, float>>;
  load[static_cast<int>(Dtype::kBF16)] = convert<uint16_t, float, from_bf16>;
  load[static_cast<int>(Dtype::kF16)] = convert<uint16_t, float, from_f16>;
  load[static_cast<int>(Dtype::kI64)] = convert<int64_t, int64_t, wrap<int64_t, int64_t>>;
  load[static_cast<int>(Dtype::kI32)] = convert<int32_t, int64_t, wrap<int32_t, int64_t>>;
  load[static_cast<int>(Dtype::kI8)] = convert<int8_t, int64_t, wrap<int8_t, int64_t>>;
  load[static_cast<int>(Dtype::kU32)] = convert<uint32_t, int64_t, wrap<uint32_t, int64_t>>;
  load[static_cast<int>(Dtype::kU16)] = convert<uint16_t, int64_t, wrap<uint16_t, int64_t>>;
  load[static_cast<int>(Dtype::kU8)] = convert<uint8_t, int64_t, wrap<uint8_t, int64_t>>;
  load[static_cast<int>(Dtype::kBool)] = convert<uint8_t, int64_t, wrap<uint8_t, int64_t>>;
  ConvertLoop* from_f32 = loops.store[static_cast<int>(Lane::kF32)];
  fill_float_stores<float>(from_f32);
  fill_saturating_stores<float>(from_f32);
  ConvertLoop* from_f64 = loops.store[static_cast<int>(Lane::kF64)];
  fill_float_stores<double>(from_f64);
  fill_saturating_stores<double>(from_f64);
  ConvertLoop* from_i64 = loops.store[static_cast<int>(Lane::kI64)];
  fill_float_stores<int64_t>(from_i64);
  from_i64[static_cast<int>(Dtype::kI64)] = convert<int64_t, int64_t, wrap<int64_t, int64_t>>;
  from_i64[static_cast<int>(Dtype::kI32)] = convert<int64_t, int32_t, wrap<int64_t, int32_t>>;
  from_i64[static_cast<int>(Dtype::kI8)] = convert<int64_t, int8_t, wrap<int64_t, int8_t>>;
  from_i64[static_cast<int>(Dtype::kU32)] = convert<int64_t, uint32_t, wrap<int64_t, uint32_t>>;
  from_i64[static_cast<int>(Dtype::kU16)] = convert<int64_t, uint16_t, wrap<int64_t, uint16_t>>;
  from_i64[static_cast<int>(Dtype::kU8)] = convert<int64_t, uint8_t, wrap<int64_t, uint8_t>>;
  return loops;
}

}  // namespace

extern const ElementwiseLoops kElementwiseLoops;
const ElementwiseLoops kElementwiseLoops = make_loops();

}  // namespace mstrain::cpu::MSTRAIN_ISA
