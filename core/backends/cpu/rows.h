// Kernels that work on the rows of [..., n] tensors: each thread takes consecutive rows. Rows of 16-bit types are
// computed as f32, through scratch rows in the workspace.
#pragma once

#include <cstring>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/parallel.h"

namespace mstrain::cpu {

// What rows of one tensor type need. T: what they are computed in.
template <class T>
struct RowPlan {
  int64_t rows = 0, n = 0;
  int threads = 1;
  int scratch_rows = 0;  // of each thread
  int size = sizeof(T);
  ConvertLoop load = nullptr, store = nullptr;

  // `tensors`: how many tensors of this type a row touches. `weight`: time per element relative to an addition.
  RowPlan(const TensorType& type, int tensors, int weight, int available)
      : rows(type.shape.back() == 0 ? 0 : type.elements() / type.shape.back()),
        n(type.shape.back()) {
    threads = useful_threads(available, rows, rows * n * weight);
    size = size_of(type.dtype);
    if (!is_lane_type(type.dtype)) {
      const ElementwiseLoops& table = *loops().elementwise;
      load = table.load[static_cast<int>(type.dtype)];
      store = table.store[static_cast<int>(lane_of(type.dtype))][static_cast<int>(type.dtype)];
      scratch_rows = tensors;
    }
  }

  // How many of `rows` rows are read and written together: all where they need no conversion.
  int64_t at_once(int64_t rows) const { return load == nullptr ? rows : 1; }
  int64_t padded_row() const { return (n + 15) / 16 * 16; }
  int64_t workspace_bytes() const {
    return threads * scratch_rows * padded_row() * static_cast<int64_t>(sizeof(T));
  }
};

// The rows of the tensors of one thread.
template <class T>
class Rows {
 public:
  Rows(const RowPlan<T>& plan, const KernelMemory& memory, void* scratch, int thread)
      : plan_(plan),
        memory_(memory),
        scratch_(static_cast<T*>(scratch) + thread * plan.scratch_rows * plan.padded_row()) {}

  // Row `row` of an input. `slot`: a different one for each tensor of the row.
  const T* in(size_t input, int64_t row, int slot) {
    const std::byte* from =
        static_cast<const std::byte*>(memory_.inputs[input]) + row * plan_.n * plan_.size;
    if (plan_.load == nullptr) {
      return reinterpret_cast<const T*>(from);
    }
    T* to = scratch_ + slot * plan_.padded_row();
    plan_.load(plan_.n, from, to);
    return to;
  }
  // Where to write a row of an output; then done().
  T* out(size_t output, int64_t row, int slot) {
    return plan_.store == nullptr ? reinterpret_cast<T*>(address(output, row))
                                  : scratch_ + slot * plan_.padded_row();
  }
  void done(size_t output, int64_t row, int slot) {
    if (plan_.store != nullptr) {
      plan_.store(plan_.n, scratch_ + slot * plan_.padded_row(), address(output, row));
    }
  }

 private:
  std::byte* address(size_t output, int64_t row) {
    return static_cast<std::byte*>(memory_.outputs[output]) + row * plan_.n * plan_.size;
  }

  const RowPlan<T>& plan_;
  const KernelMemory& memory_;
  T* scratch_;
};

// make<float> or make<double>, by the accumulation type of `dtype`.
template <class Make>
Kernel by_accumulation(Dtype dtype, Make&& make) {
  return dtype == Dtype::kF64 ? make(double{}) : make(float{});
}

}  // namespace mstrain::cpu
