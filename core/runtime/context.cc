#include "core/runtime/context.h"

#include <sched.h>

namespace mstrain {
namespace {

thread_local const Context* bound = nullptr;
const Backend* installed_backend = nullptr;

int processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

const Backend* default_backend() { return installed_backend; }
void install_default_backend(const Backend* backend) { installed_backend = backend; }

int Context::num_threads() const {
  static const int kProcessors = processors();
  return threads > 0 ? threads : kProcessors;
}

const Context& current_context() {
  static const Context kDefault;
  return bound != nullptr ? *bound : kDefault;
}

ContextScope::ContextScope(const Context& context) : previous_(bound) { bound = &context; }
ContextScope::~ContextScope() { bound = previous_; }

}  // namespace mstrain
