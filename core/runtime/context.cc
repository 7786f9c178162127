#include "core/runtime/context.h"

#include <mutex>

#include "core/base/error.h"
#include "core/base/processors.h"

namespace mstrain {
namespace {

thread_local const Context* bound = nullptr;
const Backend* installed_backend = nullptr;

// What threads have that bound none: made when first asked for, which may throw for a device's name.
std::unique_ptr<Context>& unbound_context() {
  static std::unique_ptr<Context> it;
  return it;
}

void check_threads(const Context& context) {
  constexpr int kMost = 1024;
  check(context.threads >= 0 && context.threads <= kMost,
        "Context: {} threads; expected 1 to {}, or 0 for one per processor", context.threads,
        kMost);
}

}  // namespace

const Backend* default_backend() { return installed_backend; }
void install_default_backend(const Backend* backend) {
  installed_backend = backend;
  if (unbound_context() != nullptr) {
    unbound_context()->backend = backend;
  }
}
void install_default_memory() {
  if (unbound_context() != nullptr) {
    unbound_context()->allocator = std::make_shared<Allocator>();
  }
}

int Context::num_threads() const { return threads > 0 ? threads : counted_processors(); }

const Context& current_context() {
  if (bound != nullptr) {
    return *bound;
  }
  static std::once_flag once;
  std::call_once(once, [] { unbound_context() = std::make_unique<Context>(); });
  return *unbound_context();
}

ContextScope::ContextScope(const Context& context) : previous_(bound) {
  check_threads(context);
  bound = &context;
}
ContextScope::ContextScope(Context&& context) : own_(std::move(context)), previous_(bound) {
  check_threads(*own_);
  bound = &*own_;
}
ContextScope::~ContextScope() { bound = previous_; }

}  // namespace mstrain
