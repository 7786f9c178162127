#include "core/ops/fft.h"

#include <array>
#include <cmath>

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/layouts.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

const Shape& expect_signal(const TensorType& type) {
  if (type.shape.rank() == 0) {
    throw ShapeError("a scalar is no signal");
  }
  if (!is_floating(type.dtype)) {
    throw ShapeError(fmt::format("is not defined for {}", name_of(type.dtype)),
                     "convert it with cast()");
  }
  return type.shape;
}

void expect_parts(std::span<const TensorType> in) {
  expect_inputs(in, 2);
  expect_signal(in[0]);
  if (!(in[0] == in[1])) {
    throw ShapeError(fmt::format("a real part of {}, an imaginary one of {}", to_string(in[0]),
                                 to_string(in[1])));
  }
}

Types infer_fft(std::span<const TensorType> in, const Attrs& attrs) {
  expect_parts(in);
  attrs.flag("inverse");
  return {in[0], in[1]};
}

Types infer_rfft(std::span<const TensorType> in, const Attrs&) {
  expect_inputs(in, 1);
  TensorType type{in[0].dtype, expect_signal(in[0])};
  int64_t& n = type.shape[type.shape.rank() - 1];
  n = n == 0 ? 0 : n / 2 + 1;
  return {type, type};
}

Types infer_irfft(std::span<const TensorType> in, const Attrs& attrs) {
  expect_parts(in);
  const int64_t n = attrs.integer("n");
  TensorType type = in[0];
  if (n < 0 || type.shape.back() != (n == 0 ? 0 : n / 2 + 1)) {
    throw ShapeError(fmt::format("{} frequencies of a signal of {}, which has {}",
                                 type.shape.back(), n, n / 2 + 1));
  }
  type.shape[type.shape.rank() - 1] = n;
  return {type};
}

Tensors jvp_same(const Application& node, std::span<const Tensor> t) {
  return apply(node.op, or_zeros(t, node.inputs), node.attrs, kHere);
}

// The matrix of the sums is symmetric; as a map of real and imaginary parts its transpose is that of the conjugate.
Tensors vjp_fft(const Application& node, std::span<const Tensor> ct) {
  return apply(node.op, or_zeros(ct, node.outputs),
               node.attrs.with("inverse", !node.attrs.flag("inverse")), kHere);
}

// How often each frequency of a real signal counts: once where it is its own conjugate, else twice.
Tensor multiplicity(const TensorType& spectrum, int64_t n) {
  const Tensor k = iota({spectrum.shape.back()}, 0, Dtype::kI64);
  const Tensor once = logical_or(equal(k, 0), equal(k * 2, n));
  return where(once, full(once.shape(), 1, spectrum.dtype), full(once.shape(), 2, spectrum.dtype));
}

Tensor real_signal(const Tensor& re, const Tensor& im, int64_t n);

Tensors vjp_rfft(const Application& node, std::span<const Tensor> ct) {
  const int64_t n = node.inputs[0].shape().back();
  const Tensors parts = or_zeros(ct, node.outputs);
  const Tensor scale = static_cast<double>(n) / multiplicity(parts[0].type(), n);
  return {real_signal(parts[0] * scale, parts[1] * scale, n)};
}

Tensors vjp_irfft(const Application& node, std::span<const Tensor> ct) {
  const int64_t n = node.attrs.integer("n");
  const Complex spectrum = rfft(ct[0]);
  const Tensor scale =
      multiplicity(spectrum.re.type(), n) / static_cast<double>(std::max<int64_t>(n, 1));
  return {spectrum.re * scale, spectrum.im * scale};
}

Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  Cost cost = elementwise_cost(in, out, 0);
  const TensorType& longer = in[0].elements() > out[0].elements() ? in[0] : out[0];
  cost.flops = 5 * static_cast<double>(longer.elements()) *
               std::log2(1 + static_cast<double>(longer.shape.back()));
  return cost;
}

