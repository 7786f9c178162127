#include "core/ir/kernel.h"

#include <unordered_map>

namespace mstrain {
namespace {

using Table = std::unordered_map<std::string_view, KernelEntry>;

Table& table(Backend backend) {
  static Table tables[3];
  return tables[static_cast<int>(backend)];
}

}  // namespace

void register_kernel(Backend backend, std::string_view op, KernelEntry entry) {
  const OpDef* def = find_op(op);
  check(def != nullptr, "a kernel is registered for the unknown operation {}", op);
  const bool added = table(backend).emplace(def->name, std::move(entry)).second;
  check(added, "two kernels are registered for {}", op);
}

const KernelEntry* find_kernel(Backend backend, const OpDef& op) {
  const Table& kernels = table(backend);
  const auto found = kernels.find(op.name);
  return found == kernels.end() ? nullptr : &found->second;
}

}  // namespace mstrain
