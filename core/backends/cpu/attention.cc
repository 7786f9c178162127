// attention in f32: online softmax over blocks of keys (Milakov & Gimelshein 2018; Dao et al. 2022), so that scores never
// leave the cache. Keys beyond the causal diagonal are neither multiplied nor summed.
#include <cmath>

#include "core/backends/cpu/attention.h"

namespace mstrain::cpu {
namespace {

struct Forward {
  AttentionSizes n;
  HeadView q, k, v;
  Shape bias;  // strides; rank 0 without one
  DropoutView dropout;
  int threads = 1;
  int parts = 1;  // of the queries of one head

  struct Buffers {
    // [d, s] [s, e] [block, d] [block, block] [block, e] [block, block]
    float *keys, *values, *queries, *scores, *sums, *factors;
    Buffers(const AttentionSizes& n, bool drops, Scratch& scratch)
        : keys(scratch.take(n.d * padded(n.s))),
          values(scratch.take(n.s * padded(n.e))),
          queries(scratch.take(kQueryBlock * padded(n.d))),
          scores(scratch.take(kQueryBlock * kKeyBlock)),
          sums(scratch.take(kQueryBlock * padded(n.e))),
          factors(scratch.take(drops ? kQueryBlock * kKeyBlock : 0)) {}
  };

  // Queries [first, first + rows) of the packed head, rows <= kQueryBlock.
  void run_block(const Buffers& buffers, const BiasView& bias_view, const DropoutView& drawn,
                 int64_t head, int64_t first, int64_t rows, float* out, float* lse) const {
    const BlockLoops& loop = *loops().block;
    const int64_t ld_q = padded(n.d);
    const int64_t ld_o = padded(n.e);
    const int64_t ld_k = padded(n.s);
    alignas(64) float top[kQueryBlock];
    alignas(64) float total[kQueryBlock];
    alignas(64) float factor[kQueryBlock];
    std::fill_n(top, rows, -kInfinity);
    std::fill_n(total, rows, 0.0F);
    std::fill_n(buffers.sums, rows * ld_o, 0.0F);
    for (int64_t key = 0; key < n.s; key += kKeyBlock) {
      const int64_t keys = std::min(kKeyBlock, n.s - key);
      const int64_t most = n.visible(first + rows - 1, key, keys);
      if (most == 0) {
        break;
      }
      // All rows see all keys of the block, or rows go in groups with their own number of keys.
      const bool whole = n.visible(first, key, keys) == keys;
      const int64_t step = whole ? rows : kDiagonalRows;
      for (int64_t r = 0; r < rows; r += step) {
        const int64_t count = std::min(step, rows - r);
        const int64_t width = n.visible(first + r + count - 1, key, keys);
        if (width == 0) {
          continue;
        }
        float* const scores = buffers.scores + r * kKeyBlock;
        float* const sums = buffers.sums + r * ld_o;
        loop.product(count, width, n.d, buffers.queries + r * ld_q, ld_q, 1, buffers.keys + key,
                     ld_k, scores, kKeyBlock, false);
        const ScoreBlock block = n.block(first + r, count, key, padded(width), scores);
        bias_view.add_to(block, first + r, key);
        loop.softmax_step(block, top + r, total + r, factor);
        if (key > 0) {
          loop.scale_rows(count, ld_o, factor, sums, ld_o);
        }
        if (drawn.drops()) {
          drawn.draw(n, head, first + r, count, key, width, buffers.factors);
          multiply_rows(count, width, buffers.factors, scores);
        }
        loop.product(count, n.e, width, scores, kKeyBlock, 1, buffers.values + key * ld_o, ld_o,
                     sums, ld_o, true);
      }
    }
    for (int64_t i = 0; i < rows; ++i) {
      const bool some = total[i] > 0;
      factor[i] = some ? 1.0F / total[i] : total[i];
      lse[i] = some ? top[i] + std::log(total[i]) : total[i] == 0 ? -kInfinity : total[i];
    }
    loop.scale_rows(rows, ld_o, factor, buffers.sums, ld_o);
    loop.copy_rows(rows, n.e, 1, buffers.sums, ld_o, out, n.h * n.e, false);
  }

