// Ranks as threads, for tests.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/comm/mesh.h"
#include "core/comm/thread_communicator.h"
#include "core/runtime/context.h"
#include "core/runtime/deferred_device.h"

namespace mstrain {

// Calls f(ranks) on a thread for each rank of `mesh`, in a context like this one's, of `threads` threads for kernels, with
// these ranks. Rethrows what the lowest rank threw that was not merely left alone by others.
inline void run_ranks(const Mesh& mesh, const std::function<void(std::shared_ptr<Ranks>)>& f,
                      int threads = 1, const ThreadRanksOptions& options = {}) {
  auto communicators = thread_communicators(static_cast<int>(mesh.ranks()), options);
  std::vector<std::exception_ptr> errors(communicators.size());
  std::vector<std::thread> running;
  const Context outer = current_context();
  for (size_t r = 0; r < communicators.size(); ++r) {
    running.emplace_back([&, r] {
      try {
        Context context = outer;
        context.threads = threads;
        // A device that runs late has one thread: each rank has one of its own, whose work on numbers of others stays in order.
        const std::shared_ptr<Device>& device = outer.allocator->device();
        context.allocator = std::make_shared<Allocator>(
            Allocator::kCacheLimit,
            device->is_host() ? device : make_deferred_device({.seed = r + 1, .kernel_queues = 1}));
        context.ranks = std::make_shared<Ranks>(mesh, std::move(communicators[r]));
        const ContextScope scope(context);
        f(context.ranks);
      } catch (...) {
        errors[r] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : running) {
    thread.join();
  }
  std::exception_ptr left_alone;
  for (const std::exception_ptr& error : errors) {
    try {
      if (error != nullptr) {
        std::rethrow_exception(error);
      }
    } catch (const CommError&) {
      left_alone = left_alone == nullptr ? error : left_alone;
    }
  }
  if (left_alone != nullptr) {
    std::rethrow_exception(left_alone);
  }
}

inline void run_ranks(int ranks, const std::function<void(std::shared_ptr<Ranks>)>& f) {
  run_ranks(Mesh{{{std::string(kDataAxis), ranks}}}, f);
}

}  // namespace mstrain
