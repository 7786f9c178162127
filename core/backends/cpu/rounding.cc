// stochastic_round, quantize_blocks and dequantize_blocks: threads take whole blocks.
#include "core/backends/cpu/code_blocks.h"
#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/parallel.h"

namespace mstrain::cpu {
namespace {

bool takes_f32(const KernelRequest& request) { return request.inputs[0].type.dtype == Dtype::kF32; }

// The tensors of a batch, each cut into blocks.
struct BlockGrid {
  int64_t batch = 0, elements = 0, blocks = 0;  // elements and blocks: of one of the batch
  int threads = 1;

  // `width`: elements of input 1 that belong to one of the batch.
  BlockGrid(const KernelRequest& request, int64_t width, int weight) {
    const int64_t count = request.inputs[0].type.elements();
    batch = count == 0 ? 0 : request.inputs[1].type.elements() / width;
    elements = batch == 0 ? 0 : count / batch;
    blocks = code_blocks(elements);
    threads = useful_threads(request.threads, batch * blocks, weight * count);
  }

  // f(which of the batch, block, first element of all, first of its own, count)
  template <class F>
  void for_each(const F& f) const {
    parallel_chunks(threads, batch * blocks, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t b = item / blocks;
        const int64_t own = item % blocks * kCodeBlock;
        f(b, item, b * elements + own, own, std::min(kCodeBlock, elements - own));
      }
    });
  }
};

Kernel prepare_round(const KernelRequest& request) {
  const int64_t words = request.inputs[1].type.shape.back();
  const BlockGrid grid(request, words, 8);
  return {[grid, words, site = request.attrs.integer("site")](const KernelMemory& memory) {
    const float* x = static_cast<const float*>(memory.inputs[0]);
    const uint32_t* key = static_cast<const uint32_t*>(memory.inputs[1]);
    BFloat16* y = static_cast<BFloat16*>(memory.outputs[0]);
    grid.for_each([&](int64_t b, int64_t, int64_t first, int64_t own, int64_t n) {
      const uint32_t* const its = key + words * b;
      round_block(n, x + first, BlockWords(first_element(its, words) + own, site, its), y + first);
    });
  }};
}

template <bool is_signed>
Kernel make_quantize(const KernelRequest& request) {
  const int64_t words = request.inputs[1].type.shape.back();
  const BlockGrid grid(request, words, 16);
  return {[grid, words, site = request.attrs.integer("site")](const KernelMemory& memory) {
    const float* x = static_cast<const float*>(memory.inputs[0]);
    const uint32_t* key = static_cast<const uint32_t*>(memory.inputs[1]);
    uint8_t* codes = static_cast<uint8_t*>(memory.outputs[0]);
    float* scales = static_cast<float*>(memory.outputs[1]);
    grid.for_each([&](int64_t b, int64_t item, int64_t first, int64_t own, int64_t n) {
      const uint32_t* const its = key + words * b;
      encode_block<is_signed>(n, x + first, BlockWords(first_element(its, words) + own, site, its),
                              codes + first, scales + item);
    });
  }};
}

Kernel prepare_quantize(const KernelRequest& request) {
  return request.attrs.flag("signed") ? make_quantize<true>(request)
                                      : make_quantize<false>(request);
}

template <bool is_signed>
Kernel make_dequantize(const KernelRequest& request) {
  const int64_t width = std::max<int64_t>(1, request.inputs[1].type.shape.back());
  const BlockGrid grid(request, width, 4);
  return {[grid](const KernelMemory& memory) {
    const uint8_t* codes = static_cast<const uint8_t*>(memory.inputs[0]);
    const float* scales = static_cast<const float*>(memory.inputs[1]);
    float* x = static_cast<float*>(memory.outputs[0]);
    grid.for_each([&](int64_t, int64_t item, int64_t first, int64_t, int64_t n) {
      decode_block<is_signed>(n, codes + first, scales[item], x + first);
    });
  }};
}

Kernel prepare_dequantize(const KernelRequest& request) {
  return request.attrs.flag("signed") ? make_dequantize<true>(request)
                                      : make_dequantize<false>(request);
}

}  // namespace

void register_rounding() {
  register_kernel(table(), "stochastic_round", {.prepare = prepare_round, .supports = takes_f32});
  register_kernel(table(), "quantize_blocks", {.prepare = prepare_quantize, .supports = takes_f32});
  register_kernel(table(), "dequantize_blocks", {.prepare = prepare_dequantize});
}

}  // namespace mstrain::cpu