  void run_item(const KernelMemory& memory, const DropoutView& drawn, int64_t item,
                const Buffers& buffers) const {
    const int64_t head = item / parts;
    const auto part = static_cast<int>(item % parts);
    const int64_t b = head / n.h;
    const int64_t h = head % n.h;
    const auto input = [&](size_t i, const HeadView& view) {
      return static_cast<const float*>(memory.inputs[i]) + b * view.batch + h * view.head;
    };
    const Range range = chunk_of(n.t, kQueryBlock, part, parts);
    const int64_t keys = range.end == 0 ? 0 : n.visible(range.end - 1, 0, n.s);
    pack_columns(input(1, k), k, 0, n.s, n.d, buffers.keys);
    pack_rows(input(2, v), v, 0, keys, n.e, buffers.values);
    BiasView bias_view;
    if (bias.rank() == 4) {
      bias_view = {static_cast<const float*>(memory.inputs[3]) + b * bias[0] + h * bias[1], bias[2],
                   bias[3]};
    }
    float* const out = static_cast<float*>(memory.outputs[0]) + b * n.t * n.h * n.e + h * n.e;
    float* const lse = static_cast<float*>(memory.outputs[1]) + head * n.t;
    for (int64_t first = range.begin; first < range.end; first += kQueryBlock) {
      const int64_t rows = std::min(kQueryBlock, range.end - first);
      pack_rows(input(0, q), q, first, rows, n.d, buffers.queries, n.scale);
      run_block(buffers, bias_view, drawn, head, first, rows, out + first * n.h * n.e, lse + first);
    }
  }
};

bool supports(const KernelRequest& request) { return request.inputs[0].type.dtype == Dtype::kF32; }

Kernel prepare(const KernelRequest& request) {
  const Shape& q = request.inputs[0].type.shape;
  const Shape& v = request.inputs[2].type.shape;
  const AttentionSizes n{q[0],
                         q[1],
                         v[1],
                         q[2],
                         q[3],
                         v[3],
                         request.attrs.flag("causal"),
                         static_cast<float>(request.attrs.number("scale"))};
  Forward forward{n,
                  HeadView(request.inputs[0].strides),
                  HeadView(request.inputs[1].strides),
                  HeadView(request.inputs[2].strides),
                  {},
                  DropoutView(request, 0)};
  if (request.inputs.size() - forward.dropout.inputs() == 4) {
    forward.bias = request.inputs[3].strides;
    // A dim of size 1 is shared.
    for (int d : {0, 1}) {
      if (request.inputs[3].type.shape[d] == 1) {
        forward.bias[d] = 0;
      }
    }
  }
  if (!forward.dropout.drops()) {
    if (Kernel few = attention_of_few_queries(request, n, forward.bias); few.run) {
      return few;
    }
  }
  const int64_t blocks = (n.t + kQueryBlock - 1) / kQueryBlock;
  forward.threads =
      useful_threads(request.threads, n.heads() * blocks, n.heads() * n.t * n.s * (n.d + n.e));
  forward.parts = n.heads() >= forward.threads
                      ? 1
                      : static_cast<int>(std::clamp<int64_t>(
                            2 * forward.threads / std::max<int64_t>(n.heads(), 1), 1,
                            std::max<int64_t>(blocks, 1)));
  Scratch counter(nullptr);
  const Forward::Buffers counted(n, forward.dropout.drops(), counter);
  const int64_t floats = counter.used();
  return {[forward, floats](const KernelMemory& memory) {
            float* const base = static_cast<float*>(memory.workspace);
            const bool drops = forward.dropout.drops();
            const DropoutView drawn = forward.dropout.of(memory, forward.n);
            parallel_items(forward.threads, forward.n.heads() * forward.parts,
                           [&](int64_t item, int thread) {
                             Scratch scratch(base + thread * floats);
                             forward.run_item(memory, drawn, item,
                                              Forward::Buffers(forward.n, drops, scratch));
                           });
          },
          forward.threads * floats * static_cast<int64_t>(sizeof(float))};
}

}  // namespace

void register_attention() {
  for (const char* op : {"attention", "attention_dropout"}) {
    register_kernel(Backend::kCpu, op,
                    {.prepare = prepare, .supports = supports, .strided_inputs = true});
  }
}

}  // namespace mstrain::cpu
