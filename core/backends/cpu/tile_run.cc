// The tile machine at work.
#include <cstring>

#include "core/backends/cpu/parallel.h"
#include "core/backends/cpu/tile_program.h"
#include "core/backends/cpu/words.h"

namespace mstrain::cpu {
namespace {

template <class T>
void gather(const std::byte* from, int64_t stride, int64_t n, std::byte* to) {
  const T* x = reinterpret_cast<const T*>(from);
  T* y = reinterpret_cast<T*>(to);
  if (stride == 0) {
    std::fill_n(y, n, *x);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    y[i] = x[i * stride];
  }
}
void gather(int size, const std::byte* from, int64_t stride, int64_t n, std::byte* to) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(n * size));
    return;
  }
  with_word(size, [&]<class T>(T) { gather<T>(from, stride, n, to); });
}

// Elements [first, first + n) of a view, in its own order.
void gather_view(const Nest& nest, int size, const std::byte* base, int64_t first, int64_t n,
                 std::byte* to) {
  const int64_t inner = nest.inner();
  const int64_t stride = nest.inner_stride(0);
  int64_t row = first / inner;
  int64_t column = first % inner;
  for (int64_t done = 0; done < n; ++row, column = 0) {
    const int64_t count = std::min(inner - column, n - done);
    gather(size, base + (nest.row_offset(0, row) + column * stride) * size, stride, count,
           to + done * size);
    done += count;
  }
}

// Where a tile lies.
struct Tile {
  int64_t row = 0, column = 0;    // its first element
  int64_t rows = 0, columns = 0;  // its size; columns: of each row
};

class Worker {
 public:
  Worker(const TileProgram& program, const KernelMemory& memory, int thread)
      : program_(program),
        memory_(memory),
        base_(static_cast<std::byte*>(memory.workspace) + thread * program.thread_bytes),
        at_(reinterpret_cast<std::byte**>(base_)) {
    for (const TileSlot& slot : program.slots) {
      at_[slot.reg] = base_ + slot.offset;
    }
    for (const TileWindow& window : program.windows) {
      at_[window.reg] = tensor(window);
    }
    const Tile whole{0, 0, program.rows_per_tile, program.piece};
    for (const TileStep& step : program.once) {
      run(step, whole);
    }
  }

  void run(int64_t begin, int64_t end) {
    const int64_t pieces = (program_.n + program_.piece - 1) / program_.piece;
    int64_t rows_in_block = 0;
    for (int64_t index = begin; index < end; ++index) {
      Tile tile;
      tile.row = index / pieces * program_.rows_per_tile;
      tile.column = index % pieces * program_.piece;
      tile.rows = std::min(program_.rows_per_tile, program_.rows - tile.row);
      tile.columns = std::min(program_.piece, program_.n - tile.column);
      for (const TileWindow& window : program_.windows) {
        at_[window.reg] = tensor(window) + offset(window, tile) * window.size;
      }
      for (const TileStep& step : program_.steps) {
        run(step, tile);
      }
      rows_in_block += tile.rows;
      if (rows_in_block >= kRowsOfBlock || index + 1 == end) {
        close_blocks();
        rows_in_block = 0;
      }
    }
  }

 private:
  std::byte* tensor(const TileWindow& window) const {
    const auto& tensors = window.output ? memory_.outputs : memory_.inputs;
    return static_cast<std::byte*>(tensors[static_cast<size_t>(window.tensor)]);
  }

  int64_t offset(const TileWindow& window, const Tile& tile) const {
    switch (window.walk) {
      case TileWindow::Walk::kDense: return tile.row * program_.n + tile.column;
      case TileWindow::Walk::kRows: return window.nest.row_offset(0, tile.row) + tile.column;
      case TileWindow::Walk::kPerRow: return tile.row;
      case TileWindow::Walk::kFixed: return 0;
    }
    return 0;
  }

  // How many elements lie before those of a tile.
  int64_t before(TileStep::Count of, const Tile& tile) const {
    switch (of) {
      case TileStep::Count::kFull: return tile.row * program_.n + tile.column;
      case TileStep::Count::kPerRow: return tile.row;
      case TileStep::Count::kParameter: return 0;
    }
    return 0;
  }

  int64_t count(TileStep::Count of, const Tile& tile) const {
    switch (of) {
      case TileStep::Count::kFull: return tile.rows * tile.columns;
      case TileStep::Count::kPerRow: return tile.rows;
      case TileStep::Count::kParameter: return program_.n;
    }
    return 0;
  }

