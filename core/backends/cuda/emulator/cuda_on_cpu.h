// CUDA C++ for the host's compiler: what kernels in the subset of device/kernel.cuh need of the language. A kernel that is
// compiled with it is a function that a Machine (machine.h) runs, every thread of a block on a stack of its own, and every
// access to memory is told to that machine.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/backends/cuda/emulator/hardware.h"

namespace mstrain::cuda {

// The machine that runs this library's kernels. One at a time.
inline emulator::Hardware* hardware = nullptr;

// An element in memory: reads and writes are told.
template <class T>
class Element {
 public:
  explicit Element(T* at) : at_(at) {}
  Element(const Element&) = default;
  operator T() const {
    hardware->access(at_, sizeof(T), false);
    return *at_;
  }
  T operator=(T value) const {
    hardware->access(at_, sizeof(T), true);
    return *at_ = value;
  }
  T operator=(const Element& other) const { return *this = T(other); }

 private:
  T* at_;
};

template <class T>
class Memory {
 public:
  explicit Memory(void* at) : at_(static_cast<T*>(at)) {}
  Element<T> operator[](int64_t i) const { return Element<T>(at_ + i); }
  Memory operator+(int64_t n) const { return Memory(at_ + n); }
  const T* address() const { return at_; }

 private:
  T* at_;
};
template <class T>
class Memory<const T> {
 public:
  explicit Memory(const void* at) : at_(static_cast<const T*>(at)) {}
  T operator[](int64_t i) const {
    hardware->access(at_ + i, sizeof(T), false);
    return at_[i];
  }

 private:
  const T* at_;
};
template <class T>
using Global = Memory<T>;
template <class T>
Global<T> global(void* at) {
  return Memory<T>(at);
}

template <unsigned lanes, class T>
T shuffled(T value, int mask, int line) {
  static_assert(lanes == 0xffffffffU, "whole warps alone are emulated");
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = hardware->exchange(bits, mask, line);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

// What an instruction of a whole warp is made of: every lane's value.
template <class T>
void warp_gather(const T& value, T (&all)[32], int line) {
  hardware->gather(&value, all, sizeof(T), line);
}

// Copies of this thread on their way: what they do is done when they are waited for.
template <class F>
void begin_copy_by(const F& copy) {
  static_assert(__is_trivially_copyable(F));
  hardware->begin_copy([](const void* what) { (*static_cast<const F*>(what))(); }, &copy,
                       sizeof(F));
}
inline void end_group() { hardware->end_group(); }
template <int left>
void finish_copies() {
  hardware->finish_copies(left);
}

}  // namespace mstrain::cuda

// The address of `name##_place` stands for the declaration.
#define MSTRAIN_SHARED(T, name, n)       \
  static const char name##_place = 0;    \
  const ::mstrain::cuda::Memory<T> name( \
      ::mstrain::cuda::hardware->shared(&name##_place, (n) * sizeof(T)))

#define MSTRAIN_SHARED_BLOCK(T, name, bytes) \
  const ::mstrain::cuda::Memory<T> name(::mstrain::cuda::hardware->shared_block(bytes))

#define __global__ __attribute__((visibility("default")))
#define __launch_bounds__(...)
#define threadIdx (::mstrain::cuda::hardware->here.thread)
#define blockIdx (::mstrain::cuda::hardware->here.block)
#define blockDim (::mstrain::cuda::hardware->here.threads)
#define gridDim (::mstrain::cuda::hardware->here.blocks)
#define __syncthreads() ::mstrain::cuda::hardware->barrier(__LINE__)
#define __shfl_xor_sync(lanes, value, mask) \
  ::mstrain::cuda::shuffled<(lanes)>(value, mask, __LINE__)

extern "C" __attribute__((visibility("default"), used)) inline void mstrain_run_on(
    mstrain::cuda::emulator::Hardware* machine) {
  mstrain::cuda::hardware = machine;
}
