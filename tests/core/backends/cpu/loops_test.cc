// The vector loops of every instruction set that this processor has, against the plain ones.
#include "core/backends/cpu/loops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/base/rng.h"
#include "core/ops/block_code.h"
#include "core/ops/elementwise.h"
#include "core/ops/weight_code.h"

namespace mstrain::cpu {
namespace {

constexpr int64_t kCount = 203;  // no multiple of any vector

std::vector<const Loops*> others() {
  std::vector<const Loops*> result;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (const Loops* found = loops_for(isa)) {
      result.push_back(found);
    }
  }
  return result;
}

std::vector<float> random_floats(int64_t count, uint64_t seed, double low = -3, double high = 3) {
  Rng rng(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    value = static_cast<float>(rng.uniform(low, high));
  }
  return values;
}

// A few units in the last place: fused multiply-add differs from its two steps.
void expect_near(const std::vector<float>& expected, const std::vector<float>& actual,
                 const std::string& what) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(actual[i])) << what << " at " << i;
    } else {
      EXPECT_NEAR(expected[i], actual[i], 1e-5F * (1 + std::abs(expected[i])))
          << what << " at " << i;
    }
  }
}

TEST(Loops, ExistForEverySetOfTheMachineAndNoOther) {
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx}) {
    EXPECT_EQ(loops_for(isa) != nullptr, has_isa(isa)) << to_string(isa);
  }
}

TEST(Loops, AreThoseOfTheSetInUse) { EXPECT_EQ(&loops(), loops_for(isa())); }

TEST(Loops, ElementwiseRowsAgreeBetweenInstructionSets) {
  const ElementwiseLoops& plain = *loops_for(Isa::kBaseline)->elementwise;
  const std::vector<float> x = random_floats(kCount, 1);
  const std::vector<float> y = random_floats(kCount, 2, 0.25, 2);
  const std::vector<uint8_t> condition(static_cast<size_t>(kCount), 1);
  for (const Loops* loops : others()) {
    const ElementwiseLoops& wide = *loops->elementwise;
    ASSERT_EQ(wide.count, plain.count);
    for (int i = 0; i < plain.count; ++i) {
      if (plain.rows[i].f32 == nullptr) {
        EXPECT_EQ(wide.rows[i].f32, nullptr);
        continue;
      }
      const std::string name = plain.rows[i].name;
      const bool where = name == "where";
      const void* const inputs[3] = {where ? static_cast<const void*>(condition.data()) : x.data(),
                                     where ? x.data() : y.data(), y.data()};
      std::vector<float> expected(static_cast<size_t>(kCount)), actual(expected);
      plain.rows[i].f32(kCount, inputs, expected.data());
      wide.rows[i].f32(kCount, inputs, actual.data());
      expect_near(expected, actual, name);
    }
  }
}

TEST(Loops, ElementwiseRowsAreTheSameBitsInAllSetsWithFusedMultiplyAdd) {
  const std::vector<const Loops*> sets = others();
  const std::vector<float> x = random_floats(kCount, 1);
  const std::vector<float> y = random_floats(kCount, 2, 0.25, 2);
  const std::vector<uint8_t> condition(static_cast<size_t>(kCount), 1);
  for (size_t set = 1; set < sets.size(); ++set) {
    for (int i = 0; i < sets[0]->elementwise->count; ++i) {
      const std::string name = sets[0]->elementwise->rows[i].name;
      if (sets[0]->elementwise->rows[i].f32 == nullptr) {
        continue;
      }
      const bool where = name == "where";
      const void* const inputs[3] = {where ? static_cast<const void*>(condition.data()) : x.data(),
                                     where ? x.data() : y.data(), y.data()};
      std::vector<float> expected(static_cast<size_t>(kCount)), actual(expected);
      sets[0]->elementwise->rows[i].f32(kCount, inputs, expected.data());
      sets[set]->elementwise->rows[i].f32(kCount, inputs, actual.data());
      EXPECT_EQ(std::memcmp(expected.data(), actual.data(), expected.size() * sizeof(float)), 0)
          << name;
    }
  }
}