  void run(const TileStep& step, const Tile& tile) {
    const int64_t n = count(step.count, tile);
    switch (step.kind) {
      case TileStep::Kind::kGather: {
        const Nest& view = program_.views[static_cast<size_t>(step.input)];
        const int64_t first = before(step.count, tile);
        gather_view(view, step.size,
                    static_cast<const std::byte*>(memory_.inputs[static_cast<size_t>(step.input)]),
                    first, std::min(n, view.elements() - first), at_[step.out[0]]);
        break;
      }
      case TileStep::Kind::kFill: fill(step, n); break;
      case TileStep::Kind::kLoop: {
        const void* inputs[3] = {at_[step.in[0]], at_[step.in[1]], at_[step.in[2]]};
        step.loop(n, inputs, at_[step.out[0]]);
        break;
      }
      case TileStep::Kind::kConvert: step.convert(n, at_[step.in[0]], at_[step.out[0]]); break;
      case TileStep::Kind::kCopy:
        std::memcpy(at_[step.out[0]], at_[step.in[0]], static_cast<size_t>(n * step.size));
        break;
      case TileStep::Kind::kSpread:
        for (int64_t r = 0; r < tile.rows; ++r) {
          gather(step.size, at_[step.in[0]] + r * step.size, 0, program_.n,
                 at_[step.out[0]] + r * program_.n * step.size);
        }
        break;
      default:
        if (step.lane == Lane::kF64) {
          run_rows<double>(step, tile);
        } else {
          run_rows<float>(step, tile);
        }
    }
  }

  void fill(const TileStep& step, int64_t n) {
    std::byte* const to = at_[step.out[0]];
    switch (step.lane) {
      case Lane::kF32:
        std::fill_n(reinterpret_cast<float*>(to), n, static_cast<float>(step.value));
        break;
      case Lane::kF64: std::fill_n(reinterpret_cast<double*>(to), n, step.value); break;
      case Lane::kI64:
        std::fill_n(reinterpret_cast<int64_t*>(to), n, static_cast<int64_t>(step.value));
        break;
      case Lane::kU8: std::memset(to, step.value != 0 ? 1 : 0, static_cast<size_t>(n)); break;
    }
  }

  template <class T>
  static double fold(const RowLoops<T>& loops, Fold fold, int64_t n, const T* x) {
    switch (fold) {
      case Fold::kSum: return loops.sum(n, x);
      case Fold::kSumSquares: return loops.sum_squares(n, x);
      case Fold::kMax: return static_cast<double>(loops.max(n, x));
      case Fold::kMin: return static_cast<double>(loops.min(n, x));
      case Fold::kNone: break;
    }
    return 0;
  }

  // The block's sums of partial `i`; the thread's total lies behind them.
  template <class T>
  T* columns(int i) {
    return reinterpret_cast<T*>(base_ + program_.partials[static_cast<size_t>(i)].offset);
  }

  template <class T>
  void run_rows(const TileStep& step, const Tile& tile) {
    const RowLoops<T>& loop = loops().rows<T>();
    const auto in = [&](size_t i) { return reinterpret_cast<T*>(at_[step.in[i]]); };
    const auto out = [&](size_t i) { return reinterpret_cast<T*>(at_[step.out[i]]); };
    const int64_t n = program_.n;
    switch (step.kind) {
      case TileStep::Kind::kFoldRow:
        for (int64_t r = 0; r < tile.rows; ++r) {
          out(0)[r] = static_cast<T>(fold<T>(loop, step.fold, n, in(0) + r * n));
        }
        return;
      case TileStep::Kind::kFoldColumns:
        loop.add_rows(tile.rows, n, in(0), n, columns<T>(step.partial));
        return;
      case TileStep::Kind::kFoldAll:
        *columns<double>(step.partial) += fold<T>(loop, step.fold, tile.rows * tile.columns, in(0));
        return;
      default: break;
    }
    switch (step.row_op) {
      case TileStep::RowOp::kSoftmax: loop.softmax(tile.rows, n, in(0), out(0)); return;
      case TileStep::RowOp::kLogSoftmax: loop.log_softmax(tile.rows, n, in(0), out(0)); return;
      case TileStep::RowOp::kSoftmaxGrad:
        loop.softmax_grad(tile.rows, n, in(0), in(1), out(0));
        return;
      case TileStep::RowOp::kLogSoftmaxGrad:
        loop.log_softmax_grad(tile.rows, n, in(0), in(1), out(0));
        return;
      default: break;
    }
    const T eps = static_cast<T>(step.value);
    for (int64_t r = 0; r < tile.rows; ++r) {
      const T* const x = in(0) + r * n;
      T* const y = out(0) + r * n;
      switch (step.row_op) {
        case TileStep::RowOp::kLayerNorm:
          loop.layer_norm(n, x, in(1), in(2), eps, y, out(1) + r, out(2) + r);
          break;
        case TileStep::RowOp::kLayerNormGrad:
          loop.layer_norm_grad(n, x, in(1) + r * n, in(2), in(3)[r], in(4)[r], y,
                               columns<T>(step.partial), columns<T>(step.partial + 1));
          break;
        case TileStep::RowOp::kRmsNorm: loop.rms_norm(n, x, in(1), eps, y, out(1) + r); break;
        case TileStep::RowOp::kRmsNormGrad:
          loop.rms_norm_grad(n, x, in(1) + r * n, in(2), in(3)[r], y, columns<T>(step.partial));
          break;
        default: break;
      }
    }
  }

