#include "core/ops/fft.h"

#include <cmath>

#include "core/transform/grad.h"
#include "tests/core/ops/values.h"

namespace mstrain {
namespace {

TEST(Fft, OfAWaveHasOneFrequency) {
  constexpr int64_t kLength = 12;
  const Tensor angle =
      cast(iota({kLength}, 0), Dtype::kF64) * (2 * 3.14159265358979323846 * 2 / kLength);
  const Complex spectrum = rfft(cos(angle));
  Tensor expected = zeros({Dtype::kF64, {7}});
  expected = where(equal(iota({7}, 0), 2), full({7}, 6, Dtype::kF64), expected);
  EXPECT_LE(greatest_difference(spectrum.re, expected), 1e-13);
  EXPECT_LE(item(max(abs(spectrum.im))), 1e-13);
  EXPECT_EQ(to_doubles(rfftfreq(4, 0.5, Dtype::kF64)), (std::vector<double>{0, 0.5, 1}));
  EXPECT_EQ(to_doubles(fftfreq(4, 0.25, Dtype::kF64)), (std::vector<double>{0, 1, -2, -1}));
  EXPECT_EQ(to_doubles(fftfreq(5, 0.2, Dtype::kF64)), (std::vector<double>{0, 1, 2, -2, -1}));
}

TEST(Fft, InversesUndoTransformsOfAnyLengthAlongAnyAxis) {
  for (const int64_t n : {1, 2, 7, 12, 97, 128}) {
    const Complex x{random_tensor({3, n, 2}, 1), random_tensor({3, n, 2}, 2)};
    const Complex back = ifft(fft(x, 1), -2);
    EXPECT_LE(greatest_difference(back.re, x.re), 1e-12) << n;
    EXPECT_LE(greatest_difference(back.im, x.im), 1e-12) << n;
    EXPECT_LE(greatest_difference(irfft(rfft(x.re, 1), n, 1), x.re), 1e-12) << n;
    // A real signal's transform is the first half of the complex one.
    const Complex half = rfft(x.re, 1);
    const Complex whole = fft({x.re, zeros_like(x.re)}, 1);
    EXPECT_LE(greatest_difference(half.re, slice(whole.re, 1, 0, n / 2 + 1)), 1e-12) << n;
    EXPECT_LE(greatest_difference(half.im, slice(whole.im, 1, 0, n / 2 + 1)), 1e-12) << n;
  }
}

// Parseval: Σ |X|² = n Σ x².
TEST(Fft, GradientOfTheSpectrumsPowerIsTheSignal) {
  const Tensor x = random_tensor({10}, 3);
  const auto power = [](const Tensor& y) {
    const Complex spectrum = fft({y, zeros_like(y)});
    return sum(square(spectrum.re) + square(spectrum.im)) / 10;
  };
  EXPECT_LE(greatest_difference(grad(power)(x), 2 * x), 1e-12);
}

TEST(Fft, AWrongNumberOfFrequenciesIsAnError) {
  const Tensor part = zeros({Dtype::kF32, {5}});
  EXPECT_THAT(error_of([&] {
                irfft({part, part}, 12);
              }),
              testing::HasSubstr("irfft: 5 frequencies of a signal of 12, which has 7"));
  EXPECT_THAT(error_of([&] {
                rfft(zeros({Dtype::kF32, {3}}), 2);
              }),
              testing::HasSubstr("rfft: axis 2 is outside of [3]"));
}

}  // namespace
}  // namespace mstrain
