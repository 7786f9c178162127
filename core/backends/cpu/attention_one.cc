// attention in f32 of one query a head, as in the writing of a token, with the bits of attention.cc: what is fastest for few queries has others
// (attention_few.cc). Heads that share keys are rows of the same products, and so are batch elements whose first keys are the same ones; values
// are read where they lie.
#include <cmath>

#include "core/backends/cpu/ahead.h"
#include "core/backends/cpu/attention_terms.h"

namespace mstrain::cpu {
namespace {

constexpr int64_t kMostElements = 16;       // of a run
constexpr int64_t kMostFloats = 32 * 1024;  // of the queries of a run, for the second cache

// Batch elements [first, first + count), which have their first `shared` keys and values in common; a multiple of kPad.
struct Run {
  int64_t first, count, shared;
};

// Heads [first, first + count) of a batch element that share keys, and where what belongs to them begins in buffers.
struct Heads {
  int64_t element, first, count, row;
};

struct OneQuery {
  ScoreTerms terms;
  HeadView q, k, v;
  int parts = 1;              // of the heads of a batch element
  int64_t most_elements = 1;  // of a run
  size_t repeated = 0;        // which input says how many keys are; 0: none
  int64_t repeated_stride = 0;

  struct Buffers {
    // [d, block] [block, e], [key heads, block, e] of what runs share, [rows, d] [rows, block] [rows, e] [rows] of all heads of a run
    float *keys, *values, *shared_values, *queries, *scores, *sums, *top, *total, *factor;
    ScoreTerms::Buffers terms;
    Buffers(const OneQuery& one, Scratch& scratch)
        : Buffers(one.terms, one.most_elements * one.terms.sizes().h,
                  one.most_elements > 1 ? one.terms.sizes().key_heads : 0, scratch) {}
    Buffers(const ScoreTerms& terms, int64_t rows, int64_t sharing_heads, Scratch& scratch)
        : keys(scratch.take(terms.sizes().d * column_step(kKeyBlock))),
          values(scratch.take(kKeyBlock * padded(terms.sizes().e))),
          shared_values(scratch.take(sharing_heads * kKeyBlock * padded(terms.sizes().e))),
          queries(scratch.take(rows * padded(terms.sizes().d))),
          scores(scratch.take(rows * kKeyBlock)),
          sums(scratch.take(rows * padded(terms.sizes().e))),
          top(scratch.take(rows)),
          total(scratch.take(rows)),
          factor(scratch.take(rows)),
          terms(terms, scratch) {}
  };

  int64_t items() const { return terms.sizes().b * parts; }

  // Whether heads that share keys may have other scores for equal queries.
  bool has_terms() const {
    return terms.form().bias != 0 || terms.form().table != 0 || terms.form().mask != 0;
  }
  bool values_in_place() const { return v.element == 1 && terms.sizes().e % kPad == 0; }

  static const float* input(const KernelMemory& memory, size_t i, const HeadView& view, int64_t b,
                            int64_t head) {
    return static_cast<const float*>(memory.inputs[i]) + b * view.batch + head * view.head;
  }
  int64_t repeated_keys(const KernelMemory& memory, int64_t b) const {
    const auto* counts = static_cast<const int32_t*>(memory.inputs[repeated]);
    return counts[b * repeated_stride] / kPad * kPad;
  }

  // The longest run from `first` on, before `end`, whose elements have as many keys in common as its first two have.
  Run run_at(const KernelMemory& memory, int64_t first, int64_t end) const {
    Run run{first, 1, 0};
    for (; run.count < most_elements && first + run.count < end; ++run.count) {
      const int64_t next = first + run.count;
      const int64_t here = repeated_keys(memory, next);
      const bool next_has_more =
          run.count == 1 && next + 1 < end && repeated_keys(memory, next + 1) > here;
      if (here < std::max(run.shared, kPad) || next_has_more) {
        break;
      }
      run.shared = run.count == 1 ? here : run.shared;
    }
    for (int64_t b = first; b < first + run.count; ++b) {
      const AttentionSizes n = terms.sizes_of(memory, b);
      const Range seen = n.visible(0, 1, 0, n.s);
      run.shared = seen.begin > 0 ? 0 : std::min(run.shared, seen.end / kPad * kPad);
    }
    return run.shared == 0 ? Run{first, 1, 0} : run;
  }

  // Adds the values of a block of `width` keys to the sums of `rows` rows from `row` on, by their scores from `begin` on.
  void add_values(const Buffers& buffers, ScoreBlock block, int64_t row, int64_t rows,
                  bool is_first, int64_t begin, int64_t width, const float* values,
                  int64_t ld) const {
    const BlockLoops& loop = *loops().block;
    const int64_t ld_o = padded(terms.sizes().e);
    float* const sums = buffers.sums + row * ld_o;
    block.rows = rows;
    block.step = 0;
    loop.softmax_step(block, buffers.top + row, buffers.total + row, buffers.factor + row);
    if (!is_first) {
      loop.scale_rows(rows, ld_o, buffers.factor + row, sums, ld_o);
    }
    loop.product(rows, terms.sizes().e, width, buffers.scores + row * kKeyBlock + begin, kKeyBlock,
                 1, values, ld, sums, ld_o, true);
  }

