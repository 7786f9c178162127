#include <cmath>

#include "core/backends/reference/kernels.h"
#include "core/backends/reference/matrices.h"
#include "core/ops/linalg_common.h"

namespace mstrain::reference {
namespace {

void run_cholesky(const Call& call) {
  for (int64_t item = 0; item < batch_count(call.in[0]); ++item) {
    const Dense a(call.in[0], item);
    Dense l(a.rows, a.rows);
    for (int64_t j = 0; j < a.rows; ++j) {
      for (int64_t i = j; i < a.rows; ++i) {
        double rest = a(i, j);
        for (int64_t k = 0; k < j; ++k) {
          rest -= l(i, k) * l(j, k);
        }
        check(i != j || rest > 0, "cholesky: matrix {} of the batch is not positive definite",
              item);
        l(i, j) = i == j ? std::sqrt(rest) : rest / l(j, j);
      }
    }
    l.store(call.out[0], item);
  }
}

// Gauss's elimination of a with the largest pivots, on b as well; gives the sign of the rows' order. A column without
// a pivot stays as it is.
double eliminate(Dense& a, Dense& b) {
  double sign = 1;
  const auto swap_rows = [](Dense& x, int64_t i, int64_t j) {
    for (int64_t k = 0; k < x.columns; ++k) {
      std::swap(x(i, k), x(j, k));
    }
  };
  for (int64_t j = 0; j < a.rows; ++j) {
    int64_t pivot = j;
    for (int64_t i = j + 1; i < a.rows; ++i) {
      pivot = std::abs(a(i, j)) > std::abs(a(pivot, j)) ? i : pivot;
    }
    if (pivot != j) {
      swap_rows(a, pivot, j);
      swap_rows(b, pivot, j);
      sign = -sign;
    }
    for (int64_t i = j + 1; a(j, j) != 0 && i < a.rows; ++i) {
      const double factor = a(i, j) / a(j, j);
      for (int64_t k = j; k < a.columns; ++k) {
        a(i, k) -= factor * a(j, k);
      }
      for (int64_t k = 0; k < b.columns; ++k) {
        b(i, k) -= factor * b(j, k);
      }
    }
  }
  return sign;
}

// b becomes x with a x = b, by rows from the first or the last on.
void substitute(const Call& call, int64_t item, const Dense& a, bool lower, Dense& b) {
  for (int64_t step = 0; step < a.rows; ++step) {
    const int64_t i = lower ? step : a.rows - 1 - step;
    const auto [function, what] = singular_error(call.op.name, call.attrs);
    check(a(i, i) != 0, "{}: matrix {} of the batch {}", function, item, what);
    for (int64_t k = 0; k < b.columns; ++k) {
      for (int64_t j = lower ? 0 : i + 1; j < (lower ? i : a.rows); ++j) {
        b(i, k) -= a(i, j) * b(j, k);
      }
      b(i, k) /= a(i, i);
    }
  }
}

void run_solve(const Call& call) {
  for (int64_t item = 0; item < batch_count(call.in[0]); ++item) {
    Dense a(call.in[0], item);
    Dense b(call.in[1], item);
    eliminate(a, b);
    substitute(call, item, a, false, b);
    b.store(call.out[0], item);
  }
}

void run_triangular_solve(const Call& call) {
  const bool transposed = call.attrs.flag("transpose");
  for (int64_t item = 0; item < batch_count(call.in[0]); ++item) {
    const Dense given(call.in[0], item);
    Dense a = given;
    for (int64_t i = 0; transposed && i < a.rows; ++i) {
      for (int64_t j = 0; j < a.rows; ++j) {
        a(i, j) = given(j, i);
      }
    }
    Dense b(call.in[1], item);
    substitute(call, item, a, call.attrs.flag("lower") != transposed, b);
    b.store(call.out[0], item);
  }
}

void run_slogdet(const Call& call) {
  for (int64_t item = 0; item < batch_count(call.in[0]); ++item) {
    Dense a(call.in[0], item);
    Dense none(a.rows, 0);
    double sign = eliminate(a, none);
    double logarithm = 0;
    for (int64_t i = 0; i < a.rows; ++i) {
      sign *= a(i, i) > 0 ? 1 : a(i, i) < 0 ? -1 : a(i, i);
      logarithm += std::log(std::abs(a(i, i)));
    }
    call.out[0].set(item, sign);
    call.out[1].set(item, logarithm);
  }
}

}  // namespace

void register_linalg() {
  define<run_cholesky>("cholesky");
  define<run_solve>("solve");
  define<run_triangular_solve>("triangular_solve");
  define<run_slogdet>("slogdet");
}

}  // namespace mstrain::reference
