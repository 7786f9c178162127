// From the program of one rank to that of each of many: tensors are held in parts, and collectives stand where operations need
// more than a rank has. Programs are equal on all ranks.
//
// Layouts of inputs, and those that are wanted of outputs, decide. Each operation is shared in one of the ways of its layout
// rule (core/ir/layout.h): that which, with the collectives that bring its inputs into place, moves the fewest bytes. Terms
// of a sum are added up where something asks for their sum, not before; the same tensor is brought into the same place
// once. Weights stay where they are, unless nothing else is possible. Bodies of loops are divided with them, with layouts
// of carries that a turn leaves as they were.
#pragma once

#include <optional>

#include "core/ir/layout.h"
#include "core/ir/tensor.h"

namespace mstrain {

// Tensors whose dims begin with `dims` are a stream of samples and positions. Where terms of a sum are to be added up into
// one, each rank gets its part of dim `dim`, instead of all: what works on positions one by one is then shared as well.
struct Stream {
  Shape dims;
  int dim = 1;
  bool dealt_out =
      false;  // replicas too: each rank makes its part of what comes out of an operation
};

struct PartitionOptions {
  std::vector<Layout> inputs;                  // of the program, by input; fewer: replicas
  std::vector<std::optional<Layout>> outputs;  // none: as it comes
  std::string scattered_along = {};            // the axis over which streams are dealt out; none
  Stream stream = {};
  // Where ways of an operation have names, the one to take (Way::name), whatever it moves; empty: as for others.
  std::string way = {};
  std::string way_key = {};  // of the configuration, that errors name
  // Products whose operand or result is exchanged are computed in so many pieces, of rows, each beside the exchange of the next or the one
  // before.
  int64_t pieces = 1;
};

struct Partitioned {
  GraphPtr program;  // with types of parts
  std::vector<Layout> outputs;
};

// `graph` is that of one rank. Throws Error where a layout fits no dim of its tensor, where an operation without a rule meets
// a part (naming both and the line of the call), where an output cannot be what is wanted, and where
// the dims of an operation do not allow the way that is asked for, naming those that they do.
Partitioned partition(const Graph& graph, const Mesh& mesh, const PartitionOptions& options);

}  // namespace mstrain
