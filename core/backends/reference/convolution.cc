#include "core/backends/reference/kernels.h"
#include "core/ops/conv.h"

namespace mstrain::reference {
namespace {

// f(x's index, weight's index, result's index) for every product of a convolution.
template <class F>
void for_each_product(const ConvSizes& n, F&& f) {
  const int64_t channels = n.c / n.groups;
  const Shape taps{n.o, channels, n.kh, n.kw};
  for_each_index({n.n, n.oh, n.ow}, [&](const Shape& at, int64_t) {
    for_each_index(taps, [&](const Shape& tap, int64_t) {
      const int64_t group = tap[0] / (n.o / n.groups);
      const int64_t y = at[1] * n.stride_y - n.top + tap[2] * n.dilation_y;
      const int64_t x = at[2] * n.stride_x - n.left + tap[3] * n.dilation_x;
      if (y >= 0 && y < n.h && x >= 0 && x < n.w) {
        f(Shape{at[0], group * channels + tap[1], y, x}, tap, Shape{at[0], tap[0], at[1], at[2]});
      }
    });
  });
}

// Sums in double for every element of a result.
class Sums {
 public:
  explicit Sums(const Elements& out) : out_(out), sums_(static_cast<size_t>(out.count()), 0) {}
  void add(const Shape& index, double value) {
    sums_[static_cast<size_t>(position_of(out_.shape(), index))] += value;
  }
  void store() const {
    for (size_t i = 0; i < sums_.size(); ++i) {
      out_.set(static_cast<int64_t>(i), sums_[i]);
    }
  }

 private:
  const Elements& out_;
  std::vector<double> sums_;
};

void run_conv(const Call& call) {
  const Elements& x = call.in[0];
  const Elements& weight = call.in[1];
  Sums sums(call.out[0]);
  for_each_product(conv_sizes(x.shape(), weight.shape(), call.attrs),
                   [&](const Shape& at_x, const Shape& at_weight, const Shape& at_result) {
                     sums.add(at_result, x.number_at(at_x) * weight.number_at(at_weight));
                   });
  sums.store();
}

void run_input_grad(const Call& call) {
  const Elements& g = call.in[0];
  const Elements& weight = call.in[1];
  Sums sums(call.out[0]);
  for_each_product(conv_sizes(call.out[0].shape(), weight.shape(), call.attrs),
                   [&](const Shape& at_x, const Shape& at_weight, const Shape& at_result) {
                     sums.add(at_x, g.number_at(at_result) * weight.number_at(at_weight));
                   });
  sums.store();
}

void run_weight_grad(const Call& call) {
  const Elements& x = call.in[0];
  const Elements& g = call.in[1];
  Sums sums(call.out[0]);
  for_each_product(conv_sizes(x.shape(), call.out[0].shape(), call.attrs),
                   [&](const Shape& at_x, const Shape& at_weight, const Shape& at_result) {
                     sums.add(at_weight, x.number_at(at_x) * g.number_at(at_result));
                   });
  sums.store();
}

}  // namespace

void register_convolution() {
  define<run_conv>("conv2d");
  define<run_input_grad>("conv2d_input_grad");
  define<run_weight_grad>("conv2d_weight_grad");
}

}  // namespace mstrain::reference
