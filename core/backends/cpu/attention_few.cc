// attention in f32 of a few queries, as in generation: keys and values are read where they lie. Packing them, which many
// queries pay back, would cost more than the attention itself.
#include <cmath>

#include "core/backends/cpu/attention.h"

namespace mstrain::cpu {
namespace {

struct FewQueries {
  AttentionSizes n;
  HeadView q, k, v;
  Shape bias;  // strides; rank 0 without one

  // Scores of all keys, a query, and the result.
  static int64_t floats(const AttentionSizes& n) { return padded(n.s) + padded(n.d) + padded(n.e); }

  // How many keys query `i` has to look at: those beyond are hidden by the diagonal, or by the end of the bias.
  int64_t last_key(const BiasView& bias_view, int64_t i) const {
    int64_t seen = n.visible(i, 0, n.s);
    if (bias_view.data != nullptr) {
      const float* row = bias_view.data + i * bias_view.row;
      while (seen > 0 && row[(seen - 1) * bias_view.column] == -kInfinity) {
        --seen;
      }
    }
    return seen;
  }

  void run_head(const KernelMemory& memory, int64_t head, float* scratch) const {
    const BlockLoops& loop = *loops().block;
    const int64_t b = head / n.h;
    const int64_t h = head % n.h;
    const auto input = [&](size_t i, const HeadView& view) {
      return static_cast<const float*>(memory.inputs[i]) + b * view.batch + h * view.head;
    };
    const float* const keys = input(1, k);
    const float* const values = input(2, v);
    BiasView bias_view;
    if (bias.rank() == 4) {
      bias_view = {static_cast<const float*>(memory.inputs[3]) + b * bias[0] + h * bias[1], bias[2],
                   bias[3]};
    }
    float* const scores = scratch;
    float* const query = scores + padded(n.s);
    float* const sums = query + padded(n.d);
    for (int64_t i = 0; i < n.t; ++i) {
      float* const out = static_cast<float*>(memory.outputs[0]) + ((b * n.t + i) * n.h + h) * n.e;
      float& lse = static_cast<float*>(memory.outputs[1])[head * n.t + i];
      const int64_t seen = last_key(bias_view, i);
      pack_rows(input(0, q), q, i, 1, n.d, query, n.scale);
      loop.dot_rows(seen, n.d, keys, k.position, query, 0, scores);
      const ScoreBlock block = {1, padded(seen), scores, padded(n.s), seen, 0};
      bias_view.add_to(block, i, 0);
      float top = -kInfinity;
      float total = 0;
      float factor = 0;
      loop.softmax_step(block, &top, &total, &factor);
      std::fill_n(sums, padded(n.e), 0.0F);
      loop.product(1, n.e, seen, scores, padded(n.s), 1, values, v.position, sums, padded(n.e),
                   true);
      const bool some = total > 0;
      const float share = some ? 1.0F / total : total;
      lse = some ? top + std::log(total) : total == 0 ? -kInfinity : total;
      loop.copy_rows(1, n.e, share, sums, padded(n.e), out, n.e, false);
    }
  }
};

}  // namespace

Kernel attention_of_few_queries(const KernelRequest& request, const AttentionSizes& n,
                                const Shape& bias_strides) {
  const HeadView k(request.inputs[1].strides);
  const HeadView v(request.inputs[2].strides);
  if (n.t > kFewQueries || k.element != 1 || v.element != 1 || n.e % kPad != 0) {
    return {};
  }
  const FewQueries few{n, HeadView(request.inputs[0].strides), k, v, bias_strides};
  const int threads =
      useful_threads(request.threads, n.heads(), n.heads() * n.t * n.s * (n.d + n.e));
  const int64_t floats = FewQueries::floats(n);
  return {[few, threads, floats](const KernelMemory& memory) {
            float* const base = static_cast<float*>(memory.workspace);
            parallel_items(threads, few.n.heads(), [&](int64_t head, int thread) {
              few.run_head(memory, head, base + thread * floats);
            });
          },
          threads * floats * static_cast<int64_t>(sizeof(float))};
}

}  // namespace mstrain::cpu
