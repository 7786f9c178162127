// Rows of batches ahead that do not all fit: what is held ahead makes room, and no row learns otherwise for it.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "suites/recommender/embedding/batches.h"
#include "tests/suites/recommender/world.h"

namespace mstrain::recommender {
namespace {

using embedding_cache::Pooling;

constexpr int64_t kEachStep = 8;
constexpr int64_t kAllBatches = 40;
constexpr int64_t kLearned = 8;

// Ids of a batch: so many tags from the first one on, and a user for each sample.
struct Ids {
  uint64_t first_tag = 0;
  uint64_t tags = 5;
  uint64_t first_user = 0;
};

class Tagged final : public SampleSource {
 public:
  Tagged(Pooling pooling, std::vector<Ids> batches) : batches_(std::move(batches)) {
    batches_.resize(kAllBatches);
    schema_.fields = {
        {.name = "user", .rows = 1000},
        {.name = "tags", .rows = 1000, .is_bag = true, .pooling = pooling, .ids = kEachStep}};
  }
  const SampleSchema& schema() const override { return schema_; }
  int64_t samples() const override { return kEachStep * kAllBatches; }
  std::string identity() const override { return "tagged"; }
  void read(std::span<const int64_t> samples, SampleBatch& out) const override {
    out = {};
    out.samples = std::ssize(samples);
    out.fields.resize(2);
    out.fields[1].offsets.push_back(0);
    for (const int64_t sample : samples) {
      const Ids& ids = batches_.at(static_cast<size_t>(sample / kEachStep));
      const auto place = static_cast<uint64_t>(sample % kEachStep);
      out.labels.push_back(static_cast<float>(place % 2));
      out.fields[0].ids.push_back(ids.first_user + place);
      for (uint64_t tag = place; tag < ids.tags; tag += kEachStep) {
        out.fields[1].ids.push_back(ids.first_tag + tag);
      }
      out.fields[1].offsets.push_back(static_cast<uint32_t>(out.fields[1].ids.size()));
    }
    const std::scoped_lock lock(mutex_);
    begun_ = std::max(begun_, samples.front() / kEachStep);
    changed_.notify_all();
  }
  // One thread reads: the batches before this one are there then.
  void wait_until_begun(int64_t batch) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_ >= batch; });
  }

 private:
  SampleSchema schema_;
  std::vector<Ids> batches_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int64_t begun_ = -1;
};

struct Way {
  int64_t depth = 0;
  int64_t host_rows = 1000;
  std::vector<uint64_t> device_rows = {};
};

std::string digest_of(const std::shared_ptr<const Tagged>& samples,
                      const EmbeddingConfig& embedding, const Way& way) {
  const embedding_cache::TempDirectory directory;
  const auto tables = std::make_shared<const Tables>(samples->schema(), FieldUse{.width = kVector});
  CacheConfig cache;
  cache.host_rows = way.host_rows;
  cache.store.kind = embedding_cache::StoreKind::kMemory;
  auto options = cache_options(*tables, Placement(*tables, EmbeddingWay::kAuto, 1), embedding,
                               cache, 3, 1, 1 << 30, samples->samples());
  options.directory = directory / "rows";
  const auto rows = std::make_shared<Rows>(
      real_files(), options, RowsOptions{.depth = way.depth, .device_rows = way.device_rows},
      *tables);
  rows->resume(std::nullopt);
  {
    const auto batches =
        training_batches({samples, tables, rows}, {.shuffle = false}, 1, BatchPart(kEachStep), 0);
    for (int64_t step = 1; step <= kLearned; ++step) {
      if (step > 1) {
        samples->wait_until_begun(step - 1 + way.depth);
      }
      const Tensors batch = batches->next();
      batches->learn(pull(batch, *tables, step));
    }
    rows->prepare(kLearned);
  }
  return rows->cache().digest();
}

void expect_same_rows(Pooling pooling, const std::vector<Ids>& batches,
                      const EmbeddingConfig& embedding, const std::vector<Way>& ways) {
  const auto digest = [&](const Way& way) {
    return digest_of(std::make_shared<const Tagged>(pooling, batches), embedding, way);
  };
  const std::string expected = digest({});
  for (const Way& way : ways) {
    SCOPED_TRACE(fmt::format("depth {}, {} in host memory", way.depth, way.host_rows));
    EXPECT_EQ(digest(way), expected);
  }
}

TEST(ReadAhead, ThatDoesNotFitLeavesTheRowsOfTheBatchThatLearnsOnTheDevice) {
  // While the third batch learns, the fourth fits beside it and the fifth does not.
  expect_same_rows(Pooling::kSum, {{0, 60}, {60, 60}, {}, {200, 60}, {300, 60}}, {},
                   {{.depth = 3, .host_rows = 100, .device_rows = {500}},
                    {.depth = 3, .device_rows = {500}},
                    {.depth = 3, .host_rows = 100}});
}

// When it is the turn of a batch whose tags are new, those of the one behind it leave no room for them. Its users have room.
TEST(ReadAhead, ThatLeavesNoRoomForOneTableLetsTheOthersKeepWhatTheyHold) {
  EmbeddingConfig embedding;
  embedding.admission = {.kind = embedding_cache::AdmissionKind::kCount, .count = 1};
  expect_same_rows(Pooling::kMax,
                   {{0, 60, 0}, {200, 60, 8}, {0, 5, 16}, {100, 60, 24}, {0, 60, 32}, {0, 5, 40}},
                   embedding, {{.depth = 3, .host_rows = 100}, {.depth = 3}, {.host_rows = 100}});
}

TEST(ReadAhead, ThatLeavesNoRoomForOneTableLetsTheOthersCountTheirIdsOnce) {
  EmbeddingConfig embedding;
  embedding.admission = {.kind = embedding_cache::AdmissionKind::kCount, .count = 2};
  expect_same_rows(Pooling::kMax,
                   {{100, 60},
                    {0, 60},
                    {0, 60},
                    {200, 60},
                    {200, 60},
                    {0, 5},
                    {100, 60, 8},  // users that come for the first time
                    {0, 60, 8},
                    {0, 5, 8}},
                   embedding, {{.depth = 3, .host_rows = 100}, {.depth = 3}, {.host_rows = 100}});
}

}  // namespace
}  // namespace mstrain::recommender
