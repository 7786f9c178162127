#include <optional>

#include "core/backends/reference/kernels.h"
#include "core/ops/conv.h"

namespace mstrain::reference {
namespace {

// f(x's index) for every element of x, in row-major order, in the window of `at`[n, c, oh, ow].
template <class F>
void for_each_in_window(const PoolSizes& n, const Shape& at, F&& f) {
  for_each_index({n.kh, n.kw}, [&](const Shape& tap, int64_t) {
    const int64_t y = at[2] * n.stride_y - n.top + tap[0];
    const int64_t x = at[3] * n.stride_x - n.left + tap[1];
    if (y >= 0 && y < n.h && x >= 0 && x < n.w) {
      f(Shape{at[0], at[1], y, x});
    }
  });
}

// Where the window of `at` has its maximum: the first among equals; NaN is the maximum.
Shape place_of_maximum(const Elements& x, const PoolSizes& n, const Shape& at) {
  std::optional<Shape> best;
  for_each_in_window(n, at, [&](const Shape& index) {
    if (!best) {
      best = index;
      return;
    }
    const double value = x.number_at(index);
    const double leader = x.number_at(*best);
    if (leader == leader && (value != value || value > leader)) {
      best = index;
    }
  });
  return *best;
}

void run_max(const Call& call) {
  const PoolSizes n = pool_sizes(call.in[0].shape(), call.attrs);
  for_each_index(call.out[0].shape(), [&](const Shape& at, int64_t) {
    call.out[0].copy_at(at, call.in[0], place_of_maximum(call.in[0], n, at));
  });
}

void store(const std::vector<double>& sums, const Elements& out) {
  for (size_t i = 0; i < sums.size(); ++i) {
    out.set(static_cast<int64_t>(i), sums[i]);
  }
}

void run_max_grad(const Call& call) {
  const Elements& x = call.in[0];
  const PoolSizes n = pool_sizes(x.shape(), call.attrs);
  std::vector<double> sums(static_cast<size_t>(x.count()), 0);
  for_each_index(call.in[1].shape(), [&](const Shape& at, int64_t) {
    sums[static_cast<size_t>(position_of(x.shape(), place_of_maximum(x, n, at)))] +=
        call.in[1].number_at(at);
  });
  store(sums, call.out[0]);
}

void run_avg(const Call& call) {
  const PoolSizes n = pool_sizes(call.in[0].shape(), call.attrs);
  for_each_index(call.out[0].shape(), [&](const Shape& at, int64_t position) {
    double sum = 0;
    for_each_in_window(n, at, [&](const Shape& index) { sum += call.in[0].number_at(index); });
    call.out[0].set(position, sum / static_cast<double>(n.kh * n.kw));
  });
}

void run_avg_grad(const Call& call) {
  const Shape& x = call.out[0].shape();
  const PoolSizes n = pool_sizes(x, call.attrs);
  std::vector<double> sums(static_cast<size_t>(x.elements()), 0);
  for_each_index(call.in[0].shape(), [&](const Shape& at, int64_t) {
    const double share = call.in[0].number_at(at) / static_cast<double>(n.kh * n.kw);
    for_each_in_window(n, at, [&](const Shape& index) {
      sums[static_cast<size_t>(position_of(x, index))] += share;
    });
  });
  store(sums, call.out[0]);
}

}  // namespace

void register_pooling() {
  define<run_max>("max_pool");
  define<run_max_grad>("max_pool_grad");
  define<run_avg>("avg_pool");
  define<run_avg_grad>("avg_pool_grad");
}

}  // namespace mstrain::reference
