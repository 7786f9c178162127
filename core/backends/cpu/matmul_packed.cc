// Products in f32 by our own loops, for processors on which oneDNN has none that takes its memory, or a packed b, from the
// caller: those without AVX-512. Blocks and panels as Goto & van de Geijn 2008: b in panels as wide as the registers' block,
// each of which comes from the nearest caches while rows of a pass by. Threads share the rows and columns of c as a grid, and pack what
// they read themselves: they wait for each other nowhere. An element's sum runs in the same order for every thread count.
#include <omp.h>

#include <algorithm>
#include <limits>

#include "core/backends/cpu/after_product.h"
#include "core/backends/cpu/ahead.h"
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/parallel.h"
#include "core/backends/cpu/product.h"

namespace mstrain::cpu {
namespace {

constexpr int64_t kMostDepth = 512;     // of a panel of 32 KiB
constexpr int64_t kMostColumns = 1024;  // of b packed at a time
constexpr int64_t kMostRows = 120;      // of a in the second cache
constexpr int64_t kLeastPanels = 4;     // that repay the reading of a
constexpr int64_t kPacking = 16;  // multiply-adds that the packing of a number takes as long as
constexpr int64_t kBlockRows = BlockLoops::kRows;
constexpr int64_t kLine = 16;
constexpr int64_t kRowsAtOnce = 4;  // of b while it is packed: streams that are read ahead

class PackedProduct {
 public:
  PackedProduct(const Product& p, int threads, bool b_is_kept)
      : p_(p), loops_(*loops().block), panel_(loops_.panel), threads_(threads), after_(p) {
    depth_ = packed_depth(p.k);
    columns_ = std::min(kMostColumns, up_to(p.n, panel_));
    packs_a_ = p.a_column != 1;
    grid_ = grid_of(threads, b_is_kept);
  }

  int64_t packed_floats() const { return p_.k * up_to(p_.n, panel_); }
  // Of one product: for each thread what it packs of a block of b, and a block of a.
  int64_t workspace_floats(bool b_is_kept) const {
    return threads_ * ((b_is_kept ? 0 : panels_floats()) + rows_floats());
  }

  // b[k, n] in blocks of columns_ columns, within them in blocks of depth_ rows, within them in panels.
  void pack(const float* b, float* packed) const {
    for (int64_t first = 0; first < p_.n; first += columns_) {
      const int64_t width = block_width(first);
      for (int64_t l = 0; l < p_.k; l += depth_) {
        const int64_t depth = std::min(depth_, p_.k - l);
        parallel_chunks(threads_, width, panel_, [&](int64_t begin, int64_t end, int) {
          pack_panels(b, l, depth, first, {begin, end}, packed + first * p_.k + l * width);
        });
      }
    }
  }

  // With `packed`, b is not read. Called by every thread of a team, each with its own number; where they are fewer than threads(), they
  // do the parts of the others as well.
  void run(const float* a, const float* b, const float* packed, const float* bias, float* c,
           float* workspace, int thread, int team) const {
    for (int i = thread; i < threads_; i += team) {
      run_part(a, b, packed, bias, c, workspace, i);
    }
  }

  int threads() const { return threads_; }

 private:
  // Rows [i, i + rows) of a and c, columns [l, l + depth) of a.
  struct Tile {
    int64_t i, rows, l, depth;
  };

  // Into how many parts threads divide the rows and columns of c.
  struct Grid {
    int rows, columns;
  };

