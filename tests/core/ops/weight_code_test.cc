#include "core/ops/weight_code.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/rng.h"
#include "core/ops/coded_weight.h"
#include "core/ops/elementwise.h"
#include "tests/core/ops/values.h"

namespace mstrain {
namespace {

constexpr int64_t kWidths[] = {1, 5, 31, 32, 33, 64, 65, 200, 64 * 256 + 70};

class WeightCodes : public testing::TestWithParam<WeightCode> {
 protected:
  static std::vector<float> normals(int64_t n, uint64_t seed, double scale) {
    Rng rng(seed);
    std::vector<float> x(static_cast<size_t>(n));
    for (float& value : x) {
      value = static_cast<float>(rng.normal() * scale);
    }
    return x;
  }
  static std::vector<uint8_t> encoded(const std::vector<float>& x) {
    const auto width = static_cast<int64_t>(x.size());
    std::vector<uint8_t> row(static_cast<size_t>(code_row_bytes(GetParam(), width)), 0xee);
    EXPECT_TRUE(encode_row(GetParam(), x.data(), width, row.data()));
    return row;
  }
  static std::vector<float> decoded(const std::vector<uint8_t>& row, int64_t width) {
    std::vector<float> x;
    for (int64_t i = 0; i < width; ++i) {
      x.push_back(decoded_number(GetParam(), row.data(), width, i));
    }
    return x;
  }
  static std::vector<float> there_and_back(const std::vector<float>& x) {
    return decoded(encoded(x), static_cast<int64_t>(x.size()));
  }
  // The largest magnitude of each block of x, by element.
  static std::vector<float> largest_of_block(const std::vector<float>& x) {
    const auto block = static_cast<size_t>(code_block(GetParam()));
    std::vector<float> result(x.size());
    for (size_t first = 0; first < x.size(); first += block) {
      const size_t end = std::min(x.size(), first + block);
      float most = 0;
      for (size_t i = first; i < end; ++i) {
        most = std::max(most, std::abs(x[i]));
      }
      std::fill(result.begin() + static_cast<ptrdiff_t>(first),
                result.begin() + static_cast<ptrdiff_t>(end), most);
    }
    return result;
  }
};

// bf16: half a unit of 8 bits. int8: half a step, and what the scale of 12 bits is off. nf4: half of the widest gap of the
// levels, and a scale that is off by 2^-6 and 2^-12 of itself.
TEST_P(WeightCodes, AreOffByNoMoreThanTheHeaderSays) {
  for (const int64_t width : kWidths) {
    for (const double scale : {0.02, 1e-3, 30.0}) {
      const std::vector<float> x = normals(width, static_cast<uint64_t>(width), scale);
      const std::vector<float> y = there_and_back(x);
      const std::vector<float> most = largest_of_block(x);
      for (size_t i = 0; i < x.size(); ++i) {
        const float bound = GetParam() == WeightCode::kBf16   ? std::abs(x[i]) * 0x1p-8F
                            : GetParam() == WeightCode::kInt8 ? most[i] * (0.5F / 127 + 0x1p-11F)
                                                              : most[i] * (0.152F + 0.0165F);
        ASSERT_LE(std::abs(x[i] - y[i]), bound) << i << " of " << width << ": " << x[i];
      }
    }
  }
}

TEST_P(WeightCodes, KeepZerosAndEachRowsBytesToItself) {
  for (const int64_t width : kWidths) {
    const std::vector<float> zeros(static_cast<size_t>(width), 0.0F);
    EXPECT_EQ(there_and_back(zeros), zeros);
    EXPECT_EQ(code_row_bytes(GetParam(), width) % 16, 0);
  }
}

// So that weights that were written in codes, and are given codes again, stay as they are.
TEST_P(WeightCodes, OfNumbersThatCameFromCodesAreNearThem) {
  const std::vector<float> x = there_and_back(normals(500, 4, 0.02));
  const std::vector<float> y = there_and_back(x);
  const std::vector<float> most = largest_of_block(x);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(x[i], y[i], most[i] * 0x1p-6F) << i;
  }
}

TEST_P(WeightCodes, TakeOnlyWhatTheyCanHold) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const bool takes_all = GetParam() == WeightCode::kBf16;
  for (const float wrong : {infinity, -infinity, nan, 8001.0F, -1e30F}) {
    std::vector<float> x = normals(70, 5, 1);
    x[66] = wrong;
    std::vector<uint8_t> row(static_cast<size_t>(code_row_bytes(GetParam(), 70)));
    EXPECT_EQ(encode_row(GetParam(), x.data(), 70, row.data()), takes_all) << wrong;
  }
  const std::vector<float> most(70, kLargestCoded);
  EXPECT_NEAR(there_and_back(most)[69], kLargestCoded, kLargestCoded * 0x1p-6F);
}

