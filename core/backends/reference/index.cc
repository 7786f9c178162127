#include "core/backends/reference/kernels.h"
#include "core/ops/scalar_math.h"

namespace mstrain::reference {
namespace {

int axis_of(const Call& call) { return static_cast<int>(call.attrs.integer("axis")); }

// x plus updates, each at the place that `target` gives for its index and position; rounded once.
template <class Target>
void scatter_add(const Call& call, Target&& target) {
  const Elements& x = call.in[0];
  const Elements& updates = call.in[2];
  const bool floating = is_floating(x.dtype());
  std::vector<double> numbers;
  std::vector<int64_t> integers;
  for (int64_t i = 0; i < x.count(); ++i) {
    numbers.push_back(floating ? x.number(i) : 0);
    integers.push_back(floating ? 0 : x.integer(i));
  }
  for_each_index(updates.shape(), [&](const Shape& index, int64_t position) {
    const auto at = static_cast<size_t>(position_of(x.shape(), target(index, position)));
    if (floating) {
      numbers[at] += updates.number(position);
    } else {
      integers[at] = scalar::add(integers[at], updates.integer(position));
    }
  });
  for (int64_t i = 0; i < x.count(); ++i) {
    if (floating) {
      call.out[0].set(i, numbers[static_cast<size_t>(i)]);
    } else {
      call.out[0].set_integer(i, integers[static_cast<size_t>(i)]);
    }
  }
}

// The element of x that gather reads for `index` of its result, whose dims from `axis` on are first
// those of ids.
Shape chosen(const Call& call, const Shape& index) {
  const Elements& x = call.in[0];
  const Elements& ids = call.in[1];
  const int axis = axis_of(call);
  Shape from;
  Shape id_index;
  for (int d = 0; d < axis; ++d) {
    from.push_back(index[d]);
  }
  for (int d = 0; d < ids.rank(); ++d) {
    id_index.push_back(index[axis + d]);
  }
  from.push_back(checked_id(call, ids, position_of(ids.shape(), id_index), x.dim(axis)));
  for (int d = axis + ids.rank(); d < index.rank(); ++d) {
    from.push_back(index[d]);
  }
  return from;
}

Shape chosen_along(const Call& call, const Shape& index, int64_t position) {
  Shape from = index;
  from[axis_of(call)] = checked_id(call, call.in[1], position, call.in[0].dim(axis_of(call)));
  return from;
}

// Every id is looked at, also where its rows have no elements.
void check_ids(const Call& call) {
  for (int64_t i = 0; i < call.in[1].count(); ++i) {
    checked_id(call, call.in[1], i, call.in[0].dim(axis_of(call)));
  }
}

void run_gather(const Call& call) {
  check_ids(call);
  for_each_index(call.out[0].shape(), [&](const Shape& index, int64_t) {
    call.out[0].copy_at(index, call.in[0], chosen(call, index));
  });
}

void run_take_along(const Call& call) {
  for_each_index(call.out[0].shape(), [&](const Shape& index, int64_t position) {
    call.out[0].copy_at(index, call.in[0], chosen_along(call, index, position));
  });
}

void run_scatter_add(const Call& call) {
  check_ids(call);
  scatter_add(call, [&](const Shape& index, int64_t) { return chosen(call, index); });
}

void run_scatter_set(const Call& call) {
  check_ids(call);
  for (int64_t i = 0; i < call.out[0].count(); ++i) {
    call.out[0].copy(i, call.in[0], i);
  }
  for_each_index(call.in[2].shape(), [&](const Shape& index, int64_t) {
    call.out[0].copy_at(chosen(call, index), call.in[2], index);
  });
}

void run_scatter_add_along(const Call& call) {
  scatter_add(call, [&](const Shape& index, int64_t position) {
    return chosen_along(call, index, position);
  });
}

void run_one_hot(const Call& call) {
  const Elements& ids = call.in[0];
  const int64_t depth = call.attrs.integer("depth");
  for (int64_t i = 0; i < ids.count(); ++i) {
    const int64_t id = checked_id(call, ids, i, depth);
    for (int64_t j = 0; j < depth; ++j) {
      call.out[0].set_integer(i * depth + j, j == id ? 1 : 0);
    }
  }
}

}  // namespace

void register_index() {
  define<run_gather>("gather");
  define<run_scatter_add>("scatter_add");
  define<run_scatter_set>("scatter_set");
  define<run_take_along>("take_along");
  define<run_scatter_add_along>("scatter_add_along");
  define<run_one_hot>("one_hot");
}

}  // namespace mstrain::reference