std::vector<Sample> samples_fft(Dtype t) {
  std::vector<Sample> result;
  for (const Shape& shape :
       {Shape{8}, Shape{3, 5}, Shape{2, 2, 12}, Shape{1}, Shape{2, 0}, Shape{0, 4}}) {
    const SampleInput part{{t, shape}, -2, 2};
    result.push_back({{part, part}, {{"inverse", shape.rank() == 2}}});
  }
  return result;
}
std::vector<Sample> samples_rfft(Dtype t) {
  std::vector<Sample> result;
  for (const Shape& shape :
       {Shape{8}, Shape{3, 5}, Shape{2, 2, 6}, Shape{1}, Shape{2, 0}, Shape{0, 4}}) {
    result.push_back({{{{t, shape}, -2, 2}}, {}});
  }
  return result;
}
std::vector<Sample> samples_irfft(Dtype t) {
  std::vector<Sample> result;
  for (const Shape& shape :
       {Shape{8}, Shape{3, 5}, Shape{2, 2, 6}, Shape{1}, Shape{2, 0}, Shape{0, 4}}) {
    Shape half = shape;
    const int64_t n = shape.back();
    half[half.rank() - 1] = n == 0 ? 0 : n / 2 + 1;
    const SampleInput part{{t, half}, -2, 2};
    result.push_back({{part, part}, {{"n", n}}});
  }
  return result;
}

constexpr OpDef transform(std::string_view name, InferRule infer, VjpRule vjp, SampleRule samples) {
  return {.name = name,
          .kind = OpKind::kContract,
          .infer = infer,
          .jvp = jvp_same,
          .vjp = vjp,
          .batch = batch_leading,
          .cost = cost,
          .layout = layout::leading<1>,
          .samples = samples,
          .precision = Precision::kWide};
}

constexpr OpDef kDefs[] = {transform("fft", infer_fft, vjp_fft, samples_fft),
                           transform("rfft", infer_rfft, vjp_rfft, samples_rfft),
                           transform("irfft", infer_irfft, vjp_irfft, samples_irfft)};

Tensor real_signal(const Tensor& re, const Tensor& im, int64_t n) {
  return apply1(kDefs[2], {re, im}, {{"n", n}}, kHere);
}

// f on the parts with `axis` as their last one, and back.
template <class F>
Complex along(const Complex& x, int axis, const SourceLocation& where, const F& f) {
  const int at = axis_of({x.re, where}, axis, "fft");
  const auto [re, im] = f(move_axis({x.re, where}, at, -1), move_axis({x.im, where}, at, -1));
  return {move_axis(re, -1, at), move_axis(im, -1, at)};
}

Complex transformed(const Complex& x, bool inverse, const SourceLocation& where) {
  const Tensors parts = apply(kDefs[0], std::array{x.re, x.im}, {{"inverse", inverse}}, where);
  return {parts[0], parts[1]};
}

}  // namespace

std::span<const OpDef> fft_ops() { return kDefs; }

Complex fft(const Complex& x, int axis, const SourceLocation& where) {
  return along(x, axis, where, [&](const Tensor& re, const Tensor& im) {
    return transformed({re, im}, false, where);
  });
}

Complex ifft(const Complex& x, int axis, const SourceLocation& where) {
  return along(x, axis, where, [&](const Tensor& re, const Tensor& im) {
    const Complex sums = transformed({re, im}, true, where);
    const auto n = static_cast<double>(std::max<int64_t>(re.dim(-1), 1));
    return Complex{sums.re / n, sums.im / n};
  });
}

Complex rfft(const Arg& x, int axis) {
  const int at = axis_of(x, axis, "rfft");
  const Tensors parts = apply(kDefs[1], std::array{move_axis(x, at, -1)}, {}, x.where());
  return {move_axis(parts[0], -1, at), move_axis(parts[1], -1, at)};
}

Tensor irfft(const Complex& x, std::optional<int64_t> n, int axis, const SourceLocation& where) {
  const int at = axis_of({x.re, where}, axis, "irfft");
  const int64_t frequencies = x.re.dim(at);
  const int64_t length = n.value_or(frequencies == 0 ? 0 : 2 * (frequencies - 1));
  const Tensor result =
      apply1(kDefs[2], {move_axis(x.re, at, -1), move_axis(x.im, at, -1)}, {{"n", length}}, where);
  return move_axis(result, -1, at);
}

Tensor fftfreq(int64_t n, double step, Dtype dtype) {
  const Tensor k = iota({n}, 0, Dtype::kI64);
  const Tensor signed_k = where(k * 2 < n, k, k - n);
  return cast(signed_k, dtype) / (static_cast<double>(n) * step);
}

Tensor rfftfreq(int64_t n, double step, Dtype dtype) {
  return cast(iota({n == 0 ? 0 : n / 2 + 1}, 0, Dtype::kI64), dtype) /
         (static_cast<double>(n) * step);
}

}  // namespace mstrain
