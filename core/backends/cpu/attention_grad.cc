// attention_grad in f32: blocks of scores are formed again from the saved logsumexp (Dao et al. 2022). A task owns the
// results that it writes; sums over queries and keys run in ascending order for every thread count.
#include "core/backends/cpu/attention.h"

namespace mstrain::cpu {
namespace {

// The part of one head's gradients that a task computes: those of queries [q.begin, q.end) where `queries`, and of keys
// [k.begin, k.end) where `keys`.
struct Task {
  int64_t head;
  Range q, k;
  bool queries, keys;
};

struct Backward {
  AttentionSizes n;
  HeadView g, q, k, v, out;
  Shape lse;   // strides
  Shape bias;  // strides; rank 0 without one
  DropoutView dropout;
  int64_t bias_batches = 1, bias_heads = 1;
  int threads = 1;
  int parts = 1;  // of the queries, and of the keys, of one head; 1: both at once

  struct Buffers {
    float *keys_columns, *keys, *values_columns, *queries, *cotangents, *delta, *shift;
    float *scores, *products, *d_queries, *d_keys, *d_values, *row, *factors;
    Buffers(const AttentionSizes& n, bool drops, Scratch& scratch)
        : keys_columns(scratch.take(n.d * padded(n.s))),
          keys(scratch.take(n.s * padded(n.d))),
          values_columns(scratch.take(n.e * padded(n.s))),
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
          factors(scratch.take(drops ? kQueryBlock * kKeyBlock : 0)) {}
  };

  void pack(const KernelMemory& memory, const Task& task, const Buffers& buffers) const {
    const int64_t b = task.head / n.h;
    const int64_t h = task.head % n.h;
    const auto input = [&](size_t i, const HeadView& view) {
      return static_cast<const float*>(memory.inputs[i]) + b * view.batch + h * view.head;
    };
    const int64_t ld_q = padded(n.d);
    const int64_t ld_o = padded(n.e);
    const int64_t rows = task.q.end - task.q.begin;
    pack_columns(input(2, k), k, 0, n.s, n.d, buffers.keys_columns);
    pack_rows(input(2, k), k, 0, n.s, n.d, buffers.keys);
    pack_columns(input(3, v), v, 0, n.s, n.e, buffers.values_columns);
    pack_rows(input(1, q), q, task.q.begin, rows, n.d, buffers.queries + task.q.begin * ld_q,
              n.scale);
    pack_rows(input(0, g), g, task.q.begin, rows, n.e, buffers.cotangents + task.q.begin * ld_o);
    const size_t results = (bias.rank() == 4 ? 5 : 4) + dropout.inputs();
    const float* const lse_rows =
        static_cast<const float*>(memory.inputs[results + 1]) + b * lse[0] + h * lse[1];
    if (out.element == 1) {
      loops().block->dot_rows(rows, n.e, input(results, out) + task.q.begin * out.position,
                              out.position, buffers.cotangents + task.q.begin * ld_o, ld_o,
                              buffers.delta + task.q.begin);
    }
    for (int64_t i = task.q.begin; i < task.q.end; ++i) {
      if (out.element != 1) {
        pack_rows(input(results, out), out, i, 1, n.e, buffers.row);
        loops().block->dot_rows(1, n.e, buffers.row, 0, buffers.cotangents + i * ld_o, 0,
                                buffers.delta + i);
      }
      const float value = lse_rows[i * lse[2]];
      buffers.shift[i] = value > -kInfinity ? value : 0.0F;
    }
  }

