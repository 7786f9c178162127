// Rotary positions: one pass over the heads of each position, in the operand's own memory where that dies.
#include "core/backends/cpu/rows.h"

namespace mstrain::cpu {
namespace {

constexpr int kWeight = 2;

Kernel prepare(const KernelRequest& request) {
  const TensorType& type = request.inputs[0].type;
  const int64_t places = type.shape[0] * type.shape[1];
  const int64_t heads = type.shape[2];
  const int64_t half = type.shape[3] / 2;
  // Rows of angles: those of one sample for all, or of every sample.
  const int64_t angles = request.inputs[1].type.shape[0] * type.shape[1];
  return by_accumulation(type.dtype, [&]<class T>(T) -> Kernel {
    const RowPlan<T> plan({type.dtype, {places, heads * 2 * half}}, 2, kWeight, request.threads);
    return {[plan, heads, half, angles](const KernelMemory& memory) {
              const T* cos = static_cast<const T*>(memory.inputs[1]);
              const T* sin = static_cast<const T*>(memory.inputs[2]);
              parallel_chunks(
                  plan.threads, plan.rows, 1, [&](int64_t begin, int64_t end, int thread) {
                    Rows<T> rows(plan, memory, memory.workspace, thread);
                    for (int64_t i = begin; i < end; ++i) {
                      const int64_t angle = i % angles * half;
                      loops().rows<T>().rotate(heads, half, rows.in(0, i, 0), cos + angle,
                                               sin + angle, rows.out(0, i, 1));
                      rows.done(0, i, 1);
                    }
                  });
            },
            plan.workspace_bytes()};
  });
}

}  // namespace

void register_rotary() {
  register_kernel(table(), "rotary", {.prepare = prepare, .in_place = {{0, 0}}});
}

}  // namespace mstrain::cpu
