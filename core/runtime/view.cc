#include "core/runtime/view.h"

namespace mstrain {

std::string to_string(const TensorType& type) {
  return fmt::format("{}{}", name_of(type.dtype), to_string(type.shape));
}

}  // namespace mstrain
