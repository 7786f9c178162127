// softmax, log_softmax and their gradients over the last axis; outside of groups, as norm.cc says.
#include "core/backends/cpu/rows.h"

namespace mstrain::cpu {
namespace {

constexpr int kWeight = 8;

template <bool log>
Kernel prepare(const KernelRequest& request) {
  const TensorType& type = request.inputs[0].type;
  return by_accumulation(type.dtype, [&]<class T>(T) -> Kernel {
    const RowPlan<T> plan(type, 2, kWeight, request.threads);
    const auto loop = log ? loops().rows<T>().log_softmax : loops().rows<T>().softmax;
    return {[plan, loop](const KernelMemory& memory) {
              parallel_chunks(plan.threads, plan.rows, 1,
                              [&](int64_t begin, int64_t end, int thread) {
                                Rows<T> rows(plan, memory, memory.workspace, thread);
                                const int64_t step = plan.at_once(end - begin);
                                for (int64_t i = begin; i < end; i += step) {
                                  loop(step, plan.n, rows.in(0, i, 0), rows.out(0, i, 1));
                                  rows.done(0, i, 1);
                                }
                              });
            },
            plan.workspace_bytes()};
  });
}

template <bool log>
Kernel prepare_grad(const KernelRequest& request) {
  const TensorType& type = request.inputs[0].type;
  return by_accumulation(type.dtype, [&]<class T>(T) -> Kernel {
    const RowPlan<T> plan(type, 3, log ? kWeight : 2, request.threads);
    const auto loop = log ? loops().rows<T>().log_softmax_grad : loops().rows<T>().softmax_grad;
    return {[plan, loop](const KernelMemory& memory) {
              parallel_chunks(
                  plan.threads, plan.rows, 1, [&](int64_t begin, int64_t end, int thread) {
                    Rows<T> rows(plan, memory, memory.workspace, thread);
                    const int64_t step = plan.at_once(end - begin);
                    for (int64_t i = begin; i < end; i += step) {
                      loop(step, plan.n, rows.in(0, i, 0), rows.in(1, i, 1), rows.out(0, i, 2));
                      rows.done(0, i, 2);
                    }
                  });
            },
            plan.workspace_bytes()};
  });
}

}  // namespace

void register_softmax() {
  register_kernel(table(), "softmax", {.prepare = prepare<false>, .in_place = {{0, 0}}});
  register_kernel(table(), "log_softmax", {.prepare = prepare<true>, .in_place = {{0, 0}}});
  register_kernel(table(), "softmax_grad",
                  {.prepare = prepare_grad<false>, .in_place = {{0, 1}, {0, 0}}});
  register_kernel(table(), "log_softmax_grad",
                  {.prepare = prepare_grad<true>, .in_place = {{0, 1}, {0, 0}}});
}

}  // namespace mstrain::cpu