TEST(Loops, AnElementIsTheSameWhereverItStands) {
  std::vector<const Loops*> all = others();
  all.push_back(loops_for(Isa::kBaseline));
  const std::vector<float> x = random_floats(kCount, 7);
  const std::vector<float> y = random_floats(kCount, 8, 0.25, 2);
  for (const Loops* loops : all) {
    for (int i = 0; i < loops->elementwise->count; ++i) {
      const ElementwiseLoop& row = loops->elementwise->rows[i];
      if (row.f32 == nullptr || std::string_view(row.name) == "where") {
        continue;
      }
      std::vector<float> together(static_cast<size_t>(kCount)), alone(together);
      const void* const inputs[2] = {x.data(), y.data()};
      row.f32(kCount, inputs, together.data());
      const ElementwiseOp* op = elementwise_op(*find_op(row.name));
      const bool is_bool = op->kind == ElementwiseOp::Kind::kComparison;
      const size_t out_size = is_bool ? 1 : sizeof(float);
      for (int64_t at = 0; at < kCount; ++at) {
        const void* const single[2] = {x.data() + at, y.data() + at};
        row.f32(1, single,
                reinterpret_cast<std::byte*>(alone.data()) + static_cast<size_t>(at) * out_size);
      }
      EXPECT_EQ(std::memcmp(together.data(), alone.data(), static_cast<size_t>(kCount) * out_size),
                0)
          << row.name;
    }
  }
}

TEST(Loops, ConversionsAgreeBitForBitBetweenInstructionSets) {
  const ElementwiseLoops& plain = *loops_for(Isa::kBaseline)->elementwise;
  std::vector<float> x = random_floats(kCount, 3, -70000, 70000);
  x[0] = std::numeric_limits<float>::quiet_NaN();
  x[1] = std::numeric_limits<float>::infinity();
  x[2] = -x[1];
  x[3] = 1e-7F;
  x[4] = 6.1e-5F;
  x[5] = 65519.9F;
  for (const Loops* loops : others()) {
    for (Dtype dtype : kAllDtypes) {
      const auto at = static_cast<size_t>(dtype);
      std::vector<std::byte> expected(kCount * 8), actual(kCount * 8);
      plain.store[static_cast<int>(Lane::kF32)][at](kCount, x.data(), expected.data());
      loops->elementwise->store[static_cast<int>(Lane::kF32)][at](kCount, x.data(), actual.data());
      EXPECT_EQ(expected, actual) << name_of(dtype);
      std::vector<std::byte> back_expected(kCount * 8), back_actual(kCount * 8);
      plain.load[at](kCount, expected.data(), back_expected.data());
      loops->elementwise->load[at](kCount, expected.data(), back_actual.data());
      EXPECT_EQ(back_expected, back_actual) << name_of(dtype);
    }
  }
}

