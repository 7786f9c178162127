// What a computation runs on. Every thread has a current context, bound by a scope; there are no other globals, so that
// several ranks can run as threads of one process.
#pragma once

#include <memory>
#include <optional>

#include "core/runtime/buffer.h"

namespace mstrain {

struct Backend;  // core/ir/backend.h
class Ranks;     // core/comm/mesh.h

// What contexts name that say nothing else: set at start-up, and by a run on a device.
const Backend* default_backend();
void install_default_backend(const Backend* backend);
// The default context's memory is made anew, on default_device().
void install_default_memory();

struct Context {
  const Backend* backend = default_backend();
  int threads = 0;        // that kernels use; 0: one per processor of the process
  bool training = false;  // dropout is active
  // In f32 on the CPU a row of a product, and what attention gives a query, have the same bits whatever is computed beside
  // them: the other rows of a batch, padding, or none, as where keys and values of earlier tokens are kept. Gradients may differ.
  bool batch_invariant = false;
  std::shared_ptr<Allocator> allocator = std::make_shared<Allocator>();
  std::shared_ptr<Ranks> ranks = nullptr;  // with whom programs work together; null: alone

  // Where tensors are made and kernels run: the device of the memory.
  Device& device() const { return *allocator->device(); }
  int num_threads() const;
};

// The context of this thread: the innermost ContextScope, else a process-wide default (the default back end, all processors).
const Context& current_context();

// Binds `context` to this thread until the end of the scope. One that is named must outlive the scope.
class ContextScope {
 public:
  explicit ContextScope(const Context& context);
  explicit ContextScope(Context&& context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  std::optional<Context> own_;
  const Context* previous_;
};

}  // namespace mstrain
