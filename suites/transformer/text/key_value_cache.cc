#include "suites/transformer/text/key_value_cache.h"

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/shape.h"

namespace mstrain {

void KeyValueCache::extend(size_t layer, const Tensor& key_bthd, const Tensor& value_bthd,
                           const Tensor& positions_bt, KeyValueCache& longer) const {
  const auto extended = [&](const Tensor& kept_bshd, const Tensor& x_bthd) {
    const int64_t b = x_bthd.dim(0);
    const int64_t t = x_bthd.dim(1);
    const Tensor slots_bt =
        reshape(row_offsets(b, kept_bshd.dim(1)), {b, 1}) + reshape(positions_bt, {b, t});
    // The slot is zero, so that adding, which happens in place, sets it.
    return reshape(
        scatter_add(flatten(kept_bshd, 0, 1), flatten(slots_bt, 0, 1), flatten(x_bthd, 0, 1), 0),
        kept_bshd.shape());
  };
  longer.keys.push_back(extended(keys.at(layer), key_bthd));
  longer.values.push_back(extended(values.at(layer), value_bthd));
}

KeyValueCache KeyValueCache::with(const KeyValueCache& other, const Tensor& rows_m) const {
  KeyValueCache out;
  for (size_t i = 0; i < keys.size(); ++i) {
    out.keys.push_back(scatter_set(keys[i], rows_m, other.keys[i], 0));
    out.values.push_back(scatter_set(values[i], rows_m, other.values[i], 0));
  }
  return out;
}

KeyValueCache KeyValueCache::rows(const Tensor& rows_m) const {
  KeyValueCache out;
  for (size_t i = 0; i < keys.size(); ++i) {
    out.keys.push_back(gather(keys[i], rows_m, 0));
    out.values.push_back(gather(values[i], rows_m, 0));
  }
  return out;
}

Context for_inference() {
  Context context = current_context();
  context.training = false;
  return context;
}

int64_t length_bucket(int64_t length, int64_t sequences) {
  int64_t bucket = sequences == 1 ? 64 : 16;
  while (bucket < length) {
    bucket *= 2;
  }
  return bucket;
}

Tensor row_offsets(int64_t rows, int64_t stride) { return iota({rows}, 0) * stride; }

}  // namespace mstrain
