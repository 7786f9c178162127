// copy: any strided view to a dense tensor.
#include <cstring>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/nest.h"
#include "core/backends/cpu/parallel.h"
#include "core/backends/cpu/words.h"

namespace mstrain::cpu {
namespace {

template <class T>
void copy_row(const T* x, int64_t stride, int64_t n, T* y) {
  if (stride == 1) {
    std::memcpy(y, x, static_cast<size_t>(n) * sizeof(T));
  } else if (stride == 0) {
    std::fill_n(y, n, *x);
  } else {
    for (int64_t i = 0; i < n; ++i) {
      y[i] = x[i * stride];
    }
  }
}

// y[cols, rows] = x[rows, cols] transposed.
template <class T>
void transpose_block(int64_t rows, int64_t cols, const T* x, int64_t ldx, T* y, int64_t ldy) {
  if constexpr (sizeof(T) == 4) {
    loops().other->transpose32(rows, cols, x, ldx, y, ldy);
  } else if constexpr (sizeof(T) == 8) {
    loops().other->transpose64(rows, cols, x, ldx, y, ldy);
  } else {
    for (int64_t j = 0; j < cols; ++j) {
      for (int64_t i = 0; i < rows; ++i) {
        y[j * ldy + i] = x[i * ldx + j];
      }
    }
  }
}

// The dim of the input that is dense, where it is not the last one: input and output are both walked in blocks of
// whole cache lines then.
int transposed_dim(const Nest& nest) {
  if (nest.inner_stride(0) == 1) {
    return -1;
  }
  for (int d = 0; d < nest.rank - 1; ++d) {
    if (nest.strides[0][static_cast<size_t>(d)] == 1) {
      return d;
    }
  }
  return -1;
}

// Rows of the output, one by one.
template <class T>
void copy_rows(const Nest& nest, int threads, const T* x, T* y) {
  const int64_t inner = nest.inner();
  const int64_t stride = nest.inner_stride(0);
  const int64_t rows = nest.elements() / inner;
  if (rows == 1) {
    parallel_chunks(threads, inner, kTile, [&](int64_t begin, int64_t end, int) {
      copy_row(x + begin * stride, stride, end - begin, y + begin);
    });
    return;
  }
  parallel_chunks(threads, rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      copy_row(x + nest.row_offset(0, row), stride, inner, y + row * inner);
    }
  });
}

// Output dims (…, dense, …, inner), where the input is dense along `dense`: blocks over these two.
template <class T>
void copy_transposed(const Nest& nest, int dense, int threads, const T* x, T* y) {
  constexpr int64_t kBlock = 64;
  const auto inner = static_cast<size_t>(nest.rank - 1);
  const auto outer = static_cast<size_t>(dense);
  const int64_t columns = nest.dims[inner];
  const int64_t rows = nest.dims[outer];
  int64_t row_step = 1;  // of the output
  for (size_t d = outer + 1; d <= inner; ++d) {
    row_step *= nest.dims[d];
  }
  const int64_t row_blocks = (rows + kBlock - 1) / kBlock;
  const int64_t column_blocks = (columns + kBlock - 1) / kBlock;
  const int64_t others = nest.elements() / (rows * columns);
  parallel_chunks(threads, others * row_blocks * column_blocks, 1,
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t item = begin; item < end; ++item) {
                      const int64_t r = item % row_blocks * kBlock;
                      const int64_t c = item / row_blocks % column_blocks * kBlock;
                      int64_t rest = item / row_blocks / column_blocks;
                      int64_t from = r + c * nest.strides[0][inner];
                      int64_t to = r * row_step + c;
                      int64_t step = columns;
                      for (int d = nest.rank - 2; d >= 0; --d) {
                        const auto at = static_cast<size_t>(d);
                        if (d != dense) {
                          const int64_t index = rest % nest.dims[at];
                          rest /= nest.dims[at];
                          from += index * nest.strides[0][at];
                          to += index * step;
                        }
                        step *= nest.dims[at];
                      }
                      transpose_block(std::min(kBlock, columns - c), std::min(kBlock, rows - r),
                                      x + from, nest.strides[0][inner], y + to, row_step);
                    }
                  });
}

template <class T>
Kernel make(const Nest& nest, int threads) {
  const int dense = transposed_dim(nest);
  return {[nest, threads, dense](const KernelMemory& memory) {
    const T* x = static_cast<const T*>(memory.inputs[0]);
    T* y = static_cast<T*>(memory.outputs[0]);
    if (dense >= 0) {
      copy_transposed(nest, dense, threads, x, y);
    } else {
      copy_rows(nest, threads, x, y);
    }
  }};
}

}  // namespace

Kernel copy_kernel(const ViewType& view, int available) {
  if (view.type.elements() == 0) {
    return {[](const KernelMemory&) {}};
  }
  const Nest nest = make_nest(view.type.shape, std::span(&view.strides, 1));
  const int threads = useful_threads(available, nest.elements(), nest.elements());
  return with_word(size_of(view.type.dtype), [&]<class T>(T) { return make<T>(nest, threads); });
}

void register_copy() {
  const auto prepare = [](const KernelRequest& request) {
    return copy_kernel(request.inputs[0], request.threads);
  };
  // A reshape moves what strides cannot say: to dense, as a copy does.
  for (const char* op : {"copy", "reshape", "stow", "fetch"}) {
    register_kernel(table(), op, {.prepare = prepare, .strided_inputs = true});
  }
}

}  // namespace mstrain::cpu
