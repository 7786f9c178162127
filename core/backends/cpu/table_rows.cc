// Rows of embedding tables, of f32: bags of them, and how they learn. Compiled without contraction: the bits are those of embedding_cache.
#include "core/ops/table_rows.h"

#include <cstring>

#include "core/backends/cpu/ids.h"
#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/parallel.h"

namespace mstrain::cpu {
namespace {

using row_rules::Rule;

constexpr int64_t kBagsAtOnce = 16;
constexpr int64_t kRowsAtOnce = 64;

bool supports(const KernelRequest& request) { return request.inputs[0].type.dtype == Dtype::kF32; }

// The rows of positions [from, to), added up in their order.
void sum_bag(const float* x, const int32_t* ids, const float* weights, int64_t from, int64_t to,
             int64_t width, float* sum) {
  if (from >= to) {
    std::fill_n(sum, width, 0.0F);
    return;
  }
  for (int64_t i = from; i < to; ++i) {
    const float* const row = x + ids[i] * width;
    const float weight = weights[i];
    for (int64_t c = 0; c < width; ++c) {
      const float part = weight * row[c];
      sum[c] = i == from ? part : sum[c] + part;
    }
  }
}

Kernel prepare_sum(const KernelRequest& request) {
  const Shape& x = request.inputs[0].type.shape;
  const int64_t rows = x[0], width = x[1];
  const int64_t positions = request.inputs[1].type.elements();
  const int64_t bags = request.outputs[0].type.shape[0];
  const int threads = useful_threads(request.threads, bags, positions * width);
  return {[rows, width, positions, bags, threads](const KernelMemory& memory) {
    check_ids("bag_sum", Ids(memory.inputs[1], Dtype::kI32), positions, rows);
    const auto* const x = static_cast<const float*>(memory.inputs[0]);
    const auto* const ids = static_cast<const int32_t*>(memory.inputs[1]);
    const auto* const weights = static_cast<const float*>(memory.inputs[2]);
    const auto* const offsets = static_cast<const int32_t*>(memory.inputs[3]);
    auto* const out = static_cast<float*>(memory.outputs[0]);
    parallel_chunks(threads, bags, kBagsAtOnce, [&](int64_t begin, int64_t end, int) {
      for (int64_t bag = begin; bag < end; ++bag) {
        sum_bag(x, ids, weights, std::max<int64_t>(offsets[bag], 0),
                std::min<int64_t>(offsets[bag + 1], positions), width, out + bag * width);
      }
    });
  }};
}

// A row of `n` weights.
void learn_row(Rule rule, const row_rules::Numbers& numbers, float rate, const float* g, int64_t n,
               float* w, float* s) {
  const auto [lr, beta1, beta2, eps, l1, l2] = numbers;
  switch (rule) {
    case Rule::kSgd:
      for (int64_t i = 0; i < n; ++i) {
        row_rules::sgd(rate, l2, w[i], g[i]);
      }
      break;
    case Rule::kAdagrad:
      for (int64_t i = 0; i < n; ++i) {
        row_rules::adagrad(rate, eps, l2, w[i], s[i], g[i]);
      }
      break;
    case Rule::kRowwiseAdagrad: {
      float lanes[8] = {};
      for (int64_t i = 0; i < n; ++i) {
        lanes[i % 8] += row_rules::square(l2, w[i], g[i]);
      }
      for (int step = 4; step > 0; step /= 2) {
        for (int k = 0; k < step; ++k) {
          lanes[k] += lanes[k + step];
        }
      }
      const float own = row_rules::rate_of_row(rate, eps, lanes[0], static_cast<float>(n), s[0]);
      for (int64_t i = 0; i < n; ++i) {
        row_rules::sgd(own, l2, w[i], g[i]);
      }
      break;
    }
    case Rule::kFtrl:
      for (int64_t i = 0; i < n; ++i) {
        row_rules::ftrl(lr, l1, l2, w[i], s[i], s[n + i], g[i]);
      }
      break;
    case Rule::kLazyAdam:
      for (int64_t i = 0; i < n; ++i) {
        row_rules::lazy_adam(rate, beta1, beta2, eps, l2, w[i], s[i], s[n + i], g[i]);
      }
      break;
  }
}

Kernel prepare_learn(const KernelRequest& request) {
  const Shape& table = request.inputs[0].type.shape;
  const int64_t rows = table[0], width = table[1];
  const int64_t state_width = request.inputs[1].type.shape[1];
  const int64_t count = request.inputs[2].type.elements();
  const Rule rule = rule_of(request.attrs);
  const row_rules::Numbers numbers = numbers_of(request.attrs);
  const int threads = useful_threads(request.threads, count, 4 * count * width);
  Kernel kernel;
  kernel.run = [=](const KernelMemory& memory) {
    check_ids("learn_rows", Ids(memory.inputs[2], Dtype::kI32), count, rows);
    float* tables[2];
    const int64_t widths[2] = {width, state_width};
    for (size_t i = 0; i < 2; ++i) {
      tables[i] = static_cast<float*>(memory.outputs[i]);
      if (memory.outputs[i] != memory.inputs[i] && rows * widths[i] > 0) {
        std::memcpy(tables[i], memory.inputs[i],
                    static_cast<size_t>(rows * widths[i]) * sizeof(float));
      }
    }
    const auto* const slots = static_cast<const int32_t*>(memory.inputs[2]);
    const auto* const gradients = static_cast<const float*>(memory.inputs[3]);
    const auto* const learns = static_cast<const uint8_t*>(memory.inputs[4]);
    const float rate = *static_cast<const float*>(memory.inputs[5]);
    parallel_chunks(threads, count, kRowsAtOnce, [&](int64_t begin, int64_t end, int) {
      for (int64_t u = begin; u < end; ++u) {
        if (learns[u] != 0) {
          learn_row(rule, numbers, rate, gradients + u * width, width, tables[0] + slots[u] * width,
                    tables[1] + slots[u] * state_width);
        }
      }
    });
  };
  kernel.in_place = {{0, 0}, {1, 1}};
  return kernel;
}

}  // namespace

void register_table_rows() {
  register_kernel(table(), "bag_sum", {.prepare = prepare_sum, .supports = supports});
  register_kernel(table(), "learn_rows", {.prepare = prepare_learn, .supports = supports});
}

}  // namespace mstrain::cpu
