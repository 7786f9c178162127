// Orthogonal decompositions by the methods of Gram and Schmidt and of Jacobi.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/backends/reference/kernels.h"
#include "core/backends/reference/matrices.h"
#include "core/ops/linalg_common.h"

namespace mstrain::reference {
namespace {

constexpr int kSweeps = 60;  // far more than Jacobi's methods need

double dot(const Dense& a, int64_t i, const Dense& b, int64_t j) {
  double sum = 0;
  for (int64_t row = 0; row < a.rows; ++row) {
    sum += a(row, i) * b(row, j);
  }
  return sum;
}

// Columns i and j become c i - s j and s i + c j.
void rotate(Dense& x, int64_t i, int64_t j, double c, double s) {
  for (int64_t row = 0; row < x.rows; ++row) {
    const double a = x(row, i);
    const double b = x(row, j);
    x(row, i) = c * a - s * b;
    x(row, j) = s * a + c * b;
  }
}

Dense identity(int64_t n) {
  Dense result(n, n);
  for (int64_t i = 0; i < n; ++i) {
    result(i, i) = 1;
  }
  return result;
}

// The columns of x in the given order, each with its component of the largest magnitude positive where `turned` says.
Dense ordered(const Dense& x, const std::vector<int64_t>& order, const std::vector<bool>& turned) {
  Dense result(x.rows, x.columns);
  for (int64_t j = 0; j < x.columns; ++j) {
    const auto at = static_cast<size_t>(j);
    for (int64_t i = 0; i < x.rows; ++i) {
      result(i, j) = (turned[at] ? -1 : 1) * x(i, order[at]);
    }
  }
  return result;
}

std::vector<bool> backwards(const Dense& x, const std::vector<int64_t>& order) {
  std::vector<bool> result;
  for (const int64_t j : order) {
    result.push_back(points_backwards(x.rows, [&](int64_t i) { return x(i, j); }));
  }
  return result;
}

std::vector<int64_t> sorted_places(const std::vector<double>& values, bool descending) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    const double a = values[static_cast<size_t>(i)];
    const double b = values[static_cast<size_t>(j)];
    return descending ? a > b : a < b;
  });
  return order;
}

// Gram and Schmidt, each column twice.
void run_qr(const Call& call) {
  for (int64_t item = 0; item < batch_count(call.in[0]); ++item) {
    Dense q(call.in[0], item);
    Dense r(q.columns, q.columns);
    for (int64_t j = 0; j < q.columns; ++j) {
      for (int pass = 0; pass < 2; ++pass) {
        for (int64_t i = 0; i < j; ++i) {
          const double share = dot(q, i, q, j);
          r(i, j) += share;
          for (int64_t row = 0; row < q.rows; ++row) {
            q(row, j) -= share * q(row, i);
          }
        }
      }
      r(j, j) = std::sqrt(dot(q, j, q, j));
      for (int64_t row = 0; row < q.rows; ++row) {
        q(row, j) /= r(j, j);
      }
    }
    q.store(call.out[0], item);
    r.store(call.out[1], item);
  }
}

// The rotation that makes the off-diagonal element `b` of a symmetric [[a, b], [b, d]] zero: cosine and sine.
std::pair<double, double> jacobi_rotation(double a, double b, double d) {
  if (b == 0) {
    return {1, 0};
  }
  const double tau = (d - a) / (2 * b);
  const double t = (tau >= 0 ? 1 : -1) / (std::abs(tau) + std::sqrt(1 + tau * tau));
  const double c = 1 / std::sqrt(1 + t * t);
  return {c, t * c};
}

// One-sided: the columns of a high matrix are rotated until they are orthogonal; their lengths are the singular values.
void run_svd(const Call& call) {
  for (int64_t item = 0; item < batch_count(call.in[0]); ++item) {
    const Dense given(call.in[0], item);
    const bool wide = given.columns > given.rows;
    const int64_t k = std::min(given.rows, given.columns);
    Dense left(std::max(given.rows, given.columns), k);
    for (int64_t i = 0; i < left.rows; ++i) {
      for (int64_t j = 0; j < k; ++j) {
        left(i, j) = wide ? given(j, i) : given(i, j);
      }
    }
    Dense right = identity(k);
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      for (int64_t i = 0; i < k; ++i) {
        for (int64_t j = i + 1; j < k; ++j) {
          const auto [c, s] =
              jacobi_rotation(dot(left, i, left, i), dot(left, i, left, j), dot(left, j, left, j));
          rotate(left, i, j, c, s);
          rotate(right, i, j, c, s);
        }
      }
    }
    std::vector<double> lengths;
    for (int64_t j = 0; j < k; ++j) {
      lengths.push_back(std::sqrt(dot(left, j, left, j)));
      for (int64_t i = 0; i < left.rows; ++i) {
        left(i, j) /= lengths.back();
      }
    }
    const std::vector<int64_t> order = sorted_places(lengths, true);
    const std::vector<bool> turned = backwards(wide ? right : left, order);
    const Dense u = ordered(wide ? right : left, order, turned);
    const Dense v = ordered(wide ? left : right, order, turned);
    Dense vt(k, given.columns);
    for (int64_t j = 0; j < k; ++j) {
      call.out[1].set(item * k + j, lengths[static_cast<size_t>(order[static_cast<size_t>(j)])]);
      for (int64_t i = 0; i < given.columns; ++i) {
        vt(j, i) = v(i, j);
      }
    }
    u.store(call.out[0], item);
    vt.store(call.out[2], item);
  }
}

// The lower triangle alone is read.
void run_eigh(const Call& call) {
  for (int64_t item = 0; item < batch_count(call.in[0]); ++item) {
    Dense a(call.in[0], item);
    const int64_t n = a.rows;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j) {
        a(i, j) = a(j, i);
      }
    }
    Dense v = identity(n);
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = i + 1; j < n; ++j) {
          const auto [c, s] = jacobi_rotation(a(i, i), a(i, j), a(j, j));
          rotate(a, i, j, c, s);
          for (int64_t k = 0; k < n; ++k) {  // the same for the rows
            const double x = a(i, k);
            const double y = a(j, k);
            a(i, k) = c * x - s * y;
            a(j, k) = s * x + c * y;
          }
          rotate(v, i, j, c, s);
        }
      }
    }
    std::vector<double> values;
    for (int64_t i = 0; i < n; ++i) {
      values.push_back(a(i, i));
    }
    const std::vector<int64_t> order = sorted_places(values, false);
    ordered(v, order, backwards(v, order)).store(call.out[1], item);
    for (int64_t i = 0; i < n; ++i) {
      call.out[0].set(item * n + i, values[static_cast<size_t>(order[static_cast<size_t>(i)])]);
    }
  }
}

}  // namespace

void register_decompositions() {
  define<run_qr>("qr");
  define<run_svd>("svd");
  define<run_eigh>("eigh");
}

}  // namespace mstrain::reference
