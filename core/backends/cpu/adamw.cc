// The update of AdamW in one pass over parameter, gradient and moments.
#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/parallel.h"

namespace mstrain::cpu {
namespace {

bool supports(const KernelRequest& request) { return request.inputs[0].type.dtype == Dtype::kF32; }

Kernel prepare(const KernelRequest& request) {
  const int64_t n = request.inputs[0].type.elements();
  const int threads = useful_threads(request.threads, n / kTile + 1, 4 * n);
  AdamwFactors factors{};
  factors.beta1 = request.attrs.number("beta1");
  factors.beta2 = request.attrs.number("beta2");
  factors.eps = request.attrs.number("eps");
  factors.weight_decay = request.attrs.number("weight_decay");
  return {[n, threads, factors](const KernelMemory& memory) {
    AdamwFactors f = factors;
    const auto scalar = [&](size_t input) {
      return *static_cast<const float*>(memory.inputs[input]);
    };
    f.lr = scalar(4);
    f.grad_scale = scalar(5);
    f.correction1 = scalar(6);
    f.correction2 = scalar(7);
    const auto in = [&](size_t i) { return static_cast<const float*>(memory.inputs[i]); };
    const auto out = [&](size_t i) { return static_cast<float*>(memory.outputs[i]); };
    parallel_chunks(threads, n, 16, [&](int64_t begin, int64_t end, int) {
      loops().other->adamw(end - begin, f, in(0) + begin, in(1) + begin, in(2) + begin,
                           in(3) + begin, out(0) + begin, out(1) + begin, out(2) + begin);
    });
  }};
}

}  // namespace

void register_adamw() {
  register_kernel(Backend::kCpu, "adamw",
                  {.prepare = prepare, .supports = supports, .in_place = {{0, 0}, {1, 2}, {2, 3}}});
}

}  // namespace mstrain::cpu
