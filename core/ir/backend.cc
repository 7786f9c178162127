#include "core/ir/backend.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include "core/base/error.h"

namespace mstrain {
namespace {

struct Registry {
  std::mutex mutex;
  std::deque<Backend> backends;  // whose places do not move
};

Registry& registry() {
  static Registry it;
  return it;
}

}  // namespace

Backend& add_backend(Backend backend) {
  check(find_backend(backend.name) == nullptr, "there are two back ends called {}", backend.name);
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  return all.backends.emplace_back(std::move(backend));
}

std::vector<const Backend*> all_backends() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::vector<const Backend*> out;
  for (const Backend& backend : all.backends) {
    out.push_back(&backend);
  }
  return out;
}

const Backend* find_backend(std::string_view name) {
  for (const Backend* backend : all_backends()) {
    if (backend->name == name) {
      return backend;
    }
  }
  return nullptr;
}

const Backend* backend_named(std::string_view name) {
  const Backend* const found = find_backend(name);
  if (found == nullptr) {
    std::vector<std::string> names;
    for (const Backend* backend : all_backends()) {
      names.push_back(backend->name);
    }
    fail("there is no back end called {}{}", name, did_you_mean(name, names));
  }
  return found;
}

void register_kernel(Backend& backend, std::string_view op, KernelEntry entry) {
  const OpDef* def = find_op(op);
  check(def != nullptr, "a kernel is registered for the unknown operation {}", op);
  const bool added = backend.kernels.emplace(def->name, std::move(entry)).second;
  check(added, "two kernels are registered for {}", op);
}

const KernelEntry* find_kernel(const Backend* backend, const OpDef& op) {
  const auto found = backend->kernels.find(op.name);
  return found == backend->kernels.end() ? nullptr : &found->second;
}

double seconds_of(const BackendRates& rates, const Cost& cost, std::span<const Dtype> operands) {
  const auto counts = std::ranges::find_if(operands, [&](Dtype operand) {
    return is_floating(operand) || rates.flops[static_cast<size_t>(operand)] > 0;
  });
  const Dtype type = counts == operands.end() ? Dtype::kF32 : *counts;
  const double flops = rates.flops[static_cast<size_t>(type)];
  const double arithmetic = flops > 0 ? cost.flops / flops : 0;
  const double memory = rates.bytes > 0 ? cost.bytes / rates.bytes : 0;
  return std::max(arithmetic, memory);
}

}  // namespace mstrain