  template <class T>
  void close_block(int i) {
    T* const block = columns<T>(i);
    loops().rows<T>().add_to(program_.n, block, block + program_.n);
    std::fill_n(block, program_.n, T(0));
  }
  void close_blocks() {
    for (size_t i = 0; i < program_.partials.size(); ++i) {
      if (!program_.partials[i].columns) {
        continue;
      }
      if (program_.partials[i].lane == Lane::kF64) {
        close_block<double>(static_cast<int>(i));
      } else {
        close_block<float>(static_cast<int>(i));
      }
    }
  }

  const TileProgram& program_;
  const KernelMemory& memory_;
  std::byte* base_;
  std::byte** at_;
};

std::byte* partial_of(const TileProgram& program, const KernelMemory& memory,
                      const TilePartial& partial, int thread) {
  return static_cast<std::byte*>(memory.workspace) + thread * program.thread_bytes + partial.offset;
}

template <class T>
void store_columns(const TileProgram& program, const KernelMemory& memory,
                   const TilePartial& partial) {
  const auto total = [&](int thread) {
    return reinterpret_cast<T*>(partial_of(program, memory, partial, thread)) + program.n;
  };
  for (int thread = 1; thread < program.threads; ++thread) {
    loops().rows<T>().add_to(program.n, total(thread), total(0));
  }
  partial.store(program.n, total(0), memory.outputs[static_cast<size_t>(partial.output)]);
}

void store_total(const TileProgram& program, const KernelMemory& memory,
                 const TilePartial& partial) {
  double total = 0;
  for (int thread = 0; thread < program.threads; ++thread) {
    total += *reinterpret_cast<const double*>(partial_of(program, memory, partial, thread));
  }
  const auto narrow = static_cast<float>(total);
  const void* const from = partial.lane == Lane::kF64 ? static_cast<const void*>(&total) : &narrow;
  partial.store(1, from, memory.outputs[static_cast<size_t>(partial.output)]);
}

}  // namespace

void TileProgram::run(const KernelMemory& memory) const {
  if (rows * n == 0) {
    return;
  }
  for (const TilePartial& partial : partials) {
    const int64_t size = partial.lane == Lane::kF64 ? 8 : 4;
    const auto bytes = static_cast<size_t>(partial.columns ? 2 * n * size : 8);
    for (int thread = 0; thread < threads; ++thread) {
      std::memset(partial_of(*this, memory, partial, thread), 0, bytes);
    }
  }
  const int64_t pieces = (n + piece - 1) / piece;
  const int64_t tiles = (rows + rows_per_tile - 1) / rows_per_tile * pieces;
  parallel_chunks(threads, tiles, 1, [&](int64_t begin, int64_t end, int thread) {
    Worker(*this, memory, thread).run(begin, end);
  });
  for (const TilePartial& partial : partials) {
    if (partial.output < 0) {
      continue;
    }
    if (!partial.columns) {
      store_total(*this, memory, partial);
    } else if (partial.lane == Lane::kF64) {
      store_columns<double>(*this, memory, partial);
    } else {
      store_columns<float>(*this, memory, partial);
    }
  }
}

Kernel tile_kernel(TileProgram program) {
  const int64_t bytes = program.workspace_bytes();
  std::vector<std::pair<int, int>> in_place = program.in_place;
  auto shared = std::make_shared<const TileProgram>(std::move(program));
  return {[shared](const KernelMemory& memory) { shared->run(memory); }, bytes,
          std::move(in_place)};
}

}  // namespace mstrain::cpu
