// Sums, extrema and products over any axes, and sum_squares.
//
// The dims of the dense input collapse into groups that are reduced and groups that are kept, by turns. Where the last
// group is reduced, rows are folded to numbers; where it is kept, rows are folded into rows of the result. Work is
// spread over results where there are enough of them, else over the reduced elements, with partial results per thread
// that are combined in order. The tile machine, which folds in passing, knows rows, columns and totals of floats alone: integers,
// products, other axes, and few results spread over threads are here.
#include <limits>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/parallel.h"

namespace mstrain::cpu {
namespace {

enum class Fold { kSum, kMax, kMin, kProd };

// Column sums are formed in three levels, so that errors do not grow with the number of rows.
constexpr int64_t kRowsPerBlock = 256;
constexpr int64_t kMostRows = 64 * kRowsPerBlock;

// How rows of one type are folded. Row: what one row folds to (sums in double).
template <class T>
struct Folder {
  using Row = std::conditional_t<std::is_integral_v<T>, T, double>;
  Fold kind;

  Row identity() const {
    switch (kind) {
      case Fold::kSum: return 0;
      case Fold::kProd: return 1;
      case Fold::kMax:
        return std::is_integral_v<T> ? std::numeric_limits<Row>::min()
                                     : -std::numeric_limits<Row>::infinity();
      case Fold::kMin:
        return std::is_integral_v<T> ? std::numeric_limits<Row>::max()
                                     : std::numeric_limits<Row>::infinity();
    }
    return 0;
  }
  Row combine(Row a, Row b) const {
    switch (kind) {
      case Fold::kSum:
        if constexpr (std::is_integral_v<T>) {
          return static_cast<Row>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
        } else {
          return a + b;
        }
      case Fold::kProd:
        if constexpr (std::is_integral_v<T>) {
          return static_cast<Row>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
        } else {
          return a * b;
        }
      case Fold::kMax: return b > a || b != b ? b : a;
      case Fold::kMin: return b < a || b != b ? b : a;
    }
    return a;
  }
  Row row(int64_t n, const T* x) const {
    if constexpr (std::is_integral_v<T>) {
      Row result = identity();
      for (int64_t i = 0; i < n; ++i) {
        result = combine(result, x[i]);
      }
      return result;
    } else {
      const RowLoops<T>& rows = loops().rows<T>();
      switch (kind) {
        case Fold::kSum: return rows.sum(n, x);
        case Fold::kMax: return static_cast<Row>(rows.max(n, x));
        case Fold::kMin: return static_cast<Row>(rows.min(n, x));
        case Fold::kProd: break;
      }
      Row product = 1;
      for (int64_t i = 0; i < n; ++i) {
        product *= static_cast<Row>(x[i]);
      }
      return product;
    }
  }
  void onto(int64_t n, const T* x, T* y) const {
    if constexpr (std::is_integral_v<T>) {
      for (int64_t i = 0; i < n; ++i) {
        y[i] = combine(y[i], x[i]);
      }
    } else {
      const RowLoops<T>& rows = loops().rows<T>();
      const auto loop = kind == Fold::kSum   ? rows.add_to
                        : kind == Fold::kMax ? rows.max_to
                        : kind == Fold::kMin ? rows.min_to
                                             : rows.mul_to;
      loop(n, x, y);
    }
  }
};

// The collapsed input: dims by turns reduced and kept, and their dense strides.
struct Groups {
  int rank = 0;
  std::array<int64_t, kMaxRank> dims{}, strides{};
  std::array<bool, kMaxRank> reduced{};
  int64_t kept = 1, folded = 1;  // products over all dims but the last
  bool inner_reduced = false;
  int64_t inner = 1;

