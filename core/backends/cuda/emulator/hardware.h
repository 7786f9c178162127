// What a kernel that the host's compiler made asks of the machine that runs it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mstrain::cuda::emulator {

// The dims that kernels use of CUDA's.
struct Extent {
  unsigned x = 0, y = 0;
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
  // That which a launch asks for beside declarations, by addresses of its own, as descriptors and barriers have them.
  virtual void* shared_block(size_t bytes) = 0;
  virtual uint32_t shared_address(const void* at) = 0;
  virtual const std::byte* at_shared_address(uint32_t address, size_t bytes) = 0;
  // As access(): a read by the units that multiply, for which what others stored must have been shown (fence.proxy.async).
  virtual void multiplier_reads(const void* at, size_t bytes) = 0;
  virtual void show_to_multipliers() = 0;
  // Barriers in shared memory (mbarrier).
  virtual void init_phases(uint32_t barrier, int count) = 0;
  virtual void arrive(uint32_t barrier) = 0;
  virtual void wait_for_phase(uint32_t barrier, unsigned parity, int line) = 0;
  // `copy` is called with a copy of `bytes` at `what` by when the thread waits for all but the last `left` of the groups that it has ended.
  virtual void begin_copy(void (*copy)(const void* what), const void* what, size_t bytes) = 0;
  virtual void end_group() = 0;
  virtual void finish_copies(int left) = 0;
  // Ends the kernel: the thread `what`.
  virtual void mistake(const char* what) = 0;
  // Another one for each block that runs, of any launch.
  uint64_t block_number = 0;

 protected:
  ~Hardware() = default;
};

}  // namespace mstrain::cuda::emulator
