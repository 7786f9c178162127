#include <cmath>

#include "core/backends/reference/kernels.h"
#include "core/ops/scalar_math.h"

namespace mstrain::reference {
namespace {

// Folds the elements of x, in row-major order, into the outputs that they belong to.
template <class T>
void reduce(const Call& call, T (Elements::*load)(int64_t) const,
            void (Elements::*store)(int64_t, T) const, T (*fold)(T, T), const T* initial) {
  const Elements& x = call.in[0];
  const Elements& out = call.out[0];
  std::vector<bool> reduced(kMaxRank, false);
  for (int64_t axis : call.attrs.ints("axes")) {
    reduced[static_cast<size_t>(axis)] = true;
  }
  const auto count = static_cast<size_t>(out.count());
  std::vector<T> result(count, initial != nullptr ? *initial : T());
  std::vector<bool> started(count, initial != nullptr);
  for_each_index(x.shape(), [&](const Shape& index, int64_t position) {
    Shape kept;
    for (int d = 0; d < index.rank(); ++d) {
      if (!reduced[static_cast<size_t>(d)]) {
        kept.push_back(index[d]);
      }
    }
    const auto to = static_cast<size_t>(position_of(out.shape(), kept));
    const T value = (x.*load)(position);
    result[to] = started[to] ? fold(result[to], value) : value;
    started[to] = true;
  });
  for (size_t i = 0; i < count; ++i) {
    (out.*store)(static_cast<int64_t>(i), result[i]);
  }
}

struct Folds {
  double (*numbers)(double, double);
  int64_t (*integers)(int64_t, int64_t);
};

void reduce(const Call& call, const Folds& folds, const int64_t* initial) {
  if (is_floating(call.in[0].dtype())) {
    const double start = initial != nullptr ? static_cast<double>(*initial) : 0;
    reduce<double>(call, &Elements::number, &Elements::set, folds.numbers,
                   initial != nullptr ? &start : nullptr);
  } else {
    reduce<int64_t>(call, &Elements::integer, &Elements::set_integer, folds.integers, initial);
  }
}

void run_sum(const Call& call) {
  constexpr int64_t kZero = 0;
  reduce(call, {scalar::add<double>, scalar::add<int64_t>}, &kZero);
}
void run_prod(const Call& call) {
  constexpr int64_t kOne = 1;
  reduce(call, {scalar::mul<double>, scalar::mul<int64_t>}, &kOne);
}
void run_max(const Call& call) {
  reduce(call, {scalar::maximum<double>, scalar::maximum<int64_t>}, nullptr);
}
void run_min(const Call& call) {
  reduce(call, {scalar::minimum<double>, scalar::minimum<int64_t>}, nullptr);
}

// Whether `value` replaces the best one so far; a NaN beats all that is no NaN.
template <class T>
bool beats(T value, T best, bool greatest) {
  if (best != best) {
    return false;
  }
  return value != value || (greatest ? value > best : value < best);
}

void run_arg(const Call& call) {
  const Elements& x = call.in[0];
  const int axis = static_cast<int>(call.attrs.integer("axis"));
  const bool greatest = call.op.name == "argmax";
  for_each_index(call.out[0].shape(), [&](const Shape& kept, int64_t position) {
    Shape index = kept.with_inserted(axis, 0);
    int64_t best = 0;
    for (int64_t j = 1; j < x.dim(axis); ++j) {
      Shape leader = index;
      leader[axis] = best;
      index[axis] = j;
      const bool better = is_floating(x.dtype())
                              ? beats(x.number_at(index), x.number_at(leader), greatest)
                              : beats(x.integer_at(index), x.integer_at(leader), greatest);
      best = better ? j : best;
    }
    call.out[0].set_integer(position, best);
  });
}

void run_cumsum(const Call& call) {
  const Elements& x = call.in[0];
  const int axis = static_cast<int>(call.attrs.integer("axis"));
  const bool reverse = call.attrs.flag("reverse");
  for_each_index(x.shape(), [&](const Shape& index, int64_t position) {
    double number = 0;
    int64_t integer = 0;
    const int64_t first = reverse ? index[axis] : 0;
    const int64_t last = reverse ? x.dim(axis) - 1 : index[axis];
    for (int64_t j = first; j <= last; ++j) {
      Shape from = index;
      from[axis] = j;
      if (is_floating(x.dtype())) {
        number += x.number_at(from);
      } else {
        integer = scalar::add(integer, x.integer_at(from));
      }
    }
    if (is_floating(x.dtype())) {
      call.out[0].set(position, number);
    } else {
      call.out[0].set_integer(position, integer);
    }
  });
}

void run_cumprod(const Call& call) {
  const Elements& x = call.in[0];
  const int axis = static_cast<int>(call.attrs.integer("axis"));
  const bool reverse = call.attrs.flag("reverse");
  for_each_index(x.shape(), [&](const Shape& index, int64_t position) {
    double number = 1;
    int64_t integer = 1;
    for (int64_t step = 0; step <= (reverse ? x.dim(axis) - 1 - index[axis] : index[axis]);
         ++step) {
      Shape from = index;
      from[axis] = reverse ? x.dim(axis) - 1 - step : step;
      if (is_floating(x.dtype())) {
        number *= x.number_at(from);
      } else {
        integer = scalar::mul(integer, x.integer_at(from));
      }
    }
    if (is_floating(x.dtype())) {
      call.out[0].set(position, number);
    } else {
      call.out[0].set_integer(position, integer);
    }
  });
}

void run_cumulative_extremum(const Call& call) {
  const Elements& x = call.in[0];
  const int axis = static_cast<int>(call.attrs.integer("axis"));
  const bool reverse = call.attrs.flag("reverse");
  const bool greatest = call.op.name == "cummax";
  for_each_index(x.shape(), [&](const Shape& index, int64_t position) {
    Shape leader = index;
    leader[axis] = reverse ? x.dim(axis) - 1 : 0;
    while (true) {
      Shape next = leader;
      bool better = false;
      while (!better && next[axis] != index[axis]) {
        next[axis] += reverse ? -1 : 1;
        better = is_floating(x.dtype()) ? beats(x.number_at(next), x.number_at(leader), greatest)
                                        : beats(x.integer_at(next), x.integer_at(leader), greatest);
      }
      if (!better) {
        break;
      }
      leader = next;
    }
    call.out[0].copy_at(index, x, leader);
    call.out[1].set_integer(position, leader[axis]);
  });
}

void run_sum_squares(const Call& call) {
  double total = 0;
  for (int64_t i = 0; i < call.in[0].count(); ++i) {
    total += call.in[0].number(i) * call.in[0].number(i);
  }
  call.out[0].set(0, total);
}

}  // namespace

void register_reductions() {
  define<run_sum>("reduce_sum");
  define<run_prod>("reduce_prod");
  define<run_max>("reduce_max");
  define<run_min>("reduce_min");
  define<run_arg>("argmax");
  define<run_arg>("argmin");
  define<run_cumsum>("cumsum");
  define<run_cumprod>("cumprod");
  define<run_cumulative_extremum>("cummax");
  define<run_cumulative_extremum>("cummin");
  define<run_sum_squares>("sum_squares");
}

}  // namespace mstrain::reference
