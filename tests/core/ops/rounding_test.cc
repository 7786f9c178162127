#include "core/ops/rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/rng.h"
#include "core/ops/block_code.h"
#include "core/ops/random.h"
#include "core/runtime/context.h"
#include "tests/core/ops/values.h"

namespace mstrain {
namespace {

class Rounding : public testing::Test {
 protected:
  static std::vector<float> numbers(size_t n, uint64_t seed, double scale) {
    Rng rng(seed);
    std::vector<float> x(n);
    for (float& value : x) {
      value = static_cast<float>(rng.normal() * scale);
    }
    return x;
  }
  static Tensor repeated(float x, int64_t n) {
    return tensor<float>(std::vector<float>(static_cast<size_t>(n), x), {n});
  }
  static double mean_of(const Tensor& x) {
    const std::vector<double> values = to_doubles(x);
    double sum = 0;
    for (double value : values) {
      sum += value;
    }
    return sum / static_cast<double>(values.size());
  }
};

// Each result is a neighbour of the number, and their mean is the number within five standard errors.
TEST_F(Rounding, IsUnbiased) {
  constexpr int64_t kCount = 40000;
  for (const float x : {1.001F, -1.0023F, 3.14159F, 0.1F, -123.456F, 1e-20F}) {
    const float low = std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0xffff0000U);
    const float high = std::bit_cast<float>(std::bit_cast<uint32_t>(low) + 0x10000U);
    const Tensor rounded = stochastic_round(repeated(x, kCount), rng_key(3), 17);
    for (const double value : to_doubles(rounded)) {
      ASSERT_TRUE(value == static_cast<double>(low) || value == static_cast<double>(high))
          << x << " became " << value;
    }
    const double gap = std::abs(static_cast<double>(high) - static_cast<double>(low));
    EXPECT_NEAR(mean_of(rounded), static_cast<double>(x),
                5 * gap / 2 / std::sqrt(static_cast<double>(kCount)))
        << x;
  }
}

TEST_F(Rounding, KeepsWhatBf16Holds) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float most = std::numeric_limits<float>::max();
  const Tensor x = tensor<float>(std::vector<float>{0, -0.0F, 1.5F, -2, infinity, -infinity, most,
                                                    std::numeric_limits<float>::quiet_NaN()},
                                 {8});
  const std::vector<double> y = to_doubles(stochastic_round(x, rng_key(1), 2));
  EXPECT_EQ(y[0], 0);
  EXPECT_TRUE(std::signbit(y[1]));
  EXPECT_EQ(y[2], 1.5);
  EXPECT_EQ(y[3], -2);
  EXPECT_EQ(y[4], static_cast<double>(infinity));
  EXPECT_EQ(y[5], -static_cast<double>(infinity));
  EXPECT_EQ(y[6], 0x1.fep127) << "the largest number does not become infinite";
  EXPECT_TRUE(std::isnan(y[7]));
}

TEST_F(Rounding, DependsOnKeySiteAndIndexAndNotOnThreads) {
  const Tensor x = tensor<float>(numbers(100003, 5, 1), {100003});
  const auto all = [&](int threads, uint64_t seed, int64_t site) {
    Context context;
    context.threads = threads;
    const ContextScope scope(context);
    const Blocks blocks = quantize_blocks(x, rng_key(seed), site, true);
    std::vector<double> values = to_doubles(stochastic_round(x, rng_key(seed), site));
    for (const Tensor& part : {blocks.codes, blocks.scales}) {
      const std::vector<double> more = to_doubles(part);
      values.insert(values.end(), more.begin(), more.end());
    }
    return values;
  };
  const std::vector<double> one = all(1, 1, 1);
  EXPECT_EQ(all(2, 1, 1), one);
  EXPECT_EQ(all(3, 1, 1), one);
  EXPECT_NE(all(1, 2, 1), one);
  EXPECT_NE(all(1, 1, 2), one);
}