  void run_part(const float* a, const float* b, const float* packed, const float* bias, float* c,
                float* workspace, int thread) const {
    float* const own_rows = workspace + thread * rows_floats();
    float* const own_panels = workspace + threads_ * rows_floats() + thread * panels_floats();
    const Range rows = chunk_of(p_.m, kBlockRows, thread / grid_.columns, grid_.rows);
    for (int64_t first = 0; first < p_.n; first += columns_) {
      const int64_t width = block_width(first);
      const Range panels = chunk_of(width, panel_, thread % grid_.columns, grid_.columns);
      if (rows.begin == rows.end || panels.begin == panels.end) {
        continue;
      }
      const int64_t panel_count = (panels.end - panels.begin + panel_ - 1) / panel_;
      const int64_t row_count = rows.end - rows.begin;
      const int64_t tile_count = (row_count + kMostRows - 1) / kMostRows;
      const int64_t tile_rows = up_to((row_count + tile_count - 1) / tile_count, kBlockRows);
      for (int64_t l = 0; l < p_.k; l += depth_) {
        const int64_t depth = std::min(depth_, p_.k - l);
        const int64_t next_depth = std::min(depth_, p_.k - l - depth);
        const float* block = packed + first * p_.k + l * width;
        Ahead b_ahead;
        if (packed == nullptr) {
          float* const to = own_panels - panels.begin * depth;
          pack_panels(b, l, depth, first, panels, to);
          block = to;
          b_ahead = ahead(
              b, {l + depth, next_depth}, p_.b_row,
              {first + panels.begin, std::min(first + panels.end, p_.n) - first - panels.begin},
              p_.b_column, panel_count * tile_count);
        }
        for (int64_t i = rows.begin; i < rows.end; i += tile_rows) {
          const Tile tile{i, std::min(tile_rows, rows.end - i), l, depth};
          const int64_t i_after = i + tile_rows;
          const Tile next =
              i_after < rows.end
                  ? Tile{i_after, std::min(tile_rows, rows.end - i_after), l, depth}
                  : Tile{rows.begin, std::min(tile_rows, row_count), l + depth, next_depth};
          Ahead a_ahead = ahead(a, {next.i, next.rows}, p_.a_row, {next.l, next.depth}, p_.a_column,
                                panel_count);
          multiply(tile, a, block, panels, first, bias, c, own_rows, a_ahead, b_ahead);
        }
      }
    }
  }

  int64_t rows_floats() const { return packs_a_ ? kMostRows / kBlockRows * rows_step(depth_) : 0; }
  // Of the widest part of a block: the parts of narrower blocks begin elsewhere, and a thread may pack the next block while another
  // still reads this one.
  int64_t panels_floats() const { return depth_ * part(columns_, panel_, grid_.columns); }

  // The largest of `parts` parts of n in whole units.
  static int64_t part(int64_t n, int64_t unit, int parts) {
    return up_to(up_to(n, unit) / unit, parts) / parts * unit;
  }

  // That in which a thread has least to do: multiply-adds, and the packing of what it reads. Of equals that of most columns, whose
  // threads read no number of b twice.
  Grid grid_of(int threads, bool b_is_kept) const {
    Grid best{1, threads};
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int rows = 1; rows <= threads; ++rows) {
      if (threads % rows != 0) {
        continue;
      }
      const Grid grid{rows, threads / rows};
      const int64_t m = part(p_.m, kBlockRows, grid.rows);
      const int64_t blocks = p_.n / columns_;
      const int64_t n = blocks * part(columns_, panel_, grid.columns) +
                        part(p_.n - blocks * columns_, panel_, grid.columns);
      const int64_t a_times = blocks + (p_.n % columns_ != 0 ? 1 : 0);
      const int64_t work = m * std::max(n, kLeastPanels * panel_) +
                           kPacking * ((packs_a_ ? a_times * m : 0) + (b_is_kept ? 0 : n));
      if (work < least) {
        best = grid;
        least = work;
      }
    }
    return best;
  }

  // Floats from panel to panel of a: odd in lines, so that the panels that are written in turn share no places of the first cache.
  static int64_t rows_step(int64_t depth) { return up_to(kBlockRows * depth, kLine) | kLine; }

  int64_t block_width(int64_t first) const {
    return std::min(columns_, up_to(p_.n, panel_) - first);
  }

  // Rows and columns of a matrix, in the order in which its memory has them.
  struct Part {
    int64_t first, count;
  };
  static Ahead ahead(const float* matrix, Part rows, int64_t row, Part columns, int64_t column,
                     int64_t calls) {
    if (rows.count <= 0 || columns.count <= 0) {
      return {};
    }
    const float* const first = matrix + rows.first * row + columns.first * column;
    return column == 1 ? Ahead(first, rows.count, columns.count, row, calls)
                       : Ahead(first, columns.count, rows.count, column, calls);
  }

  // Rows [l, l + depth) of columns first + [columns.begin, columns.end), panel after panel. Where b has its columns side by
  // side, a few rows of all panels at a time: memory is read in its order.
  void pack_panels(const float* b, int64_t l, int64_t depth, int64_t first, const Range& columns,
                   float* to) const {
    const int64_t whole =
        p_.b_column != 1 ? 0 : (std::min(columns.end, p_.n - first) - columns.begin) / panel_;
    for (int64_t r = 0; whole > 0 && r < depth; r += kRowsAtOnce) {
      const float* const from = b + (l + r) * p_.b_row + first + columns.begin;
      loops_.copy_panels(std::min(kRowsAtOnce, depth - r), whole, from, p_.b_row,
                         to + columns.begin * depth + r * panel_, panel_ * depth);
    }
    for (int64_t j = columns.begin + whole * panel_; j < columns.end; j += panel_) {
      pack_panel(b, l, depth, first + j, to + j * depth);
    }
  }

