// Loops over one row: reductions, softmax, norms, cross-entropy.
#include "core/backends/cpu/vector/isa.h"
// Other headers after it.
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/vector/reduce.h"

namespace mstrain::cpu::MSTRAIN_ISA {
namespace {

template <class T>
constexpr T kLowest = -std::numeric_limits<T>::infinity();

template <class T>
double sum(int64_t n, const T* x) {
  return sum_blocks(n, x, x, [](auto a, auto) { return a; });
}
template <class T>
double sum_squares(int64_t n, const T* x) {
  return sum_blocks(n, x, x, [](auto a, auto) { return a * a; });
}
template <class T>
T max(int64_t n, const T* x) {
  return fold(n, x, kLowest<T>, Maximum());
}
template <class T>
T min(int64_t n, const T* x) {
  return fold(n, x, -kLowest<T>, Minimum());
}
template <class T>
T prod(int64_t n, const T* x) {
  return fold(n, x, T(1), Product());
}

template <class T>
void add_to(int64_t n, const T* x, T* y) {
  MSTRAIN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    y[i] += x[i];
  }
}
template <class T>
void max_to(int64_t n, const T* x, T* y) {
  MSTRAIN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    y[i] = x[i] > y[i] || x[i] != x[i] ? x[i] : y[i];
  }
}
template <class T>
void min_to(int64_t n, const T* x, T* y) {
  MSTRAIN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    y[i] = x[i] < y[i] || x[i] != x[i] ? x[i] : y[i];
  }
}
template <class T>
void mul_to(int64_t n, const T* x, T* y) {
  MSTRAIN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    y[i] *= x[i];
  }
}

// Four rows at a time, so that x streams once and y is touched seldom.
template <class T>
void add_rows(int64_t rows, int64_t n, const T* x, int64_t stride, T* y) {
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    const T* a = x + i * stride;
    const T* b = a + stride;
    const T* c = b + stride;
    const T* d = c + stride;
    MSTRAIN_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) {
      y[j] += (a[j] + b[j]) + (c[j] + d[j]);
    }
  }
  for (; i < rows; ++i) {
    add_to(n, x + i * stride, y);
  }
}

template <class T>
int64_t find(int64_t n, const T* x, T value) {
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] == value || x[i] != x[i]) {
      return i;
    }
  }
  return 0;
}
template <class T>
int64_t argmax(int64_t n, const T* x) {
  const T value = max(n, x);
  return find(n, x, value);
}
template <class T>
int64_t argmin(int64_t n, const T* x) {
  const T value = min(n, x);
  return find(n, x, value);
}

// y = exp(x - shift); gives the sum.
template <class T>
MSTRAIN_FLATTEN double exp_and_sum(int64_t n, const T* x, T shift, T* y) {
  constexpr int64_t kBlock = 1024;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t count = std::min(kBlock, n - begin);
    const T* in = x + begin;
    T* out = y + begin;
    MSTRAIN_INDEPENDENT
    for (int64_t i = 0; i < count; ++i) {
      out[i] = scalar::exp<T>(in[i] - shift);
    }
    total += static_cast<double>(sum_block(count, out, out, [](auto a, auto) { return a; }));
  }
  return total;
}

// Rows shorter than a register, several at a time, number by number. Each has the bits that it would have alone.
template <class T>
class NarrowRows {
 public:
  static bool serve(int64_t n) { return n < Simd<T>::kLanes; }

  // Calls f(block) for blocks of rows.
  template <class F>
  static MSTRAIN_ALWAYS_INLINE void for_blocks(int64_t rows, int64_t n, F f) {
    for (int64_t first = 0; first < rows; first += kRows) {
      f(NarrowRows(first * n, std::min(kRows, rows - first), n));
    }
  }
  // f(element, row of the block) for each; elements of one row in their order.
  template <class F>
  MSTRAIN_ALWAYS_INLINE void each(F f) const {
    for (int64_t j = 0; j < n_; ++j) {
      MSTRAIN_INDEPENDENT
      for (int64_t r = 0; r < rows_; ++r) {
        f(first_ + r * n_ + j, r);
      }
    }
  }
  template <class F>
  MSTRAIN_ALWAYS_INLINE void each_row(F f) const {
    for (int64_t r = 0; r < rows_; ++r) {
      f(r);
    }
  }
  // The largest of each row, and sums of exp(x - it).
  MSTRAIN_ALWAYS_INLINE void sums_of_exp(const T* x, T* top, T* sum) const {
    each_row([&](int64_t r) {
      top[r] = kLowest<T>;
      sum[r] = 0;
    });
    each([&](int64_t i, int64_t r) { top[r] = Larger()(top[r], x[i]); });
    each([&](int64_t i, int64_t r) { sum[r] += scalar::exp<T>(x[i] - top[r]); });
  }

  static constexpr int64_t kRows = 64;

