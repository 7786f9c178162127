// attention_grad in f32: blocks of scores are formed again from the saved logsumexp (Dao et al. 2022). A task owns the
// results that it writes; sums over queries, keys and the heads that share keys run in ascending order for every thread count.
#include "core/backends/cpu/attention_terms.h"

namespace mstrain::cpu {
namespace {

// The part that a task computes of the gradients of one key head and the heads that read it: those of queries
// [q.begin, q.end) where `queries`, and of keys [k.begin, k.end) where `keys`.
struct Task {
  int64_t b, key_head;
  Range q, k;
  bool queries, keys;
};

// A head of a task: what is added to its scores, and where the gradients of that go; null: nowhere.
struct Head {
  int64_t number;
  ScoreTerms::Head added;
  float *d_bias, *d_by_distance;
};

struct Backward {
  ScoreTerms terms;
  HeadView g, q, k, v, out;
  Shape lse;  // strides
  DropoutView dropout;
  int64_t bias_batches = 1, bias_heads = 1;
  int threads = 1;
  int parts = 1;  // of the queries, and of the keys, of one key head; 1: both at once

  struct Buffers {
    float *keys_columns, *keys, *values_columns, *queries, *cotangents, *delta, *shift;
    float *scores, *products, *d_queries, *d_keys, *d_values, *row, *factors, *d_by_distance;
    ScoreTerms::Buffers terms;
    Buffers(const ScoreTerms& terms, bool drops, Scratch& scratch)
        : Buffers(terms, terms.sizes(), drops, scratch) {}

   private:
    Buffers(const ScoreTerms& terms, const AttentionSizes& n, bool drops, Scratch& scratch)
        : keys_columns(scratch.take(n.d * column_step(n.s))),
          keys(scratch.take(n.s * padded(n.d))),
          values_columns(scratch.take(n.e * column_step(n.s))),
          queries(scratch.take(n.t * padded(n.d))),
          cotangents(scratch.take(n.t * padded(n.e))),
          delta(scratch.take(n.t)),
          shift(scratch.take(n.t)),
          scores(scratch.take(kQueryBlock * kKeyBlock)),
          products(scratch.take(kQueryBlock * kKeyBlock)),
          d_queries(scratch.take(n.t * padded(n.d))),
          d_keys(scratch.take(n.s * padded(n.d))),
          d_values(scratch.take(n.s * padded(n.e))),
          row(scratch.take(padded(n.e))),
          factors(scratch.take(drops ? kQueryBlock * kKeyBlock : 0)),
          d_by_distance(scratch.take(terms.form().table != 0 ? n.t + n.s : 0)),
          terms(terms, scratch) {}
  };

  const AttentionSizes& sizes() const { return terms.sizes(); }
  bool biased() const { return terms.form().bias != 0; }
  size_t result_input() const { return 1 + terms.form().inputs; }
  // Sums of each head for each row of the table, before those that share it are added up.
  int64_t table_sums() const {
    return terms.form().table == 0 ? 0 : sizes().heads() * terms.form().buckets->count;
  }

  void pack_keys(const KernelMemory& memory, const Task& task, const Buffers& buffers) const {
    const AttentionSizes& n = sizes();
    const auto input = [&](size_t i, const HeadView& view) {
      return static_cast<const float*>(memory.inputs[i]) + task.b * view.batch +
             task.key_head * view.head;
    };
    pack_columns(input(2, k), k, 0, n.s, n.d, buffers.keys_columns, column_step(n.s));
    pack_rows(input(2, k), k, 0, n.s, n.d, buffers.keys);
    pack_columns(input(3, v), v, 0, n.s, n.e, buffers.values_columns, column_step(n.s));
  }

  void pack_queries(const KernelMemory& memory, const Task& task, int64_t h,
                    const Buffers& buffers) const {
    const AttentionSizes& n = sizes();
    const auto input = [&](size_t i, const HeadView& view) {
      return static_cast<const float*>(memory.inputs[i]) + task.b * view.batch + h * view.head;
    };
    const int64_t ld_q = padded(n.d);
    const int64_t ld_o = padded(n.e);
    const int64_t rows = task.q.end - task.q.begin;
    pack_rows(input(1, q), q, task.q.begin, rows, n.d, buffers.queries + task.q.begin * ld_q,
              n.scale);
    pack_rows(input(0, g), g, task.q.begin, rows, n.e, buffers.cotangents + task.q.begin * ld_o);
    const float* const result = input(result_input(), out);
    const float* const lse_rows =
        static_cast<const float*>(memory.inputs[result_input() + 1]) + task.b * lse[0] + h * lse[1];
    if (out.element == 1) {
      loops().block->dot_rows(rows, n.e, result + task.q.begin * out.position, out.position,
                              buffers.cotangents + task.q.begin * ld_o, ld_o,
                              buffers.delta + task.q.begin);
    }
    for (int64_t i = task.q.begin; i < task.q.end; ++i) {
      if (out.element != 1) {
        pack_rows(result, out, i, 1, n.e, buffers.row);
        loops().block->dot_rows(1, n.e, buffers.row, 0, buffers.cotangents + i * ld_o, 0,
                                buffers.delta + i);
      }
      const float value = lse_rows[i * lse[2]];
      buffers.shift[i] = value > -kInfinity ? value : 0.0F;
    }
    std::fill(buffers.d_queries + task.q.begin * ld_q, buffers.d_queries + task.q.end * ld_q, 0.0F);
  }