TEST_P(WeightCodes, HaveNames) {
  EXPECT_EQ(parse_weight_code(name_of(GetParam())), GetParam());
  EXPECT_EQ(parse_weight_code("int7"), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(All, WeightCodes, testing::ValuesIn(kAllWeightCodes),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(WeightCode, TakesTheBytesThatTheHeaderSays) {
  EXPECT_EQ(code_row_bytes(WeightCode::kBf16, 768), 2 * 768);
  EXPECT_EQ(code_row_bytes(WeightCode::kInt8, 768), 768 + 2 * 24);
  EXPECT_EQ(code_row_bytes(WeightCode::kNf4, 64 * 2048), 32 * 2048 + 2048 + 2 * 8);
  EXPECT_EQ(code_row_bytes(WeightCode::kInt8, 33), 80);  // 64 + 4, filled up
}

// Outliers take no bits from other blocks: of int8 none, of nf4 none down to 1/252 of the largest of 256 blocks.
TEST(WeightCode, ScalesFollowTheirBlocks) {
  std::vector<float> x(128, 1e-2F);
  x[0] = 1;
  for (const WeightCode code : {WeightCode::kInt8, WeightCode::kNf4}) {
    std::vector<uint8_t> row(static_cast<size_t>(code_row_bytes(code, 128)));
    ASSERT_TRUE(encode_row(code, x.data(), 128, row.data()));
    EXPECT_NEAR(decoded_number(code, row.data(), 128, 100), 1e-2F, 1e-2F * 0.0165F);
    EXPECT_NEAR(decoded_number(code, row.data(), 128, 0), 1, 0.0165);
  }
}

// Of a normal cut at the quantile 0.9677083: eight above zero, seven below, evenly, in units of the largest.
TEST(WeightCode, LevelsOfNf4AreTheQuantilesOfANormal) {
  constexpr double kCut = 0.9677083;
  const auto quantile = [](double p) { return item(erfinv(scalar(2 * p - 1, Dtype::kF64))); };
  std::vector<double> levels{0};
  for (int i = 0; i < 8; ++i) {
    levels.push_back(quantile(kCut + (0.5 - kCut) * i / 8) / quantile(kCut));
  }
  for (int i = 0; i < 7; ++i) {
    levels.push_back(-quantile(kCut + (0.5 - kCut) * i / 7) / quantile(kCut));
  }
  std::sort(levels.begin(), levels.end());
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(kNf4Levels[i], levels[i], 1e-6) << i;
  }
}

TEST(CodedProduct, NamesWhatDoesNotFit) {
  const Tensor x = full({2, 40}, 1);
  const Tensor rows = full({3, code_row_bytes(WeightCode::kInt8, 40)}, 0, Dtype::kU8);
  const auto message = [&](const Tensor& left, const Tensor& right, int64_t width) {
    try {
      coded_product(left, right, WeightCode::kInt8, width);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message(x, rows, 40), "");
  EXPECT_NE(message(full({2, 41}, 1), rows, 40).find("x is f32[2, 41], not [..., 40]"),
            std::string::npos);
  EXPECT_NE(message(x, rows, 100).find("rows of 80 bytes are not those of 100 numbers in int8"),
            std::string::npos);
  EXPECT_NE(message(x, full({3, 80}, 0), 40).find("rows are f32[3, 80], not u8"),
            std::string::npos);
}

}  // namespace
}  // namespace mstrain