 private:
  NarrowRows(int64_t first, int64_t rows, int64_t n) : first_(first), rows_(rows), n_(n) {}

  int64_t first_, rows_, n_;
};

template <class T>
void softmax_row(int64_t n, const T* x, T* y) {
  const T shift = fold(n, x, kLowest<T>, Larger());
  const T scale = static_cast<T>(1.0 / exp_and_sum(n, x, shift, y));
  MSTRAIN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    y[i] *= scale;
  }
}
template <class T>
MSTRAIN_FLATTEN void softmax(int64_t rows, int64_t n, const T* x, T* y) {
  if (!NarrowRows<T>::serve(n)) {
    for (int64_t i = 0; i < rows; ++i) {
      softmax_row(n, x + i * n, y + i * n);
    }
    return;
  }
  T top[NarrowRows<T>::kRows], scale[NarrowRows<T>::kRows];
  NarrowRows<T>::for_blocks(rows, n, [&](const NarrowRows<T>& block) {
    block.sums_of_exp(x, top, scale);
    block.each_row(
        [&](int64_t r) { scale[r] = static_cast<T>(1.0 / static_cast<double>(scale[r])); });
    block.each([&](int64_t i, int64_t r) { y[i] = scalar::exp<T>(x[i] - top[r]) * scale[r]; });
  });
}

// One pass over memory: blocks stay in the first cache between their maximum and their sum.
template <class T>
MSTRAIN_FLATTEN T logsumexp(int64_t n, const T* x) {
  constexpr int64_t kBlock = 1024;
  T scratch[kBlock];
  T top = kLowest<T>;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t count = std::min(kBlock, n - begin);
    const T block_top = fold(count, x + begin, kLowest<T>, Larger());
    if (block_top > top) {
      total *= begin == 0 ? 0 : std::exp(static_cast<double>(top) - static_cast<double>(block_top));
      top = block_top;
    }
    // Of -inf alone so far: the sum is 0, where differences would be no numbers.
    total += exp_and_sum(count, x + begin, top == kLowest<T> ? T(0) : top, scratch);
  }
  return static_cast<T>(static_cast<double>(top) + std::log(total));
}

template <class T>
MSTRAIN_FLATTEN void log_softmax(int64_t rows, int64_t n, const T* x, T* y) {
  if (!NarrowRows<T>::serve(n)) {
    for (int64_t i = 0; i < rows; ++i, x += n, y += n) {
      const T lse = logsumexp(n, x);
      MSTRAIN_INDEPENDENT
      for (int64_t j = 0; j < n; ++j) {
        y[j] = x[j] - lse;
      }
    }
    return;
  }
  T top[NarrowRows<T>::kRows], lse[NarrowRows<T>::kRows];
  NarrowRows<T>::for_blocks(rows, n, [&](const NarrowRows<T>& block) {
    block.sums_of_exp(x, top, lse);
    block.each_row([&](int64_t r) {
      const double log = std::log(static_cast<double>(lse[r]));
      lse[r] = static_cast<T>(static_cast<double>(top[r]) + log);
    });
    block.each([&](int64_t i, int64_t r) { y[i] = x[i] - lse[r]; });
  });
}

template <class T>
void softmax_grad(int64_t rows, int64_t n, const T* y, const T* g, T* dx) {
  for (int64_t i = 0; i < rows; ++i, y += n, g += n, dx += n) {
    const T dot = static_cast<T>(sum_blocks(n, y, g, [](auto a, auto b) { return a * b; }));
    MSTRAIN_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) {
      dx[j] = y[j] * (g[j] - dot);
    }
  }
}

template <class T>
MSTRAIN_FLATTEN void log_softmax_grad(int64_t rows, int64_t n, const T* y, const T* g, T* dx) {
  if (!NarrowRows<T>::serve(n)) {
    for (int64_t i = 0; i < rows; ++i, y += n, g += n, dx += n) {
      const T total = static_cast<T>(sum(n, g));
      MSTRAIN_INDEPENDENT
      for (int64_t j = 0; j < n; ++j) {
        dx[j] = g[j] - scalar::exp<T>(y[j]) * total;
      }
    }
    return;
  }
  T total[NarrowRows<T>::kRows];
  NarrowRows<T>::for_blocks(rows, n, [&](const NarrowRows<T>& block) {
    block.each_row([&](int64_t r) { total[r] = 0; });
    block.each([&](int64_t i, int64_t r) { total[r] += g[i]; });
    block.each([&](int64_t i, int64_t r) { dx[i] = g[i] - scalar::exp<T>(y[i]) * total[r]; });
  });
}