  // Scores of queries [first, first + rows) and keys [key, key + keys), and what follows from them.
  void run_block(const Task& task, const Buffers& buffers, const BiasView& bias_view,
                 const DropoutView& drawn, float* d_bias, int64_t first, int64_t rows, int64_t key,
                 int64_t keys) const {
    const BlockLoops& loop = *loops().block;
    const int64_t ld_q = padded(n.d);
    const int64_t ld_o = padded(n.e);
    const int64_t ld_k = padded(n.s);
    const bool whole = n.visible(first, key, keys) == keys;
    const int64_t step = whole ? rows : kDiagonalRows;
    for (int64_t r = 0; r < rows; r += step) {
      const int64_t count = std::min(step, rows - r);
      const int64_t width = n.visible(first + r + count - 1, key, keys);
      float* const scores = buffers.scores + r * kKeyBlock;
      float* const products = buffers.products + r * kKeyBlock;
      const ScoreBlock block = n.block(first + r, count, key, padded(keys), scores);
      if (width > 0) {
        loop.product(count, width, n.d, buffers.queries + (first + r) * ld_q, ld_q, 1,
                     buffers.keys_columns + key, ld_k, scores, kKeyBlock, false);
        loop.product(count, width, n.e, buffers.cotangents + (first + r) * ld_o, ld_o, 1,
                     buffers.values_columns + key, ld_k, products, kKeyBlock, false);
      }
      const bool drops = drawn.drops() && width > 0;
      if (drops) {
        drawn.draw(n, task.head, first + r, count, key, width, buffers.factors);
        multiply_rows(count, width, buffers.factors, products);
      }
      bias_view.add_to(block, first + r, key);
      loop.softmax_grad_step(block, products, buffers.shift + first + r, buffers.delta + first + r);
      if (drops) {  // what the values were weighted with
        multiply_rows(count, width, buffers.factors, scores);
      }
      for (int64_t i = 0; d_bias != nullptr && i < count; ++i) {
        const int64_t query = first + r + i;
        loops().f32->add_to(n.visible(query, key, keys), products + i * kKeyBlock,
                            d_bias + query * n.s + key);
      }
      if (task.queries && width > 0) {
        loop.product(count, n.d, width, products, kKeyBlock, 1, buffers.keys + key * ld_q, ld_q,
                     buffers.d_queries + (first + r) * ld_q, ld_q, true);
      }
    }
    if (!task.keys) {
      return;
    }
    // Keys in groups: a group is seen by the rows from the first one that sees its first key.
    const int64_t group = whole ? keys : kDiagonalRows;
    for (int64_t j = 0; j < keys; j += group) {
      const int64_t count = std::min(group, keys - j);
      int64_t from = 0;
      while (from < rows && n.visible(first + from, key, keys) <= j) {
        ++from;
      }
      if (from == rows) {
        break;
      }
      const int64_t skip = from * kKeyBlock + j;
      loop.product(count, n.e, rows - from, buffers.scores + skip, 1, kKeyBlock,
                   buffers.cotangents + (first + from) * ld_o, ld_o,
                   buffers.d_values + (key + j) * ld_o, ld_o, true);
      loop.product(count, n.d, rows - from, buffers.products + skip, 1, kKeyBlock,
                   buffers.queries + (first + from) * ld_q, ld_q, buffers.d_keys + (key + j) * ld_q,
                   ld_q, true);
    }
  }

  void run_task(const KernelMemory& memory, const Task& task, const Buffers& buffers,
                const DropoutView& drawn, float* d_bias) const {
    const int64_t ld_q = padded(n.d);
    const int64_t ld_o = padded(n.e);
    pack(memory, task, buffers);
    const int64_t b = task.head / n.h;
    const int64_t h = task.head % n.h;
    std::fill(buffers.d_queries + task.q.begin * ld_q, buffers.d_queries + task.q.end * ld_q, 0.0F);
    std::fill(buffers.d_keys + task.k.begin * ld_q, buffers.d_keys + task.k.end * ld_q, 0.0F);
    std::fill(buffers.d_values + task.k.begin * ld_o, buffers.d_values + task.k.end * ld_o, 0.0F);
    BiasView bias_view;
    if (bias.rank() == 4) {
      bias_view = {static_cast<const float*>(memory.inputs[4]) + b * bias[0] + h * bias[1], bias[2],
                   bias[3]};
    }
    for (int64_t key = task.k.begin; key < task.k.end; key += kKeyBlock) {
      const int64_t keys = std::min(kKeyBlock, task.k.end - key);
      for (int64_t first = task.q.begin; first < task.q.end; first += kQueryBlock) {
        const int64_t rows = std::min(kQueryBlock, task.q.end - first);
        if (n.visible(first + rows - 1, key, keys) > 0) {
          run_block(task, buffers, bias_view, drawn, d_bias, first, rows, key, keys);
        }
      }
    }
    const auto write = [&](size_t output, const float* from, int64_t ld, const Range& range,
                           int64_t length, int64_t columns, float factor) {
      float* const to =
          static_cast<float*>(memory.outputs[output]) + b * length * n.h * columns + h * columns;
      loops().block->copy_rows(range.end - range.begin, columns, factor, from + range.begin * ld,
                               ld, to + range.begin * n.h * columns, n.h * columns, false);
    };
    if (task.queries) {
      write(0, buffers.d_queries, ld_q, task.q, n.t, n.d, n.scale);
    }
    if (task.keys) {
      write(1, buffers.d_keys, ld_q, task.k, n.s, n.d, 1.0F);
      write(2, buffers.d_values, ld_o, task.k, n.s, n.e, 1.0F);
    }
  }

