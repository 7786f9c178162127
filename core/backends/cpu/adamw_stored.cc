// The update of AdamW on states in fewer bits: each block is read, widened, updated and stored again while it lies in the
// first cache, so that memory is passed over once.
#include <cmath>
#include <cstring>

#include "core/backends/cpu/code_blocks.h"
#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/parallel.h"
#include "core/ops/adamw_stored.h"

namespace mstrain::cpu {
namespace {

constexpr size_t kScalars = 6;
enum Position : size_t { kValue, kGradient, kM, kV, kScales };

bool supports(const KernelRequest& request) {
  return request.inputs[kGradient].type.dtype != Dtype::kF64;
}

// Of the random numbers, and where in a larger tensor they begin.
struct Key {
  const uint32_t* words;
  int64_t first;
};

// A block of one tensor in f32, and back.
class Stored {
 public:
  Stored(Dtype dtype, int64_t site) : dtype_(dtype), site_(site) {
    load_ = dtype == Dtype::kU8 ? nullptr : loops().elementwise->load[static_cast<int>(dtype)];
  }

  // The block's elements: where they stand, or converted to `room`.
  template <bool is_signed>
  const float* load(int64_t n, int64_t first, const void* memory, const float* scales,
                    float* room) const {
    const std::byte* from = static_cast<const std::byte*>(memory) + first * size_of(dtype_);
    if (dtype_ == Dtype::kF32) {
      return reinterpret_cast<const float*>(from);
    }
    if (dtype_ == Dtype::kU8) {
      decode_block<is_signed>(n, reinterpret_cast<const uint8_t*>(from), scales[first / kCodeBlock],
                              room);
    } else {
      load_(n, from, room);
    }
    return room;
  }

  template <bool is_signed>
  void store(int64_t n, int64_t first, const float* x, const Key& key, void* memory,
             float* scales) const {
    std::byte* to = static_cast<std::byte*>(memory) + first * size_of(dtype_);
    if (dtype_ == Dtype::kF32) {
      std::memcpy(to, x, static_cast<size_t>(n) * sizeof(float));
    } else if (dtype_ == Dtype::kU8) {
      encode_block<is_signed>(n, x, BlockWords(key.first + first, site_, key.words),
                              reinterpret_cast<uint8_t*>(to), scales + first / kCodeBlock);
    } else {
      round_block(n, x, BlockWords(key.first + first, site_, key.words),
                  reinterpret_cast<BFloat16*>(to));
    }
  }

 private:
  Dtype dtype_;
  int64_t site_;
  ConvertLoop load_ = nullptr;
};

struct Update {
  int64_t elements = 0;
  int64_t key_words = 2;
  int threads = 1;
  bool blocks = false;
  AdamwFactors factors{};
  float most = 0;  // of a first moment in codes, in roots of the second
  Stored value, gradient, m, v;
  ConvertLoop copy = nullptr;
  int copy_bytes = 0;
  std::vector<size_t> bytes;  // of the outputs that are also inputs

  explicit Update(const KernelRequest& request)
      : value(request.inputs[kValue].type.dtype, request.attrs.integer("site")),
        gradient(request.inputs[kGradient].type.dtype, 0),
        m(request.inputs[kM].type.dtype, request.attrs.integer("site") + 1),
        v(request.inputs[kV].type.dtype, request.attrs.integer("site") + 2) {
    elements = request.inputs[kValue].type.elements();
    blocks = request.inputs[kM].type.dtype == Dtype::kU8;
    key_words = request.inputs.back().type.elements();
    threads = useful_threads(request.threads, code_blocks(elements), 16 * elements);
    factors.beta1 = request.attrs.number("beta1");
    factors.beta2 = request.attrs.number("beta2");
    factors.eps = request.attrs.number("eps");
    factors.weight_decay = request.attrs.number("weight_decay");
    most = static_cast<float>(most_of_first_moment(factors.beta1, factors.beta2));
    if (const Dtype dtype = request.attrs.dtype("copy"); dtype != Dtype::kF32) {
      copy = loops().elementwise->store[static_cast<int>(Lane::kF32)][static_cast<int>(dtype)];
      copy_bytes = size_of(dtype);
    }
    for (size_t i = 0; i < kept(); ++i) {
      bytes.push_back(static_cast<size_t>(request.outputs[i].type.bytes()));
    }
  }