template <class T>
void layer_norm(int64_t n, const T* x, const T* weight, const T* bias, T eps, T* y, T* mean,
                T* rstd) {
  const T m = static_cast<T>(sum(n, x) / static_cast<double>(n));
  const double squares = sum_blocks(n, x, x, [m](auto a, auto) { return (a - m) * (a - m); });
  const T r =
      static_cast<T>(1.0 / std::sqrt(squares / static_cast<double>(n) + static_cast<double>(eps)));
  MSTRAIN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    y[i] = (x[i] - m) * r * weight[i] + bias[i];
  }
  *mean = m;
  *rstd = r;
}

// With h = (x - mean) rstd and u = g weight: dx = rstd (u - mean(u) - h mean(u h)).
template <class T>
void layer_norm_grad(int64_t n, const T* g, const T* x, const T* weight, T mean, T rstd, T* dx,
                     T* dweight, T* dbias) {
  constexpr int kLanes = Simd<T>::kLanes;
  const T inverse = T(1) / static_cast<T>(n);
  Vector<T> u_sum{}, uh_sum{};
  T u_rest = 0, uh_rest = 0;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vector<T> gi = load(g + i);
    const Vector<T> h = (load(x + i) - mean) * rstd;
    const Vector<T> u = gi * load(weight + i);
    u_sum += u;
    uh_sum += u * h;
    store<T>(dweight + i, load(dweight + i) + gi * h);
    store<T>(dbias + i, load(dbias + i) + gi);
  }
  for (; i < n; ++i) {
    const T h = (x[i] - mean) * rstd;
    const T u = g[i] * weight[i];
    u_rest += u;
    uh_rest += u * h;
    dweight[i] += g[i] * h;
    dbias[i] += g[i];
  }
  u_rest += sum_lanes<T>(u_sum);
  uh_rest += sum_lanes<T>(uh_sum);
  const T a = u_rest * inverse;
  const T b = uh_rest * inverse;
  MSTRAIN_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) {
    const T h = (x[j] - mean) * rstd;
    dx[j] = rstd * (g[j] * weight[j] - a - h * b);
  }
}

template <class T>
void rms_norm(int64_t n, const T* x, const T* weight, T eps, T* y, T* rstd) {
  const double mean = sum_squares(n, x) / static_cast<double>(n);
  const T r = static_cast<T>(1.0 / std::sqrt(mean + static_cast<double>(eps)));
  MSTRAIN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    y[i] = x[i] * r * weight[i];
  }
  *rstd = r;
}

// With h = x rstd and u = g weight: dx = rstd (u - h mean(u h)).
template <class T>
void rms_norm_grad(int64_t n, const T* g, const T* x, const T* weight, T rstd, T* dx, T* dweight) {
  constexpr int kLanes = Simd<T>::kLanes;
  Vector<T> uh_sum{};
  T rest = 0;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vector<T> gh = load(g + i) * (load(x + i) * rstd);
    uh_sum += gh * load(weight + i);
    store<T>(dweight + i, load(dweight + i) + gh);
  }
  for (; i < n; ++i) {
    const T gh = g[i] * (x[i] * rstd);
    rest += gh * weight[i];
    dweight[i] += gh;
  }
  rest += sum_lanes<T>(uh_sum);
  const T b = rest / static_cast<T>(n);
  MSTRAIN_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) {
    dx[j] = rstd * (g[j] * weight[j] - (x[j] * rstd) * b);
  }
}

template <class T>
void rotate(int64_t heads, int64_t half, const T* x, const T* cos, const T* sin, T* y) {
  for (int64_t h = 0; h < heads; ++h, x += 2 * half, y += 2 * half) {
    MSTRAIN_INDEPENDENT
    for (int64_t i = 0; i < half; ++i) {
      const T a = x[i];
      const T b = x[half + i];
      y[i] = a * cos[i] - b * sin[i];
      y[half + i] = b * cos[i] + a * sin[i];
    }
  }
}

template <class T>
MSTRAIN_FLATTEN void scaled_exp(int64_t n, const T* x, T lse, T scale, T shift, T* y) {
  MSTRAIN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    y[i] = scale * scalar::exp<T>(x[i] - lse) + shift;
  }
}

template <class T>
constexpr RowLoops<T> make_rows() {
  return {sum<T>,        sum_squares<T>,     max<T>,          min<T>,
          prod<T>,       add_to<T>,          max_to<T>,       min_to<T>,
          mul_to<T>,     add_rows<T>,        argmax<T>,       argmin<T>,
          softmax<T>,    log_softmax<T>,     softmax_grad<T>, log_softmax_grad<T>,
          layer_norm<T>, layer_norm_grad<T>, rms_norm<T>,     rms_norm_grad<T>,
          rotate<T>,     logsumexp<T>,       scaled_exp<T>};
}

}  // namespace

extern const RowLoops<float> kRowLoopsF32;
extern const RowLoops<double> kRowLoopsF64;
const RowLoops<float> kRowLoopsF32 = make_rows<float>();
const RowLoops<double> kRowLoopsF64 = make_rows<double>();

}  // namespace mstrain::cpu::MSTRAIN_ISA
