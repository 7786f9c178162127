// Products without epilogues; those with are decomposed.
#include "core/ops/dot_general.h"

#include <numeric>

#include "core/backends/reference/kernels.h"
#include "core/ops/scalar_math.h"

namespace mstrain::reference {
namespace {

// An element of x by an index over the dims `all`, which has every letter of x.
class Picked {
 public:
  Picked(const Elements& x, const std::string& letters, const std::string& all)
      : x_(x), strides_(all.size(), 0) {
    for (size_t axis = 0; axis < letters.size(); ++axis) {
      strides_[all.find(letters[axis])] += x.stride(static_cast<int>(axis));
    }
  }
  double number(std::span<const int64_t> index) const { return x_.number_past(offset(index)); }
  int64_t integer(std::span<const int64_t> index) const { return x_.integer_past(offset(index)); }

 private:
  int64_t offset(std::span<const int64_t> index) const {
    return std::inner_product(strides_.begin(), strides_.end(), index.begin(), int64_t{0});
  }

  const Elements& x_;
  std::vector<int64_t> strides_;  // of x, along each of all dims
};

void run(const Call& call) {
  const Elements& out = call.out[0];
  const DotDims dims = dot_dims(call.attrs);
  std::string summed;
  Shape sizes;
  for (size_t i = 0; i < dims.a.size(); ++i) {
    if (dims.out.find(dims.a[i]) == std::string::npos) {
      summed.push_back(dims.a[i]);
      sizes.push_back(call.in[0].dim(static_cast<int>(i)));
    }
  }
  const Picked a(call.in[0], dims.a, dims.out + summed);
  const Picked b(call.in[1], dims.b, dims.out + summed);
  std::vector<int64_t> index(dims.out.size() + summed.size());
  for_each_index(out.shape(), [&](const Shape& outer, int64_t position) {
    std::copy(outer.begin(), outer.end(), index.begin());
    double number = 0;
    int64_t integer = 0;
    for_each_index(sizes, [&](const Shape& inner, int64_t) {
      std::copy(inner.begin(), inner.end(), index.begin() + outer.rank());
      if (is_floating(out.dtype())) {
        number += a.number(index) * b.number(index);
      } else {
        integer = scalar::add(integer, scalar::mul(a.integer(index), b.integer(index)));
      }
    });
    if (is_floating(out.dtype())) {
      out.set(position, number);
    } else {
      out.set_integer(position, integer);
    }
  });
}

bool is_plain(const KernelRequest& request) { return epilogues_of(request.attrs).empty(); }

}  // namespace

void register_dot_general() {
  register_kernel(table(), "dot_general",
                  {.prepare = prepare<run>, .supports = is_plain, .strided_inputs = true});
}

}  // namespace mstrain::reference
