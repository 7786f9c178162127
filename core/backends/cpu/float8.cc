// encode_float8 and decode_float8, element by element; products are dot_general's, of the numbers in bf16.
#include "core/ops/float8.h"

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/parallel.h"
#include "core/ops/scalar_convert.h"

namespace mstrain::cpu {
namespace {

constexpr int64_t kPiece = 256;  // elements that no two threads share

template <class T, class Code>
void encode(const T* x, int64_t n, float per_unit, uint8_t* codes) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    float value = 0;
    if constexpr (std::is_same_v<T, BFloat16>) {
      value = scalar::from_bf16(x[i].bits);
    } else if constexpr (std::is_same_v<T, Float16>) {
      value = scalar::from_f16(x[i].bits);
    } else {
      value = static_cast<float>(x[i]);
    }
    codes[i] = Code::encode(value, per_unit);
  }
}

template <class T, class Code>
Kernel make_encode(const KernelRequest& request) {
  const int64_t batch = request.inputs[1].type.elements();
  const int64_t own = batch == 0 ? 0 : request.inputs[0].type.elements() / batch;
  const int threads = useful_threads(request.threads, (own + kPiece - 1) / kPiece, 4 * own);
  const auto margin = static_cast<int>(request.attrs.integer("margin"));
  return {[=](const KernelMemory& memory) {
    const auto* const expected = static_cast<const float*>(memory.inputs[1]);
    const auto* const most = static_cast<const float*>(memory.inputs[2]);
    for (int64_t b = 0; b < batch; ++b) {
      const float unit = Code::unit(expected[b], most[b], margin);
      static_cast<float*>(memory.outputs[1])[b] = unit;
      const T* const x = static_cast<const T*>(memory.inputs[0]) + b * own;
      auto* const codes = static_cast<uint8_t*>(memory.outputs[0]) + b * own;
      parallel_chunks(threads, own, kPiece, [&](int64_t begin, int64_t end, int) {
        encode<T, Code>(x + begin, end - begin, per_unit(unit), codes + begin);
      });
    }
  }};
}

Kernel prepare_encode(const KernelRequest& request) {
  return visit_float8(float8_of(request.attrs, "format"), [&](auto code) {
    using Code = decltype(code);
    switch (request.inputs[0].type.dtype) {
      case Dtype::kF64: return make_encode<double, Code>(request);
      case Dtype::kBF16: return make_encode<BFloat16, Code>(request);
      case Dtype::kF16: return make_encode<Float16, Code>(request);
      default: return make_encode<float, Code>(request);
    }
  });
}

Kernel prepare_decode(const KernelRequest& request) {
  const int64_t count = request.inputs[0].type.elements();
  const int threads = useful_threads(request.threads, (count + kPiece - 1) / kPiece, 2 * count);
  return visit_float8(float8_of(request.attrs, "format"), [&](auto code) -> Kernel {
    return {[=](const KernelMemory& memory) {
      const auto* const codes = static_cast<const uint8_t*>(memory.inputs[0]);
      auto* const numbers = static_cast<BFloat16*>(memory.outputs[0]);
      parallel_chunks(threads, count, kPiece, [&](int64_t begin, int64_t end, int) {
#pragma omp simd
        for (int64_t i = begin; i < end; ++i) {
          numbers[i].bits = scalar::to_bf16(decltype(code)::decode(codes[i]));
        }
      });
    }};
  });
}

}  // namespace

void register_float8() {
  register_kernel(table(), "encode_float8", {.prepare = prepare_encode});
  register_kernel(table(), "decode_float8", {.prepare = prepare_decode});
}

}  // namespace mstrain::cpu
