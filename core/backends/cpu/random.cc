// random: u32 bits, and uniform and normal f32, from blocks of four Philox words. core/ops/random_draw.h defines them.
#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/parallel.h"
#include "core/ops/random_draw.h"

namespace mstrain::cpu {
namespace {

bool supports(const KernelRequest& request) {
  const Dtype dtype = request.outputs[0].type.dtype;
  return dtype == Dtype::kF32 || dtype == Dtype::kU32;
}

// Elements that are neighbours in the part and in the whole: those of the last dims, as far as the part has them whole.
int64_t elements_of_run(const Shape& shape, const Shape& whole) {
  int64_t run = 1;
  for (int dim = shape.rank(); dim-- > 0;) {
    run *= shape[dim];
    if (shape[dim] != whole[dim]) {
      break;
    }
  }
  return run;
}

Kernel prepare(const KernelRequest& request) {
  const int64_t keys = request.inputs[0].type.elements() / 2;
  const Shape shape = request.attrs.ints("shape");
  const bool is_part = request.inputs.size() == 2;
  const Shape whole = is_part ? request.attrs.ints("whole") : shape;
  const int64_t count = shape.elements();
  const int64_t run = elements_of_run(shape, whole);
  const int64_t runs = count == 0 ? 0 : count / run;
  const auto site = static_cast<uint64_t>(request.attrs.integer("site"));
  const std::string& kind = request.attrs.text("kind");
  const bool bits = kind == "bits";
  const bool normal = kind == "normal";
  const int64_t words_each = normal ? 2 : 1;
  // A run's words, from the block on in which it begins, in tiles of kTile words.
  const int64_t tiles = (run * words_each + (is_part ? 3 : 0) + kTile - 1) / kTile;
  const int threads = useful_threads(request.threads, keys * runs * tiles, 8 * keys * count);
  const std::vector<int32_t> no_offset(static_cast<size_t>(shape.rank()), 0);
  return {[=](const KernelMemory& memory) {
    const uint32_t* key = static_cast<const uint32_t*>(memory.inputs[0]);
    uint32_t* out = static_cast<uint32_t*>(memory.outputs[0]);
    const auto offset = [&](int64_t k) {
      return is_part ? static_cast<const int32_t*>(memory.inputs[1]) + k * shape.rank()
                     : no_offset.data();
    };
    for (int64_t k = 0; is_part && k < keys; ++k) {
      check_within(shape, whole, offset(k));
    }
    parallel_chunks(threads, keys * runs * tiles, 1, [&](int64_t begin, int64_t end, int) {
      alignas(64) uint32_t words[kTile];
      alignas(64) float numbers[kTile];
      for (int64_t item = begin; item < end; ++item) {
        const int64_t k = item / (runs * tiles);
        const int64_t first = item / tiles % runs * run;  // of the run, in the part
        const auto start =
            static_cast<int64_t>(whole_index(first, shape, whole, offset(k))) * words_each;
        const int64_t tile = start / 4 * 4 + item % tiles * kTile;
        const int64_t from = std::max(tile, start);
        const int64_t to = std::min(tile + kTile, start + run * words_each);
        if (from >= to) {
          continue;
        }
        loops().other->philox((to - tile + 3) / 4, static_cast<uint64_t>(tile / 4), site,
                              key + 2 * k, words);
        const uint32_t* drawn = words + (from - tile);
        const int64_t n = (to - from) / words_each;
        uint32_t* result = out + k * count + first + (from - start) / words_each;
        if (bits) {
          std::copy_n(drawn, n, result);
          continue;
        }
        (normal ? loops().other->to_normal : loops().other->to_uniform)(n, drawn, numbers);
        std::copy_n(numbers, n, reinterpret_cast<float*>(result));
      }
    });
  }};
}

}  // namespace

void register_random() {
  register_kernel(Backend::kCpu, "random", {.prepare = prepare, .supports = supports});
}

}  // namespace mstrain::cpu
