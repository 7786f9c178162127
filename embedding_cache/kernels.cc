// The update types compiled for the processors of the day and chosen at run time. All versions give the same bits: no contraction
// (-ffp-contract=off), no reordering.
#include <cmath>
#include <variant>

#include "core/base/error.h"
#include "core/base/isa.h"
#include "embedding_cache/core.h"

namespace mstrain::embedding_cache {
namespace {

struct PartUpdate {
  std::variant<Sgd, Adagrad, RowwiseAdagrad, Ftrl, LazyAdam::Prepared> update;
  uint32_t weights;
  uint32_t state;
  uint32_t width;
};

template <class U>
[[gnu::always_inline]] inline void run(const U& update, const PartUpdate& part,
                                       std::byte* const* records, const float* const* gradients,
                                       size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (i + 4 < count) {
      const std::byte* next = records[i + 4];
      const size_t bytes = size_t{part.width} * 4;
      for (size_t line = 0; line < bytes; line += 64) {
        __builtin_prefetch(next + kHeaderBytes + part.weights * 4 + line, 1);
        __builtin_prefetch(next + kHeaderBytes + part.state * 4 + line, 1);
        __builtin_prefetch(next + kHeaderBytes + (part.state + part.width) * 4 + line, 1);
      }
    }
    float* floats = weights_of(records[i]);
    update(floats + part.weights, floats + part.state, gradients[i] + part.weights, part.width);
  }
}

#define MSTRAIN_FOR_TARGET(name, attribute)                                               \
  template <class U>                                                                      \
  attribute void name(const U& update, const PartUpdate& part, std::byte* const* records, \
                      const float* const* gradients, size_t count) {                      \
    run(update, part, records, gradients, count);                                         \
  }
#if defined(__x86_64__)
MSTRAIN_FOR_TARGET(run_avx2, [[gnu::target("avx2")]])
MSTRAIN_FOR_TARGET(run_avx512, [[gnu::target("avx512f,prefer-vector-width=512")]])
#else
MSTRAIN_FOR_TARGET(run_baseline, )
#endif
#undef MSTRAIN_FOR_TARGET

PartUpdate make_part(const RowLayout::Part& part, uint64_t step, float lr_scale) {
  const OptimizerOptions& o = part.options.optimizer;
  const float lr = o.lr * lr_scale;
  PartUpdate out{{}, part.weights, part.state, part.width};
  switch (o.kind) {
    case OptimizerKind::kSgd: out.update = Sgd{lr, o.l2}; break;
    case OptimizerKind::kAdagrad: out.update = Adagrad{lr, o.eps, o.l2}; break;
    case OptimizerKind::kRowwiseAdagrad: out.update = RowwiseAdagrad{lr, o.eps, o.l2}; break;
    // Its weights are a function of its sums and this rate: another one would shrink or stretch what was learned.
    case OptimizerKind::kFtrl: out.update = Ftrl{o.lr, o.l1, o.l2}; break;
    case OptimizerKind::kLazyAdam:
      out.update = LazyAdam{lr, o.beta1, o.beta2, o.eps, o.l2}.at(step);
      break;
  }
  return out;
}

}  // namespace

RowKernel make_kernel(const RowLayout& layout, uint64_t step, float lr_scale, PartsOf which) {
  check(std::isfinite(lr_scale), "embedding_cache: update: lr_scale is {}", lr_scale);
  std::vector<PartUpdate> parts;
  for (const RowLayout::Part& part : layout.parts()) {
    if (which == PartsOf::kAll || part.options.optimizer.learns_always()) {
      parts.push_back(make_part(part, step, lr_scale));
    }
  }
  return [parts = std::move(parts), chosen = isa()](std::byte* const* records,
                                                    const float* const* gradients, size_t count) {
    for (const PartUpdate& part : parts) {
      std::visit(
          [&](const auto& update) {
#if defined(__x86_64__)
            if (chosen >= Isa::kAvx512) {
              return run_avx512(update, part, records, gradients, count);
            }
            run_avx2(update, part, records, gradients, count);
#else
            run_baseline(update, part, records, gradients, count);
#endif
          },
          part.update);
    }
  };
}

}  // namespace mstrain::embedding_cache
