// coded_product and decode_rows in f32. A few rows, as in generation, are multiplied by the codes as they are read: their
// time is that of reading the weight. More rows are multiplied by tiles of the weight, each decoded by the thread that
// multiplies by it, in its own cache. Tiles depend on shapes alone, so that results do not depend on the number of threads.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/parallel.h"
#include "core/backends/cpu/product.h"

namespace mstrain::cpu {
namespace {

// From there on decoding a tile, and packing it, costs less than decoding it for each few rows anew.
constexpr int64_t kFewRows = 24;
constexpr int64_t kTileFloats = int64_t{1} << 17;  // half of a second cache
constexpr int64_t kTileUnit = 64;                  // rows or columns: a multiple of every block

struct Weight {
  WeightCode code;
  int64_t n, width, bytes;

  explicit Weight(const KernelRequest& request, size_t input)
      : code(*parse_weight_code(request.attrs.text("code"))),
        n(1),
        width(request.attrs.integer("width")),
        bytes(request.inputs[input].type.shape.back()) {
    const Shape& shape = request.inputs[input].type.shape;
    for (int i = 0; i + 1 < shape.rank(); ++i) {
      n *= shape[i];
    }
  }

  // Numbers [begin, end) of rows [first, last), one row after the other.
  void decode(const uint8_t* rows, int64_t first, int64_t last, int64_t begin, int64_t end,
              float* to) const {
    const auto decode = loops().coded->decode[static_cast<int>(code)];
    for (int64_t i = first; i < last; ++i, to += end - begin) {
      decode(rows + i * bytes, width, begin, end, to);
    }
  }
};

const uint8_t* rows_of(const KernelMemory& memory, size_t input) {
  return static_cast<const uint8_t*>(memory.inputs[input]);
}

Kernel few_rows(const Weight& w, int64_t m, int available) {
  const int threads = useful_threads(available, w.n, m * w.n * w.width);
  const int64_t row = ready_bytes(w.code, w.width);
  return {[=](const KernelMemory& memory) {
            const CodedLoops& loop = *loops().coded;
            const auto code = static_cast<size_t>(w.code);
            const auto* const x = static_cast<const float*>(memory.inputs[0]);
            auto* const ready = static_cast<std::byte*>(memory.workspace);
            for (int64_t i = 0; i < m; ++i) {
              loop.ready[code](w.width, x + i * w.width, ready + i * row);
            }
            auto* const y = static_cast<float*>(memory.outputs[0]);
            parallel_chunks(threads, w.n, 1, [&](int64_t begin, int64_t end, int) {
              loop.product[code](
                  m, {rows_of(memory, 1) + begin * w.bytes, end - begin, w.bytes, w.width}, ready,
                  row, y + begin, w.n);
            });
          },
          m * row};
}

// c[m, columns] (+)= a[m, depth] b, where b is a tile of decoded numbers, [depth, columns] or its transpose.
struct TileProduct {
  int64_t columns, depth;
  bool adds;
  friend auto operator<=>(const TileProduct&, const TileProduct&) = default;
};

// The products that a thread makes, one of each kind.
using TileKernels = std::map<TileProduct, Kernel>;

class ManyRows {
 public:
  ManyRows(const Weight& w, int64_t m, bool transposed, const KernelRequest& request)
      : w_(w),
        m_(m),
        transposed_(transposed),
        batch_invariant_(request.batch_invariant && !transposed) {
    if (transposed) {
      rows_ = std::min(w.n, kTileFloats / (2 * kTileUnit));
      columns_ = std::min(w.width, 2 * kTileUnit);
    } else {
      rows_ = std::min(
          w.n, std::clamp(kTileFloats / w.width / kTileUnit, int64_t{1}, int64_t{4}) * kTileUnit);
      columns_ = w.width;
    }
    const int64_t all = transposed ? w.width : w.n;
    const int64_t each = transposed ? columns_ : rows_;
    items_ = (all + each - 1) / each;
    kernels_.resize(
        static_cast<size_t>(useful_threads(request.threads, items_, 2 * m * w.n * w.width)));
    for (TileKernels& kernels : kernels_) {
      for (int64_t item = 0; item < items_; ++item) {
        for_each_tile(item, [&](const Tile& tile) { prepare(kernels, product_of(tile)); });
      }
    }
  }

  int64_t workspace_bytes() const { return static_cast<int64_t>(kernels_.size()) * thread_bytes(); }

