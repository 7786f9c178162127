#include <algorithm>
#include <numeric>

#include "core/backends/reference/kernels.h"

namespace mstrain::reference {
namespace {

// Whether a comes before b; NaN comes after all others in either order.
template <class T>
bool before(T a, T b, bool descending) {
  if (a != a || b != b) {
    return a == a;
  }
  return descending ? a > b : a < b;
}

// Positions along `axis`, in order, of the elements that differ from `index` only there.
std::vector<int64_t> order(const Elements& x, Shape index, int axis, bool descending) {
  std::vector<int64_t> result(static_cast<size_t>(x.dim(axis)));
  std::iota(result.begin(), result.end(), 0);
  std::stable_sort(result.begin(), result.end(), [&](int64_t i, int64_t j) {
    Shape other = index;
    index[axis] = i;
    other[axis] = j;
    return is_floating(x.dtype()) ? before(x.number_at(index), x.number_at(other), descending)
                                  : before(x.integer_at(index), x.integer_at(other), descending);
  });
  return result;
}

// Gives the first `count` elements along `axis` of every line to values and their positions to
// indices (either may be null).
void write_ordered(const Elements& x, int axis, bool descending, int64_t count,
                   const Elements* values, const Elements* indices) {
  Shape lines = x.shape();
  lines[axis] = x.dim(axis) == 0 ? 0 : 1;
  for_each_index(lines, [&](const Shape& line, int64_t) {
    const std::vector<int64_t> sorted = order(x, line, axis, descending);
    for (int64_t j = 0; j < count; ++j) {
      Shape to = line;
      Shape from = line;
      to[axis] = j;
      from[axis] = sorted[static_cast<size_t>(j)];
      if (values != nullptr) {
        values->copy_at(to, x, from);
      }
      if (indices != nullptr) {
        indices->set_integer(position_of(indices->shape(), to), from[axis]);
      }
    }
  });
}

void run_sort(const Call& call) {
  const int axis = static_cast<int>(call.attrs.integer("axis"));
  const bool positions = call.op.name == "argsort";
  write_ordered(call.in[0], axis, call.attrs.flag("descending"), call.in[0].dim(axis),
                positions ? nullptr : &call.out[0], positions ? &call.out[0] : nullptr);
}

void run_topk(const Call& call) {
  write_ordered(call.in[0], call.in[0].rank() - 1, true, call.attrs.integer("k"), &call.out[0],
                &call.out[1]);
}

// How many elements of the row come before the value, equal ones among them where they do.
void run_searchsorted(const Call& call) {
  const Elements& sorted = call.in[0];
  const Elements& values = call.in[1];
  const bool after_equals = call.attrs.flag("after_equals");
  const int last = sorted.rank() - 1;
  const auto counts = [&](auto element, auto value) {
    return after_equals ? !before(value, element, false) : before(element, value, false);
  };
  for_each_index(values.shape(), [&](const Shape& index, int64_t position) {
    int64_t place = 0;
    Shape at = index;
    for (int64_t j = 0; j < sorted.dim(last); ++j) {
      at[last] = j;
      const bool counted = is_floating(sorted.dtype())
                               ? counts(sorted.number_at(at), values.number(position))
                               : counts(sorted.integer_at(at), values.integer(position));
      place += counted ? 1 : 0;
    }
    call.out[0].set_integer(position, place);
  });
}

}  // namespace

void register_sort() {
  define<run_searchsorted>("searchsorted");
  define<run_sort>("sort");
  define<run_sort>("argsort");
  define<run_topk>("topk");
}

}  // namespace mstrain::reference
