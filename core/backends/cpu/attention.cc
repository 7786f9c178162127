// attention in f32: online softmax over blocks of keys (Milakov & Gimelshein 2018; Dao et al. 2022), so that scores never
// leave the cache. Keys that no query of a block sees are neither multiplied nor summed. Heads that share keys share their
// packed form.
#include <cmath>

#include "core/backends/cpu/attention_terms.h"

namespace mstrain::cpu {
namespace {

struct Forward {
  ScoreTerms terms;
  HeadView q, k, v;
  DropoutView dropout;
  int threads = 1;
  int parts = 1;  // of the blocks of queries that read one key head

  struct Buffers {
    // [d, s] [s, e] [block, d] [block, block] [block, e] [block, block]
    float *keys, *values, *queries, *scores, *sums, *factors;
    ScoreTerms::Buffers terms;
    Buffers(const ScoreTerms& terms, bool drops, Scratch& scratch)
        : keys(scratch.take(terms.sizes().d * column_step(terms.sizes().s))),
          values(scratch.take(terms.sizes().s * padded(terms.sizes().e))),
          queries(scratch.take(kQueryBlock * padded(terms.sizes().d))),
          scores(scratch.take(kQueryBlock * kKeyBlock)),
          sums(scratch.take(kQueryBlock * padded(terms.sizes().e))),
          factors(scratch.take(drops ? kQueryBlock * kKeyBlock : 0)),
          terms(terms, scratch) {}
  };

  int64_t query_blocks() const { return (terms.sizes().t + kQueryBlock - 1) / kQueryBlock; }
  int64_t items() const { return terms.sizes().b * terms.sizes().key_heads * parts; }

  // Queries [first, first + rows) of a head whose keys are packed, rows <= kQueryBlock.
  void run_block(const AttentionSizes& all, const Buffers& buffers, const ScoreTerms::Head& added,
                 const DropoutView& drawn, int64_t head, int64_t first, int64_t rows, float* out,
                 float* lse) const {
    const BlockLoops& loop = *loops().block;
    const AttentionSizes n = added.segments.narrowed(all, first, rows, 0, all.s);
    const int64_t ld_q = padded(n.d);
    const int64_t ld_o = padded(n.e);
    const int64_t ld_k = column_step(n.s);
    alignas(64) float top[kQueryBlock];
    alignas(64) float total[kQueryBlock];
    alignas(64) float factor[kQueryBlock];
    std::fill_n(top, rows, -kInfinity);
    std::fill_n(total, rows, 0.0F);
    std::fill_n(buffers.sums, rows * ld_o, 0.0F);
    const Range seen = n.visible(first, rows, 0, n.s);
    const int64_t first_key = seen.begin / kKeyBlock * kKeyBlock;
    for (int64_t key = first_key; key < seen.end; key += kKeyBlock) {
      const int64_t keys = std::min(kKeyBlock, n.s - key);
      const int64_t step = n.rows_alike(first, rows, key, keys);
      for (int64_t r = 0; r < rows; r += step) {
        const int64_t count = std::min(step, rows - r);
        const Range columns = n.columns(first + r, count, key, keys);
        const int64_t width = columns.end - columns.begin;
        if (width == 0) {
          continue;
        }
        float* const scores = buffers.scores + r * kKeyBlock;
        float* const visible = scores + columns.begin;
        float* const sums = buffers.sums + r * ld_o;
        loop.product(count, width, n.d, buffers.queries + r * ld_q, ld_q, 1,
                     buffers.keys + key + columns.begin, ld_k, visible, kKeyBlock, false);
        const ScoreBlock block = n.block(first + r, count, key, columns.end, scores);
        added.add_to(block, first + r, key);
        loop.softmax_step(block, top + r, total + r, factor);
        if (key > first_key) {
          loop.scale_rows(count, ld_o, factor, sums, ld_o);
        }
        if (drawn.drops()) {
          drawn.draw(n, head, first + r, count, key + columns.begin, width, buffers.factors);
          multiply_rows(count, width, buffers.factors, visible);
        }
        loop.product(count, n.e, width, visible, kKeyBlock, 1,
                     buffers.values + (key + columns.begin) * ld_o, ld_o, sums, ld_o, true);
      }
    }
    for (int64_t i = 0; i < rows; ++i) {
      factor[i] = share_of(total[i]);
      lse[i] = logsumexp_of(top[i], total[i]);
    }
    loop.scale_rows(rows, ld_o, factor, buffers.sums, ld_o);
    loop.copy_rows(rows, n.e, 1, buffers.sums, ld_o, out, n.h * n.e, false);
  }