  // Scores of queries [first, first + rows) and keys [key, key + keys), and what follows from them.
  void run_block(const AttentionSizes& n, const Task& task, const Buffers& buffers,
                 const Head& head, const DropoutView& drawn, int64_t first, int64_t rows,
                 int64_t key, int64_t keys) const {
    const BlockLoops& loop = *loops().block;
    const int64_t ld_q = padded(n.d);
    const int64_t ld_o = padded(n.e);
    const int64_t ld_k = column_step(n.s);
    const int64_t step = n.rows_alike(first, rows, key, keys);
    for (int64_t r = 0; r < rows; r += step) {
      const int64_t count = std::min(step, rows - r);
      const Range columns = n.columns(first + r, count, key, keys);
      const int64_t from = key + columns.begin;
      const int64_t width = columns.end - columns.begin;
      float* const scores = buffers.scores + r * kKeyBlock;
      float* const products = buffers.products + r * kKeyBlock;
      const ScoreBlock block = n.block(first + r, count, key, keys, scores);
      if (width > 0) {
        loop.product(count, width, n.d, buffers.queries + (first + r) * ld_q, ld_q, 1,
                     buffers.keys_columns + from, ld_k, scores + columns.begin, kKeyBlock, false);
        loop.product(count, width, n.e, buffers.cotangents + (first + r) * ld_o, ld_o, 1,
                     buffers.values_columns + from, ld_k, products + columns.begin, kKeyBlock,
                     false);
      }
      const bool drops = drawn.drops() && width > 0;
      if (drops) {
        drawn.draw(n, head.number, first + r, count, from, width, buffers.factors);
        multiply_rows(count, width, buffers.factors, products + columns.begin);
      }
      head.added.add_to(block, first + r, key);
      loop.softmax_grad_step(block, products, buffers.shift + first + r, buffers.delta + first + r);
      if (drops) {  // what the values were weighted with
        multiply_rows(count, width, buffers.factors, scores + columns.begin);
      }
      for (int64_t i = 0; i < count; ++i) {
        const int64_t query = first + r + i;
        const int64_t begin = block.begin(i);
        const int64_t seen = block.end(i) - begin;
        const float* const from_row = products + i * kKeyBlock + begin;
        if (head.d_bias != nullptr) {
          loops().f32->add_to(seen, from_row, head.d_bias + query * n.s + key + begin);
        }
        if (head.d_by_distance != nullptr) {
          loops().f32->add_to(seen, from_row, head.d_by_distance + terms.place(query, key + begin));
        }
      }
      if (task.queries && width > 0) {
        loop.product(count, n.d, width, products + columns.begin, kKeyBlock, 1,
                     buffers.keys + from * ld_q, ld_q, buffers.d_queries + (first + r) * ld_q, ld_q,
                     true);
      }
    }
    if (task.keys) {
      add_to_keys(n, buffers, first, rows, key, keys, step == rows ? keys : kDiagonalRows);
    }
  }

  // Keys in groups: a group is seen by the rows from the first one that sees its first key to the last one that sees its
  // last.
  void add_to_keys(const AttentionSizes& n, const Buffers& buffers, int64_t first, int64_t rows,
                   int64_t key, int64_t keys, int64_t group) const {
    const BlockLoops& loop = *loops().block;
    const int64_t ld_q = padded(n.d);
    const int64_t ld_o = padded(n.e);
    const ScoreBlock block = n.block(first, rows, key, keys, nullptr);
    for (int64_t j = 0; j < keys; j += group) {
      const int64_t count = std::min(group, keys - j);
      int64_t from = 0;
      int64_t to = rows;
      while (from < rows && block.end(from) <= j) {
        ++from;
      }
      while (to > from && block.begin(to - 1) >= j + count) {
        --to;
      }
      const int64_t skip = from * kKeyBlock + j;
      loop.product(count, n.e, to - from, buffers.scores + skip, 1, kKeyBlock,
                   buffers.cotangents + (first + from) * ld_o, ld_o,
                   buffers.d_values + (key + j) * ld_o, ld_o, true);
      loop.product(count, n.d, to - from, buffers.products + skip, 1, kKeyBlock,
                   buffers.queries + (first + from) * ld_q, ld_q, buffers.d_keys + (key + j) * ld_q,
                   ld_q, true);
    }
  }