TEST(Loops, BlockProductsOfEverySizeAgreeWithThreeLoops) {
  std::vector<const Loops*> all = others();
  all.push_back(loops_for(Isa::kBaseline));
  for (const Loops* loops : all) {
    const BlockLoops& block = *loops->block;
    for (int64_t m = 1; m <= 14; ++m) {
      for (int64_t n : {1, 5, 16, 17, 33, 63, 64, 80, 144}) {
        for (int64_t k : {0, 1, 7, 40}) {
          const int64_t ld = (n + 15) / 16 * 16;
          // Rows, columns, or neither side by side.
          const int64_t a_row = m % 3 == 0 ? 1 : m % 3 == 1 ? k : 2 * k;
          const int64_t a_column = m % 3 == 0 ? m : m % 3;
          const std::vector<float> a = random_floats(2 * m * std::max<int64_t>(k, 1), 4);
          const std::vector<float> b = random_floats(std::max<int64_t>(k, 1) * ld, 5);
          std::vector<float> c = random_floats(m * ld, 6);
          std::vector<float> expected = c;
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              for (int64_t l = 0; l < k; ++l) {
                expected[static_cast<size_t>(i * ld + j)] +=
                    a[static_cast<size_t>(i * a_row + l * a_column)] *
                    b[static_cast<size_t>(l * ld + j)];
              }
            }
          }
          const std::vector<float> row = random_floats(ld, 7);
          std::vector<float> from_row(c.size());
          block.product_from(m, n, k, a.data(), a_row, a_column, b.data(), ld, from_row.data(), ld,
                             row.data());
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              const auto at = static_cast<size_t>(i * ld + j);
              ASSERT_NEAR(from_row[at], row[static_cast<size_t>(j)] + expected[at] - c[at], 1e-4)
                  << m << " x " << n << " x " << k;
            }
          }
          block.product(m, n, k, a.data(), a_row, a_column, b.data(), ld, c.data(), ld, true);
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              const auto at = static_cast<size_t>(i * ld + j);
              ASSERT_NEAR(c[at], expected[at], 1e-4) << m << " x " << n << " x " << k;
            }
          }
        }
      }
    }
  }
}

TEST(Loops, TransposesMoveEveryElement) {
  for (const Loops* loops : others()) {
    for (int64_t rows : {1, 7, 8, 30}) {
      for (int64_t columns : {1, 8, 9, 41}) {
        std::vector<uint32_t> a(static_cast<size_t>(rows * columns)), b(a.size());
        for (size_t i = 0; i < a.size(); ++i) {
          a[i] = static_cast<uint32_t>(i);
        }
        loops->other->transpose32(rows, columns, a.data(), columns, b.data(), rows);
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < columns; ++j) {
            ASSERT_EQ(b[static_cast<size_t>(j * rows + i)],
                      a[static_cast<size_t>(i * columns + j)]);
          }
        }
      }
    }
  }
}

TEST(Loops, PhiloxIsThatOfTheDefinition) {
  std::vector<const Loops*> all = others();
  all.push_back(loops_for(Isa::kBaseline));
  const uint32_t key[2] = {0x12345678U, 0x9abcdef0U};
  const uint64_t first = 0xfffffffeU;  // the counter carries into its second word
  const uint64_t stream = 0x0123456789abcdefU;
  for (const Loops* loops : all) {
    uint32_t words[4 * 21];
    loops->other->philox(21, first, stream, key, words);
    for (uint64_t i = 0; i < 21; ++i) {
      const PhiloxCounter expected = philox(philox_counter(first + i, stream), {key[0], key[1]});
      for (size_t w = 0; w < 4; ++w) {
        ASSERT_EQ(words[4 * i + w], expected[w]) << i;
      }
    }
  }
}

// Bit by bit, for every instruction set: states of a run must not depend on the machine.
TEST(Loops, NumbersInFewerBitsAreThoseOfTheDefinition) {
  std::vector<const Loops*> all = others();
  all.push_back(loops_for(Isa::kBaseline));
  Rng rng(11);
  std::vector<float> x(kCount);
  std::vector<uint32_t> words(kCount);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(rng.normal() * std::exp2(rng.uniform(-30, 3)));
    words[i] = rng.next_u32();
  }
  x[7] = 0;
  for (const Loops* loops : all) {
    std::vector<BFloat16> rounded(kCount);
    loops->storage->round(kCount, x.data(), words.data(), rounded.data());
    const float scale = loops->storage->scale(kCount, x.data());
    const auto coded = [&]<bool is_signed>(std::bool_constant<is_signed>) {
      std::vector<uint8_t> codes(kCount);
      std::vector<float> back(kCount);
      loops->storage->encode[is_signed](kCount, x.data(), scale, words.data(), codes.data());
      loops->storage->decode[is_signed](kCount, codes.data(), scale, back.data());
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(codes[i], BlockCode<is_signed>::encode(x[i], scale, words[i])) << x[i];
        ASSERT_EQ(back[i], BlockCode<is_signed>::decode(codes[i], scale)) << int{codes[i]};
      }
    };
    coded(std::true_type());
    coded(std::false_type());
    float most = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(rounded[i].bits, stochastic_bf16(x[i], words[i])) << x[i];
      most = std::max(most, std::abs(x[i]));
    }
    EXPECT_EQ(scale, most);
    x[100] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(loops->storage->scale(kCount, x.data())));
    x[100] = 1;
  }
}