  // Rows [l, l + depth) of columns [j, j + panel_); zeros beyond n.
  void pack_panel(const float* b, int64_t l, int64_t depth, int64_t j, float* to) const {
    const int64_t width = std::min<int64_t>(panel_, p_.n - j);
    const float* const from = b + l * p_.b_row + j * p_.b_column;
    if (p_.b_column != 1) {
      loops_.transpose(width, depth, from, p_.b_column, to, panel_);
    } else {
      loops_.copy_rows(depth, width, 1, from, p_.b_row, to, panel_, false);
    }
    for (int64_t r = 0; width < panel_ && r < depth; ++r) {
      std::fill(to + r * panel_ + width, to + (r + 1) * panel_, 0.0F);
    }
  }

  // Panels of kBlockRows rows, rows_step() from one to the next; some columns of all of them at a time, so that lines of a are read once, and
  // those of a panel written one after the other.
  void pack_rows(const Tile& tile, const float* a, float* to) const {
    constexpr int64_t kColumns = 64;
    for (int64_t first = 0; first < tile.depth; first += kColumns) {
      const int64_t end = std::min(tile.depth, first + kColumns);
      for (int64_t i = 0; i < tile.rows; i += kBlockRows) {
        const int64_t rows = std::min(kBlockRows, tile.rows - i);
        const float* from = a + (tile.i + i) * p_.a_row + (tile.l + first) * p_.a_column;
        float* panel = to + i / kBlockRows * rows_step(tile.depth) + first * kBlockRows;
        if (rows == kBlockRows && p_.a_row == 1 && p_.a_column >= kBlockRows) {
          loops_.copy_narrow(end - first, from, p_.a_column, panel);
          continue;
        }
        for (int64_t l = first; l < end; ++l, from += p_.a_column, panel += kBlockRows) {
          for (int64_t r = 0; r < rows; ++r) {
            panel[r] = from[r * p_.a_row];
          }
        }
      }
    }
  }

  // A part of c that a panel of b makes.
  struct Block {
    float* to;
    int64_t columns, ld;
    bool adds;         // to what is there
    const float* row;  // else: what its rows begin with; null: nothing
  };

  void multiply(const Tile& tile, const float* a, const float* block, const Range& panels,
                int64_t first, const float* bias, float* c, float* own_rows, Ahead& a_ahead,
                Ahead& b_ahead) const {
    if (packs_a_) {
      pack_rows(tile, a, own_rows);
    }
    const bool begins = tile.l == 0;
    for (int64_t j = panels.begin; j < panels.end; j += panel_) {
      a_ahead.ask();
      b_ahead.ask();
      const int64_t column = first + j;
      const int64_t width = std::min<int64_t>(panel_, p_.n - column);
      const float* row = begins && bias != nullptr ? bias + column : nullptr;
      float* const to = c + tile.i * p_.c_row + column;
      if (row != nullptr && after_.adds()) {
        for (int64_t r = 0; r < tile.rows; ++r) {
          loops().f32->add_to(width, row, to + r * p_.c_row);
        }
        row = nullptr;
      }
      const bool adds = !begins || after_.adds();
      const float* const panel = block + j * tile.depth;
      const int64_t made = up_to(width, loops_.width);
      if (made == width) {
        multiply_panel(tile, a, own_rows, panel, {to, made, p_.c_row, adds, row});
        continue;
      }
      // The loops read and write whole registers: the last columns go through a tile of their own.
      alignas(64) float edge[(kMostRows + 1) * BlockLoops::kWidestPanel];
      float* const edge_row = edge + tile.rows * panel_;
      for (int64_t r = 0; adds && r < tile.rows; ++r) {
        std::copy_n(to + r * p_.c_row, width, edge + r * panel_);
      }
      if (row != nullptr) {
        std::fill(std::copy_n(row, width, edge_row), edge_row + made, 0.0F);
        row = edge_row;
      }
      multiply_panel(tile, a, own_rows, panel, {edge, made, panel_, adds, row});
      for (int64_t r = 0; r < tile.rows; ++r) {
        std::copy_n(edge + r * panel_, width, to + r * p_.c_row);
      }
    }
    if (tile.l + tile.depth == p_.k) {
      const int64_t begin = first + panels.begin;
      const int64_t end = std::min(first + panels.end, p_.n);
      for (int64_t r = 0; r < tile.rows; ++r) {
        after_.run(c + (tile.i + r) * p_.c_row + begin, end - begin);
      }
    }
  }