// The bounds that core/ops/block_code.h states, over many magnitudes.
TEST_F(Rounding, BlocksAreAsExactAsStated) {
  for (const bool is_signed : {true, false}) {
    const double relative = is_signed ? 1.0 / 16 : 1.0 / 8;
    const double least = is_signed ? 1.0 / 1984 : 1 / (15.0 * (1 << 30));
    for (const double scale : {1.0, 1e-8, 1e-20, 3e7}) {
      std::vector<float> x = numbers(3 * kCodeBlock + 77, 9, scale);
      Rng rng(4);
      for (float& value : x) {
        value = static_cast<float>(value * std::exp2(-rng.uniform(0, 12)));
        value = is_signed ? value : std::abs(value);
      }
      const Shape shape{static_cast<int64_t>(x.size())};
      const Blocks blocks = quantize_blocks(tensor<float>(x, shape), rng_key(8), 3, is_signed);
      ASSERT_EQ(blocks.scales.shape(), Shape{4});
      const std::vector<double> y = to_doubles(dequantize_blocks(blocks, is_signed));
      const std::vector<double> scales = to_doubles(blocks.scales);
      for (size_t block = 0; block < scales.size(); ++block) {
        const size_t begin = block * kCodeBlock;
        const size_t end = std::min(x.size(), begin + kCodeBlock);
        double most = 0;
        for (size_t i = begin; i < end; ++i) {
          most = std::max(most, std::abs(static_cast<double>(x[i])));
        }
        EXPECT_EQ(scales[block], most);
        for (size_t i = begin; i < end; ++i) {
          const double exact = static_cast<double>(x[i]);
          const double bound = std::max(std::abs(exact) * relative, most * least);
          ASSERT_LE(std::abs(y[i] - exact), bound * 1.0001)
              << "element " << i << ", " << exact << " became " << y[i];
          ASSERT_TRUE(std::abs(exact) < most || y[i] == exact) << "the largest is exact";
        }
      }
    }
  }
}

TEST_F(Rounding, BlocksAreUnbiased) {
  constexpr int64_t kBlocks = 200;
  for (const bool is_signed : {true, false}) {
    std::vector<float> x(kBlocks * kCodeBlock, 0.0371F);
    for (size_t i = 0; i < x.size(); i += kCodeBlock) {
      x[i] = 1;
    }
    const Shape shape{static_cast<int64_t>(x.size())};
    const Blocks blocks = quantize_blocks(tensor<float>(x, shape), rng_key(8), 3, is_signed);
    const std::vector<double> y = to_doubles(dequantize_blocks(blocks, is_signed));
    double sum = 0;
    int64_t count = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      if (i % kCodeBlock != 0) {
        sum += y[i];
        ++count;
      }
    }
    const double gap = 0.0371 / 8;
    EXPECT_NEAR(sum / static_cast<double>(count), 0.0371,
                5 * gap / 2 / std::sqrt(static_cast<double>(count)));
  }
}

TEST_F(Rounding, EveryCodeComesBack) {
  const auto check_codes = []<bool is_signed>(std::bool_constant<is_signed>) {
    using Code = BlockCode<is_signed>;
    for (uint32_t code = 1; code < Code::kLargest; ++code) {
      EXPECT_LT(Code::magnitude(code), Code::magnitude(code + 1));
      EXPECT_EQ(Code::magnitude(code) + Code::step(code), Code::magnitude(code + 1)) << code;
    }
    EXPECT_EQ(Code::magnitude(Code::kLargest), Code::kMost);
    for (uint32_t code = 0; code <= Code::kLargest; ++code) {
      const float x = Code::magnitude(code);
      EXPECT_EQ(Code::encode(x, Code::kMost, 0xffffffffU), code);
      EXPECT_EQ(Code::encode(x, Code::kMost, 0), code);
    }
  };
  check_codes(std::true_type());
  check_codes(std::false_type());
}

TEST_F(Rounding, BlocksOfZerosAndOfWhatIsNoNumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> x(4 * kCodeBlock, 0.5F);
  std::fill_n(x.begin(), kCodeBlock, 0.0F);
  x[kCodeBlock + 9] = nan;
  x[2 * kCodeBlock + 9] = -infinity;
  const Shape shape{static_cast<int64_t>(x.size())};
  const std::vector<double> y = to_doubles(
      dequantize_blocks(quantize_blocks(tensor<float>(x, shape), rng_key(1), 1, true), true));
  for (int64_t i = 0; i < kCodeBlock; ++i) {
    const auto at = static_cast<size_t>(i);
    EXPECT_EQ(y[at], 0);
    EXPECT_TRUE(std::isnan(y[at + kCodeBlock]));
    EXPECT_TRUE(std::isnan(y[at + 2 * kCodeBlock]));
    EXPECT_EQ(y[at + 3 * kCodeBlock], 0.5);
  }
}

}  // namespace
}  // namespace mstrain
