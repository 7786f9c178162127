// What a computation runs on. Every thread has a current context, bound by a scope; there are no other globals, so that
// several ranks can run as threads of one process.
#pragma once

#include <memory>

#include "core/runtime/buffer.h"

namespace mstrain {

// reference: slow, obvious kernels that accumulate in double, the oracle of all tests. cpu: the fast ones. null: plans
// and allocates like cpu but computes nothing.
enum class Backend : uint8_t { kReference, kCpu, kNull };

struct Context {
  Backend backend = Backend::kCpu;
  int threads = 0;  // of the OpenMP team that kernels use; 0: one per processor of the process
  bool training = false;  // dropout is active
  std::shared_ptr<Allocator> allocator = std::make_shared<Allocator>();

  int num_threads() const;
};

// The context of this thread: the innermost ContextScope, else a process-wide default (cpu, all processors).
const Context& current_context();

// Binds `context` to this thread until the end of the scope. The context must outlive the scope.
class ContextScope {
 public:
  explicit ContextScope(const Context& context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const Context* previous_;
};

}  // namespace mstrain
