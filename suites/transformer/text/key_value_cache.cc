#include "suites/transformer/text/key_value_cache.h"

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/shape.h"

namespace mstrain {

void KeyValueCache::extend(size_t layer, const Tensor& key_bthd, const Tensor& value_bthd,
                           const Tensor& positions_b, KeyValueCache& longer) const {
  const auto extended = [&](const Tensor& kept_bshd, const Tensor& x_bthd) {
    const Tensor slots_b = row_offsets(kept_bshd.dim(0), kept_bshd.dim(1)) + positions_b;
    // The slot is zero, so that adding, which happens in place, sets it.
    return reshape(scatter_add(flatten(kept_bshd, 0, 1), slots_b, flatten(x_bthd, 0, 1), 0),
                   kept_bshd.shape());
  };
  longer.keys.push_back(extended(keys.at(layer), key_bthd));
  longer.values.push_back(extended(values.at(layer), value_bthd));
}

Context for_inference() {
  Context context = current_context();
  context.training = false;
  return context;
}

int64_t length_bucket(int64_t length) {
  int64_t bucket = 64;
  while (bucket < length) {
    bucket *= 2;
  }
  return bucket;
}

Tensor row_offsets(int64_t rows, int64_t stride) { return iota({rows}, 0) * stride; }

}  // namespace mstrain
