// attention in f32 of one query a head, as in the writing of a token, with the bits of attention.cc: what is fastest for few queries has others
// (attention_few.cc). Heads that share keys are rows of the same products; values are read where they lie.
#include <cmath>

#include "core/backends/cpu/ahead.h"
#include "core/backends/cpu/attention_terms.h"

namespace mstrain::cpu {
namespace {

struct OneQuery {
  ScoreTerms terms;
  HeadView q, k, v;
  int parts = 1;  // of the heads of a batch element

  struct Buffers {
    // [d, block] [block, e], [heads, d] [heads, block] [heads, e]
    float *keys, *values, *queries, *scores, *sums;
    ScoreTerms::Buffers terms;
    Buffers(const ScoreTerms& terms, Scratch& scratch)
        : keys(scratch.take(terms.sizes().d * column_step(kKeyBlock))),
          values(scratch.take(kKeyBlock * padded(terms.sizes().e))),
          queries(scratch.take(kQueryBlock * padded(terms.sizes().d))),
          scores(scratch.take(kQueryBlock * kKeyBlock)),
          sums(scratch.take(kQueryBlock * padded(terms.sizes().e))),
          terms(terms, scratch) {}
  };

  int64_t items() const { return terms.sizes().b * parts; }

  // Whether heads that share keys may have other scores for equal queries.
  bool has_terms() const {
    return terms.form().bias != 0 || terms.form().table != 0 || terms.form().mask != 0;
  }

  // Heads [first, first + rows) of batch element b, which share keys; a single one where has_terms().
  void run_heads(const KernelMemory& memory, const AttentionSizes& all, int64_t b, int64_t first,
                 int64_t rows, const Buffers& buffers) const {
    const BlockLoops& loop = *loops().block;
    const AttentionSizes n = terms.segments(memory, b).narrowed(all, 0, 1, 0, all.s);
    const int64_t ld_q = padded(n.d);
    const int64_t ld_o = padded(n.e);
    const int64_t ld_k = column_step(kKeyBlock);
    const auto input = [&](size_t i, const HeadView& view, int64_t head) {
      return static_cast<const float*>(memory.inputs[i]) + b * view.batch + head * view.head;
    };
    for (int64_t r = 0; r < rows; ++r) {
      pack_rows(input(0, q, first + r), q, 0, 1, n.d, buffers.queries + r * ld_q, n.scale);
    }
    const ScoreTerms::Head added = terms.head(memory, all, b, first, buffers.terms);
    const float* const keys = input(1, k, first / n.group());
    const float* const values = input(2, v, first / n.group());
    const bool in_place = v.element == 1 && n.e % kPad == 0;
    alignas(64) float top[kQueryBlock];
    alignas(64) float total[kQueryBlock];
    alignas(64) float factor[kQueryBlock];
    std::fill_n(top, rows, -kInfinity);
    std::fill_n(total, rows, 0.0F);
    std::fill_n(buffers.sums, rows * ld_o, 0.0F);
    const Range seen = n.visible(0, 1, 0, n.s);
    const int64_t first_key = seen.begin / kKeyBlock * kKeyBlock;
    for (int64_t key = first_key; key < seen.end; key += kKeyBlock) {
      const Range columns = n.columns(0, 1, key, std::min(kKeyBlock, n.s - key));
      const int64_t width = columns.end - columns.begin;
      if (width == 0) {
        continue;
      }
      float* const visible = buffers.scores + columns.begin;
      pack_columns(keys, k, key + columns.begin, width, n.d, buffers.keys, ld_k);
      loop.product(rows, width, n.d, buffers.queries, ld_q, 1, buffers.keys, ld_k, visible,
                   kKeyBlock, false);
      const ScoreBlock of_one = n.block(0, 1, key, columns.end, buffers.scores);
      ScoreBlock block = of_one;
      for (int64_t r = 0; r < rows; ++r, block.s += kKeyBlock) {
        added.add_to(block, 0, key);
      }
      block = of_one;
      block.rows = rows;
      block.step = 0;
      loop.softmax_step(block, top, total, factor);
      if (key > first_key) {
        loop.scale_rows(rows, ld_o, factor, buffers.sums, ld_o);
      }
      const float* weighted = values + (key + columns.begin) * v.position;
      if (!in_place) {
        pack_rows(values, v, key + columns.begin, width, n.e, buffers.values);
        weighted = buffers.values;
      }
      loop.product(rows, n.e, width, visible, kKeyBlock, 1, weighted, in_place ? v.position : ld_o,
                   buffers.sums, ld_o, true);
    }
    write(memory, b * n.h + first, rows, top, total, buffers.sums);
  }

