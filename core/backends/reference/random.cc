#include "core/backends/reference/kernels.h"
#include "core/ops/random_draw.h"

namespace mstrain::reference {
namespace {

void run(const Call& call) {
  const Elements& keys = call.in[0];
  const Elements& out = call.out[0];
  const std::string& kind = call.attrs.text("kind");
  const int64_t count = call.attrs.ints("shape").elements();
  for (int64_t k = 0; k < keys.count() / 2; ++k) {
    const RandomStream stream{{static_cast<uint32_t>(keys.integer(2 * k)),
                               static_cast<uint32_t>(keys.integer(2 * k + 1))},
                              static_cast<uint64_t>(call.attrs.integer("site"))};
    for (int64_t i = 0; i < count; ++i) {
      const auto index = static_cast<uint64_t>(i);
      const int64_t at = k * count + i;
      if (kind == "bits") {
        out.set_integer(at, stream.word(index));
      } else {
        out.set(at, kind == "normal" ? stream.normal(out.dtype(), index)
                                     : stream.uniform(out.dtype(), index));
      }
    }
  }
}

}  // namespace

void register_random() { define<run>("random"); }

}  // namespace mstrain::reference
