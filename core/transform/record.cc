#include "core/transform/record.h"

namespace mstrain {

Types types_of(std::span<const Tensor> tensors) {
  Types types;
  for (const Tensor& tensor : tensors) {
    types.push_back(tensor.type());
  }
  return types;
}

}  // namespace mstrain
