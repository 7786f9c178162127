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

void expect_tensors(const Tensors& leaves, const std::vector<std::string>& paths, size_t place,
                    const Caller& caller) {
  for (size_t i = 0; i < leaves.size(); ++i) {
    check(leaves[i].defined(), "{}: argument {}{}{} is an empty tensor, at {}", caller.name, place,
          paths[i].empty() ? "" : ".", paths[i], to_string(caller.where));
  }
}

}  // namespace mstrain