  // What all elements of a run see alike. Of the last block, where the keys of each follow, the scores and values alone.
  void see_shared(const KernelMemory& memory, const Run& run, const Buffers& buffers) const {
    const BlockLoops& loop = *loops().block;
    const AttentionSizes n = terms.sizes_of(memory, run.first);
    const int64_t rows = run.count * n.group();
    const int64_t ld_o = padded(n.e);
    for (int64_t head = 0; head < n.key_heads; ++head) {
      const int64_t row = head * rows;
      const float* const keys = input(memory, 1, k, run.first, head);
      const float* const values = input(memory, 2, v, run.first, head);
      float* const packed = buffers.shared_values + head * kKeyBlock * ld_o;
      for (int64_t key = 0; key < run.shared; key += kKeyBlock) {
        const int64_t width = std::min(kKeyBlock, run.shared - key);
        float* const scores = buffers.scores + row * kKeyBlock;
        pack_columns(keys, k, key, width, n.d, buffers.keys, column_step(kKeyBlock));
        loop.product(rows, width, n.d, buffers.queries + row * padded(n.d), padded(n.d), 1,
                     buffers.keys, column_step(kKeyBlock), scores, kKeyBlock, false);
        const bool is_whole = width == kKeyBlock;
        const bool in_place = is_whole && values_in_place();
        if (!in_place) {
          pack_rows(values, v, key, width, n.e, packed);
        }
        if (is_whole) {
          add_values(buffers, n.block(0, 1, key, width, scores), row, rows, key == 0, 0, width,
                     in_place ? values + key * v.position : packed, in_place ? v.position : ld_o);
        }
      }
    }
  }

  // The keys from `shared` on.
  void see_own(const KernelMemory& memory, const AttentionSizes& all, const Heads& heads,
               int64_t shared, const Buffers& buffers) const {
    const BlockLoops& loop = *loops().block;
    const int64_t b = heads.element;
    const AttentionSizes n = terms.segments(memory, b).narrowed(all, 0, 1, 0, all.s);
    const int64_t ld_o = padded(n.e);
    const int64_t ld_k = column_step(kKeyBlock);
    const int64_t key_head = heads.first / n.group();
    const ScoreTerms::Head added = terms.head(memory, all, b, heads.first, buffers.terms);
    const float* const keys = input(memory, 1, k, b, key_head);
    const float* const values = input(memory, 2, v, b, key_head);
    const Range seen = n.visible(0, 1, 0, n.s);
    const int64_t first_key = seen.begin / kKeyBlock * kKeyBlock;
    for (int64_t key = std::max(first_key, shared / kKeyBlock * kKeyBlock); key < seen.end;
         key += kKeyBlock) {
      const Range columns = n.columns(0, 1, key, std::min(kKeyBlock, n.s - key));
      const int64_t known = std::max<int64_t>(shared - key, 0);  // of the block
      const int64_t own = columns.begin + known;
      if (columns.begin == columns.end) {
        continue;
      }
      float* const scores = buffers.scores + heads.row * kKeyBlock;
      if (own < columns.end) {
        pack_columns(keys, k, key + own, columns.end - own, n.d, buffers.keys, ld_k);
        loop.product(heads.count, columns.end - own, n.d, buffers.queries + heads.row * padded(n.d),
                     padded(n.d), 1, buffers.keys, ld_k, scores + own, kKeyBlock, false);
      }
      const ScoreBlock block = n.block(0, 1, key, columns.end, scores);
      ScoreBlock of_row = block;
      for (int64_t r = 0; r < heads.count; ++r, of_row.s += kKeyBlock) {
        added.add_to(of_row, 0, key);
      }
      const bool in_place = known == 0 && values_in_place();
      float* const packed =
          known > 0 ? buffers.shared_values + key_head * kKeyBlock * ld_o : buffers.values;
      if (!in_place) {
        pack_rows(values, v, key + own, columns.end - own, n.e, packed + known * ld_o);
      }
      add_values(buffers, block, heads.row, heads.count, key == first_key, columns.begin,
                 columns.end - columns.begin,
                 in_place ? values + (key + columns.begin) * v.position : packed,
                 in_place ? v.position : ld_o);
    }
  }

