// Random programs over the operations of the table, for properties that must hold for all of them.
#pragma once

#include "tests/conformance/cases.h"

namespace mstrain {

struct ProgramOptions {
  bool smooth = true;   // only operations whose results move a little when their inputs do
  bool control = true;  // loops, recomputation and batching among them
  Dtype dtype = Dtype::kF64;
};

// A function that makes the same choices whenever it is called, whatever the mode: `seed` alone decides.
class RandomProgram {
 public:
  RandomProgram(uint64_t seed, const ProgramOptions& options);

  // Two or three tensors of options.dtype.
  Tensors inputs() const;
  // Two values of options.dtype, the second a scalar that everything goes into.
  Tensors operator()(const Tensors& inputs) const;

 private:
  uint64_t seed_;
  ProgramOptions options_;
};

// The program as a graph of abstract inputs.
GraphPtr graph_of(const RandomProgram& program);
// The program's values and the gradient of its scalar.
Tensors values_and_gradients(const RandomProgram& program, const Tensors& x);
// The same as a graph.
GraphPtr gradient_graph(const RandomProgram& program);

}  // namespace mstrain
