// Rows of embedding tables: bags of them, and how they learn, with the bits that embedding_cache has on the host.
#pragma once

#include "core/backends/cuda/device/ids.cuh"
#include "core/base/row_rules.h"

namespace mstrain::cuda {

// A float whose products are rounded before they are added.
struct Rounded {
  float value;

  Rounded() = default;
  Rounded(float x) : value(x) {}
#ifdef __CUDACC_RTC__
  friend Rounded operator+(Rounded x, Rounded y) { return __fadd_rn(x.value, y.value); }
  friend Rounded operator-(Rounded x, Rounded y) { return __fsub_rn(x.value, y.value); }
  friend Rounded operator*(Rounded x, Rounded y) { return __fmul_rn(x.value, y.value); }
  friend Rounded operator/(Rounded x, Rounded y) { return __fdiv_rn(x.value, y.value); }
  friend Rounded sqrt(Rounded x) { return __fsqrt_rn(x.value); }
#else
  friend Rounded operator+(Rounded x, Rounded y) { return x.value + y.value; }
  friend Rounded operator-(Rounded x, Rounded y) { return x.value - y.value; }
  friend Rounded operator*(Rounded x, Rounded y) { return x.value * y.value; }
  friend Rounded operator/(Rounded x, Rounded y) { return x.value / y.value; }
  friend Rounded sqrt(Rounded x) { return std::sqrt(x.value); }
#endif
  friend Rounded operator-(Rounded x) { return -x.value; }
  friend Rounded abs(Rounded x) { return scalar::magnitude(x.value); }
  friend bool operator>(Rounded x, Rounded y) { return x.value > y.value; }
  friend bool operator<=(Rounded x, Rounded y) { return x.value <= y.value; }
};

// Column c of the rows [n, width] of positions [from, to), added up in their order. Some are on their way while others are added.
template <int operation, class X, class Ids, class Weights>
float bag_sum(const X& x, const Ids& ids, const Weights& weights, int64_t from, int64_t to,
              int64_t n, int64_t width, int64_t c, void* report) {
  constexpr int kAhead = 8;
  Rounded sum = 0.0F;
  for (int64_t first = from; first < to; first += kAhead) {
    Rounded parts[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int64_t i = first + u;
      if (i < to) {
        const int64_t id = checked_id<operation>(int64_t(ids[i]), i, n, report);
        parts[u] = Rounded(weights[i]) * Rounded(x[id * width + c]);
      }
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      if (first + u < to) {
        sum = first + u == from ? parts[u] : sum + parts[u];
      }
    }
  }
  return sum.value;
}

// A warp's work: a row w[n] with its state s learns from g; all of them begin where they are told.
template <row_rules::Rule rule, class Table, class Gradients>
void learn_row(const row_rules::Numbers& numbers, float rate, const Table& weights, int64_t w,
               const Table& states, int64_t s, const Gradients& gradients, int64_t g, int n) {
  using row_rules::Rule;
  const auto [lr, beta1, beta2, eps, l1, l2] = numbers;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  Rounded own = rate;
  if constexpr (rule == Rule::kRowwiseAdagrad) {
    Rounded squares = 0.0F;
    for (int i = lane % 8; i < n; i += 8) {
      squares = squares + row_rules::square(l2, Rounded(weights[w + i]), Rounded(gradients[g + i]));
    }
    for (int mask = 4; mask > 0; mask /= 2) {
      squares = squares + Rounded(__shfl_xor_sync(0xffffffffU, squares.value, mask));
    }
    // From the lane that changes it to all others, which add nothing to it.
    Rounded sum = lane == 0 ? float(states[s]) : 0.0F;
    for (int mask = 1; mask < kWarp; mask *= 2) {
      sum = sum + Rounded(__shfl_xor_sync(0xffffffffU, sum.value, mask));
    }
    own = row_rules::rate_of_row(own, eps, squares, static_cast<float>(n), sum);
    if (lane == 0) {
      states[s] = sum.value;
    }
  }
  for (int i = lane; i < n; i += kWarp) {
    Rounded weight = float(weights[w + i]);
    const Rounded gradient = float(gradients[g + i]);
    if constexpr (rule == Rule::kSgd || rule == Rule::kRowwiseAdagrad) {
      row_rules::sgd(own, l2, weight, gradient);
    } else if constexpr (rule == Rule::kAdagrad) {
      Rounded sum = float(states[s + i]);
      row_rules::adagrad(own, eps, l2, weight, sum, gradient);
      states[s + i] = sum.value;
    } else {
      Rounded first = float(states[s + i]);
      Rounded second = float(states[s + n + i]);
      if constexpr (rule == Rule::kFtrl) {
        row_rules::ftrl(lr, l1, l2, weight, first, second, gradient);
      } else {
        row_rules::lazy_adam(own, beta1, beta2, eps, l2, weight, first, second, gradient);
      }
      states[s + i] = first.value;
      states[s + n + i] = second.value;
    }
    weights[w + i] = weight.value;
  }
}

}  // namespace mstrain::cuda
