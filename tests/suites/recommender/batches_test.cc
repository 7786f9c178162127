#include "suites/recommender/embedding/batches.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "tests/suites/recommender/world.h"

namespace mstrain::recommender {
namespace {

std::string train(World& world, int64_t steps, int64_t first = 0) {
  {
    const auto batches = training_batches(world.source(), {}, 11, BatchPart(8), 8 * first);
    for (int64_t step = first + 1; step <= steps; ++step) {
      const Tensors batch = batches->next();
      batches->learn(pull(batch, *world.tables, step));
    }
  }
  return world.rows->cache().digest();
}

TEST(RecommenderBatches, LearnTheSameWhateverIsInMemoryAndHoweverFarAheadRowsAreFetched) {
  World all(0, 1000);
  const std::string expected = train(all, 12);
  for (const int64_t depth : {0, 1, 3}) {
    for (const int64_t host_rows : {70, 100, 1000}) {
      World world(depth, host_rows);
      EXPECT_EQ(train(world, 12), expected) << depth << ' ' << host_rows;
    }
  }
}

TEST(RecommenderBatches, GoOnFromACommitAsIfNothingHadHappened) {
  World straight(2, 90);
  const std::string expected = train(straight, 14);
  World stopped(3, 90);
  std::string id;
  {
    const auto batches = training_batches(stopped.source(), {}, 11, BatchPart(8), 0);
    for (int64_t step = 1; step <= 9; ++step) {
      const Tensors batch = batches->next();
      batches->learn(pull(batch, *stopped.tables, step));
      if (step == 6) {
        id = stopped.rows->prepare(step);  // while rows are held ahead
        stopped.rows->wait(id);
        stopped.rows->confirm(id, {id});
      }
    }
  }
  stopped.rows->resume(id);
  EXPECT_EQ(train(stopped, 14, 6), expected);
}

TEST(RecommenderBatches, BeginAnewWhereNoCheckpointNamesTheirCommits) {
  World once(1, 100);
  const std::string expected = train(once, 3);
  once.rows->prepare(3);
  once.rows->resume(std::nullopt);
  EXPECT_EQ(train(once, 3), expected);
}

TEST(RecommenderBatches, KeepTheCommitsThatCheckpointsName) {
  World world(1, 100);
  const auto batches = training_batches(world.source(), {}, 11, BatchPart(8), 0);
  std::vector<std::string> ids;
  for (int64_t step = 1; step <= 6; ++step) {
    const Tensors batch = batches->next();
    batches->learn(pull(batch, *world.tables, step));
    ids.push_back(world.rows->prepare(step));
    world.rows->wait(ids.back());
    world.rows->confirm(ids.back(), {ids.front(), ids.back()});
  }
  EXPECT_NO_THROW(world.rows->resume(ids.front()));
  EXPECT_ANY_THROW(world.rows->resume(ids[2]));
  EXPECT_ANY_THROW(world.rows->resume("no number"));
}

TEST(RecommenderBatches, SeeEveryUpdateOfTheStepsBefore) {
  World world(3, 1000);
  const auto batches = training_batches(world.source(), {.shuffle = false}, 11, BatchPart(50), 0);
  const size_t place = world.tables->looked_up().front();
  Tensors before = batches->next();
  RowGradients teach = pull(before, *world.tables, 1);
  batches->learn(teach);
  const Tensors after = batches->next();  // the same samples
  EXPECT_EQ(to_vector<float>(before[0]), to_vector<float>(after[0]));
  EXPECT_NE(to_vector<float>(before[place]), to_vector<float>(after[place]));
  const auto reading = reading_batches(world.source(), BatchPart(50), 50);
  EXPECT_EQ(to_vector<float>(reading->next()[place]), to_vector<float>(after[place]));
  batches->learn(
      {.step = 2, .gradients = pull(after, *world.tables, 2).gradients, .is_applied = false});
  EXPECT_EQ(to_vector<float>(batches->next()[place]),
            to_vector<float>(after[place]));  // a skipped step
}

TEST(RecommenderBatches, FillUpTheLastBatchWithSamplesThatDoNotCount) {
  World world(0, 1000);
  const auto reading = reading_batches(world.source(), BatchPart(8), 10);
  reading->next();
  const std::vector<float> labels = to_vector<float>(reading->next()[0]);
  EXPECT_EQ(std::count(labels.begin(), labels.end(), -1.0F), 6);
  EXPECT_GE(labels[1], 0);
}

TEST(RecommenderBatches, ArePooledAsTheirFieldsSay) {
  World world(0, 1000);
  const auto reading = reading_batches(world.source(), BatchPart(20), 20);
  const Tensors batch = reading->next();
  SampleBatch samples;
  std::vector<int64_t> all(20);
  std::iota(all.begin(), all.end(), 0);
  world.samples->read(all, samples);
  EXPECT_EQ(to_vector<float>(batch[1]), samples.numeric);
  // Tables of age and hours; user, item and tags; the largest of genres. All samples have the vectors of the numbers, and each of these
  // counts as often as it says in a weight.
  ASSERT_EQ(world.tables->specs().size(), 3U);
  const std::vector<float> of_numbers = to_vector<float>(batch[2]);
  const std::vector<float> weights = to_vector<float>(batch[3]);
  const std::vector<float> x = to_vector<float>(batch[4]);
  for (size_t s = 1; s < 20; ++s) {
    EXPECT_TRUE(std::equal(of_numbers.begin(), of_numbers.begin() + 2 * kVector,
                           of_numbers.begin() + static_cast<int64_t>(s) * 2 * kVector));
    EXPECT_EQ(weights[s], 0);  // they begin so
    if (samples.fields[2].offsets[s] == samples.fields[2].offsets[s + 1]) {
      EXPECT_EQ(x[(s * 3 + 2) * kVector], 0);  // a bag of nothing
    }
  }
  EXPECT_EQ(batch[6].shape(), (Shape{20, 1, kVector}));
}

TEST(SampleOrder, VisitsEverySampleOnceAnEpochInAnOrderOfItsOwn) {
  for (const SampleOrder& order : {SampleOrder{}, SampleOrder{.block = 7}, SampleOrder{.block = 50},
                                   SampleOrder{.shuffle = false}}) {
    std::set<int64_t> seen;
    bool is_other = false;
    for (int64_t i = 0; i < 50; ++i) {
      seen.insert(sample_at(order, 50, 3, i));
      is_other = is_other || sample_at(order, 50, 3, i) != sample_at(order, 50, 3, 50 + i);
    }
    EXPECT_EQ(seen.size(), 50U);
    EXPECT_EQ(*seen.rbegin(), 49);
    EXPECT_EQ(is_other, order.shuffle);
  }
}

TEST(Tables, NameTheFieldThatIsNotThere) {
  const SomeSamples samples(1);
  try {
    const Tables tables(samples.schema(), {.vectors_of = {{"usr"}}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "model.vector_fields: the data have no field usr; did you mean user?");
  }
}

TEST(Tables, HavePlaceForAllIdsOfBagsThatNothingBounds) {
  SampleSchema schema;
  schema.fields = {{.name = "town"}, {.name = "tags", .is_bag = true, .ids = 7.5}};
  const Tables tables(schema, {.has_weights = false});
  const embedding_cache::Options options =
      cache_options(tables, Placement(tables, EmbeddingWay::kAuto, 1), EmbeddingConfig(),
                    CacheConfig(), 1, 1, /*memory=*/1 << 30, /*samples=*/100);
  ASSERT_EQ(options.tables.size(), 1U);
  EXPECT_EQ(options.tables[0].host_rows, 850U);
}

TEST(Tables, HaveNoMoreRowsThanSamplesHaveIds) {
  SampleSchema schema;
  schema.fields = {{.name = "town", .rows = 5'000'000'000}, {.name = "day", .rows = 7}};
  const Tables tables(schema, {.has_weights = false});
  ASSERT_EQ(tables.specs().size(), 1U);
  const TableSpec& table = tables.specs()[0];
  EXPECT_EQ(table.rows_of(100), 107U);
  EXPECT_EQ(table.rows_of(100, /*others=*/30), 137U);
  EXPECT_EQ(table.rows_of(3), 6U);
  EXPECT_EQ(table.rows_of(6'000'000'000), 5'000'000'007U);
}

TEST(Tables, GroupSamplesByAFieldOfOneId) {
  const SomeSamples samples(4);
  const Tables tables(samples.schema(), {.group_by = "item"});
  EXPECT_EQ(tables.group(), 1U);
  EXPECT_EQ(tables.batch_types(4).back(), (TensorType{Dtype::kI64, {4}}));
  EXPECT_EQ(tables.looked_up().back(), tables.batch_types(4).size() - 2);
  for (const char* name : {"tags", "itm"}) {
    EXPECT_THROW(Tables(samples.schema(), {.group_by = name}), Error) << name;
  }
}

TEST(Tables, HaveNoRowForAnIdBeyondTheirs) {
  const SomeSamples samples(4);
  const Tables tables(samples.schema(), {});
  SampleBatch batch;
  samples.read(std::vector<int64_t>{0}, batch);
  batch.fields[0].ids[0] = 40;
  EXPECT_THROW(keys_of(tables.specs()[0], batch), Error);
}

}  // namespace
}  // namespace mstrain::recommender