  // A part of the blocks of queries, head by head, that read one key head.
  void run_item(const KernelMemory& memory, const DropoutView& drawn, int64_t item,
                const Buffers& buffers) const {
    const int64_t key_heads = terms.sizes().key_heads;
    const int64_t b = item / parts / key_heads;
    const int64_t key_head = item / parts % key_heads;
    const AttentionSizes n = terms.sizes_of(memory, b);
    const int64_t blocks = query_blocks();
    const Range range = chunk_of(n.group() * blocks, 1, static_cast<int>(item % parts), parts);
    if (range.begin == range.end) {
      return;
    }
    const auto input = [&](size_t i, const HeadView& view, int64_t head) {
      return static_cast<const float*>(memory.inputs[i]) + b * view.batch + head * view.head;
    };
    // The keys that its queries see: those of one head, or of all.
    const bool within = range.begin / blocks == (range.end - 1) / blocks;
    const int64_t from = within ? range.begin % blocks * kQueryBlock : 0;
    const int64_t to = within ? std::min(n.t, ((range.end - 1) % blocks + 1) * kQueryBlock) : n.t;
    const Range seen = n.columns(from, to - from, 0, n.s);
    pack_columns(input(1, k, key_head), k, seen.begin, seen.end - seen.begin, n.d,
                 buffers.keys + seen.begin, column_step(n.s));
    pack_rows(input(2, v, key_head), v, seen.begin, seen.end - seen.begin, n.e,
              buffers.values + seen.begin * padded(n.e));
    int64_t packed_head = -1;
    ScoreTerms::Head added;
    for (int64_t block = range.begin; block < range.end; ++block) {
      const int64_t h = key_head * n.group() + block / blocks;
      const int64_t head = b * n.h + h;
      const int64_t first = block % blocks * kQueryBlock;
      const int64_t rows = std::min(kQueryBlock, n.t - first);
      if (h != packed_head) {
        added = terms.head(memory, n, b, h, buffers.terms);
        packed_head = h;
      }
      pack_rows(input(0, q, h), q, first, rows, n.d, buffers.queries, n.scale);
      run_block(n, buffers, added, drawn, head, first, rows,
                static_cast<float*>(memory.outputs[0]) + ((b * n.t + first) * n.h + h) * n.e,
                static_cast<float*>(memory.outputs[1]) + head * n.t + first);
    }
  }
};

bool supports(const KernelRequest& request) { return request.inputs[0].type.dtype == Dtype::kF32; }

Kernel prepare(const KernelRequest& request) {
  const ScoreTerms terms(request, 0);
  if (terms.form().draw == 0) {
    Kernel few = request.batch_invariant ? attention_of_one_query(request, terms)
                                         : attention_of_few_queries(request, terms);
    if (few.run) {
      return few;
    }
  }
  Forward forward{terms, HeadView(request.inputs[0].strides), HeadView(request.inputs[1].strides),
                  HeadView(request.inputs[2].strides), DropoutView(request, terms.form().draw)};
  const AttentionSizes& n = terms.sizes();
  const int64_t blocks = n.group() * forward.query_blocks();
  const int64_t key_heads = std::max<int64_t>(n.b * n.key_heads, 1);
  forward.threads =
      useful_threads(request.threads, key_heads * blocks, n.heads() * n.t * n.s * (n.d + n.e));
  forward.parts = key_heads >= forward.threads
                      ? 1
                      : static_cast<int>(std::clamp<int64_t>(2 * forward.threads / key_heads, 1,
                                                             std::max<int64_t>(blocks, 1)));
  Scratch counter(nullptr);
  const Forward::Buffers counted(terms, forward.dropout.drops(), counter);
  const int64_t floats = counter.used();
  return {[forward, floats](const KernelMemory& memory) {
            float* const base = static_cast<float*>(memory.workspace);
            const bool drops = forward.dropout.drops();
            const DropoutView drawn = forward.dropout.of(memory, forward.terms.sizes());
            parallel_items(forward.threads, forward.items(), [&](int64_t item, int thread) {
              Scratch scratch(base + thread * floats);
              forward.run_item(memory, drawn, item,
                               Forward::Buffers(forward.terms, drops, scratch));
            });
          },
          forward.threads * floats * static_cast<int64_t>(sizeof(float))};
}

}  // namespace

void register_attention() {
  for (const char* op : {"attention", "attention_dropout"}) {
    register_kernel(table(), op,
                    {.prepare = prepare, .supports = supports, .strided_inputs = true});
  }
}

}  // namespace mstrain::cpu
