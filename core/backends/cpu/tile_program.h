// Programs of the tile machine: elementwise operations, reductions and operations on rows, run tile by tile in one pass
// over memory. Tiles lie in the first cache; operands that memory holds in the right form are used where they lie.
//
// A program walks `rows` rows of `n` elements: `rows_per_tile` whole rows at a time, or pieces of one row where nothing
// needs it whole. Threads take consecutive tiles; sums over rows are formed per thread and added in the threads' order.
#pragma once

#include <vector>

#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/nest.h"
#include "core/ir/kernel.h"
#include "core/ops/fused.h"

namespace mstrain::cpu {

// Where a step finds a tile: an entry in a table of addresses that every thread has.
using Register = int;

struct TileStep {
  enum class Kind : uint8_t {
    kGather,       // memory by strides to a tile
    kFill,         // one number to a tile
    kLoop,         // a vector loop
    kConvert,      // between memory's type and what tiles are computed in
    kCopy,         // bytes
    kFoldRow,      // each row to a number
    kSpread,       // each row's number along it
    kFoldColumns,  // onto the thread's sum over rows
    kFoldAll,      // onto the thread's total
    kRow           // norms and softmax
  };
  enum class RowOp : uint8_t {
    kSoftmax,
    kLogSoftmax,
    kSoftmaxGrad,
    kLogSoftmaxGrad,
    kLayerNorm,
    kLayerNormGrad,
    kRmsNorm,
    kRmsNormGrad
  };
  enum class Count : uint8_t { kFull, kPerRow, kParameter };  // how many elements of a tile

  Kind kind = Kind::kLoop;
  Count count = Count::kFull;
  Lane lane = Lane::kF32;
  RowOp row_op = RowOp::kSoftmax;
  Fold fold = Fold::kSum;
  TileLoop loop = nullptr;
  ConvertLoop convert = nullptr;
  std::array<Register, 5> in{};
  std::array<Register, 3> out{};
  int inputs = 0, outputs = 0;  // how many of them
  int input = 0;                // kGather: of the kernel
  int size = 0;                 // bytes of an element: kGather, kCopy
  int partial = 0;              // kFoldColumns, kFoldAll, kRow: index of the (first) thread's sum
  double value = 0;             // kFill: the number; kRow: eps
};

// A register that points into a tensor, anew for every tile.
struct TileWindow {
  enum class Walk : uint8_t {
    kDense,   // the tile's elements lie as they are walked
    kRows,    // rows by `nest`, dense inside; tiles lie in one row
    kPerRow,  // a number a row
    kFixed    // the whole tensor: parameters
  };
  Register reg = 0;
  Walk walk = Walk::kDense;
  bool output = false;
  int tensor = 0;  // of the kernel's inputs or outputs
  int size = 0;
  Nest nest;
};

// A register with memory of its own.
struct TileSlot {
  Register reg = 0;
  int64_t offset = 0;  // in the thread's memory
};

// A sum that threads form and that is stored at the end.
struct TilePartial {
  bool columns = false;  // n sums, else one total
  int output = 0;        // -1: nobody wants it
  Lane lane = Lane::kF32;
  int64_t offset =
      0;  // in the thread's memory: columns: a block's sums, then the total; else a double
  ConvertLoop store = nullptr;  // to the output's type
};

struct TileProgram {
  int64_t rows = 1, n = 1;
  int64_t rows_per_tile = 1,
          piece = 1;  // piece: elements of a row in a tile; n where rows are whole
  int threads = 1;
  int64_t thread_bytes = 0;  // of memory for each thread; the table of registers lies at its start
  std::vector<TileStep> once;   // constants and parameters, before the first tile of a thread
  std::vector<TileStep> steps;  // of every tile
  std::vector<TileWindow> windows;
  std::vector<Nest> views;  // that kGather walks, by kernel input
  std::vector<TileSlot> slots;
  std::vector<TilePartial> partials;
  std::vector<std::pair<int, int>> in_place;  // outputs that may be written over inputs

  int64_t workspace_bytes() const { return threads * thread_bytes; }
  void run(const KernelMemory& memory) const;
};

// One elementwise operation.
TileProgram elementwise_program(const KernelRequest& request);
// The body of a `fused` operation, which must be legal.
TileProgram body_program(const KernelRequest& request);

// Whether the machine has an elementwise operation's loop for its element type.
bool has_tile_loop(const OpDef& op, Dtype dtype);

Kernel tile_kernel(TileProgram program);

}  // namespace mstrain::cpu
