#include <algorithm>
#include <cmath>

#include "core/backends/reference/kernels.h"
#include "core/ops/block_code.h"
#include "core/ops/random_draw.h"
#include "core/ops/scalar_convert.h"

namespace mstrain::reference {
namespace {

// f(first element, count, random numbers) for each tensor of a batch; `leads` holds one row for each of them.
template <class F>
void for_each_of_batch(const Call& call, const Elements& leads, const F& f) {
  const int64_t width = leads.shape().back();
  const int64_t batch = call.in[0].count() == 0 ? 0 : leads.count() / width;
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t count = call.in[0].count() / batch;
    f(b, b * count, count);
  }
}

// The random words of one of a batch.
class Words {
 public:
  Words(const Call& call, int64_t b) {
    const Elements& keys = call.in[1];
    const int64_t width = keys.shape().back();
    uint32_t key[3] = {};
    for (int64_t i = 0; i < width; ++i) {
      key[i] = static_cast<uint32_t>(keys.integer(width * b + i));
    }
    stream_ = {{key[0], key[1]}, static_cast<uint64_t>(call.attrs.integer("site"))};
    first_ = first_element(key, width);
  }
  uint32_t word(int64_t i) const { return stream_.word(static_cast<uint64_t>(first_ + i)); }

 private:
  RandomStream stream_;
  int64_t first_;
};

void run_round(const Call& call) {
  for_each_of_batch(call, call.in[1], [&](int64_t b, int64_t first, int64_t count) {
    const Words random(call, b);
    for (int64_t i = 0; i < count; ++i) {
      const auto x = static_cast<float>(call.in[0].number(first + i));
      const uint16_t rounded = stochastic_bf16(x, random.word(i));
      call.out[0].set(first + i, static_cast<double>(scalar::from_bf16(rounded)));
    }
  });
}

void run_quantize(const Call& call) {
  const bool is_signed = call.attrs.flag("signed");
  const auto encode = is_signed ? BlockCode<true>::encode : BlockCode<false>::encode;
  const int64_t blocks = call.out[1].shape().back();
  for_each_of_batch(call, call.in[1], [&](int64_t b, int64_t first, int64_t count) {
    const Words random(call, b);
    const auto number = [&](int64_t i) {
      const auto x = static_cast<float>(call.in[0].number(first + i));
      return is_signed ? x : std::abs(x);
    };
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t end = std::min(count, (block + 1) * kCodeBlock);
      float most = 0;
      for (int64_t i = block * kCodeBlock; i < end; ++i) {
        const float x = std::abs(number(i));
        most = x <= most ? most : x;  // NaN stays
        if (std::isnan(x)) {
          most = x;
          break;
        }
      }
      const float scale = block_scale(most);
      call.out[1].set(b * blocks + block, static_cast<double>(scale));
      for (int64_t i = block * kCodeBlock; i < end; ++i) {
        call.out[0].set_integer(first + i, encode(number(i), scale, random.word(i)));
      }
    }
  });
}

void run_dequantize(const Call& call) {
  const auto decode =
      call.attrs.flag("signed") ? BlockCode<true>::decode : BlockCode<false>::decode;
  const int64_t blocks = call.in[1].shape().back();
  if (call.in[0].count() == 0) {
    return;
  }
  for_each_of_batch(call, call.in[1], [&](int64_t b, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const auto scale = static_cast<float>(call.in[1].number(b * blocks + i / kCodeBlock));
      const auto code = static_cast<uint8_t>(call.in[0].integer(first + i));
      call.out[0].set(first + i, static_cast<double>(decode(code, scale)));
    }
  });
}

}  // namespace

void register_rounding() {
  define<run_round>("stochastic_round");
  define<run_quantize>("quantize_blocks");
  define<run_dequantize>("dequantize_blocks");
}

}  // namespace mstrain::reference
