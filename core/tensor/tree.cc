#include "core/tensor/tree.h"

namespace mstrain {

std::string on_one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    line += c == '\n' ? "\\n" : c == '\\' ? "\\\\" : std::string(1, c);
  }
  return line;
}

void LeafVisitor::visit_params(Params& params) {
  for (auto& [key, tensor] : access_ == Access::kRead ? params.shared_items() : params.items()) {
    (*this)(key, tensor);
  }
}

}  // namespace mstrain
