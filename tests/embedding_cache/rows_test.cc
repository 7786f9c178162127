// First values, update types and admission by themselves, each against something obvious.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "embedding_cache/admission.h"
#include "embedding_cache/id_map.h"
#include "embedding_cache/row.h"
#include "embedding_cache/shared_map.h"
#include "embedding_cache/update.h"

namespace mstrain::embedding_cache {
namespace {

constexpr uint64_t kRowsSeed = 20260107;

class Rows : public testing::Test {
 protected:
  Rows() { RecordProperty("seed", static_cast<int>(kRowsSeed)); }
  Rng rng_{kRowsSeed};
};

TEST_F(Rows, FirstValuesDependOnSeedTableAndIdAlone) {
  TableOptions table{.name = "t", .host_rows = 1};
  table.segments = {{.width = 64, .init = {.kind = InitKind::kNormal, .scale = 0.5F}},
                    {.width = 33, .init = {.kind = InitKind::kUniform, .scale = 2.0F}},
                    {.width = 2,
                     .optimizer = {.kind = OptimizerKind::kFtrl, .initial_accumulator = 0.25F},
                     .init = {.kind = InitKind::kConstant, .scale = 7.0F}}};
  const RowLayout layout(table);
  EXPECT_EQ(layout.record_bytes(), 8U + 4U * (64 + 33 + 2 + 4));
  std::vector<std::byte> a(layout.record_bytes());
  std::vector<std::byte> b(layout.record_bytes());
  double sum = 0;
  double squares = 0;
  double widest = 0;
  for (Id id = 0; id < 2000; ++id) {
    layout.initialise(table_seed(3, "t"), id, a.data());
    layout.initialise(table_seed(3, "t"), id, b.data());
    ASSERT_EQ(a, b);
    const float* w = weights_of(a.data());
    for (int i = 0; i < 64; ++i) {
      sum += w[i];
      squares += double{w[i]} * w[i];
    }
    for (int i = 64; i < 97; ++i) {
      widest = std::max(widest, std::fabs(double{w[i]}));
    }
    ASSERT_EQ(w[97], 7.0F);
    ASSERT_EQ(w[99], 0.25F);
    ASSERT_EQ(w[101], 0.0F);
  }
  const double n = 2000 * 64;
  EXPECT_NEAR(sum / n, 0, 5 * 0.5 / std::sqrt(n));  // five standard errors
  EXPECT_NEAR(std::sqrt(squares / n), 0.5, 0.005);
  EXPECT_LE(widest, 2.0);
  EXPECT_GT(widest, 1.99);
  layout.initialise(table_seed(3, "u"), 1, a.data());
  layout.initialise(table_seed(3, "t"), 1, b.data());
  EXPECT_NE(a, b);
  layout.initialise(table_seed(4, "t"), 1, a.data());
  EXPECT_NE(a, b);
}

// The update types against their papers' formulas in double.
TEST_F(Rows, UpdateTypesFollowTheirFormulas) {
  constexpr int kWidth = 5;
  float w[5][kWidth];
  float s[5][2 * kWidth] = {};
  double rw[5][kWidth];
  double rs[5][2 * kWidth] = {};
  for (int k = 0; k < 5; ++k) {
    for (int i = 0; i < kWidth; ++i) {
      rw[k][i] = w[k][i] = static_cast<float>(rng_.uniform(-1, 1));
    }
  }
  for (int i = 0; i < kWidth; ++i) {
    rs[3][i] = s[3][i] = 0.1F;  // FTRL's sums must not be zero for its first root
  }
  for (uint64_t step = 1; step <= 20; ++step) {
    float g[kWidth];
    double mean = 0;
    for (float& x : g) {
      x = static_cast<float>(rng_.uniform(-1, 1));
      mean += double{x} * x / kWidth;
    }
    Sgd{0.1F}.at(step)(w[0], s[0], g, kWidth);
    Adagrad{0.1F, 1e-3F}.at(step)(w[1], s[1], g, kWidth);
    RowwiseAdagrad{0.1F, 1e-3F}.at(step)(w[2], s[2], g, kWidth);
    Ftrl{0.1F, 0.05F, 0.02F}.at(step)(w[3], s[3], g, kWidth);
    LazyAdam{0.1F, 0.9F, 0.99F, 1e-6F}.at(step)(w[4], s[4], g, kWidth);
    rs[2][0] += mean;
    for (int i = 0; i < kWidth; ++i) {
      const double x = g[i];
      rw[0][i] -= 0.1 * x;
      rs[1][i] += x * x;
      rw[1][i] -= 0.1 * x / (std::sqrt(rs[1][i]) + 1e-3);
      rw[2][i] -= 0.1 * x / (std::sqrt(rs[2][0]) + 1e-3);
      double& sum = rs[3][i];
      double& z = rs[3][kWidth + i];
      z += x - (std::sqrt(sum + x * x) - std::sqrt(sum)) / 0.1 * rw[3][i];
      sum += x * x;
      rw[3][i] = std::fabs(z) <= 0.05
                     ? 0
                     : ((z > 0 ? 0.05 : -0.05) - z) / (std::sqrt(sum) / 0.1 + 2 * 0.02);
      double& m = rs[4][i];
      double& v = rs[4][kWidth + i];
      m = 0.9 * m + 0.1 * x;
      v = 0.99 * v + 0.01 * x * x;
      const double corrected = m / (1 - std::pow(0.9, step));
      rw[4][i] -= 0.1 * corrected / (std::sqrt(v / (1 - std::pow(0.99, step))) + 1e-6);
    }
    for (int k = 0; k < 5; ++k) {
      for (int i = 0; i < kWidth; ++i) {
        // 20 steps of float32 rounding on values of about 1.
        ASSERT_NEAR(w[k][i], rw[k][i], 2e-4) << "type " << k << " step " << step;
      }
    }
  }
}

// A penalty is one more gradient, of the row alone.
TEST_F(Rows, PenaltiesOfSquaresAreGradientsOfTheirRows) {
  constexpr uint32_t kWidth = 5;
  constexpr float kL2 = 0.3F;
  const auto compare = [&](const auto& with, const auto& without) {
    const auto started = [&](float* w, float* s) {
      for (uint32_t i = 0; i < kWidth; ++i) {
        w[i] = 0.1F * static_cast<float>(i) - 0.2F;
        s[i] = s[kWidth + i] = 0.5F;
      }
    };
    float w[kWidth];
    float s[2 * kWidth];
    float expected[kWidth];
    float expected_s[2 * kWidth];
    started(w, s);
    started(expected, expected_s);
    for (uint64_t step = 1; step <= 3; ++step) {
      float g[kWidth];
      float penalised[kWidth];
      for (uint32_t i = 0; i < kWidth; ++i) {
        g[i] = static_cast<float>(rng_.uniform(-1, 1));
        penalised[i] = g[i] + kL2 * expected[i];
      }
      with.at(step)(w, s, g, kWidth);
      without.at(step)(expected, expected_s, penalised, kWidth);
      for (uint32_t i = 0; i < kWidth; ++i) {
        EXPECT_FLOAT_EQ(w[i], expected[i]);
      }
    }
  };
  compare(Sgd{.lr = 0.1F, .l2 = kL2}, Sgd{.lr = 0.1F});
  compare(Adagrad{.lr = 0.1F, .l2 = kL2}, Adagrad{.lr = 0.1F});
  compare(RowwiseAdagrad{.lr = 0.1F, .l2 = kL2}, RowwiseAdagrad{.lr = 0.1F});
  compare(LazyAdam{.lr = 0.1F, .l2 = kL2}, LazyAdam{.lr = 0.1F});
}

TEST_F(Rows, BeginWithGivenWeightsAndTheStateOfNewOnes) {
  const TableOptions table{
      .name = "t",
      .host_rows = 1,
      .segments = {
          {.width = 3, .optimizer = {.kind = OptimizerKind::kAdagrad, .initial_accumulator = 0.5F}},
          {.width = 4,
           .optimizer = {.kind = OptimizerKind::kFtrl,
                         .lr = 0.1F,
                         .l1 = 0.05F,
                         .l2 = 0.02F,
                         .initial_accumulator = 0.25F}}}};
  const RowLayout layout(table);
  const std::vector<float> weights{1, -2, 3, 0.5F, -0.25F, 0, 0.001F};
  std::vector<std::byte> record(layout.record_bytes());
  layout.begin_with(weights.data(), record.data());
  float* const floats = weights_of(record.data());
  EXPECT_EQ(std::vector<float>(floats, floats + 7), weights);
  EXPECT_GT(load_header(record.data()).updates, 0U);
  EXPECT_EQ(floats[layout.parts()[0].state], 0.5F);
  // No gradient: FTRL makes the same weights of its state, and learns from there.
  const RowLayout::Part& part = layout.parts()[1];
  const std::vector<float> nothing(4);
  Ftrl{0.1F, 0.05F, 0.02F}.at(1)(floats + part.weights, floats + part.state, nothing.data(), 4);
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_NEAR(floats[i], weights[i], 1e-6) << i;
  }
}

TEST_F(Rows, AdmissionByCountAdmitsOnTheCountedBatch) {
  AdmissionFilter filter({.kind = AdmissionKind::kCount, .count = 3}, 1, 0);
  for (int batch = 1; batch <= 5; ++batch) {
    EXPECT_EQ(filter.would_admit(7, 1), batch >= 3);
    EXPECT_EQ(filter.is_admitted(7), batch > 3);
    filter.count(7, 1);
  }
  filter.forget(7);
  EXPECT_FALSE(filter.would_admit(7, 1));
}

TEST_F(Rows, AdmissionByChanceAdmitsAboutThatShare) {
  AdmissionFilter filter({.kind = AdmissionKind::kProbability, .probability = 0.3}, 1, 0);
  int admitted = 0;
  for (Id id = 0; id < 20000; ++id) {
    const bool would = filter.would_admit(id, 5);
    filter.count(id, 5);
    EXPECT_EQ(filter.is_admitted(id), would);
    admitted += would ? 1 : 0;
  }
  EXPECT_NEAR(admitted, 6000, 5 * std::sqrt(20000 * 0.3 * 0.7));  // five standard deviations
}

TEST_F(Rows, BloomFilterNeverAdmitsLate) {
  AdmissionFilter filter({.kind = AdmissionKind::kBloom, .count = 3, .bloom_counters = 1 << 16}, 9,
                         0);
  int early = 0;
  for (Id id = 0; id < 4000; ++id) {
    filter.count(id, 1);
    early += filter.would_admit(id, 2) ? 1 : 0;  // would be its second batch
    filter.count(id, 2);
    EXPECT_TRUE(filter.would_admit(id, 3));
  }
  EXPECT_LT(early, 100);
}

// Ids that are seen once and never again must not fill memory, nor the counters of a Bloom filter.
TEST_F(Rows, AdmissionForgetsWhatWasSeenLongAgo) {
  constexpr uint64_t kWindow = 100;
  for (const AdmissionKind kind : {AdmissionKind::kCount, AdmissionKind::kBloom}) {
    AdmissionFilter filter({.kind = kind, .count = 3, .bloom_counters = 1 << 14}, 9, kWindow);
    uint64_t early = 0;
    for (uint64_t step = 1; step <= 3000; ++step) {
      for (Id id = step * 10; id < step * 10 + 10; ++id) {
        early += filter.would_admit(id, step) ? 1 : 0;
        filter.count(id, step);
      }
      EXPECT_LE(filter.size(), 2 * kWindow * 10 + early + 2);
      if (step % 250 == 1) {
        EXPECT_FALSE(filter.would_admit(1, step)) << "seen every 250 steps";
        filter.count(1, step);
      }
      if (step % 40 == 1) {
        filter.count(2, step);
      }
    }
    EXPECT_TRUE(filter.is_admitted(2)) << "seen every 40 steps";
    // A filter of 16,384 counters in which 1,000 to 2,000 ids are counted admits none of them on sight but by rare chance.
    EXPECT_LT(early, 30U) << static_cast<int>(kind);
  }
  AdmissionFilter filter({.kind = AdmissionKind::kCount, .count = 2}, 9, kWindow);
  filter.count(5, 150);
  EXPECT_TRUE(filter.would_admit(5, 299)) << "counted in the window before";
  EXPECT_FALSE(filter.would_admit(5, 300));
  EXPECT_TRUE(filter.would_admit(5, 299)) << "asking changes nothing";
}

// What was handed out stays as it was, what is asked sees every change, and both meet again.
TEST_F(Rows, FrozenBookkeepingGoesOn) {
  SharedIdMap map;
  SharedCounters counters(64);
  std::unordered_map<Id, uint64_t> plain;
  std::vector<uint8_t> plain_counters(64);
  for (int round = 0; round < 40; ++round) {
    const std::unordered_map<Id, uint64_t> then = plain;
    const std::vector<uint8_t> counters_then = plain_counters;
    SharedIdMap::View view;
    SharedCounters::View counters_view;
    if (round % 2 == 1) {
      view = map.freeze();
      counters_view = counters.freeze();
    }
    for (int i = 0; i < 500; ++i) {
      const Id id = rng_.below(200);
      if (rng_.below(3) == 0) {
        ASSERT_EQ(map.erase(id), plain.erase(id) == 1);
      } else {
        map.set(id, rng_.below(1000));
        plain[id] = map.find(id);
      }
      const uint64_t cell = rng_.below(64);
      counters.set(cell, static_cast<uint8_t>(i));
      plain_counters[cell] = counters.at(cell);
      ASSERT_EQ(map.size(), plain.size());
    }
    uint64_t seen = 0;
    map.each([&](Id id, uint64_t value) {
      ++seen;
      ASSERT_EQ(plain.at(id), value);
    });
    ASSERT_EQ(seen, plain.size());
    if (view != nullptr) {
      ASSERT_EQ(view->size(), then.size());
      view->each([&](Id id, uint64_t value) { ASSERT_EQ(then.at(id), value); });
      ASSERT_EQ(*counters_view, counters_then);
      view.reset();
      counters_view.reset();
      map.thaw();
      counters.thaw();
    }
    for (Id id = 0; id < 200; ++id) {
      const auto it = plain.find(id);
      ASSERT_EQ(map.find(id), it == plain.end() ? IdMap::kNone : it->second);
    }
    ASSERT_EQ(*counters.view(), plain_counters);
  }
}

TEST_F(Rows, AdmissionStateSurvivesItsFileAndNothingElseIsRead) {
  for (const AdmissionKind kind : {AdmissionKind::kNone, AdmissionKind::kCount,
                                   AdmissionKind::kProbability, AdmissionKind::kBloom}) {
    const AdmissionOptions options{.kind = kind, .count = 2, .bloom_counters = 256};
    AdmissionFilter filter(options, 4, 50);
    for (int i = 0; i < 300; ++i) {
      filter.count(rng_.below(400), static_cast<uint64_t>(i));
    }
    filter.add(1000);
    const std::string bytes = filter.save();
    AdmissionFilter copy(options, 4, 50);
    copy.load(bytes, "state");
    EXPECT_EQ(copy.save(), bytes);
    for (Id id = 0; id < 120; ++id) {
      EXPECT_EQ(copy.is_admitted(id), filter.is_admitted(id));
    }
    for (size_t length = 0; length < bytes.size(); length += 1 + rng_.below(20)) {
      EXPECT_THROW(copy.load(bytes.substr(0, length), "state"), IoError);
    }
    for (int round = 0; round < 2000; ++round) {  // any bytes: an error or a state, never a crash
      std::string damaged = bytes;
      for (int flips = 0; flips < 3; ++flips) {
        damaged[rng_.below(damaged.size())] = static_cast<char>(rng_.next_u32());
      }
      try {
        copy.load(damaged, "state");
      } catch (const IoError&) {
      }
    }
  }
}

}  // namespace
}  // namespace mstrain::embedding_cache
