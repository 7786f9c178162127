// What a kernel that the host's compiler made asks of the machine that runs it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mstrain::cuda::emulator {

// The dims that kernels use of CUDA's.
struct Extent {
  unsigned x = 0;
};

class Hardware {
 public:
  // Of the thread that runs.
  struct Place {
    Extent thread, block, threads, blocks;
  };
  Place here;

  // Before `bytes` at `at` are read or written. Does not return where that is wrong, as nothing else here does.
  virtual void access(const void* at, size_t bytes, bool writes) = 0;
  // Of the block. `line` names the call.
  virtual void barrier(int line) = 0;
  // What the thread whose lane is this one's xor `mask` gave.
  virtual uint64_t exchange(uint64_t value, int mask, int line) = 0;
  // What all threads of the warp gave, by lane: `bytes` each.
  virtual void gather(const void* value, void* all, size_t bytes, int line) = 0;
  // The block's memory for a declaration.
  virtual void* shared(const void* declaration, size_t bytes) = 0;

 protected:
  ~Hardware() = default;
};

}  // namespace mstrain::cuda::emulator
