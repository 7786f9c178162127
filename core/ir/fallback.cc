#include "core/ir/fallback.h"

#include <mutex>
#include <set>

#include "core/base/log.h"

namespace mstrain {

const KernelEntry* usable_kernel(Backend backend, const KernelRequest& request) {
  const KernelEntry* entry = find_kernel(backend, request.op);
  const bool serves = entry != nullptr && (entry->supports == nullptr || entry->supports(request));
  return serves ? entry : nullptr;
}

const KernelEntry& fallback_kernel(Backend backend, const KernelRequest& request) {
  const std::string type(request.outputs.empty() ? "nothing"
                                                 : name_of(request.outputs[0].type.dtype));
  const KernelEntry* entry = find_kernel(Backend::kReference, request.op);
  check(entry != nullptr, "{}: no backend has a kernel for {}", request.op.name, type);
  static std::mutex mutex;
  static std::set<std::pair<std::string_view, std::string>> told;
  const std::lock_guard lock(mutex);
  if (backend != Backend::kReference && told.emplace(request.op.name, type).second) {
    log_warning("{}: the cpu backend has no kernel for {}; the reference, which is slow, runs it",
                request.op.name, type);
  }
  return *entry;
}

}  // namespace mstrain
