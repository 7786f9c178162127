#include "core/ops/float8.h"

#include "core/backends/reference/kernels.h"

namespace mstrain::reference {
namespace {

void run_encode(const Call& call) {
  const auto margin = static_cast<int>(call.attrs.integer("margin"));
  visit_float8(float8_of(call.attrs, "format"), [&](auto code) {
    const int64_t batch = call.in[1].count();
    const int64_t own = batch == 0 ? 0 : call.in[0].count() / batch;
    for (int64_t b = 0; b < batch; ++b) {
      const auto expected = static_cast<float>(call.in[1].number(b));
      const auto most = static_cast<float>(call.in[2].number(b));
      const float unit = code.unit(expected, most, margin);
      call.out[1].set(b, static_cast<double>(unit));
      for (int64_t i = b * own; i < (b + 1) * own; ++i) {
        const auto x = static_cast<float>(call.in[0].number(i));
        call.out[0].set_integer(i, code.encode(x, per_unit(unit)));
      }
    }
  });
}

void run_decode(const Call& call) {
  visit_float8(float8_of(call.attrs, "format"), [&](auto code) {
    for (int64_t i = 0; i < call.in[0].count(); ++i) {
      const auto bits = static_cast<uint8_t>(call.in[0].integer(i));
      call.out[0].set(i, static_cast<double>(code.decode(bits)));
    }
  });
}

}  // namespace

void register_float8() {
  define<run_encode>("encode_float8");
  define<run_decode>("decode_float8");
}

}  // namespace mstrain::reference