  void run_blocks(const AttentionSizes& all, const Task& task, const Buffers& buffers,
                  const Head& head, const DropoutView& drawn) const {
    for (int64_t key = task.k.begin; key < task.k.end; key += kKeyBlock) {
      const int64_t keys = std::min(kKeyBlock, task.k.end - key);
      for (int64_t first = task.q.begin; first < task.q.end; first += kQueryBlock) {
        const int64_t rows = std::min(kQueryBlock, task.q.end - first);
        const AttentionSizes n = head.added.segments.narrowed(all, first, rows, key, keys);
        const Range seen = n.visible(first, rows, key, keys);
        if (seen.begin < seen.end) {
          run_block(n, task, buffers, head, drawn, first, rows, key, keys);
        }
      }
    }
  }

  // `table_sums`: [b, h, buckets].
  void run_task(const KernelMemory& memory, const Task& task, const Buffers& buffers,
                const DropoutView& drawn, float* table_sums) const {
    const AttentionSizes n = terms.sizes_of(memory, task.b);
    const int64_t ld_q = padded(n.d);
    const int64_t ld_o = padded(n.e);
    pack_keys(memory, task, buffers);
    std::fill(buffers.d_keys + task.k.begin * ld_q, buffers.d_keys + task.k.end * ld_q, 0.0F);
    std::fill(buffers.d_values + task.k.begin * ld_o, buffers.d_values + task.k.end * ld_o, 0.0F);
    const auto write = [&](size_t output, const float* from, int64_t ld, const Range& range,
                           int64_t length, int64_t heads, int64_t h, int64_t columns,
                           float factor) {
      float* const to =
          static_cast<float*>(memory.outputs[output]) + (task.b * length * heads + h) * columns;
      loops().block->copy_rows(range.end - range.begin, columns, factor, from + range.begin * ld,
                               ld, to + range.begin * heads * columns, heads * columns, false);
    };
    for (int64_t h = task.key_head * n.group(); h < (task.key_head + 1) * n.group(); ++h) {
      pack_queries(memory, task, h, buffers);
      Head head{task.b * n.h + h, terms.head(memory, n, task.b, h, buffers.terms), nullptr,
                buffers.d_by_distance};
      if (biased()) {
        head.d_bias = bias_gradient(memory, task.b, h);
      }
      if (terms.form().table == 0) {
        head.d_by_distance = nullptr;
      } else {
        std::fill_n(head.d_by_distance, n.t + n.s, 0.0F);
      }
      run_blocks(n, task, buffers, head, drawn);
      if (head.d_by_distance != nullptr) {
        terms.sum_by_bucket(n, head.d_by_distance,
                            table_sums + head.number * terms.form().buckets->count);
      }
      if (task.queries) {
        write(0, buffers.d_queries, ld_q, task.q, n.t, n.h, h, n.d, n.scale);
      }
    }
    if (task.keys) {
      write(1, buffers.d_keys, ld_q, task.k, n.s, n.key_heads, task.key_head, n.d, 1.0F);
      write(2, buffers.d_values, ld_o, task.k, n.s, n.key_heads, task.key_head, n.e, 1.0F);
    }
  }

  float* bias_gradient(const KernelMemory& memory, int64_t b, int64_t h) const {
    const int64_t which = (bias_batches == 1 ? 0 : b) * bias_heads + (bias_heads == 1 ? 0 : h);
    return static_cast<float*>(memory.outputs[3]) + which * sizes().t * sizes().s;
  }

  // Heads that share keys or a bias belong to one item, in which their gradients are summed.
  bool joins_batches() const { return biased() && bias_batches == 1; }
  bool joins_heads() const { return biased() && bias_heads == 1; }
  int64_t items() const {
    return (joins_batches() ? 1 : sizes().b) * (joins_heads() ? 1 : sizes().key_heads) *
           (parts == 1 ? 1 : 2 * parts);
  }

