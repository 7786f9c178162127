// Operations that move elements, and constants.
#include "core/backends/reference/kernels.h"

namespace mstrain::reference {
namespace {

int axis_of(const Call& call) { return static_cast<int>(call.attrs.integer("axis")); }

// The same elements in row-major order: copy and reshape.
void run_copy(const Call& call) {
  for (int64_t i = 0; i < call.out[0].count(); ++i) {
    call.out[0].copy(i, call.in[0], i);
  }
}

void run_transpose(const Call& call) {
  const Shape& axes = call.attrs.ints("axes");
  for_each_index(call.out[0].shape(), [&](const Shape& index, int64_t) {
    Shape from = index;
    for (int d = 0; d < index.rank(); ++d) {
      from[static_cast<int>(axes[d])] = index[d];
    }
    call.out[0].copy_at(index, call.in[0], from);
  });
}

void run_broadcast(const Call& call) {
  const Shape& x = call.in[0].shape();
  const int added = call.out[0].rank() - x.rank();
  for_each_index(call.out[0].shape(), [&](const Shape& index, int64_t) {
    Shape from = x;
    for (int d = 0; d < x.rank(); ++d) {
      from[d] = x[d] == 1 ? 0 : index[d + added];
    }
    call.out[0].copy_at(index, call.in[0], from);
  });
}

void run_slice(const Call& call) {
  const Shape& start = call.attrs.ints("start");
  const Shape& step = call.attrs.ints("step");
  for_each_index(call.out[0].shape(), [&](const Shape& index, int64_t) {
    Shape from = index;
    for (int d = 0; d < index.rank(); ++d) {
      from[d] = start[d] + index[d] * step[d];
    }
    call.out[0].copy_at(index, call.in[0], from);
  });
}

void run_pad(const Call& call) {
  const Shape& low = call.attrs.ints("low");
  const Shape& inner = call.attrs.ints("inner");
  for (int64_t i = 0; i < call.out[0].count(); ++i) {
    call.out[0].set(i, call.attrs.number("value"));
  }
  for_each_index(call.in[0].shape(), [&](const Shape& index, int64_t) {
    Shape to = index;
    for (int d = 0; d < index.rank(); ++d) {
      to[d] = low[d] + index[d] * (inner[d] + 1);
    }
    call.out[0].copy_at(to, call.in[0], index);
  });
}

void run_concat(const Call& call) {
  const int axis = axis_of(call);
  int64_t offset = 0;
  for (const Elements& part : call.in) {
    for_each_index(part.shape(), [&](const Shape& index, int64_t) {
      Shape to = index;
      to[axis] += offset;
      call.out[0].copy_at(to, part, index);
    });
    offset += part.dim(axis);
  }
}

void run_diagonal(const Call& call) {
  const auto a = static_cast<int>(call.attrs.integer("axis1"));
  const auto b = static_cast<int>(call.attrs.integer("axis2"));
  const int64_t offset = call.attrs.integer("offset");
  for_each_index(call.out[0].shape(), [&](const Shape& index, int64_t) {
    Shape from = call.in[0].shape();
    for (int d = 0, next = 0; d < from.rank(); ++d) {
      from[d] = d == a   ? index.back() + std::max<int64_t>(0, -offset)
                : d == b ? index.back() + std::max<int64_t>(0, offset)
                         : index[next++];
    }
    call.out[0].copy_at(index, call.in[0], from);
  });
}

void run_split(const Call& call) {
  const int axis = axis_of(call);
  int64_t offset = 0;
  for (const Elements& part : call.out) {
    for_each_index(part.shape(), [&](const Shape& index, int64_t) {
      Shape from = index;
      from[axis] += offset;
      part.copy_at(index, call.in[0], from);
    });
    offset += part.dim(axis);
  }
}

void run_flip(const Call& call) {
  const Elements& x = call.in[0];
  for_each_index(x.shape(), [&](const Shape& index, int64_t) {
    Shape from = index;
    for (int64_t axis : call.attrs.ints("axes")) {
      const int d = static_cast<int>(axis);
      from[d] = x.dim(d) - 1 - index[d];
    }
    call.out[0].copy_at(index, x, from);
  });
}

void run_full(const Call& call) {
  for (int64_t i = 0; i < call.out[0].count(); ++i) {
    call.out[0].set(i, call.attrs.number("value"));
  }
}

void run_iota(const Call& call) {
  for_each_index(call.out[0].shape(), [&](const Shape& index, int64_t position) {
    call.out[0].set_integer(position, index[axis_of(call)]);
  });
}

}  // namespace

void register_movement() {
  for (const char* name : {"copy", "stow", "fetch"}) {
    define<run_copy>(name);
  }
  define<run_copy>("reshape");
  define<run_transpose>("transpose");
  define<run_broadcast>("broadcast");
  define<run_slice>("slice");
  define<run_pad>("pad");
  define<run_concat>("concat");
  define<run_diagonal>("diagonal");
  define<run_split>("split");
  define<run_flip>("flip");
  define<run_full>("full");
  define<run_iota>("iota");
}

}  // namespace mstrain::reference
