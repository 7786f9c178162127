// Rows in the memory of a device: whatever fits there, rows and all that is kept for them have the bits of rows in host memory.
#include "suites/recommender/embedding/device_rows.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "core/runtime/context.h"
#include "core/runtime/deferred_device.h"
#include "core/tensor/host.h"
#include "suites/recommender/embedding/batches.h"
#include "tests/ranks.h"
#include "tests/suites/recommender/world.h"

namespace mstrain::recommender {
namespace {

using embedding_cache::AdmissionKind;
using embedding_cache::OptimizerKind;
using testing::HasSubstr;

class RowsOnDevice : public testing::Test {
 protected:
  static constexpr int64_t kOfAStep = 8;
  static constexpr int64_t kAllSamples = 50;
  static constexpr int64_t kSteps = 14;
  static constexpr uint64_t kFewest = 64;  // that hold a batch, but hardly two

  struct Way {
    std::optional<uint64_t> rows = {};  // of each table on the device; none: all are in host memory
    int64_t depth = 2;
    int64_t host_rows = 1000;
    int64_t micro = kOfAStep;
    int64_t ranks = 1;
  };

  RowsOnDevice() { use({"age", "hours", "user", "item", "tags"}); }

  // `genres` takes the largest: its table stays in host memory.
  void use(const std::vector<std::string>& fields) {
    samples_ = std::make_shared<const SomeSamples>(kAllSamples);
    tables_ = std::make_shared<const Tables>(
        samples_->schema(),
        FieldUse{.width = 3, .embeds_numeric = true, .vectors_of = fields, .weights_of = fields});
  }

  std::shared_ptr<Rows> rows_of(const std::string& name, const Way& way, Ranks* ranks) {
    CacheConfig cache;
    cache.host_rows = way.host_rows;
    cache.device_rows = static_cast<int64_t>(way.rows.value_or(0));
    cache.store.kind = embedding_cache::StoreKind::kMemory;
    const Placement placement(*tables_, EmbeddingWay::kRowWise, way.ranks);
    auto options =
        cache_options(*tables_, placement, embedding_, cache, 3, 2, 1 << 30, kAllSamples);
    options.directory = directory_ / name;
    return std::make_shared<Rows>(
        real_files(), options,
        RowsOptions{.depth = way.depth,
                    .evict_every = embedding_.forgets() ? 5 : 0,
                    .way = EmbeddingWay::kRowWise,
                    .device_rows = device_rows(*tables_, placement, options, cache, 1 << 30)},
        *tables_, ranks);
  }

  // Steps first + 1 … last; what a checkpoint calls the rows then. Each has learned the state `digests_` of its rank.
  std::string train(const std::string& name, const Way& way, int64_t first = 0,
                    int64_t last = kSteps, const std::optional<std::string>& from = {}) {
    // Rows on the host's twin of a device, which runs late.
    Context context = current_context();
    if (way.rows) {
      context.allocator =
          std::make_shared<Allocator>(Allocator::kCacheLimit, make_deferred_device({}));
    }
    const ContextScope scope(context);
    std::string id;
    digests_.assign(static_cast<size_t>(way.ranks), "");
    const auto part_of_rank = [&](const std::shared_ptr<Ranks>& ranks) {
      const std::shared_ptr<Rows> rows = rows_of(name, way, ranks.get());
      rows->resume(from);
      const int64_t rank = ranks == nullptr ? 0 : ranks->rank();
      const BatchSource source{samples_, tables_, rows};
      const auto batches = training_batches(
          source, {}, 11, BatchPart(kOfAStep, way.micro, way.ranks, rank), kOfAStep * first);
      for (int64_t step = first + 1; step <= last; ++step) {
        const Tensors batch = batches->next();
        RowGradients learned = pull(batch, *tables_, step);
        learned.is_applied = step != 6;
        learned.lr_scale = 1 + 0.01 * static_cast<double>(step);
        batches->learn(learned);
        if (step % 4 == 0 && way.ranks == 1) {
          seen_[step] = evaluated(source);
        }
      }
      const std::string own = rows->prepare(last);
      rows->wait(own);
      rows->confirm(own, {own});
      const std::string told = rows->describe();
      EXPECT_EQ(way.rows.has_value(), told.find("rows on the device") != std::string::npos);
      digests_[static_cast<size_t>(rank)] = rows->cache().digest();
      if (rank == 0) {
        id = own;
        if (way.rows) {
          moved_ = rows->on_device(tables_->specs()[0].is_numeric ? 1 : 0)->hot().stats();
        }
      }
    };
    if (way.ranks == 1) {
      part_of_rank(nullptr);
    } else {
      run_ranks(static_cast<int>(way.ranks), part_of_rank);
    }
    return id;
  }

  // What an evaluation sees of the first samples.
  static std::vector<float> evaluated(const BatchSource& source) {
    const auto batches = reading_batches(source, BatchPart(kOfAStep, kOfAStep, 1, 0), kOfAStep);
    std::vector<float> out;
    const Tensors batch = batches->next();
    for (const size_t place : source.tables->looked_up()) {
      const std::vector<float> values = to_vector<float>(batch[place]);
      out.insert(out.end(), values.begin(), values.end());
    }
    return out;
  }

