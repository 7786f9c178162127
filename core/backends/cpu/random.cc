// random: bits, uniform and normal numbers from blocks of four Philox words. core/ops/random_draw.h defines them.
#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/parallel.h"
#include "core/ops/random_draw.h"

namespace mstrain::cpu {
namespace {

// Makes n numbers from their words, which it may change. n * words of each <= kTile.
using Convert = void (*)(int64_t n, uint32_t* words, void* result);

void keep_bits(int64_t n, uint32_t* words, void* result) {
  std::copy_n(words, n, static_cast<uint32_t*>(result));
}

// By f32, which the narrow types round once. A narrow uniform number keeps as many bits of its word as it has, so that it is
// not rounded at all.
template <class T, bool normal>
void convert(int64_t n, uint32_t* words, void* result) {
  alignas(64) float numbers[kTile];
  if constexpr (normal) {
    loops().other->to_normal(n, words, numbers);
  } else {
    if constexpr (sizeof(T) == 2) {
      constexpr uint32_t kKept = std::is_same_v<T, Float16> ? 0xffe00000U : 0xff000000U;
      std::for_each_n(words, n, [](uint32_t& word) { word &= kKept; });
    }
    loops().other->to_uniform(n, words, numbers);
  }
  std::transform(numbers, numbers + n, static_cast<T*>(result), [](float x) { return T(x); });
}

// f64 is for oracles and short vectors of parameters: functions of the standard library.
template <bool normal>
void convert_wide(int64_t n, uint32_t* words, void* result) {
  const auto fraction = [&](int64_t word) {
    return to_unit_double(words[word] | (uint64_t{words[word + 1]} << 32));
  };
  for (int64_t i = 0; i < n; ++i) {
    static_cast<double*>(result)[i] =
        normal ? normal_of(fraction(4 * i), fraction(4 * i + 2)) : fraction(2 * i);
  }
}

struct Numbers {
  int words = 1;  // of each
  Convert convert = nullptr;
};

Numbers numbers_of(const std::string& kind, Dtype dtype) {
  if (kind == "bits") {
    return {1, keep_bits};
  }
  const bool normal = kind == "normal";
  const int words = normal ? 2 : 1;
  switch (dtype) {
    case Dtype::kF64: return {2 * words, normal ? convert_wide<true> : convert_wide<false>};
    case Dtype::kF16: return {words, normal ? convert<Float16, true> : convert<Float16, false>};
    case Dtype::kBF16: return {words, normal ? convert<BFloat16, true> : convert<BFloat16, false>};
    default: return {words, normal ? convert<float, true> : convert<float, false>};
  }
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
  const Dtype dtype = request.outputs[0].type.dtype;
  const Numbers numbers = numbers_of(request.attrs.text("kind"), dtype);
  const int64_t words_each = numbers.words;
  const int64_t size = size_of(dtype);
  // A run's words, from the block on in which it begins, in tiles of kTile words.
  const int64_t tiles = (run * words_each + (is_part ? 3 : 0) + kTile - 1) / kTile;
  const int threads = useful_threads(request.threads, keys * runs * tiles, 8 * keys * count);
  const std::vector<int32_t> no_offset(static_cast<size_t>(shape.rank()), 0);
  return {[=, attrs = request.attrs](const KernelMemory& memory) {
    const uint32_t* key = static_cast<const uint32_t*>(memory.inputs[0]);
    std::byte* const out = static_cast<std::byte*>(memory.outputs[0]);
    const auto offset = [&](int64_t k) {
      return is_part ? static_cast<const int32_t*>(memory.inputs[1]) + k * shape.rank()
                     : no_offset.data();
    };
    for (int64_t k = 0; is_part && k < keys; ++k) {
      check_within(shape, whole, offset(k), attrs);
    }
    parallel_chunks(threads, keys * runs * tiles, 1, [&](int64_t begin, int64_t end, int) {
      alignas(64) uint32_t words[kTile];
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
        const int64_t at = k * count + first + (from - start) / words_each;
        numbers.convert((to - from) / words_each, words + (from - tile), out + at * size);
      }
    });
  }};
}

}  // namespace

void register_random() { register_kernel(table(), "random", {.prepare = prepare}); }

}  // namespace mstrain::cpu