  // The input offset of kept index `k` and reduced index `r`, both over the dims before the last.
  int64_t offset(int64_t k, int64_t r) const {
    int64_t at = 0;
    for (int d = rank - 2; d >= 0; --d) {
      const auto i = static_cast<size_t>(d);
      int64_t& index = reduced[i] ? r : k;
      at += index % dims[i] * strides[i];
      index /= dims[i];
    }
    return at;
  }
};

Groups collapse(const Shape& shape, const Shape& axes) {
  Groups groups;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) {
      continue;
    }
    const bool reduced = std::find(axes.begin(), axes.end(), d) != axes.end();
    if (groups.rank > 0 && groups.reduced[static_cast<size_t>(groups.rank - 1)] == reduced) {
      groups.dims[static_cast<size_t>(groups.rank - 1)] *= shape[d];
      continue;
    }
    const auto next = static_cast<size_t>(groups.rank++);
    groups.dims[next] = shape[d];
    groups.reduced[next] = reduced;
  }
  if (groups.rank == 0) {
    groups.rank = 1;
    groups.dims[0] = 1;
  }
  int64_t stride = 1;
  for (int d = groups.rank - 1; d >= 0; --d) {
    const auto i = static_cast<size_t>(d);
    groups.strides[i] = stride;
    stride *= groups.dims[i];
    if (d < groups.rank - 1) {
      (groups.reduced[i] ? groups.folded : groups.kept) *= groups.dims[i];
    }
  }
  groups.inner = groups.dims[static_cast<size_t>(groups.rank - 1)];
  groups.inner_reduced = groups.reduced[static_cast<size_t>(groups.rank - 1)];
  return groups;
}

// T: the lane type in which rows are folded. `load` brings other types into tiles of it.
template <class T>
struct Reduction {
  Folder<T> fold;
  Groups groups;
  int threads = 1;
  bool split = false;  // the reduced elements are spread over threads
  int in_size = 4, out_size = 4;
  ConvertLoop load = nullptr;
  ConvertLoop store = nullptr;

  using Row = typename Folder<T>::Row;

  Row fold_run(const std::byte* x, int64_t n) const {
    if (load == nullptr) {
      return fold.row(n, reinterpret_cast<const T*>(x));
    }
    alignas(64) T tile[kTile];
    Row result = fold.identity();
    for (int64_t done = 0; done < n; done += kTile) {
      const int64_t count = std::min<int64_t>(kTile, n - done);
      load(count, x + done * in_size, tile);
      result = fold.combine(result, fold.row(count, tile));
    }
    return result;
  }

  // Elements [begin, end) of the reduced space of result `k`.
  Row fold_range(const std::byte* x, int64_t k, int64_t begin, int64_t end) const {
    Row result = fold.identity();
    for (int64_t at = begin; at < end;) {
      const int64_t column = at % groups.inner;
      const int64_t n = std::min(groups.inner - column, end - at);
      result = fold.combine(
          result, fold_run(x + (groups.offset(k, at / groups.inner) + column) * in_size, n));
      at += n;
    }
    return result;
  }

  void put(int64_t n, const T* values, std::byte* y) const {
    if (store == nullptr) {
      std::copy_n(values, n, reinterpret_cast<T*>(y));
    } else {
      store(n, values, y);
    }
  }