  // Heads that share a bias belong to one item, in which its gradient is summed.
  void run_biased(const KernelMemory& memory, const DropoutView& drawn, int64_t item,
                  const Buffers& buffers) const {
    float* const d_bias = static_cast<float*>(memory.outputs[3]) + item * n.t * n.s;
    std::fill_n(d_bias, n.t * n.s, 0.0F);
    const int64_t bias_b = item / bias_heads;
    const int64_t bias_h = item % bias_heads;
    for (int64_t b = bias_batches == 1 ? 0 : bias_b; b < (bias_batches == 1 ? n.b : bias_b + 1);
         ++b) {
      for (int64_t h = bias_heads == 1 ? 0 : bias_h; h < (bias_heads == 1 ? n.h : bias_h + 1);
           ++h) {
        run_task(memory, {b * n.h + h, {0, n.t}, {0, n.s}, true, true}, buffers, drawn, d_bias);
      }
    }
  }

  void run_plain(const KernelMemory& memory, const DropoutView& drawn, int64_t item,
                 const Buffers& buffers) const {
    if (parts == 1) {
      run_task(memory, {item, {0, n.t}, {0, n.s}, true, true}, buffers, drawn, nullptr);
      return;
    }
    const int64_t head = item / (2 * parts);
    const auto part = static_cast<int>(item % (2 * parts));
    if (part < parts) {
      run_task(memory, {head, chunk_of(n.t, kQueryBlock, part, parts), {0, n.s}, true, false},
               buffers, drawn, nullptr);
    } else {
      run_task(memory, {head, {0, n.t}, chunk_of(n.s, kKeyBlock, part - parts, parts), false, true},
               buffers, drawn, nullptr);
    }
  }
};

bool supports(const KernelRequest& request) { return request.inputs[0].type.dtype == Dtype::kF32; }

Kernel prepare(const KernelRequest& request) {
  const auto in = request.inputs;
  const Shape& q = in[1].type.shape;
  const Shape& v = in[3].type.shape;
  const DropoutView dropout(request, 2);
  const bool biased = in.size() - dropout.inputs() == 7;
  const AttentionSizes n{q[0],
                         q[1],
                         v[1],
                         q[2],
                         q[3],
                         v[3],
                         request.attrs.flag("causal"),
                         static_cast<float>(request.attrs.number("scale"))};
  Backward backward{n,
                    HeadView(in[0].strides),
                    HeadView(in[1].strides),
                    HeadView(in[2].strides),
                    HeadView(in[3].strides),
                    HeadView(in[in.size() - 2].strides),
                    in.back().strides,
                    {},
                    dropout};
  const int64_t blocks = (std::max(n.t, n.s) + kQueryBlock - 1) / kQueryBlock;
  backward.threads =
      useful_threads(request.threads, n.heads() * blocks, 2 * n.heads() * n.t * n.s * (n.d + n.e));
  int64_t items = n.heads();
  if (biased) {
    backward.bias = in[4].strides;
    backward.bias_batches = in[4].type.shape[0];
    backward.bias_heads = in[4].type.shape[1];
    backward.bias[0] = backward.bias_batches == 1 ? 0 : backward.bias[0];
    backward.bias[1] = backward.bias_heads == 1 ? 0 : backward.bias[1];
    items = backward.bias_batches * backward.bias_heads;
  } else if (n.heads() < backward.threads) {
    backward.parts = static_cast<int>(std::min<int64_t>(backward.threads, blocks));
    items = backward.parts == 1 ? items : items * 2 * backward.parts;
  }
  Scratch counter(nullptr);
  const Backward::Buffers counted(n, dropout.drops(), counter);
  const int64_t floats = counter.used();
  return {[backward, floats, items, biased](const KernelMemory& memory) {
            float* const base = static_cast<float*>(memory.workspace);
            const bool drops = backward.dropout.drops();
            const DropoutView drawn = backward.dropout.of(memory, backward.n);
            parallel_items(backward.threads, items, [&](int64_t item, int thread) {
              Scratch scratch(base + thread * floats);
              const Backward::Buffers buffers(backward.n, drops, scratch);
              if (biased) {
                backward.run_biased(memory, drawn, item, buffers);
              } else {
                backward.run_plain(memory, drawn, item, buffers);
              }
            });
          },
          backward.threads * floats * static_cast<int64_t>(sizeof(float))};
}

}  // namespace

void register_attention_grad() {
  for (const char* op : {"attention_grad", "attention_dropout_grad"}) {
    register_kernel(Backend::kCpu, op,
                    {.prepare = prepare, .supports = supports, .strided_inputs = true});
  }
}

}  // namespace mstrain::cpu
