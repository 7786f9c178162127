// Fourier transforms as the sums that define them.
#include <cmath>
#include <vector>

#include "core/backends/reference/kernels.h"

namespace mstrain::reference {
namespace {

// cos and sin of 2π jk / n for all j and k.
class Turns {
 public:
  explicit Turns(int64_t n) : n_(n) {
    for (int64_t i = 0; i < n; ++i) {
      const double angle =
          2 * 3.14159265358979323846 * static_cast<double>(i) / static_cast<double>(n);
      turns_.push_back({std::cos(angle), std::sin(angle)});
    }
  }
  struct Turn {
    double cosine, sine;
  };
  const Turn& operator()(int64_t j, int64_t k) const {
    return turns_[static_cast<size_t>(j * k % n_)];
  }

 private:
  int64_t n_;
  std::vector<Turn> turns_;
};

// Calls f(row) for each row of `shape`, where position 0 of the row is row * shape.back().
template <class F>
void for_rows(const Shape& shape, const F& f) {
  for (int64_t row = 0; shape.back() > 0 && row < shape.elements() / shape.back(); ++row) {
    f(row);
  }
}

void run_fft(const Call& call) {
  const int64_t n = call.in[0].shape().back();
  const Turns turns(n);
  const double direction = call.attrs.flag("inverse") ? 1 : -1;
  for_rows(call.in[0].shape(), [&](int64_t row) {
    for (int64_t k = 0; k < n; ++k) {
      double re = 0;
      double im = 0;
      for (int64_t j = 0; j < n; ++j) {
        const Turns::Turn& turn = turns(j, k);
        const double a = call.in[0].number(row * n + j);
        const double b = call.in[1].number(row * n + j);
        re += a * turn.cosine - direction * b * turn.sine;
        im += direction * a * turn.sine + b * turn.cosine;
      }
      call.out[0].set(row * n + k, re);
      call.out[1].set(row * n + k, im);
    }
  });
}

void run_rfft(const Call& call) {
  const int64_t n = call.in[0].shape().back();
  const Turns turns(n);
  const int64_t frequencies = call.out[0].shape().back();
  for_rows(call.in[0].shape(), [&](int64_t row) {
    for (int64_t k = 0; k < frequencies; ++k) {
      double re = 0;
      double im = 0;
      for (int64_t j = 0; j < n; ++j) {
        const Turns::Turn& turn = turns(j, k);
        re += call.in[0].number(row * n + j) * turn.cosine;
        im -= call.in[0].number(row * n + j) * turn.sine;
      }
      call.out[0].set(row * frequencies + k, re);
      call.out[1].set(row * frequencies + k, im);
    }
  });
}

void run_irfft(const Call& call) {
  const int64_t n = call.out[0].shape().back();
  const Turns turns(n);
  const int64_t frequencies = call.in[0].shape().back();
  for_rows(call.out[0].shape(), [&](int64_t row) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < frequencies; ++k) {
        const Turns::Turn& turn = turns(j, k);
        const bool once = k == 0 || 2 * k == n;
        const double re = call.in[0].number(row * frequencies + k);
        const double im = call.in[1].number(row * frequencies + k);
        sum += once ? re * turn.cosine : 2 * (re * turn.cosine - im * turn.sine);
      }
      call.out[0].set(row * n + j, sum / static_cast<double>(n));
    }
  });
}

}  // namespace

void register_fft() {
  define<run_fft>("fft");
  define<run_rfft>("rfft");
  define<run_irfft>("irfft");
}

}  // namespace mstrain::reference
