#include "core/tensor/tree.h"

namespace mstrain {

void LeafVisitor::operator()(std::string_view name, Params& params) {
  nested(name, [&] {
    for (auto& [key, tensor] : access_ == Access::kRead ? params.shared_items() : params.items()) {
      leaf_(join(key), tensor);
    }
  });
}

}  // namespace mstrain