  void multiply_panel(const Tile& tile, const float* a, const float* own_rows, const float* panel,
                      const Block& block) const {
    if (!packs_a_) {
      multiply_rows(tile.rows, tile.depth, a + tile.i * p_.a_row + tile.l, p_.a_row, 1, panel,
                    block.to, block);
      return;
    }
    const int64_t most = kBlockRows;
    for (int64_t i = 0; i < tile.rows; i += most, own_rows += rows_step(tile.depth)) {
      multiply_rows(std::min(most, tile.rows - i), tile.depth, own_rows, 1, most, panel,
                    block.to + i * block.ld, block);
    }
  }
  void multiply_rows(int64_t rows, int64_t depth, const float* a, int64_t row, int64_t column,
                     const float* panel, float* to, const Block& block) const {
    if (block.row != nullptr) {
      loops_.product_from(rows, block.columns, depth, a, row, column, panel, panel_, to, block.ld,
                          block.row);
    } else {
      loops_.product(rows, block.columns, depth, a, row, column, panel, panel_, to, block.ld,
                     block.adds);
    }
  }

  Product p_;
  const BlockLoops& loops_;
  int64_t panel_;
  int threads_;
  int64_t depth_ = 1, columns_ = 1;
  bool packs_a_ = false;
  Grid grid_{1, 1};
  AfterProduct after_;
};

// Threads share each product.
Kernel one_by_one(const Product& p, int threads, bool b_is_kept) {
  const int64_t flops = 2 * p.m * p.n * p.k;
  const PackedProduct product(p, useful_threads(threads, p.m * p.n, flops), b_is_kept);
  Kernel kernel{[product, p, b_is_kept](const KernelMemory& memory) {
                  const float* const bias = p.bias ? floats(memory.inputs[2]) : nullptr;
                  auto* const workspace = static_cast<float*>(memory.workspace);
                  for (int64_t i = 0; i < p.batches(); ++i) {
                    const float* const a = floats(memory.inputs[0]) + p.offset(0, i);
                    const float* const b =
                        b_is_kept ? nullptr : floats(memory.inputs[1]) + p.offset(1, i);
                    const float* const packed = b_is_kept ? floats(memory.packed) : nullptr;
                    float* const c = static_cast<float*>(memory.outputs[0]) + p.offset(2, i);
                    if (product.threads() == 1) {
                      product.run(a, b, packed, bias, c, workspace, 0, 1);
                      continue;
                    }
#pragma omp parallel num_threads(product.threads())
                    product.run(a, b, packed, bias, c, workspace, omp_get_thread_num(),
                                omp_get_num_threads());
                  }
                },
                product.workspace_floats(b_is_kept) * static_cast<int64_t>(sizeof(float))};
  if (b_is_kept) {
    kernel.packed = {
        1, product.packed_floats() * static_cast<int64_t>(sizeof(float)),
        fmt::format("f32 {}x{} by {},{} in panels", p.k, p.n, p.b_row, p.b_column),
        [product](const void* b, void* to) { product.pack(floats(b), static_cast<float*>(to)); }};
  }
  return kernel;
}

// Each thread makes products of its own.
Kernel side_by_side(const Product& p, int threads) {
  const PackedProduct product(p, 1, /*b_is_kept=*/false);
  const int team = useful_threads(threads, p.batches(), 2 * p.batches() * p.m * p.n * p.k);
  const int64_t room = up_to(product.workspace_floats(/*b_is_kept=*/false), 16);
  return {[product, p, team, room](const KernelMemory& memory) {
            parallel_chunks(team, p.batches(), 1, [&](int64_t begin, int64_t end, int thread) {
              for (int64_t i = begin; i < end; ++i) {
                product.run(floats(memory.inputs[0]) + p.offset(0, i),
                            floats(memory.inputs[1]) + p.offset(1, i), nullptr,
                            p.bias ? floats(memory.inputs[2]) : nullptr,
                            static_cast<float*>(memory.outputs[0]) + p.offset(2, i),
                            static_cast<float*>(memory.workspace) + thread * room, 0, 1);
              }
            });
          },
          team * room * static_cast<int64_t>(sizeof(float))};
}

}  // namespace

int64_t packed_depth(int64_t k) {
  const int64_t parts = (k + kMostDepth - 1) / kMostDepth;
  return (k + parts - 1) / parts;
}

Kernel packed_product(const Product& p, int threads, bool b_is_kept) {
  if (!AfterProduct::serves(p)) {
    return {};
  }
  return p.batches() >= threads && p.batches() > 1 ? side_by_side(p, threads)
                                                   : one_by_one(p, threads, b_is_kept);
}

}  // namespace mstrain::cpu