  // Outputs that take the place of inputs: value, m, v and their scales.
  size_t kept() const { return blocks ? 5 : 3; }
  static size_t input_of(size_t output) { return output == 0 ? size_t{kValue} : output + 1; }

  void block(int64_t first, const AdamwFactors& f, const KernelMemory& memory) const {
    alignas(64) float rooms[7][kCodeBlock];
    const int64_t n = std::min(kCodeBlock, elements - first);
    const auto& in = memory.inputs;
    const auto& out = memory.outputs;
    const auto scales_in = [&](size_t i) {
      return blocks ? static_cast<const float*>(in[kScales + i]) : nullptr;
    };
    const auto scales_out = [&](size_t i) {
      return blocks ? static_cast<float*>(out[3 + i]) : nullptr;
    };
    const auto* const words = static_cast<const uint32_t*>(in[in.size() - 1]);
    const Key key{words, first_element(words, key_words)};
    const float* const old_m = m.load<true>(n, first, in[kM], scales_in(0), rooms[2]);
    const float* const old_v = v.load<false>(n, first, in[kV], scales_in(1), rooms[3]);
    if (blocks && std::isfinite(most)) {
      loops().other->limit_moment(n, most, old_v, rooms[2]);
    }
    loops().other->adamw(n, f, value.load<true>(n, first, in[kValue], nullptr, rooms[0]),
                         gradient.load<true>(n, first, in[kGradient], nullptr, rooms[1]), old_m,
                         old_v, rooms[4], rooms[5], rooms[6]);
    value.store<true>(n, first, rooms[4], key, out[0], nullptr);
    m.store<true>(n, first, rooms[5], key, out[1], scales_out(0));
    v.store<false>(n, first, rooms[6], key, out[2], scales_out(1));
    if (copy != nullptr) {
      write_copy(n, first, rooms[4], memory);
    }
  }

  // The value, f32, in its other type.
  void write_copy(int64_t n, int64_t first, const float* x, const KernelMemory& memory) const {
    copy(n, x, static_cast<std::byte*>(memory.outputs[kept()]) + first * copy_bytes);
  }

  // A step that is not taken.
  void keep(const KernelMemory& memory) const {
    for (size_t i = 0; i < kept(); ++i) {
      if (memory.outputs[i] != memory.inputs[input_of(i)] && bytes[i] > 0) {
        std::memcpy(memory.outputs[i], memory.inputs[input_of(i)], bytes[i]);
      }
    }
    for (int64_t first = 0; copy != nullptr && first < elements; first += kCodeBlock) {
      write_copy(std::min(kCodeBlock, elements - first), first,
                 static_cast<const float*>(memory.outputs[0]) + first, memory);
    }
  }

  void run(const KernelMemory& memory) const {
    const auto scalars = memory.inputs.last(kScalars);
    if (!*static_cast<const bool*>(scalars[4])) {
      keep(memory);
      return;
    }
    AdamwFactors f = factors;
    f.lr = *static_cast<const float*>(scalars[0]);
    f.grad_scale = *static_cast<const float*>(scalars[1]);
    f.correction1 = *static_cast<const float*>(scalars[2]);
    f.correction2 = *static_cast<const float*>(scalars[3]);
    parallel_chunks(threads, code_blocks(elements), 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        block(i * kCodeBlock, f, memory);
      }
    });
  }
};

Kernel prepare(const KernelRequest& request) {
  const Update update(request);
  Kernel kernel;
  for (size_t i = 0; i < update.kept(); ++i) {
    kernel.in_place.push_back({static_cast<int>(i), static_cast<int>(Update::input_of(i))});
  }
  kernel.run = [update](const KernelMemory& memory) { update.run(memory); };
  return kernel;
}

}  // namespace

void register_adamw_stored() {
  register_kernel(table(), "adamw_stored", {.prepare = prepare, .supports = supports});
}

}  // namespace mstrain::cpu