  void run_inner_reduced(const std::byte* x, std::byte* y, Row* partial) const {
    const int64_t count = groups.folded * groups.inner;
    if (!split) {
      parallel_chunks(threads, groups.kept, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t k = begin; k < end; ++k) {
          const T value = static_cast<T>(fold_range(x, k, 0, count));
          put(1, &value, y + k * out_size);
        }
      });
      return;
    }
    std::fill_n(partial, threads * groups.kept, fold.identity());
    parallel_chunks(threads, count, kTile, [&](int64_t begin, int64_t end, int chunk) {
      for (int64_t k = 0; k < groups.kept; ++k) {
        partial[chunk * groups.kept + k] = fold_range(x, k, begin, end);
      }
    });
    for (int64_t k = 0; k < groups.kept; ++k) {
      Row result = partial[k];
      for (int chunk = 1; chunk < threads; ++chunk) {
        result = fold.combine(result, partial[chunk * groups.kept + k]);
      }
      const T value = static_cast<T>(result);
      put(1, &value, y + k * out_size);
    }
  }

  // Columns [column, column + n) of kept row k over reduced indices [begin, end), into `total`; n <= kTile.
  void fold_columns(const std::byte* x, int64_t k, int64_t column, int64_t n, int64_t begin,
                    int64_t end, T* total) const {
    alignas(64) T block[kTile];
    const T identity = static_cast<T>(fold.identity());
    std::fill_n(total, n, identity);
    if (end - begin > kMostRows) {
      for (int64_t r = begin; r < end; r += kMostRows) {
        fold_columns(x, k, column, n, r, std::min(end, r + kMostRows), block);
        fold.onto(n, block, total);
      }
      return;
    }
    alignas(64) T tile[kTile];
    const bool dense_rows = load == nullptr && groups.rank == 2 && fold.kind == Fold::kSum;
    for (int64_t r = begin; r < end; r += kRowsPerBlock) {
      const int64_t last = std::min(end, r + kRowsPerBlock);
      std::fill_n(block, n, identity);
      if constexpr (!std::is_integral_v<T>) {
        if (dense_rows) {
          const T* rows = reinterpret_cast<const T*>(x) + r * groups.inner + column;
          loops().rows<T>().add_rows(last - r, n, rows, groups.inner, block);
          fold.onto(n, block, total);
          continue;
        }
      }
      for (int64_t i = r; i < last; ++i) {
        const std::byte* row = x + (groups.offset(k, i) + column) * in_size;
        if (load != nullptr) {
          load(n, row, tile);
          row = reinterpret_cast<const std::byte*>(tile);
        }
        fold.onto(n, reinterpret_cast<const T*>(row), block);
      }
      fold.onto(n, block, total);
    }
  }

  // Width of the strips into which kept rows are cut.
  int64_t strip() const {
    const int64_t wanted = (groups.inner * groups.kept + threads - 1) / threads;
    return std::clamp<int64_t>((wanted + 63) / 64 * 64, 64, kTile);
  }

  void run_inner_kept(const std::byte* x, std::byte* y, T* partial) const {
    const int64_t width = split ? kTile : strip();
    const int64_t strips = (groups.inner + width - 1) / width;
    const auto each = [&](int64_t item, int64_t begin, int64_t end, T* total) {
      const int64_t column = item % strips * width;
      fold_columns(x, item / strips, column, std::min(width, groups.inner - column), begin, end,
                   total);
    };
    const auto finish = [&](int64_t item, const T* total) {
      const int64_t column = item % strips * width;
      put(std::min(width, groups.inner - column), total,
          y + (item / strips * groups.inner + column) * out_size);
    };
    if (!split) {
      parallel_chunks(threads, groups.kept * strips, 1, [&](int64_t begin, int64_t end, int) {
        alignas(64) T total[kTile];
        for (int64_t item = begin; item < end; ++item) {
          each(item, 0, groups.folded, total);
          finish(item, total);
        }
      });
      return;
    }
    const int64_t items = groups.kept * strips;
    std::fill_n(partial, threads * items * kTile, static_cast<T>(fold.identity()));
    parallel_chunks(threads, groups.folded, 4, [&](int64_t begin, int64_t end, int chunk) {
      for (int64_t item = 0; item < items; ++item) {
        each(item, begin, end, partial + (chunk * items + item) * kTile);
      }
    });
    for (int64_t item = 0; item < items; ++item) {
      for (int chunk = 1; chunk < threads; ++chunk) {
        fold.onto(kTile, partial + (chunk * items + item) * kTile, partial + item * kTile);
      }
      finish(item, partial + item * kTile);
    }
  }
};

