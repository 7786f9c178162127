// attention in f32 of a few queries, as in generation: keys and values are read where they lie, once for all heads that
// share them. Packing them, which many queries pay back, would cost more than the attention itself.
#include <cmath>

#include "core/backends/cpu/attention_terms.h"

namespace mstrain::cpu {
namespace {

struct FewQueries {
  ScoreTerms terms;
  HeadView q, k, v;
  int parts = 1;  // of the heads that share keys

  int64_t items() const { return terms.sizes().b * terms.sizes().key_heads * parts; }
  // Rows of an item: all queries of one head after those of another.
  int64_t most_rows() const {
    return (terms.sizes().group() + parts - 1) / parts * terms.sizes().t;
  }

  struct Buffers {
    float *scores, *queries, *sums, *shares;  // [rows, s] [rows, d] [rows, e] [rows]
    ScoreTerms::Buffers terms;
    Buffers(const FewQueries& few, Scratch& scratch)
        : scores(scratch.take(few.most_rows() * padded(few.terms.sizes().s))),
          queries(scratch.take(few.most_rows() * padded(few.terms.sizes().d))),
          sums(scratch.take(few.most_rows() * padded(few.terms.sizes().e))),
          shares(scratch.take(few.most_rows())),
          terms(few.terms, scratch) {}
  };

  // The keys that the queries of heads [first, end) have to look at: others are hidden, by place or mask, or by the end of
  // the bias.
  Range seen_keys(const KernelMemory& memory, const AttentionSizes& n, int64_t b, int64_t first,
                  int64_t end) const {
    const Range all = n.visible(0, n.t, 0, n.s);
    int64_t last = all.begin;
    for (int64_t h = first; h < end; ++h) {
      const BiasView bias = terms.bias(memory, b, h);
      for (int64_t i = 0; i < n.t; ++i) {
        int64_t seen = n.visible(i, 1, 0, n.s).end;
        const float* row = bias.data + i * bias.row;
        while (bias.data != nullptr && seen > last && row[(seen - 1) * bias.column] == -kInfinity) {
          --seen;
        }
        last = std::max(last, seen);
      }
    }
    return {all.begin, last};
  }

  void run_item(const KernelMemory& memory, int64_t item, const Buffers& buffers) const {
    const BlockLoops& loop = *loops().block;
    const int64_t key_heads = terms.sizes().key_heads;
    const int64_t b = item / parts / key_heads;
    const int64_t key_head = item / parts % key_heads;
    const AttentionSizes all = terms.sizes_of(memory, b);
    const AttentionSizes n = terms.segments(memory, b).narrowed(all, 0, all.t, 0, all.s);
    const Range heads = chunk_of(n.group(), 1, static_cast<int>(item % parts), parts);
    const int64_t first_head = key_head * n.group() + heads.begin;
    const int64_t rows = (heads.end - heads.begin) * n.t;
    const Range seen = seen_keys(memory, n, b, first_head, key_head * n.group() + heads.end);
    const int64_t ld_s = padded(n.s);
    const int64_t ld_q = padded(n.d);
    const int64_t ld_o = padded(n.e);
    const auto input = [&](size_t i, const HeadView& view, int64_t head) {
      return static_cast<const float*>(memory.inputs[i]) + b * view.batch + head * view.head;
    };
    for (int64_t r = 0; r < rows; ++r) {
      pack_rows(input(0, q, first_head + r / n.t), q, r % n.t, 1, n.d, buffers.queries + r * ld_q,
                n.scale);
    }
    const float* const keys = input(1, k, key_head);
    for (int64_t key = seen.begin; key < seen.end; key += kKeyBlock) {
      for (int64_t r = 0; r < rows; ++r) {
        loop.dot_rows(std::min(kKeyBlock, seen.end - key), n.d, keys + key * k.position, k.position,
                      buffers.queries + r * ld_q, 0, buffers.scores + r * ld_s + key);
      }
    }
    ScoreTerms::Head added;
    for (int64_t r = 0; r < rows; ++r) {
      if (r % n.t == 0) {
        added = terms.head(memory, n, b, first_head + r / n.t, buffers.terms);
      }
      ScoreBlock block = n.block(r % n.t, 1, 0, seen.end, buffers.scores + r * ld_s);
      block.ld = ld_s;
      added.add_to(block, r % n.t, 0);
      float top = -kInfinity;
      float total = 0;
      float factor = 0;
      loop.softmax_step(block, &top, &total, &factor);
      buffers.shares[r] = share_of(total);
      static_cast<float*>(memory.outputs[1])[(b * n.h + first_head) * n.t + r] =
          logsumexp_of(top, total);
    }
    loop.product(rows, n.e, seen.end - seen.begin, buffers.scores + seen.begin, ld_s, 1,
                 input(2, v, key_head) + seen.begin * v.position, v.position, buffers.sums, ld_o,
                 false);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t place = (b * n.t + r % n.t) * n.h + first_head + r / n.t;
      loop.copy_rows(1, n.e, buffers.shares[r], buffers.sums + r * ld_o, ld_o,
                     static_cast<float*>(memory.outputs[0]) + place * n.e, n.e, false);
    }
  }
};

}  // namespace

Kernel attention_of_few_queries(const KernelRequest& request, const ScoreTerms& terms) {
  const AttentionSizes& n = terms.sizes();
  const HeadView k(request.inputs[1].strides);
  const HeadView v(request.inputs[2].strides);
  if (n.t > kFewQueries || k.element != 1 || v.element != 1 || n.e % kPad != 0) {
    return {};
  }
  FewQueries few{terms, HeadView(request.inputs[0].strides), k, v};
  const int threads =
      useful_threads(request.threads, n.heads(), n.heads() * n.t * n.s * (n.d + n.e));
  const int64_t key_heads = std::max<int64_t>(n.b * n.key_heads, 1);
  few.parts = static_cast<int>(std::clamp<int64_t>((threads + key_heads - 1) / key_heads, 1,
                                                   std::max<int64_t>(n.group(), 1)));
  Scratch counter(nullptr);
  const FewQueries::Buffers counted(few, counter);
  const int64_t floats = counter.used();
  return {[few, threads, floats](const KernelMemory& memory) {
            float* const base = static_cast<float*>(memory.workspace);
            parallel_items(threads, few.items(), [&](int64_t item, int thread) {
              Scratch scratch(base + thread * floats);
              few.run_item(memory, item, FewQueries::Buffers(few, scratch));
            });
          },
          threads * floats * static_cast<int64_t>(sizeof(float))};
}

}  // namespace mstrain::cpu
