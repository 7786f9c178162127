#include "suites/transformer/text/window_cache.h"

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/shape.h"
#include "suites/transformer/text/key_value_cache.h"

namespace mstrain {
namespace {

Tensor column(const Tensor& x_b) { return reshape(x_b, {x_b.dim(0), 1}); }

// Where elements places[b, m] of the n of each row lie among those of all rows.
Tensor joined_places(const Tensor& places_bm, int64_t n) {
  return flatten(places_bm + column(row_offsets(places_bm.dim(0), n)), 0, 1);
}

// x[b, n, …] at places[b, m] of its rows.
Tensor at_places(const Tensor& x_bnhd, const Tensor& places_bm) {
  return reshape(gather(flatten(x_bnhd, 0, 1), joined_places(places_bm, x_bnhd.dim(1)), 0),
                 {x_bnhd.dim(0), places_bm.dim(1), x_bnhd.dim(2), x_bnhd.dim(3)});
}

}  // namespace

Tensor ring_of(const Tensor& x_bnhd, const Tensor& first_b, const Tensor& last_b, int64_t slots) {
  const Tensor behind_bs = remainder(column(last_b) - iota({last_b.dim(0), slots}, 1), slots);
  return at_places(x_bnhd, maximum(column(last_b) - behind_bs - column(first_b), 0));
}

Tensor ring_with(const Tensor& ring_bshd, const Tensor& x_b1hd, const Tensor& positions_b) {
  const int64_t slots = ring_bshd.dim(1);
  return reshape(scatter_set(flatten(ring_bshd, 0, 1),
                             joined_places(column(remainder(positions_b, slots)), slots),
                             flatten(x_b1hd, 0, 1), 0),
                 ring_bshd.shape());
}

Tensor ring_holds(const Tensor& last_b, int64_t slots) {
  return less_equal(iota({last_b.dim(0), slots}, 1), column(last_b));
}

Tensor unrolled(const Tensor& ring_bshd, const Tensor& x_bthd, const Tensor& starts_b) {
  const int64_t slots = ring_bshd.dim(1);
  const Tensor oldest_first =
      remainder(column(starts_b) + iota({starts_b.dim(0), slots}, 1), slots);
  const Tensor parts[] = {at_places(ring_bshd, oldest_first), x_bthd};
  return concat(parts, 1);
}

}  // namespace mstrain
