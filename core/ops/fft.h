// Discrete Fourier transforms along one axis, of any length (fast where it has small factors). A complex tensor is two real
// ones; f64, f32, and 16 bits by way of f32. Linear, with derivatives of every order.
#pragma once

#include <optional>

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> fft_ops();

// A tree (core/tensor/tree.h).
struct Complex {
  Tensor re, im;
  template <class V>
  void fields(V& v) {
    v("re", re);
    v("im", im);
  }
};

// X_k = Σ_j x_j e^(-2πi jk/n), and its inverse, which divides by n.
Complex fft(const Complex& x, int axis = -1,
            const SourceLocation& where = SourceLocation::current());
Complex ifft(const Complex& x, int axis = -1,
             const SourceLocation& where = SourceLocation::current());

// The first n/2 + 1 of X_k of a real x, which say the others, and back: `n` elements, where it is not given an even number.
// The imaginary parts of X_0 and, for even n, X_(n/2) count as 0.
Complex rfft(const Arg& x, int axis = -1);
Tensor irfft(const Complex& x, std::optional<int64_t> n = {}, int axis = -1,
             const SourceLocation& where = SourceLocation::current());

// The frequencies of X_k in cycles per `step` of x: 0, 1/n, … and negative ones from the middle on; those of rfft.
Tensor fftfreq(int64_t n, double step = 1, Dtype dtype = Dtype::kF32);
Tensor rfftfreq(int64_t n, double step = 1, Dtype dtype = Dtype::kF32);

}  // namespace mstrain
