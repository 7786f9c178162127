// Cross-entropy from logits: one pass over each row for its logsumexp, one for the gradient.
#include "core/backends/cpu/ids.h"
#include "core/backends/cpu/rows.h"

namespace mstrain::cpu {
namespace {

constexpr int kWeight = 8;

struct Options {
  int64_t ignored = 0;
  double smoothing = 0;
  Dtype ids = Dtype::kI32;

  Options(const KernelRequest& request, size_t targets)
      : ignored(request.attrs.integer("ignore_index")),
        smoothing(request.attrs.number("label_smoothing")),
        ids(request.inputs[targets].type.dtype) {}
};

Kernel prepare(const KernelRequest& request) {
  const TensorType& type = request.inputs[0].type;
  const Options options(request, 1);
  return by_accumulation(type.dtype, [&]<class T>(T) -> Kernel {
    const RowPlan<T> plan(type, 1, kWeight, request.threads);
    return {
        [plan, options](const KernelMemory& memory) {
          const Ids targets(memory.inputs[1], options.ids);
          check_ids("cross_entropy", targets, plan.rows, plan.n, &options.ignored);
          T* const loss = static_cast<T*>(memory.outputs[0]);
          T* const logsumexp = static_cast<T*>(memory.outputs[1]);
          const RowLoops<T>& loop = loops().rows<T>();
          parallel_chunks(plan.threads, plan.rows, 1, [&](int64_t begin, int64_t end, int thread) {
            Rows<T> rows(plan, memory, memory.workspace, thread);
            for (int64_t i = begin; i < end; ++i) {
              const T* x = rows.in(0, i, 0);
              const T lse = loop.logsumexp(plan.n, x);
              logsumexp[i] = lse;
              const int64_t target = targets[i];
              if (target == options.ignored) {
                loss[i] = 0;
                continue;
              }
              double value = static_cast<double>(lse) -
                             (1 - options.smoothing) * static_cast<double>(x[target]);
              if (options.smoothing != 0) {
                value -= options.smoothing * loop.sum(plan.n, x) / static_cast<double>(plan.n);
              }
              loss[i] = static_cast<T>(value);
            }
          });
        },
        plan.workspace_bytes()};
  });
}

Kernel prepare_grad(const KernelRequest& request) {
  const TensorType& type = request.inputs[1].type;
  const Options options(request, 2);
  return by_accumulation(type.dtype, [&]<class T>(T) -> Kernel {
    const RowPlan<T> plan(type, 2, kWeight, request.threads);
    return {
        [plan, options](const KernelMemory& memory) {
          const Ids targets(memory.inputs[2], options.ids);
          check_ids("cross_entropy_grad", targets, plan.rows, plan.n, &options.ignored);
          const T* const g = static_cast<const T*>(memory.inputs[0]);
          const T* const logsumexp = static_cast<const T*>(memory.inputs[3]);
          const T chosen = static_cast<T>(1 - options.smoothing);
          const T spread = static_cast<T>(options.smoothing / static_cast<double>(plan.n));
          const RowLoops<T>& loop = loops().rows<T>();
          parallel_chunks(plan.threads, plan.rows, 1, [&](int64_t begin, int64_t end, int thread) {
            Rows<T> rows(plan, memory, memory.workspace, thread);
            for (int64_t i = begin; i < end; ++i) {
              T* const dx = rows.out(0, i, 1);
              if (targets[i] == options.ignored) {
                std::fill_n(dx, plan.n, T(0));
              } else {
                loop.scaled_exp(plan.n, rows.in(1, i, 0), logsumexp[i], g[i], -g[i] * spread, dx);
                dx[targets[i]] -= g[i] * chosen;
              }
              rows.done(0, i, 1);
            }
          });
        },
        plan.workspace_bytes()};
  });
}

}  // namespace

void register_cross_entropy() {
  register_kernel(table(), "cross_entropy", {.prepare = prepare});
  register_kernel(table(), "cross_entropy_grad", {.prepare = prepare_grad, .in_place = {{0, 1}}});
}

}  // namespace mstrain::cpu
