// Updates of AdamW, random numbers, and transposes of other types than floats.
#include "core/backends/cpu/vector/isa.h"
// Other headers after it.
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/vector/transpose.h"

namespace mstrain::cpu::MSTRAIN_ISA {
namespace {

void adamw(int64_t n, const AdamwFactors& f, const float* p, const float* g, const float* m,
           const float* v, float* new_p, float* new_m, float* new_v) {
  const float keep1 = static_cast<float>(f.beta1);
  const float take1 = static_cast<float>(1 - f.beta1);
  const float keep2 = static_cast<float>(f.beta2);
  const float take2 = static_cast<float>(1 - f.beta2);
  const float eps = static_cast<float>(f.eps);
  const float decay = static_cast<float>(f.weight_decay);
  const float lr = f.lr;
  const float grad_scale = f.grad_scale;
  const float inverse1 = 1.0F / f.correction1;
  const float inverse2 = 1.0F / f.correction2;
  MSTRAIN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const float gs = g[i] * grad_scale;
    const float mi = keep1 * m[i] + take1 * gs;
    const float vi = keep2 * v[i] + take2 * (gs * gs);
    new_m[i] = mi;
    new_v[i] = vi;
    new_p[i] = p[i] - lr * (mi * inverse1 / (std::sqrt(vi * inverse2) + eps) + decay * p[i]);
  }
}

void limit_moment(int64_t n, float most, const float* v, float* m) {
  MSTRAIN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const float limit = most * std::sqrt(v[i]);
    m[i] = m[i] > limit ? limit : m[i] < -limit ? -limit : m[i];
  }
}

void philox(int64_t blocks, uint64_t first, uint64_t stream, const uint32_t* key, uint32_t* words) {
  const uint32_t s0 = static_cast<uint32_t>(stream);
  const uint32_t s1 = static_cast<uint32_t>(stream >> 32);
  const uint32_t key0 = key[0];
  const uint32_t key1 = key[1];
  MSTRAIN_INDEPENDENT
  for (int64_t i = 0; i < blocks; ++i) {
    const uint64_t index = first + static_cast<uint64_t>(i);
    uint32_t c0 = static_cast<uint32_t>(index);
    uint32_t c1 = static_cast<uint32_t>(index >> 32);
    uint32_t c2 = s0;
    uint32_t c3 = s1;
    uint32_t k0 = key0;
    uint32_t k1 = key1;
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53U} * c0;
      const uint64_t p1 = uint64_t{0xCD9E8D57U} * c2;
      c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c1 = static_cast<uint32_t>(p1);
      c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c3 = static_cast<uint32_t>(p0);
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    words[4 * i] = c0;
    words[4 * i + 1] = c1;
    words[4 * i + 2] = c2;
    words[4 * i + 3] = c3;
  }
}

void to_uniform(int64_t n, const uint32_t* words, float* y) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = static_cast<float>(static_cast<int32_t>(words[i] >> 8)) * 0x1p-24F;
  }
}

// sqrt(-2 ln(1 - u)) cos(2πv): v in quarter turns is reduced without error.
MSTRAIN_FLATTEN void to_normal(int64_t n, const uint32_t* words, float* y) {
  constexpr float kRound = 0x1.8p23F;
  for (int64_t i = 0; i < n; ++i) {
    const float u = static_cast<float>(static_cast<int32_t>(words[2 * i] >> 8)) * 0x1p-24F;
    const float quarters =
        static_cast<float>(static_cast<int32_t>(words[2 * i + 1] >> 8)) * 0x1p-22F;
    const float shifted = quarters + kRound;
    const float angle = (quarters - (shifted - kRound)) * 1.5707963267948966F;
    const float cosine = scalar::detail::sin_or_cos(angle, scalar::detail::bits_of(shifted) + 1);
    y[i] = std::sqrt(-2.0F * scalar::log<float>(1.0F - u)) * cosine;
  }
}

}  // namespace

extern const OtherLoops kOtherLoops;
const OtherLoops kOtherLoops = {adamw,  limit_moment, transpose32, transpose64,
                                philox, to_uniform,   to_normal};

}  // namespace mstrain::cpu::MSTRAIN_ISA