  // The results of heads [first, first + rows) of all batch elements.
  void write(const KernelMemory& memory, int64_t first, int64_t rows, const float* top,
             const float* total, float* sums) const {
    const BlockLoops& loop = *loops().block;
    const int64_t e = terms.sizes().e;
    alignas(64) float factor[kQueryBlock];
    for (int64_t r = 0; r < rows; ++r) {
      factor[r] = share_of(total[r]);
      static_cast<float*>(memory.outputs[1])[first + r] = logsumexp_of(top[r], total[r]);
    }
    loop.scale_rows(rows, padded(e), factor, sums, padded(e));
    loop.copy_rows(rows, e, 1, sums, padded(e), static_cast<float*>(memory.outputs[0]) + first * e,
                   e, false);
  }

  // What item `item` reads of one input, within `calls` calls of ask().
  Ahead ahead(const KernelMemory& memory, int64_t item, size_t i, const HeadView& view,
              int64_t columns, int64_t calls) const {
    if (item >= items() || parts > 1) {
      return {};
    }
    const AttentionSizes n = terms.sizes_of(memory, item);
    const Range seen = n.visible(0, 1, 0, n.s);
    return {static_cast<const float*>(memory.inputs[i]) + item * view.batch +
                seen.begin * view.position,
            seen.end - seen.begin, n.key_heads * columns, view.position, calls};
  }

  // A part of the heads of one batch element; the next one is asked for meanwhile.
  void run_item(const KernelMemory& memory, int64_t item, const Buffers& buffers) const {
    const int64_t b = item / parts;
    const AttentionSizes n = terms.sizes_of(memory, b);
    const Range heads = chunk_of(n.h, 1, static_cast<int>(item % parts), parts);
    Ahead keys = ahead(memory, item + 1, 1, k, n.d, n.key_heads);
    Ahead values = ahead(memory, item + 1, 2, v, n.e, n.key_heads);
    for (int64_t h = heads.begin; h < heads.end;) {
      keys.ask();
      values.ask();
      const int64_t most = has_terms() ? 1 : kQueryBlock;
      const int64_t end = std::min({heads.end, (h / n.group() + 1) * n.group(), h + most});
      run_heads(memory, n, b, h, end - h, buffers);
      h = end;
    }
  }
};

}  // namespace

Kernel attention_of_one_query(const KernelRequest& request, const ScoreTerms& terms) {
  const AttentionSizes& n = terms.sizes();
  if (n.t != 1) {
    return {};
  }
  OneQuery one{terms, HeadView(request.inputs[0].strides), HeadView(request.inputs[1].strides),
               HeadView(request.inputs[2].strides)};
  const int threads = useful_threads(request.threads, n.heads(), n.heads() * n.s * (n.d + n.e));
  const int64_t batches = std::max<int64_t>(n.b, 1);
  one.parts = static_cast<int>(
      std::clamp<int64_t>((threads + batches - 1) / batches, 1, std::max<int64_t>(n.h, 1)));
  Scratch counter(nullptr);
  const OneQuery::Buffers counted(terms, counter);
  const int64_t floats = counter.used();
  return {[one, threads, floats](const KernelMemory& memory) {
            float* const base = static_cast<float*>(memory.workspace);
            parallel_chunks(threads, one.items(), 1, [&](int64_t begin, int64_t end, int thread) {
              Scratch scratch(base + thread * floats);
              const OneQuery::Buffers buffers(one.terms, scratch);
              for (int64_t item = begin; item < end; ++item) {
                one.run_item(memory, item, buffers);
              }
            });
          },
          threads * floats * static_cast<int64_t>(sizeof(float))};
}

}  // namespace mstrain::cpu
