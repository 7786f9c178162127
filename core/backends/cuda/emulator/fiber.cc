#include "core/backends/cuda/emulator/fiber.h"

#include <ucontext.h>

#include <cstdint>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace mstrain::cuda::emulator {
namespace {

constexpr size_t kStackBytes = 128 * 1024;

#ifdef __SANITIZE_ADDRESS__
void leave_stack(void** kept, const void* bottom, size_t bytes) {
  __sanitizer_start_switch_fiber(kept, bottom, bytes);
}
void come_to_stack(void* kept, const void** bottom, size_t* bytes) {
  __sanitizer_finish_switch_fiber(kept, bottom, bytes);
}
#else
void leave_stack(void**, const void*, size_t) {}
void come_to_stack(void*, const void**, size_t*) {}
#endif

}  // namespace

Fiber::Fiber() : stack_(new std::byte[kStackBytes]), own_{stack_.get(), kStackBytes} {}

void Fiber::begin(const std::function<void()>& work) {
  if (work_ != nullptr) {
    stack_.reset(new std::byte[kStackBytes]);  // whose frames nobody has
    own_ = {stack_.get(), kStackBytes};
    started_ = false;
  }
  work_ = &work;
}

void Fiber::enter() {
  if (_setjmp(outside_) == 0) {
    leave_stack(&others_.kept, own_.bottom, own_.bytes);
    if (started_) {
      _longjmp(inside_, 1);
    }
    started_ = true;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = stack_.get();
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    const auto self = reinterpret_cast<uintptr_t>(this);
    makecontext(&context, reinterpret_cast<void (*)()>(start), 2, static_cast<unsigned>(self),
                static_cast<unsigned>(self >> 32U));
    setcontext(&context);
  }
  come_to_stack(others_.kept, nullptr, nullptr);
}

void Fiber::leave() {
  if (_setjmp(inside_) == 0) {
    leave_stack(&own_.kept, others_.bottom, others_.bytes);
    _longjmp(outside_, 1);
  }
  come_to_stack(own_.kept, &others_.bottom, &others_.bytes);
}

void Fiber::start(unsigned low, unsigned high) {
  auto* const fiber = reinterpret_cast<Fiber*>((static_cast<uintptr_t>(high) << 32U) | low);
  come_to_stack(nullptr, &fiber->others_.bottom, &fiber->others_.bytes);
  fiber->work_for_ever();
}

void Fiber::work_for_ever() {
  while (true) {
    (*work_)();
    work_ = nullptr;
    leave();
  }
}

}  // namespace mstrain::cuda::emulator
