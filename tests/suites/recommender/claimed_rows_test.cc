// Runs whose directories of rows lie side by side: each changes and removes its own.
#include <gmock/gmock.h>

#include "suites/recommender/embedding/rows.h"
#include "tests/ranks.h"
#include "tests/suites/recommender/world.h"

namespace mstrain::recommender {
namespace {

using testing::StartsWith;

class ClaimedRows : public testing::Test {
 protected:
  ClaimedRows()
      : samples_(50), tables_(samples_.schema(), {.width = kVector, .embeds_numeric = true}) {}

  // A start of `run` from its checkpoint `from`; its first checkpoint, the only one that it keeps.
  std::string start(const std::string& run, const std::string& name, int ranks,
                    const std::optional<std::string>& from = {}) {
    std::string id;
    const auto part_of_rank = [&](const std::shared_ptr<Ranks>& group) {
      CacheConfig cache;
      cache.store.kind = embedding_cache::StoreKind::kMemory;
      auto options = cache_options(tables_, Placement(tables_, EmbeddingWay::kRowWise, ranks), {},
                                   cache, 3, 1, 1 << 30, samples_.samples());
      options.directory = directory_ / name;
      Rows rows(real_files(), options,
                {.way = EmbeddingWay::kRowWise, .run = run.empty() ? "" : directory_ / run},
                tables_, group.get());
      rows.resume(from);
      const std::string own = rows.prepare(++step_);
      rows.confirm(own, {own});
      if (group == nullptr || group->rank() == 0) {
        id = own;
      }
    };
    if (ranks == 1) {
      part_of_rank(nullptr);
    } else {
      run_ranks(ranks, part_of_rank);
    }
    return id;
  }
  bool exists(const std::string& name) const { return real_files().exists(directory_ / name); }

  embedding_cache::TempDirectory directory_;
  const SomeSamples samples_;
  const Tables tables_;
  std::atomic<int64_t> step_ = 0;
};

TEST_F(ClaimedRows, OfOthersAreNotRemovedWhereTheyAreCalledAsALayoutWouldBe) {
  for (const char* own : {"own", ""}) {
    const std::string one = start("other", "rows.1", 1);
    const std::string two = start("third", "rows.2", 2);
    start(own, "rows", 1);
    EXPECT_TRUE(exists("rows"));
    EXPECT_NO_THROW(start("other", "rows.1", 1, one));
    EXPECT_NO_THROW(start("third", "rows.2", 2, two));
    real_files().remove_all(directory_ / "rows");
  }
}

TEST_F(ClaimedRows, AreNotRemovedByWhoNamesADirectoryThatTheyWouldHaveNext) {
  const std::string one = start("own", "rows", 1);
  const std::string two = start("own", "rows", 2, one);
  EXPECT_TRUE(exists("rows.1.0-of-2"));
  start("other", "rows.1", 1);
  EXPECT_NO_THROW(start("own", "rows", 2, two));
}

TEST_F(ClaimedRows, GoOnUnderANumberThatIsNoOtherRuns) {
  const std::string others = start("other", "rows.1", 2);
  const std::string one = start("own", "rows", 1);
  const std::string two = start("own", "rows", 2, one);
  EXPECT_THAT(two, StartsWith("row_wise.2:"));
  EXPECT_FALSE(exists("rows"));  // its own
  EXPECT_THAT(start("own", "rows", 1, two), StartsWith("row_wise.3:"));
  EXPECT_FALSE(exists("rows.2.0-of-2"));
  EXPECT_NO_THROW(start("other", "rows.1", 2, others));
}

}  // namespace
}  // namespace mstrain::recommender
