// random: u32 bits, and uniform and normal f32, from blocks of four Philox words. core/ops/random_draw.h defines them.
#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/parallel.h"

namespace mstrain::cpu {
namespace {

bool supports(const KernelRequest& request) {
  const Dtype dtype = request.outputs[0].type.dtype;
  return dtype == Dtype::kF32 || dtype == Dtype::kU32;
}

Kernel prepare(const KernelRequest& request) {
  constexpr int64_t kBlocks = kTile / 4;
  const int64_t keys = request.inputs[0].type.elements() / 2;
  const int64_t count = request.attrs.ints("shape").elements();
  const auto site = static_cast<uint64_t>(request.attrs.integer("site"));
  const std::string& kind = request.attrs.text("kind");
  const bool bits = kind == "bits";
  const bool normal = kind == "normal";
  const int64_t words_each = normal ? 2 : 1;
  const int64_t tile = kTile / words_each;  // elements from kBlocks blocks
  const int64_t tiles = (count + tile - 1) / tile;
  const int threads = useful_threads(request.threads, keys * tiles, 8 * keys * count);
  return {[=](const KernelMemory& memory) {
    const uint32_t* key = static_cast<const uint32_t*>(memory.inputs[0]);
    uint32_t* out = static_cast<uint32_t*>(memory.outputs[0]);
    parallel_chunks(threads, keys * tiles, 1, [&](int64_t begin, int64_t end, int) {
      alignas(64) uint32_t words[kTile];
      alignas(64) float numbers[kTile];
      for (int64_t item = begin; item < end; ++item) {
        const int64_t k = item / tiles;
        const int64_t first = item % tiles * tile;
        const int64_t n = std::min(tile, count - first);
        loops().other->philox(kBlocks, static_cast<uint64_t>(first * words_each / 4), site,
                              key + 2 * k, words);
        uint32_t* to = out + k * count + first;
        if (bits) {
          std::copy_n(words, n, to);
          continue;
        }
        (normal ? loops().other->to_normal : loops().other->to_uniform)(n, words, numbers);
        std::copy_n(numbers, n, reinterpret_cast<float*>(to));
      }
    });
  }};
}

}  // namespace

void register_random() {
  register_kernel(Backend::kCpu, "random", {.prepare = prepare, .supports = supports});
}

}  // namespace mstrain::cpu
