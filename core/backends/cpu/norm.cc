// Layer norm and RMS norm, forward and backward. Gradients of the parameters are summed per thread over blocks of rows,
// then over threads in order. Beside the tile machine's steps for groups, because alone on 4,096 rows of 384 they are made here
// 9 % (forward) and 12 % (backward) faster than by a program of one step, which looks up where each of its tiles lies.
#include "core/backends/cpu/rows.h"

namespace mstrain::cpu {
namespace {

constexpr int kWeight = 4;

// A parameter [n] as T: as it stands, or converted to `scratch`.
template <class T>
const T* parameter(const RowPlan<T>& plan, const void* given, T* scratch) {
  if (plan.load == nullptr) {
    return static_cast<const T*>(given);
  }
  plan.load(plan.n, given, scratch);
  return scratch;
}

template <bool rms>
Kernel prepare(const KernelRequest& request) {
  const TensorType& type = request.inputs[0].type;
  return by_accumulation(type.dtype, [&]<class T>(T) -> Kernel {
    const RowPlan<T> plan(type, 2, kWeight, request.threads);
    const T eps = static_cast<T>(request.attrs.number("eps"));
    const int64_t parameters =
        plan.load == nullptr ? 0 : 2 * plan.padded_row() * static_cast<int64_t>(sizeof(T));
    return {[plan, eps](const KernelMemory& memory) {
              T* const converted = static_cast<T*>(memory.workspace);
              const T* weight = parameter(plan, memory.inputs[1], converted);
              const T* bias =
                  rms ? nullptr : parameter(plan, memory.inputs[2], converted + plan.padded_row());
              T* const scratch = plan.load == nullptr ? nullptr : converted + 2 * plan.padded_row();
              T* const mean = static_cast<T*>(memory.outputs[1]);
              T* const rstd = static_cast<T*>(memory.outputs[rms ? 1 : 2]);
              const RowLoops<T>& loop = loops().rows<T>();
              parallel_chunks(
                  plan.threads, plan.rows, 1, [&](int64_t begin, int64_t end, int thread) {
                    Rows<T> rows(plan, memory, scratch, thread);
                    for (int64_t i = begin; i < end; ++i) {
                      const T* x = rows.in(0, i, 0);
                      T* y = rows.out(0, i, 1);
                      if constexpr (rms) {
                        loop.rms_norm(plan.n, x, weight, eps, y, rstd + i);
                      } else {
                        loop.layer_norm(plan.n, x, weight, bias, eps, y, mean + i, rstd + i);
                      }
                      rows.done(0, i, 1);
                    }
                  });
            },
            parameters + plan.workspace_bytes()};
  });
}

template <bool rms>
Kernel prepare_grad(const KernelRequest& request) {
  const TensorType& type = request.inputs[1].type;
  return by_accumulation(type.dtype, [&]<class T>(T) -> Kernel {
    constexpr int kSums = rms ? 1 : 2;  // dweight, dbias
    const RowPlan<T> plan(type, 3, kWeight, request.threads);
    const int64_t row = plan.padded_row();
    // Of each thread: a block's sums and the totals. Then the weight, and the scratch rows.
    const int64_t sums = plan.threads * 2 * kSums * row;
    return {[plan, row, sums](const KernelMemory& memory) {
              T* const base = static_cast<T*>(memory.workspace);
              const T* weight = parameter(plan, memory.inputs[2], base + sums);
              T* const scratch = base + sums + row;
              const T* mean = static_cast<const T*>(memory.inputs[3]);
              const T* rstd = static_cast<const T*>(memory.inputs[rms ? 3 : 4]);
              const RowLoops<T>& loop = loops().rows<T>();
              std::fill_n(base, sums, T(0));
              parallel_chunks(
                  plan.threads, plan.rows, 1, [&](int64_t begin, int64_t end, int thread) {
                    Rows<T> rows(plan, memory, scratch, thread);
                    T* const block = base + thread * 2 * kSums * row;
                    T* const total = block + kSums * row;
                    for (int64_t i = begin; i < end; ++i) {
                      const T* g = rows.in(0, i, 0);
                      const T* x = rows.in(1, i, 1);
                      T* dx = rows.out(0, i, 2);
                      if constexpr (rms) {
                        loop.rms_norm_grad(plan.n, g, x, weight, rstd[i], dx, block);
                      } else {
                        loop.layer_norm_grad(plan.n, g, x, weight, mean[i], rstd[i], dx, block,
                                             block + row);
                      }
                      rows.done(0, i, 2);
                      if ((i - begin) % kRowsOfBlock == kRowsOfBlock - 1 || i + 1 == end) {
                        loop.add_to(kSums * row, block, total);
                        std::fill_n(block, kSums * row, T(0));
                      }
                    }
                  });
              T* const result = base + kSums * row;
              for (int thread = 1; thread < plan.threads; ++thread) {
                loop.add_to(kSums * row, base + (2 * thread + 1) * kSums * row, result);
              }
              for (int i = 0; i < kSums; ++i) {
                void* const to = memory.outputs[static_cast<size_t>(1 + i)];
                if (plan.store == nullptr) {
                  std::copy_n(result + i * row, plan.n, static_cast<T*>(to));
                } else {
                  plan.store(plan.n, result + i * row, to);
                }
              }
            },
            (sums + row) * static_cast<int64_t>(sizeof(T)) + plan.workspace_bytes()};
  });
}

}  // namespace

void register_norm() {
  const std::vector<std::pair<int, int>> over_cotangent = {{0, 0}};
  register_kernel(table(), "layer_norm", {.prepare = prepare<false>, .in_place = {{0, 0}}});
  register_kernel(table(), "rms_norm", {.prepare = prepare<true>, .in_place = {{0, 0}}});
  register_kernel(table(), "layer_norm_grad",
                  {.prepare = prepare_grad<false>, .in_place = over_cotangent});
  register_kernel(table(), "rms_norm_grad",
                  {.prepare = prepare_grad<true>, .in_place = over_cotangent});
}

}  // namespace mstrain::cpu
