#include "core/runtime/context.h"

#include "core/base/processors.h"

namespace mstrain {
namespace {

thread_local const Context* bound = nullptr;
const Backend* installed_backend = nullptr;

}  // namespace

const Backend* default_backend() { return installed_backend; }
void install_default_backend(const Backend* backend) { installed_backend = backend; }

int Context::num_threads() const { return threads > 0 ? threads : counted_processors(); }

const Context& current_context() {
  static const Context kDefault;
  return bound != nullptr ? *bound : kDefault;
}

ContextScope::ContextScope(const Context& context) : previous_(bound) { bound = &context; }
ContextScope::~ContextScope() { bound = previous_; }

}  // namespace mstrain
