#include <vector>

#include "core/backends/reference/kernels.h"
#include "core/ops/random_draw.h"

namespace mstrain::reference {
namespace {

void run(const Call& call) {
  const Elements& keys = call.in[0];
  const Elements& out = call.out[0];
  const std::string& kind = call.attrs.text("kind");
  const Shape& shape = call.attrs.ints("shape");
  const int64_t count = shape.elements();
  const bool is_part = call.in.size() == 2;
  const Shape& whole = is_part ? call.attrs.ints("whole") : shape;
  std::vector<int32_t> offset(static_cast<size_t>(shape.rank()));
  for (int64_t k = 0; k < keys.count() / 2; ++k) {
    const RandomStream stream{{static_cast<uint32_t>(keys.integer(2 * k)),
                               static_cast<uint32_t>(keys.integer(2 * k + 1))},
                              static_cast<uint64_t>(call.attrs.integer("site"))};
    for (size_t dim = 0; is_part && dim < offset.size(); ++dim) {
      offset[dim] =
          static_cast<int32_t>(call.in[1].integer(k * shape.rank() + static_cast<int64_t>(dim)));
    }
    check_within(shape, whole, offset.data(), call.attrs);
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t index = whole_index(i, shape, whole, offset.data());
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