  void run_item(const KernelMemory& memory, const DropoutView& drawn, int64_t item,
                const Buffers& buffers, float* table_sums) const {
    const AttentionSizes& n = sizes();
    if (parts > 1) {
      const auto part = static_cast<int>(item % (2 * parts));
      const int64_t head = item / (2 * parts);
      Task task{head / n.key_heads, head % n.key_heads, {0, n.t}, {0, n.s}, false, false};
      if (part < parts) {
        task.queries = true;
        task.q = chunk_of(n.t, kQueryBlock, part, parts);
      } else {
        task.keys = true;
        task.k = chunk_of(n.s, kKeyBlock, part - parts, parts);
      }
      run_task(memory, task, buffers, drawn, table_sums);
      return;
    }
    const int64_t heads = joins_heads() ? 1 : n.key_heads;
    const Range batches = joins_batches() ? Range{0, n.b} : Range{item / heads, item / heads + 1};
    const Range key_heads =
        joins_heads() ? Range{0, n.key_heads} : Range{item % heads, item % heads + 1};
    if (biased()) {
      const int64_t biases = joins_heads() ? 1 : n.group();
      std::fill_n(bias_gradient(memory, batches.begin, key_heads.begin * n.group()),
                  biases * n.t * n.s, 0.0F);
    }
    for (int64_t b = batches.begin; b < batches.end; ++b) {
      for (int64_t head = key_heads.begin; head < key_heads.end; ++head) {
        run_task(memory, {b, head, {0, n.t}, {0, n.s}, true, true}, buffers, drawn, table_sums);
      }
    }
  }

  // The table's gradient [1|b, buckets, h] from the heads' sums.
  void write_table(const KernelMemory& memory, int64_t tables, const float* table_sums) const {
    const AttentionSizes& n = sizes();
    const int64_t count = terms.form().buckets->count;
    float* const to = static_cast<float*>(memory.outputs[biased() ? 4 : 3]);
    std::fill_n(to, tables * count * n.h, 0.0F);
    for (int64_t head = 0; head < n.heads(); ++head) {
      const int64_t table = tables == 1 ? 0 : head / n.h;
      for (int64_t bucket = 0; bucket < count; ++bucket) {
        to[(table * count + bucket) * n.h + head % n.h] += table_sums[head * count + bucket];
      }
    }
  }
};

bool supports(const KernelRequest& request) { return request.inputs[0].type.dtype == Dtype::kF32; }

Kernel prepare(const KernelRequest& request) {
  const auto in = request.inputs;
  const ScoreTerms terms(request, 1);
  const AttentionForm& form = terms.form();
  const AttentionSizes& n = terms.sizes();
  Backward backward{terms,
                    HeadView(in[0].strides),
                    HeadView(in[1].strides),
                    HeadView(in[2].strides),
                    HeadView(in[3].strides),
                    HeadView(in[in.size() - 2].strides),
                    in.back().strides,
                    DropoutView(request, form.draw == 0 ? 0 : 1 + form.draw)};
  const int64_t blocks = (std::max(n.t, n.s) + kQueryBlock - 1) / kQueryBlock;
  backward.threads =
      useful_threads(request.threads, n.heads() * blocks, 2 * n.heads() * n.t * n.s * (n.d + n.e));
  int64_t tables = 0;
  if (form.bias != 0) {
    backward.bias_batches = in[1 + form.bias].type.shape[0];
    backward.bias_heads = in[1 + form.bias].type.shape[1];
  }
  if (form.table != 0) {
    tables = in[1 + form.table].type.shape[0];
  }
  if (form.bias == 0 && form.table == 0 && n.b * n.key_heads < backward.threads) {
    backward.parts = static_cast<int>(std::min<int64_t>(backward.threads, blocks));
  }
  Scratch counter(nullptr);
  const Backward::Buffers counted(terms, backward.dropout.drops(), counter);
  const int64_t floats = counter.used();
  return {
      [backward, floats, tables](const KernelMemory& memory) {
        float* const base = static_cast<float*>(memory.workspace);
        float* const table_sums = base + backward.threads * floats;
        const bool drops = backward.dropout.drops();
        const DropoutView drawn = backward.dropout.of(memory, backward.sizes());
        parallel_items(backward.threads, backward.items(), [&](int64_t item, int thread) {
          Scratch scratch(base + thread * floats);
          backward.run_item(memory, drawn, item, Backward::Buffers(backward.terms, drops, scratch),
                            table_sums);
        });
        if (backward.terms.form().table != 0) {
          backward.write_table(memory, tables, table_sums);
        }
      },
      (backward.threads * floats + backward.table_sums()) * static_cast<int64_t>(sizeof(float))};
}

}  // namespace

void register_attention_grad() {
  for (const char* op : {"attention_grad", "attention_dropout_grad"}) {
    register_kernel(table(), op,
                    {.prepare = prepare, .supports = supports, .strided_inputs = true});
  }
}

}  // namespace mstrain::cpu