  void write(const KernelMemory& memory, const Heads& heads, const Buffers& buffers) const {
    const BlockLoops& loop = *loops().block;
    const int64_t e = terms.sizes().e;
    const int64_t first = heads.element * terms.sizes().h + heads.first;
    float* const sums = buffers.sums + heads.row * padded(e);
    float* const factor = buffers.factor + heads.row;
    for (int64_t r = 0; r < heads.count; ++r) {
      const float total = buffers.total[heads.row + r];
      factor[r] = share_of(total);
      static_cast<float*>(memory.outputs[1])[first + r] =
          logsumexp_of(buffers.top[heads.row + r], total);
    }
    loop.scale_rows(heads.count, padded(e), factor, sums, padded(e));
    loop.copy_rows(heads.count, e, 1, sums, padded(e),
                   static_cast<float*>(memory.outputs[0]) + first * e, e, false);
  }

  // What element b reads of one input from key `begin` on, within `calls` calls of ask().
  Ahead ahead(const KernelMemory& memory, int64_t b, int64_t begin, size_t i, const HeadView& view,
              int64_t columns, int64_t calls) const {
    if (parts > 1 || b >= terms.sizes().b) {
      return {};
    }
    const AttentionSizes n = terms.sizes_of(memory, b);
    Range seen = n.visible(0, 1, 0, n.s);
    seen.begin = std::max(seen.begin, begin);
    return {
        static_cast<const float*>(memory.inputs[i]) + b * view.batch + seen.begin * view.position,
        seen.end - seen.begin, n.key_heads * columns, view.position, calls};
  }

  // Heads `range` of the elements of a run, all of them where there are several; keys of the next one are asked for meanwhile.
  void run_heads(const KernelMemory& memory, const Run& run, const Range& range,
                 const Buffers& buffers) const {
    const AttentionSizes& sizes = terms.sizes();
    const int64_t group = sizes.group();
    const auto row = [&](int64_t r, int64_t h) {
      return (h / group * run.count + r) * group + h % group - range.begin;
    };
    const int64_t rows = run.count * (range.end - range.begin);
    for (int64_t r = 0; r < run.count; ++r) {
      for (int64_t h = range.begin; h < range.end; ++h) {
        pack_rows(input(memory, 0, q, run.first + r, h), q, 0, 1, sizes.d,
                  buffers.queries + row(r, h) * padded(sizes.d), sizes.scale);
      }
    }
    std::fill_n(buffers.top, rows, -kInfinity);
    std::fill_n(buffers.total, rows, 0.0F);
    std::fill_n(buffers.sums, rows * padded(sizes.e), 0.0F);
    see_shared(memory, run, buffers);
    for (int64_t r = 0; r < run.count; ++r) {
      const int64_t b = run.first + r;
      const AttentionSizes n = terms.sizes_of(memory, b);
      const int64_t begin = r + 1 < run.count ? run.shared : 0;
      Ahead keys = ahead(memory, b + 1, begin, 1, k, n.d, n.key_heads);
      Ahead values = ahead(memory, b + 1, begin, 2, v, n.e, n.key_heads);
      for (int64_t h = range.begin; h < range.end;) {
        keys.ask();
        values.ask();
        const int64_t most = has_terms() ? 1 : kQueryBlock;
        const int64_t end = std::min({range.end, (h / group + 1) * group, h + most});
        const Heads heads{b, h, end - h, row(r, h)};
        see_own(memory, n, heads, run.shared, buffers);
        write(memory, heads, buffers);
        h = end;
      }
    }
  }

  void run_items(const KernelMemory& memory, int64_t begin, int64_t end,
                 const Buffers& buffers) const {
    while (begin < end) {
      const Run run = most_elements > 1 ? run_at(memory, begin, end) : Run{begin / parts, 1, 0};
      run_heads(memory, run, chunk_of(terms.sizes().h, 1, static_cast<int>(begin % parts), parts),
                buffers);
      begin += run.count;
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
  one.repeated = terms.form().repeated;
  if (one.repeated != 0 && one.parts == 1 && !one.has_terms() && terms.form().segments == 0) {
    one.repeated_stride = request.inputs[one.repeated].strides[0];
    one.most_elements = std::clamp<int64_t>(
        std::min(kMostFloats / std::max<int64_t>(n.h * padded(n.d), 1), kQueryBlock / n.group()), 1,
        kMostElements);
  }
  Scratch counter(nullptr);
  const OneQuery::Buffers counted(one, counter);
  const int64_t floats = counter.used();
  return {[one, threads, floats](const KernelMemory& memory) {
            float* const base = static_cast<float*>(memory.workspace);
            parallel_chunks(threads, one.items(), 1, [&](int64_t begin, int64_t end, int thread) {
              Scratch scratch(base + thread * floats);
              one.run_items(memory, begin, end, OneQuery::Buffers(one, scratch));
            });
          },
          threads * floats * static_cast<int64_t>(sizeof(float))};
}

}  // namespace mstrain::cpu
