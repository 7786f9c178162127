#include "core/transform/vmap.h"

#include "core/ops/build.h"

namespace mstrain {

void BatchedLeaves::add(const std::string& path, const Tensor& leaf, bool is_mapped) {
  check(leaf.defined(), "vmap: argument {} is an empty tensor", path);
  TensorType type = leaf.type();
  if (is_mapped) {
    check(leaf.rank() > 0, "vmap: argument {} is {}, without a leading dim for the samples", path,
          to_string(type));
    check(size < 0 || leaf.dim(0) == size,
          "vmap: argument {} is {}, the arguments before it hold {} samples", path, to_string(type),
          size);
    size = leaf.dim(0);
    type.shape = type.shape.without(0);
  }
  leaves.push_back(leaf);
  mapped.push_back(is_mapped);
  types.push_back(type);
}

Tensors run_batched(const Graph& program, const BatchedLeaves& arguments,
                    std::span<const Tensor> captures) {
  check(arguments.size >= 0, "vmap: no argument holds samples");
  Tensors inputs = arguments.leaves;
  inputs.insert(inputs.end(), captures.begin(), captures.end());
  const std::unique_ptr<bool[]> batched(new bool[inputs.size()]());
  std::copy(arguments.mapped.begin(), arguments.mapped.end(), batched.get());
  return replay_batched(program, inputs, std::span<const bool>(batched.get(), inputs.size()),
                        arguments.size);
}

}  // namespace mstrain
