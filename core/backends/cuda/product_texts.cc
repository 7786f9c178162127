// Products of any types and strides by our own tiles: what no library serves, and all of them under the emulator.
#include "core/backends/cuda/printer.h"
#include "core/ops/dot_general.h"

namespace mstrain::cuda {
namespace {

constexpr int kTile = 16;  // rows, columns and summands that a block has at a time

// Dims of one kind with the strides of two tensors.
struct Axes {
  Shape dims, first, second;
  int64_t elements() const { return dims.elements(); }
  std::string in_first(std::string_view i) const { return offset_text(walk_of(dims, first), i); }
  std::string in_second(std::string_view i) const { return offset_text(walk_of(dims, second), i); }
};

struct Matrices {
  Axes batch;          // of a and b
  Axes batch_c;        // of c, twice
  Axes rows, columns;  // of a and c, of b and c
  Axes inner;          // of a and b

  explicit Matrices(const KernelRequest& request) {
    const DotDims dims = dot_dims(request.attrs);
    const ViewType &a = request.inputs[0], &b = request.inputs[1], &c = request.outputs[0];
    const auto step = [](const std::string& letters, const ViewType& view, char letter) {
      return view.strides[static_cast<int>(letters.find(letter))];
    };
    const auto add = [](Axes& to, int64_t size, int64_t first, int64_t second) {
      to.dims.push_back(size);
      to.first.push_back(first);
      to.second.push_back(second);
    };
    for (int i = 0; i < c.type.shape.rank(); ++i) {
      const char letter = dims.out[static_cast<size_t>(i)];
      const int64_t size = c.type.shape[i];
      const bool in_a = dims.a.find(letter) != std::string::npos;
      const bool in_b = dims.b.find(letter) != std::string::npos;
      if (in_a && in_b) {
        add(batch, size, step(dims.a, a, letter), step(dims.b, b, letter));
        add(batch_c, size, c.strides[i], c.strides[i]);
      } else if (in_a) {
        add(rows, size, step(dims.a, a, letter), c.strides[i]);
      } else {
        add(columns, size, step(dims.b, b, letter), c.strides[i]);
      }
    }
    for (int i = 0; i < a.type.shape.rank(); ++i) {
      const char letter = dims.a[static_cast<size_t>(i)];
      if (dims.out.find(letter) == std::string::npos) {
        add(inner, a.type.shape[i], a.strides[i], step(dims.b, b, letter));
      }
    }
  }
};

bool is_plain(const KernelRequest& request) { return epilogues_of(request.attrs).empty(); }

KernelText print_product(const KernelRequest& request) {
  const Matrices m(request);
  const int64_t rows = m.rows.elements(), columns = m.columns.elements(), k = m.inner.elements();
  const int64_t row_tiles = ceil_div(rows, kTile), column_tiles = ceil_div(columns, kTile);
  const int64_t tiles = m.batch.elements() * row_tiles * column_tiles;
  KernelPrinter text(request);
  text.begin_blocks("", tiles, kTile * kTile);
  if (tiles > 0) {
    text.line("using Held = {}::Held;", text.out_format(0));
    text.line("MSTRAIN_SHARED(Held, a_tile, {});", kTile * (kTile + 1));
    text.line("MSTRAIN_SHARED(Held, b_tile, {});", kTile * (kTile + 1));
    text.line("const Index which = b / {};", row_tiles * column_tiles);
    text.line("const Index first_row = b / {} % {} * {}, first_column = b % {} * {};", column_tiles,
              row_tiles, kTile, column_tiles, kTile);
    text.line("const int y = thread / {0}, x = thread % {0};", kTile);
    text.line("const Index a_base = {}, b_base = {};", m.batch.in_first("which"),
              m.batch.in_second("which"));
    text.line("Held sum = 0;");
    text.open("for (Index k = 0; k < {}; k += {}) {{", k, kTile);
    text.line(
        "const Index row = first_row + y, column = first_column + x, ka = k + x, kb = k + y;");
    text.line(
        "a_tile[y * {} + x] = row < {} && ka < {} ? {}::load(in0[a_base + {} + {}]) : Held(0);",
        kTile + 1, rows, k, text.in_format(0), m.rows.in_first("row"), m.inner.in_first("ka"));
    text.line(
        "b_tile[y * {} + x] = column < {} && kb < {} ? {}::load(in1[b_base + {} + {}]) : Held(0);",
        kTile + 1, columns, k, text.in_format(1), m.columns.in_first("column"),
        m.inner.in_second("kb"));
    text.line("__syncthreads();");
    text.open("for (int j = 0; j < {}; ++j) {{", kTile);
    text.line(
        "sum = scalar::add(sum, scalar::mul(Held(a_tile[y * {0} + j]), Held(b_tile[j * {0} + "
        "x])));",
        kTile + 1);
    text.close();
    text.line("__syncthreads();");
    text.close();
    text.line("const Index row = first_row + y, column = first_column + x;");
    text.open("if (row < {} && column < {}) {{", rows, columns);
    text.line("out0[{} + {} + {}] = {}::store(sum);", m.batch_c.in_first("which"),
              m.rows.in_second("row"), m.columns.in_second("column"), text.out_format(0));
    text.close();
  }
  text.end_blocks();
  return text.finish();
}

}  // namespace

void add_product_texts(std::vector<TextEntry>& entries) {
  entries.push_back({"dot_general", print_product, is_plain, true});
}

}  // namespace mstrain::cuda
