// Builds programs of the tile machine, operation by operation: which operands are used where they lie, what becomes a tile.
#pragma once

#include <map>

#include "core/backends/cpu/tile_layout.h"
#include "core/backends/cpu/tile_program.h"

namespace mstrain::cpu {

// Values are numbers that the builder gives: of inputs, constants and results. Used for one program, which finish() takes.
class TileBuilder {
 public:
  using Count = TileStep::Count;

  // whole_rows: something needs its rows in one piece.
  TileBuilder(const KernelRequest& request, FusedExtent extent, bool whole_rows);

  int input(size_t i, Count count);
  int constant(double value, Dtype dtype, Count count);
  // An elementwise operation. Returns the result.
  int map(const OpDef& op, std::span<const int> operands, Dtype dtype, Count count);
  // One number a row becomes n of them.
  int spread(int value);
  int fold_row(int value, Fold fold, Dtype dtype);
  // A sum that only leaves the program, as kernel output `output`.
  void fold_out(int value, Fold fold, bool columns, int output, Dtype dtype);
  // An operation on rows; `sums` are the kernel outputs of its sums over rows (-1: not wanted).
  std::vector<int> row(TileStep::RowOp op, std::span<const int> operands, double eps,
                       std::span<const TensorType> results, std::span<const int> sums);
  // `value` becomes kernel output `output`.
  void output(int value, int output);
  TileProgram finish();

 private:
  struct Held {
    Dtype dtype = Dtype::kF32;
    Count count = Count::kFull;
    int input = -1;  // of the kernel, before it is first used
    Register tile = -1;
    Register numbers = -1;  // of bool: as integers
  };

  void find_rows();
  bool is_rows(const Nest& nest) const;
  // Whether every row holds the same.
  bool repeats(const Nest& nest) const;

  int fresh(Dtype dtype, Count count);
  // A new register with memory of its own, or over a tensor.
  Register slot(Count count, int width, bool once = false);
  Register window(TileWindow::Walk walk, bool output, int tensor, int size);
  // Adds a step with its one result in a new register, to be run once or for every tile.
  Register push(TileStep step, int width, bool once = false);

  // An input as memory holds it.
  Register raw_input(const Held& held, bool& once);
  Register converted(Register from, ConvertLoop convert, Count count, int width, bool once);
  // The value as a tile.
  Register tile(int value);
  // The same with bool as integers.
  Register numbers(int value);
  // A result in `lane`, rounded to its type as if it had been in memory.
  int stored(Register reg, Lane lane, Dtype dtype, Count count);
  // Whether a register is another value already.
  bool is_shared(Register reg) const;
  // The register that holds the value as memory would.
  Register memory_form(int value);
  int partial(Lane lane, bool columns, int output, Dtype dtype);
  void rename(Register from, Register to);

  const KernelRequest& request_;
  bool whole_rows_;
  bool by_rows_ = false;
  TileProgram program_;
  std::vector<Held> values_;
  std::map<int, Register> raw_;  // by value: as memory would hold it, where tiles do not
  std::map<Register, TileNeed> needs_;
  Register registers_ = 0;
  int64_t work_ = 0;  // per element, relative to an addition
};

}  // namespace mstrain::cpu