  void run(const KernelMemory& memory) {
    parallel_items(static_cast<int>(kernels_.size()), items_, [&](int64_t item, int thread) {
      auto* const scratch = static_cast<std::byte*>(memory.workspace) + thread * thread_bytes();
      auto* const numbers = reinterpret_cast<float*>(scratch);
      for_each_tile(item, [&](const Tile& t) {
        w_.decode(rows_of(memory, 1), t.first, t.last, t.begin, t.end, numbers);
        const auto* const x = static_cast<const float*>(memory.inputs[0]);
        auto* const y = static_cast<float*>(memory.outputs[0]);
        void* const inputs[] = {const_cast<float*>(transposed_ ? x + t.first : x), numbers};
        void* const output = transposed_ ? y + t.begin : y + t.first;
        kernels_[static_cast<size_t>(thread)]
            .at(product_of(t))
            .run({inputs, std::span(&output, 1), scratch + tile_bytes()});
      });
    });
  }

 private:
  // Rows [first, last) of the weight, and of each of them the numbers [begin, end).
  struct Tile {
    int64_t first, last, begin, end;
  };

  // The tiles that make a part of the result of their own, in order.
  template <class F>
  void for_each_tile(int64_t item, const F& f) const {
    if (!transposed_) {
      f(Tile{item * rows_, std::min((item + 1) * rows_, w_.n), 0, w_.width});
      return;
    }
    for (int64_t first = 0; first < w_.n; first += rows_) {
      f(Tile{first, std::min(first + rows_, w_.n), item * columns_,
             std::min((item + 1) * columns_, w_.width)});
    }
  }

  TileProduct product_of(const Tile& t) const {
    return transposed_ ? TileProduct{t.end - t.begin, t.last - t.first, t.first > 0}
                       : TileProduct{t.last - t.first, t.end - t.begin, false};
  }

  void prepare(TileKernels& kernels, const TileProduct& tile) {
    if (kernels.contains(tile)) {
      return;
    }
    Product p;
    p.m = m_;
    p.n = tile.columns;
    p.k = tile.depth;
    p.batch = make_nest(Shape{}, std::array<Shape, 3>{});
    p.a_row = transposed_ ? w_.n : w_.width;
    p.a_column = 1;
    p.b_row = transposed_ ? tile.columns : 1;
    p.b_column = transposed_ ? 1 : tile.depth;
    p.c_row = transposed_ ? w_.width : w_.n;
    fit_strides(p);
    p.batch_invariant = batch_invariant_;
    if (tile.adds) {
      p.after.push_back({.kind = Epilogue::Kind::kAdd});
    }
    Kernel kernel = onednn_product(p, 1, /*b_is_kept=*/false);
    check(kernel.run != nullptr, "coded_product: no library multiplies {} x {} x {}", p.m, p.n,
          p.k);
    product_bytes_ = std::max(product_bytes_, kernel.workspace_bytes);
    kernels.emplace(tile, std::move(kernel));
  }

  int64_t tile_bytes() const {
    return up_to(rows_ * columns_ * static_cast<int64_t>(sizeof(float)), 64);
  }
  int64_t thread_bytes() const { return tile_bytes() + up_to(product_bytes_, 64); }

  Weight w_;
  int64_t m_;
  bool transposed_;
  bool batch_invariant_;
  int64_t rows_ = 0, columns_ = 0;  // of a tile
  int64_t items_ = 0;
  int64_t product_bytes_ = 0;
  std::vector<TileKernels> kernels_;  // by thread
};

bool takes_f32(const KernelRequest& request) { return request.inputs[0].type.dtype == Dtype::kF32; }

Kernel prepare_product(const KernelRequest& request) {
  const Weight w(request, 1);
  const bool transposed = request.attrs.flag("transposed");
  const TensorType& out = request.outputs[0].type;
  const int64_t columns = transposed ? w.width : w.n;
  const int64_t m = columns == 0 ? 0 : out.elements() / columns;
  if (m == 0) {
    return {[](const KernelMemory&) {}};
  }
  if (w.n == 0) {
    return {[bytes = static_cast<size_t>(out.bytes())](const KernelMemory& memory) {
      std::memset(memory.outputs[0], 0, bytes);
    }};
  }
  if (m <= kFewRows && !transposed && !request.batch_invariant) {
    return few_rows(w, m, request.threads);
  }
  const auto product = std::make_shared<ManyRows>(w, m, transposed, request);
  return {[product](const KernelMemory& memory) { product->run(memory); },
          product->workspace_bytes()};
}

Kernel prepare_decode(const KernelRequest& request) {
  const Weight w(request, 0);
  const int threads = useful_threads(request.threads, w.n, w.n * w.width);
  return {[w, threads](const KernelMemory& memory) {
    parallel_chunks(threads, w.n, 1, [&](int64_t begin, int64_t end, int) {
      w.decode(rows_of(memory, 0), begin, end, 0, w.width,
               static_cast<float*>(memory.outputs[0]) + begin * w.width);
    });
  }};
}

}  // namespace

void register_coded_weight() {
  register_kernel(table(), "coded_product", {.prepare = prepare_product, .supports = takes_f32});
  register_kernel(table(), "decode_rows", {.prepare = prepare_decode});
}

}  // namespace mstrain::cpu
