// A function that runs on a stack of its own and can be left in its midst. Changing stacks asks nothing of the system.
#pragma once

#include <setjmp.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace mstrain::cuda::emulator {

// Of one thread of the program.
class Fiber {
 public:
  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // What enter() runs. Work that was begun before and has not ended is forgotten, with what lies on its stack. `work` lives until it
  // ends, and throws nothing.
  void begin(const std::function<void()>& work);
  // Until the work ends or leaves. From outside.
  void enter();
  // From inside: the next enter() goes on here.
  void leave();

 private:
  // Bounds of stacks for the address sanitizer, and what it has of them while they do not run.
  struct Bounds {
    const void* bottom = nullptr;
    size_t bytes = 0;
    void* kept = nullptr;
  };

  static void start(unsigned low, unsigned high);
  [[noreturn]] void work_for_ever();

  std::unique_ptr<std::byte[]> stack_;
  const std::function<void()>* work_ = nullptr;
  bool started_ = false;
  jmp_buf inside_, outside_;
  Bounds own_, others_;
};

}  // namespace mstrain::cuda::emulator
