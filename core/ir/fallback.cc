#include "core/ir/fallback.h"

#include <mutex>
#include <set>
#include <tuple>

#include "core/base/log.h"

namespace mstrain {

namespace {

// A type of elements that the back end does not have.
std::optional<Dtype> missing_type(const Backend* backend, const KernelRequest& request) {
  for (const auto& views : {request.inputs, request.outputs}) {
    for (const ViewType& view : views) {
      if (!backend->dtypes[static_cast<size_t>(view.type.dtype)]) {
        return view.type.dtype;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

const KernelEntry* usable_kernel(const Backend* backend, const KernelRequest& request) {
  const KernelEntry* entry = find_kernel(backend, request.op);
  const bool serves = entry != nullptr && !missing_type(backend, request) &&
                      (entry->supports == nullptr || entry->supports(request));
  return serves ? entry : nullptr;
}

const KernelEntry& fallback_kernel(const Backend* backend, const KernelRequest& request) {
  const std::string type(request.outputs.empty() ? "nothing"
                                                 : name_of(request.outputs[0].type.dtype));
  const Backend* const other = backend->fallback;
  if (const auto missing = missing_type(backend, request); missing && other == nullptr) {
    fail("{}: the {} back end has no {}", request.op.name, backend->name, name_of(*missing));
  }
  if (other == nullptr) {
    fail("{}: the {} back end has no kernel for {}, and leaves nothing to another", request.op.name,
         backend->name, type);
  }
  const KernelEntry* entry = usable_kernel(other, request);
  check(entry != nullptr, "{}: neither the {} nor the {} back end has a kernel for {}",
        request.op.name, backend->name, other->name, type);
  static std::mutex mutex;
  static std::set<std::tuple<std::string, std::string_view, std::string>> told;
  const std::lock_guard lock(mutex);
  if (told.emplace(backend->name, request.op.name, type).second) {
    log_warning("{}: the {} backend has no kernel for {}; the {}, which is slow, runs it",
                request.op.name, backend->name, type, other->name);
  }
  return *entry;
}

}  // namespace mstrain
