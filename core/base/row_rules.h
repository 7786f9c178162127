// How a row of an embedding table learns, number by number: one definition for the rows that embedding_cache has in host memory and for
// those in a device's (core/ops/table_rows.h), so that both come to the same bits. Products are rounded before they are added: whoever
// includes this is compiled without contraction to fused multiply-add, or brings a number that has none (a card's).
//
// X: the number; R: the rate of the step, a number too; C: constants. Where X is a tensor, these rules record operations.
// What they are from: embedding_cache/update.h.
#pragma once

#include <cmath>

namespace mstrain::row_rules {

enum class Rule { kSgd, kAdagrad, kRowwiseAdagrad, kFtrl, kLazyAdam };

struct Numbers {
  float lr = 0;  // of FTRL, whose rate no schedule changes
  float beta1 = 0, beta2 = 0, eps = 0, l1 = 0, l2 = 0;
};

// Floats of state for `width` weights.
constexpr int state_floats(Rule rule, int width) {
  switch (rule) {
    case Rule::kSgd: return 0;
    case Rule::kAdagrad: return width;
    case Rule::kRowwiseAdagrad: return 1;
    default: return 2 * width;
  }
}

template <class A, class X>
[[gnu::always_inline]] inline X where(bool condition, const A& yes, const X& no) {
  return condition ? X(yes) : no;
}

template <class X, class R, class C>
[[gnu::always_inline]] inline void sgd(const R& rate, const C& l2, X& w, const X& g) {
  w = w - rate * (g + l2 * w);
}

template <class X, class R, class C>
[[gnu::always_inline]] inline void adagrad(const R& rate, const C& eps, const C& l2, X& w, X& sum,
                                           const X& g) {
  using std::sqrt;
  const X gradient = g + l2 * w;
  sum = sum + gradient * gradient;
  w = w - rate * gradient / (sqrt(sum) + eps);
}

// Row-wise Adagrad is sgd() with a rate of the row: first its squares, which a row adds up in eight lanes, element i in lane i mod 8, then
// lanes k and k + 4, of these k and k + 2, of these k and k + 1; then the sum of their means.
template <class X, class C>
[[gnu::always_inline]] inline X square(const C& l2, const X& w, const X& g) {
  const X gradient = g + l2 * w;
  return gradient * gradient;
}
template <class X, class R, class N, class C>
[[gnu::always_inline]] inline X rate_of_row(const R& rate, const C& eps, const X& squares,
                                            const N& width, X& sum) {
  using std::sqrt;
  sum = sum + squares / width;
  return rate / (sqrt(sum) + eps);
}

template <class X, class C>
[[gnu::always_inline]] inline void ftrl(const C& lr, const C& l1, const C& l2, X& w, X& n, X& z,
                                        const X& g) {
  using std::abs;
  using std::sqrt;
  const X sum = n + g * g;
  const X root = sqrt(sum);
  const X linear = z + g - (root - sqrt(n)) / lr * w;
  n = sum;
  z = linear;
  const X shrunk = where(linear > 0, linear - l1, linear + l1);
  w = where(abs(linear) <= l1, 0, -shrunk / (root / lr + 2 * l2));
}

// `size`: the rate with the corrections of the step.
template <class X, class R, class C>
[[gnu::always_inline]] inline void lazy_adam(const R& size, const C& beta1, const C& beta2,
                                             const C& eps, const C& l2, X& w, X& first, X& second,
                                             const X& g) {
  using std::sqrt;
  const X gradient = g + l2 * w;
  first = beta1 * first + (1 - beta1) * gradient;
  second = beta2 * second + (1 - beta2) * (gradient * gradient);
  w = w - size * first / (sqrt(second) + eps);
}

}  // namespace mstrain::row_rules