template <class T>
Kernel make(const KernelRequest& request, Fold kind) {
  const TensorType& in = request.inputs[0].type;
  const TensorType& out = request.outputs[0].type;
  const ElementwiseLoops& table = *loops().elementwise;
  Reduction<T> r{.fold = {kind}, .groups = collapse(in.shape, request.attrs.ints("axes"))};
  r.in_size = size_of(in.dtype);
  r.out_size = size_of(out.dtype);
  if (!is_lane_type(in.dtype)) {
    r.load = table.load[static_cast<int>(in.dtype)];
    r.store = table.store[static_cast<int>(lane_of(in.dtype))][static_cast<int>(out.dtype)];
  }
  r.threads = useful_threads(request.threads, in.elements() / kTile, in.elements());
  const Groups& groups = r.groups;
  const int64_t items =
      groups.inner_reduced ? groups.kept : groups.kept * ((groups.inner + 63) / 64);
  r.split = items < r.threads;
  int64_t workspace = 0;
  if (r.split) {
    const int64_t tiles = groups.kept * ((groups.inner + kTile - 1) / kTile) * kTile;
    workspace =
        r.threads * (groups.inner_reduced
                         ? groups.kept * static_cast<int64_t>(sizeof(typename Folder<T>::Row))
                         : tiles * static_cast<int64_t>(sizeof(T)));
  }
  return {[r, count = out.elements(), empty = in.elements() == 0](const KernelMemory& memory) {
            const std::byte* x = static_cast<const std::byte*>(memory.inputs[0]);
            std::byte* y = static_cast<std::byte*>(memory.outputs[0]);
            if (empty) {
              const T identity = static_cast<T>(r.fold.identity());
              for (int64_t i = 0; i < count; ++i) {
                r.put(1, &identity, y + i * r.out_size);
              }
            } else if (r.groups.inner_reduced) {
              r.run_inner_reduced(x, y, static_cast<typename Folder<T>::Row*>(memory.workspace));
            } else {
              r.run_inner_kept(x, y, static_cast<T*>(memory.workspace));
            }
          },
          workspace};
}

Kernel prepare_as(const KernelRequest& request, Fold kind) {
  switch (lane_of(request.inputs[0].type.dtype)) {
    case Lane::kF32: return make<float>(request, kind);
    case Lane::kF64: return make<double>(request, kind);
    default: return make<int64_t>(request, kind);
  }
}

template <Fold kind>
Kernel prepare(const KernelRequest& request) {
  return prepare_as(request, kind);
}

template <class T>
Kernel make_squares(const KernelRequest& request) {
  const TensorType& in = request.inputs[0].type;
  const int64_t n = in.elements();
  const int threads = useful_threads(request.threads, n / kTile, n);
  const int size = size_of(in.dtype);
  const ConvertLoop load =
      is_lane_type(in.dtype) ? nullptr : loops().elementwise->load[static_cast<int>(in.dtype)];
  return {[n, threads, size, load](const KernelMemory& memory) {
            const std::byte* x = static_cast<const std::byte*>(memory.inputs[0]);
            double* partial = static_cast<double*>(memory.workspace);
            std::fill_n(partial, threads, 0.0);
            const auto squares = loops().rows<T>().sum_squares;
            parallel_chunks(threads, n, kTile, [&](int64_t begin, int64_t end, int chunk) {
              if (load == nullptr) {
                partial[chunk] = squares(end - begin, reinterpret_cast<const T*>(x) + begin);
                return;
              }
              alignas(64) T tile[kTile];
              double total = 0;
              for (int64_t at = begin; at < end; at += kTile) {
                const int64_t count = std::min<int64_t>(kTile, end - at);
                load(count, x + at * size, tile);
                total += squares(count, tile);
              }
              partial[chunk] = total;
            });
            double total = 0;
            for (int i = 0; i < threads; ++i) {
              total += partial[i];
            }
            *static_cast<T*>(memory.outputs[0]) = static_cast<T>(total);
          },
          threads * static_cast<int64_t>(sizeof(double))};
}

Kernel prepare_squares(const KernelRequest& request) {
  return request.inputs[0].type.dtype == Dtype::kF64 ? make_squares<double>(request)
                                                     : make_squares<float>(request);
}

}  // namespace

void register_reduce() {
  register_kernel(table(), "reduce_sum", {.prepare = prepare<Fold::kSum>});
  register_kernel(table(), "reduce_max", {.prepare = prepare<Fold::kMax>});
  register_kernel(table(), "reduce_min", {.prepare = prepare<Fold::kMin>});
  register_kernel(table(), "reduce_prod", {.prepare = prepare<Fold::kProd>});
  register_kernel(table(), "sum_squares", {.prepare = prepare_squares});
}

}  // namespace mstrain::cpu
