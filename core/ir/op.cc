#include "core/ir/op.h"

#include <algorithm>
#include <map>

#include "core/ir/tensor.h"

namespace mstrain {
namespace {

std::map<std::string_view, const OpDef*>& table() {
  static std::map<std::string_view, const OpDef*> ops;
  return ops;
}

}  // namespace

bool accepts(DtypeClass dtypes, Dtype dtype) {
  switch (dtypes) {
    case DtypeClass::kFloating: return is_floating(dtype);
    case DtypeClass::kNumeric: return dtype != Dtype::kBool;
    case DtypeClass::kAny: return true;
    case DtypeClass::kInteger: return is_integer(dtype);
    case DtypeClass::kBool: return dtype == Dtype::kBool;
  }
  return false;
}

Tensors zero_derivative(const Application& node, std::span<const Tensor> given) {
  // Serves as jvp and as vjp: the other side's count of empty tensors.
  return Tensors(given.size() == node.inputs.size() ? node.outputs.size() : node.inputs.size());
}

std::string title_of(const OpDef& op, const Attrs& attrs) {
  return op.title != nullptr ? op.title(attrs) : std::string(op.name);
}

void register_ops(std::span<const OpDef> ops) {
  for (const OpDef& op : ops) {
    const bool added = table().emplace(op.name, &op).second;
    check(added, "operation {} is declared twice", op.name);
  }
}

const OpDef* find_op(std::string_view name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : found->second;
}

std::vector<const OpDef*> all_ops() {
  std::vector<const OpDef*> ops;
  for (const auto& [name, op] : table()) {
    ops.push_back(op);
  }
  return ops;
}

Cost elementwise_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs,
                      double flops_per_element) {
  Cost cost;
  for (const TensorType& type : inputs) {
    cost.bytes += static_cast<double>(type.bytes());
  }
  for (const TensorType& type : outputs) {
    cost.bytes += static_cast<double>(type.bytes());
    cost.flops += flops_per_element * static_cast<double>(type.elements());
  }
  return cost;
}

}  // namespace mstrain