  void expect_same_bits(const std::string& name, const std::vector<Way>& ways) {
    const Way host{.host_rows = ways[0].host_rows, .micro = ways[0].micro, .ranks = ways[0].ranks};
    train(name, host);
    const std::vector<std::string> expected = digests_;
    const auto seen = std::exchange(seen_, {});
    for (size_t i = 0; i < ways.size(); ++i) {
      SCOPED_TRACE(fmt::format("{}: {} rows, depth {}, {} in host memory", name, *ways[i].rows,
                               ways[i].depth, ways[i].host_rows));
      train(fmt::format("{}-{}", name, i), ways[i]);
      EXPECT_EQ(digests_, expected);
      EXPECT_EQ(std::exchange(seen_, {}), seen);
      if (ways[i].rows == kFewest && ways[i].ranks == 1) {
        EXPECT_GT(moved_.brought, kFewest) << "no row has left";
      }
    }
  }

  embedding_cache::TempDirectory directory_;
  std::shared_ptr<const SomeSamples> samples_;
  std::shared_ptr<const Tables> tables_;
  EmbeddingConfig embedding_;
  std::vector<std::string> digests_;
  std::map<int64_t, std::vector<float>> seen_;
  embedding_cache::HotRows::Stats moved_;
};

TEST_F(RowsOnDevice, LearnTheBitsOfRowsInHostMemoryByEveryRule) {
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kAdagrad, OptimizerKind::kRowwiseAdagrad,
        OptimizerKind::kFtrl, OptimizerKind::kLazyAdam}) {
    embedding_.optimizer.kind = kind;
    embedding_.optimizer.l2 = 0.01F;
    embedding_.wide_optimizer.kind = kind;
    expect_same_bits(fmt::format("rule-{}", static_cast<int>(kind)), {{.rows = kFewest}});
  }
}

TEST_F(RowsOnDevice, AreTheSameWhateverFitsThereAndHoweverFarAheadTheyAreFetched) {
  std::vector<Way> ways;
  for (const uint64_t rows : {kFewest, uint64_t{90}, uint64_t{1000}}) {
    for (const int64_t depth : {0, 1, 3}) {
      ways.push_back({.rows = rows, .depth = depth, .host_rows = depth == 1 ? 1000 : 75});
    }
  }
  expect_same_bits("sizes", ways);
}

TEST_F(RowsOnDevice, AddUpWhatMicroBatchesLearnInTheirOrder) {
  expect_same_bits("micro", {{.rows = kFewest, .micro = 2}, {.rows = 1000, .micro = 2}});
}

TEST_F(RowsOnDevice, StandBesideTablesThatStayInHostMemory) {
  use({"age", "hours", "user", "item", "tags", "genres"});
  expect_same_bits("beside", {{.rows = kFewest}, {.rows = 1000}});
  expect_same_bits("beside-micro", {{.rows = kFewest, .micro = 2}});
}

TEST_F(RowsOnDevice, AreSharedByRanks) {
  expect_same_bits("ranks", {{.rows = kFewest, .micro = 2, .ranks = 2},
                             {.rows = 1000, .depth = 0, .micro = 2, .ranks = 2}});
}

TEST_F(RowsOnDevice, ComeWhenTheyAreAdmittedAndGoWhenTheyAreForgotten) {
  embedding_.admission = {.kind = AdmissionKind::kCount, .count = 2, .window_steps = 7};
  expect_same_bits("admitted", {{.rows = kFewest, .host_rows = 75}, {.rows = 1000}});
  embedding_.admission = {};
  embedding_.eviction = {.max_rows = 30};
  expect_same_bits("budget", {{.rows = kFewest, .host_rows = 75}, {.rows = 1000}});
  embedding_.eviction = {.ttl_steps = 3, .min_keep_rows = 9};
  expect_same_bits("old", {{.rows = kFewest, .host_rows = 75}, {.rows = 1000}});
}

TEST_F(RowsOnDevice, GoOnFromACheckpointWithOrWithoutADevice) {
  train("straight", {});
  const std::vector<std::string> expected = digests_;
  for (const auto& [before, after] :
       {std::pair(Way{.rows = kFewest}, Way{.rows = 90}), std::pair(Way{.rows = kFewest}, Way{}),
        std::pair(Way{}, Way{.rows = 1000})}) {
    const std::string name =
        fmt::format("stopped-{}-{}", before.rows.value_or(0), after.rows.value_or(0));
    const std::string id = train(name, before, 0, 7);
    train(name, after, 7, kSteps, id);
    EXPECT_EQ(digests_, expected) << name;
  }
}

std::string refusal_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(RowsOnDevice, MustHoldABatch) {
  EXPECT_THAT(refusal_of([&] { train("few", {.rows = 5}); }),
              HasSubstr("does not fit into the 5 rows"));
}

TEST_F(RowsOnDevice, SayWhichStepsGradientsAreNotFinite) {
  const std::shared_ptr<Rows> rows = rows_of("bad", {.rows = 100}, nullptr);
  rows->resume(std::nullopt);
  const auto batches =
      training_batches({samples_, tables_, rows}, {}, 11, BatchPart(kOfAStep, kOfAStep, 1, 0), 0);
  RowGradients learned = pull(batches->next(), *tables_, 1);
  std::vector<float> values = to_vector<float>(learned.gradients[0]);
  values[0] = std::numeric_limits<float>::infinity();
  learned.gradients[0] = tensor<float>(values, learned.gradients[0].shape());
  batches->learn(learned);
  EXPECT_THAT(refusal_of([&] { rows->prepare(1); }),
              HasSubstr("update of step 1: the gradients of 1 of the"));
}

}  // namespace
}  // namespace mstrain::recommender