// Codes of random numbers, and x in rows, of which one has blocks to spare and a shorter last one.
TEST(Loops, ProductsWithCodesAreThoseOfTheirNumbersInEverySet) {
  constexpr int64_t kWidth = 300, kColumns = 11, kMostRows = 9;
  const std::vector<float> weight = random_floats(kColumns * kWidth, 21, -0.1, 0.1);
  const std::vector<float> x = random_floats(kMostRows * kWidth, 22);
  for (const WeightCode code : kAllWeightCodes) {
    const int64_t bytes = code_row_bytes(code, kWidth);
    const int64_t row = ready_bytes(code, kWidth);
    std::vector<uint8_t> codes(static_cast<size_t>(kColumns * bytes));
    for (int64_t j = 0; j < kColumns; ++j) {
      ASSERT_TRUE(encode_row(code, weight.data() + j * kWidth, kWidth, codes.data() + j * bytes));
    }
    for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
      if (loops_for(isa) == nullptr) {
        continue;
      }
      SCOPED_TRACE(fmt::format("{} {}", name_of(code), to_string(isa)));
      const CodedLoops& loop = *loops_for(isa)->coded;
      const auto at = static_cast<size_t>(code);
      std::vector<float> numbers(kColumns * kWidth);
      for (int64_t j = 0; j < kColumns; ++j) {
        const uint8_t* const of_row = codes.data() + j * bytes;
        float* const to = numbers.data() + j * kWidth;
        loop.decode[at](of_row, kWidth, 0, 128, to);
        loop.decode[at](of_row, kWidth, 128, kWidth, to + 128);
        for (int64_t i = 0; i < kWidth; ++i) {
          ASSERT_EQ(to[i], decoded_number(code, of_row, kWidth, i)) << i;
        }
      }
      std::vector<float> ready(static_cast<size_t>(kMostRows * row / 4));
      for (int64_t i = 0; i < kMostRows; ++i) {
        loop.ready[at](kWidth, x.data() + i * kWidth, ready.data() + i * row / 4);
      }
      for (const int64_t m : {int64_t{1}, int64_t{2}, int64_t{5}, kMostRows}) {
        std::vector<float> y(static_cast<size_t>(m * kColumns));
        std::vector<float> of_floats(y.size());
        loop.product[at](m, {codes.data(), kColumns, bytes, kWidth}, ready.data(), row, y.data(),
                         kColumns);
        loop.product_of_floats(
            m, {reinterpret_cast<const uint8_t*>(numbers.data()), kColumns, 4 * kWidth, kWidth},
            x.data(), 4 * kWidth, of_floats.data(), kColumns);
        for (int64_t i = 0; i < m * kColumns; ++i) {
          double sum = 0;
          for (int64_t k = 0; k < kWidth; ++k) {
            sum += static_cast<double>(x[static_cast<size_t>(i / kColumns * kWidth + k)]) *
                   static_cast<double>(numbers[static_cast<size_t>(i % kColumns * kWidth + k)]);
          }
          // Each of 300 terms of at most 0.3 is off by 2^-16 of that with integers of 16 bits, half of it that way.
          EXPECT_NEAR(y[static_cast<size_t>(i)], sum, code == WeightCode::kInt8 ? 3e-4 : 1e-5);
          EXPECT_NEAR(of_floats[static_cast<size_t>(i)], sum, 1e-5);
        }
      }
    }
  }
}

}  // namespace
}  // namespace mstrain::cpu
