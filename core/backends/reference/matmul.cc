#include "core/backends/reference/kernels.h"
#include "core/ops/scalar_math.h"

namespace mstrain::reference {
namespace {

void run(const Call& call) {
  const Elements& a = call.in[0];
  const Elements& b = call.in[1];
  const Elements& out = call.out[0];
  const int row = out.rank() - 2;
  const int column = out.rank() - 1;
  const int a_row = call.attrs.flag("transpose_a") ? column : row;
  const int a_inner = call.attrs.flag("transpose_a") ? row : column;
  const int b_inner = call.attrs.flag("transpose_b") ? column : row;
  const int b_column = call.attrs.flag("transpose_b") ? row : column;
  for_each_index(out.shape(), [&](const Shape& index, int64_t position) {
    Shape at_a = index;
    Shape at_b = index;
    at_a[a_row] = index[row];
    at_b[b_column] = index[column];
    double number = 0;
    int64_t integer = 0;
    for (int64_t k = 0; k < a.dim(a_inner); ++k) {
      at_a[a_inner] = k;
      at_b[b_inner] = k;
      if (is_floating(out.dtype())) {
        number += a.number_at(at_a) * b.number_at(at_b);
      } else {
        integer = scalar::add(integer, scalar::mul(a.integer_at(at_a), b.integer_at(at_b)));
      }
    }
    if (is_floating(out.dtype())) {
      out.set(position, number);
    } else {
      out.set_integer(position, integer);
    }
  });
}

}  // namespace

void register_matmul() { define<run>("matmul"); }

}  // namespace mstrain::reference
