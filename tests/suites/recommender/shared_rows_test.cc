// Tables that ranks share: whatever their number, the way of sharing and what is in memory, rows learn the same bits.
#include <gmock/gmock.h>

#include <atomic>
#include <cstring>
#include <set>

#include "core/io/npy.h"
#include "core/tensor/host.h"
#include "suites/recommender/embedding/batches.h"
#include "suites/recommender/run/export_rows.h"
#include "tests/ranks.h"
#include "tests/suites/recommender/world.h"

namespace mstrain::recommender {
namespace {

using embedding_cache::Id;

constexpr int64_t kOfAStep = 8;
constexpr int64_t kOfAMicroBatch = 2;
constexpr int64_t kAllSamples = 50;

struct Sharing {
  int64_t ranks = 1;
  EmbeddingWay way = EmbeddingWay::kRowWise;
  int64_t depth = 2;
  int64_t host_rows = 1000;
};

class SharedRows : public testing::Test {
 protected:
  SharedRows()
      : samples_(std::make_shared<const SomeSamples>(kAllSamples)),
        tables_(std::make_shared<const Tables>(samples_->schema(),
                                               FieldUse{.width = 3, .embeds_numeric = true})) {}

  std::shared_ptr<Rows> rows_of(const std::string& name, const Sharing& how, Ranks* ranks) {
    CacheConfig cache;
    cache.host_rows = how.host_rows;
    cache.store.kind = embedding_cache::StoreKind::kMemory;
    auto options = cache_options(*tables_, Placement(*tables_, how.way, how.ranks), embedding_,
                                 cache, 3, 2, 1 << 30, kAllSamples);
    options.directory = directory_ / name;
    return std::make_shared<Rows>(
        real_files(), options,
        RowsOptions{
            .depth = how.depth, .evict_every = embedding_.forgets() ? 5 : 0, .way = how.way},
        *tables_, ranks);
  }

  // Steps first + 1 … last, which pull what is looked up towards the labels; what a checkpoint calls the rows then. `older`: other
  // checkpoints that are kept.
  std::string train(const std::string& name, const Sharing& how, int64_t first, int64_t last,
                    const std::optional<std::string>& from = {},
                    const std::vector<std::string>& older = {}) {
    std::string id;
    early_rows_ = pooled_bags_ = 0;
    const auto part_of_rank = [&](const std::shared_ptr<Ranks>& ranks) {
      const std::shared_ptr<Rows> rows = rows_of(name, how, ranks.get());
      rows->resume(from);
      const int64_t rank = ranks == nullptr ? 0 : ranks->rank();
      const auto batches =
          training_batches({samples_, tables_, rows}, {}, 11,
                           BatchPart(kOfAStep, kOfAMicroBatch, how.ranks, rank), kOfAStep * first);
      for (int64_t step = first + 1; step <= last; ++step) {
        const Tensors batch = batches->next();
        batches->learn(pull(batch, *tables_, step));
      }
      early_rows_ += rows->times().early_rows;
      pooled_bags_ += rows->times().pooled_bags;
      const std::string own = rows->prepare(last);
      rows->wait(own);
      std::vector<std::string> needed = older;
      needed.push_back(own);
      rows->confirm(own, needed);
      rows->describe();
      if (rank == 0) {
        id = own;
      }
    };
    if (how.ranks == 1) {
      part_of_rank(nullptr);
    } else {
      run_ranks(static_cast<int>(how.ranks), part_of_rank);
    }
    return id;
  }

  // The weights of every key that a sample has.
  std::vector<float> values(const std::string& name, const std::string& id) {
    const std::shared_ptr<Rows> rows = rows_of(name, {}, nullptr);
    rows->open_to_read(id);
    SampleBatch all;
    std::vector<int64_t> every(kAllSamples);
    std::iota(every.begin(), every.end(), 0);
    samples_->read(every, all);
    std::vector<float> out;
    for (size_t t = 0; t < tables_->specs().size(); ++t) {
      const TableKeys keys = keys_of(tables_->specs()[t], all);
      const std::set<Id> distinct(keys.ids.begin(), keys.ids.end());
      const std::vector<Id> ids(distinct.begin(), distinct.end());
      const size_t width = embedding_cache::RowLayout(rows->options().tables[t]).width();
      std::vector<float> of_table(ids.size() * width);
      rows->look_up(t, ids, of_table.data(), width);
      out.insert(out.end(), of_table.begin(), of_table.end());
    }
    return out;
  }

  embedding_cache::TempDirectory directory_;
  std::shared_ptr<const SomeSamples> samples_;
  std::shared_ptr<const Tables> tables_;
  EmbeddingConfig embedding_;
  // Of the last training: rows that came while the step before computed, bags that came pooled.
  std::atomic<int64_t> early_rows_ = 0, pooled_bags_ = 0;
};

TEST_F(SharedRows, LearnTheSameBitsOnAnyNumberOfRanks) {
  const std::vector<float> expected = values("one", train("one", {}, 0, 12));
  for (const int64_t ranks : {1, 2, 4}) {
    for (const EmbeddingWay way : {EmbeddingWay::kRowWise, EmbeddingWay::kTableWise}) {
      for (const int64_t depth : {0, 1, 3}) {
        const int64_t host_rows = depth == 1 ? 1000 : 75;
        const std::string name = fmt::format(
            "{}-{}-{}", ranks, way == EmbeddingWay::kRowWise ? "rows" : "tables", depth);
        SCOPED_TRACE(name);
        const std::string id = train(name, {ranks, way, depth, host_rows}, 0, 12);
        EXPECT_EQ(values(name, id), expected);
        EXPECT_EQ(early_rows_ > 0, ranks > 1 && depth > 0);
      }
    }
  }
}

TEST_F(SharedRows, ForgetTheSameRowsOnAnyNumberOfRanks) {
  using embedding_cache::Score;
  for (const embedding_cache::EvictionOptions& rule :
       {embedding_cache::EvictionOptions{.max_rows = 12},
        embedding_cache::EvictionOptions{.max_rows = 12, .score = Score::kLfu},
        embedding_cache::EvictionOptions{.ttl_steps = 4, .min_keep_rows = 9}}) {
    embedding_.eviction = {};
    const std::string name = fmt::format("{}-{}", rule.max_rows, rule.score == Score::kLfu);
    const std::vector<float> never = values(name + "-all", train(name + "-all", {}, 0, 18));
    embedding_.eviction = rule;
    const std::vector<float> expected = values(name, train(name, {}, 0, 18));
    EXPECT_NE(expected, never);
    for (const int64_t ranks : {2, 4}) {
      const std::string shared = fmt::format("{}-{}", name, ranks);
      SCOPED_TRACE(shared);
      const EmbeddingWay way = ranks == 2 ? EmbeddingWay::kTableWise : EmbeddingWay::kRowWise;
      const std::string half = train(shared, {ranks, way}, 0, 8);
      EXPECT_EQ(values(shared, train(shared, {ranks, way}, 8, 18, half)), expected);
    }
  }
}

// Where tables are whole on ranks, and rows are vectors alone, bags come pooled.
TEST_F(SharedRows, LearnTheSameBitsFromBagsThatTheirRanksPool) {
  tables_ = std::make_shared<const Tables>(samples_->schema(),
                                           FieldUse{.has_weights = false, .width = 3});
  for (const bool always : {false, true}) {
    embedding_.optimizer.l2_of =
        always ? embedding_cache::L2Of::kTable : embedding_cache::L2Of::kBatch;
    const std::string one = fmt::format("one-{}", always);
    const std::vector<float> expected = values(one, train(one, {}, 0, 12));
    EXPECT_EQ(pooled_bags_, 0);
    for (const int64_t ranks : {2, 4}) {
      for (const EmbeddingWay way : {EmbeddingWay::kRowWise, EmbeddingWay::kTableWise}) {
        for (const int64_t depth : {0, 2}) {
          const std::string name =
              fmt::format("{}-{}-{}-{}", always, ranks, way == EmbeddingWay::kRowWise, depth);
          SCOPED_TRACE(name);
          EXPECT_EQ(values(name, train(name, {ranks, way, depth}, 0, 12)), expected);
          EXPECT_EQ(pooled_bags_ > 0, way == EmbeddingWay::kTableWise);
        }
      }
    }
  }
}

// Rows that no batch holds learn all the same, wherever they are, and whoever takes them over.
TEST_F(SharedRows, LearnAtEveryStepOnAnyNumberOfRanks) {
  const std::vector<float> of_batches = values("batches", train("batches", {}, 0, 12));
  embedding_.optimizer.l2 = 0.1F;
  embedding_.optimizer.l2_of = embedding_cache::L2Of::kTable;
  const std::vector<float> expected = values("one", train("one", {}, 0, 12));
  EXPECT_NE(expected, of_batches);
  for (const int64_t ranks : {2, 4}) {
    for (const EmbeddingWay way : {EmbeddingWay::kRowWise, EmbeddingWay::kTableWise}) {
      const std::string name = fmt::format("{}-{}", ranks, way == EmbeddingWay::kRowWise);
      SCOPED_TRACE(name);
      EXPECT_EQ(values(name, train(name, {ranks, way, 3, 75}, 0, 12)), expected);
      const std::string half = train(name, {ranks, way}, 0, 7);
      const std::string other = train(name, {1}, 7, 9, half);
      EXPECT_EQ(values(name, train(name, {ranks, way}, 9, 12, other)), expected);
    }
  }
}

TEST_F(SharedRows, GoOnUnderAnotherLayoutAndKeepWhatOlderCheckpointsName) {
  const std::vector<float> at_four = values("one", train("one", {}, 0, 4));
  const std::vector<float> expected = values("straight", train("straight", {}, 0, 16));
  const std::string first = train("run", {}, 0, 4);
  EXPECT_EQ(first.find(':'), std::string::npos);
  const std::string four = train("run", {4}, 4, 8, first, {first});
  EXPECT_THAT(four, testing::StartsWith("row_wise.1:"));
  const std::string two = train("run", {2, EmbeddingWay::kTableWise}, 8, 12, four, {first, four});
  EXPECT_THAT(two, testing::StartsWith("table_wise.2:"));
  EXPECT_EQ(values("run", first), at_four);
  // The checkpoint of four ranks is gone now, and so are its rows.
  const std::string last = train("run", {}, 12, 16, two, {first});
  EXPECT_EQ(values("run", last), expected);
  EXPECT_EQ(values("run", first), at_four);
  EXPECT_ANY_THROW(values("run", four));
}

// As early stopping does that puts the best weights back, which other ranks may have had, while checkpoint.best names later ones.
TEST_F(SharedRows, GoBackToEarlierOnesAndKeepWhatLaterCheckpointsName) {
  for (const int64_t first : {2, 4}) {
    SCOPED_TRACE(first);
    const std::string name = fmt::format("run{}", first);
    const std::string early = train(name, {.ranks = first}, 0, 4);
    std::string late;
    std::string last;
    run_ranks(2, [&](const std::shared_ptr<Ranks>& ranks) {
      const Sharing how{.ranks = 2};
      const std::shared_ptr<Rows> rows = rows_of(name, how, ranks.get());
      rows->resume(early);
      const auto batches =
          training_batches({samples_, tables_, rows}, {}, 11,
                           BatchPart(kOfAStep, kOfAMicroBatch, 2, ranks->rank()), kOfAStep * 4);
      for (int64_t step = 5; step <= 8; ++step) {
        const Tensors batch = batches->next();
        batches->learn(pull(batch, *tables_, step));
      }
      const std::string at_eight = rows->prepare(8);
      rows->confirm(at_eight, {early, at_eight});
      rows->resume(early);
      const std::string back = rows->prepare(8);
      rows->confirm(back, {early, at_eight, back});
      if (ranks->rank() == 0) {
        late = at_eight;
        last = back;
      }
    });
    EXPECT_EQ(values(name, last), values(name, early));
    EXPECT_EQ(values(name, late), values("straight", train("straight", {}, 0, 8)));
    real_files().remove_all(directory_ / "straight");
  }
}

// Folders and files beside the rows, whatever they are called, are no rows.
TEST_F(SharedRows, LeaveWhatIsNotTheirs) {
  for (const char* name : {"rows.1/precious", "rows.0-of-3/precious", "rows.2"}) {
    const std::string path = directory_ / name;
    real_files().create_directories(parent_path(path));
    write_file_atomic(real_files(), path, "precious");
  }
  train("rows", {.ranks = 2}, 0, 2);
  for (const char* name : {"rows.1/precious", "rows.0-of-3/precious", "rows.2"}) {
    EXPECT_TRUE(real_files().exists(directory_ / name)) << name;
  }
}

TEST_F(SharedRows, AreOfOneRun) {
  const auto open = [&](const std::string& run) {
    CacheConfig cache;
    cache.store.kind = embedding_cache::StoreKind::kMemory;
    auto options = cache_options(*tables_, Placement(*tables_, EmbeddingWay::kRowWise, 1),
                                 embedding_, cache, 3, 2, 1 << 30, kAllSamples);
    options.directory = directory_ / "rows";
    return std::make_shared<Rows>(real_files(), options, RowsOptions{.run = directory_ / run},
                                  *tables_, nullptr);
  };
  real_files().create_directories(directory_ / "first/checkpoints");
  open("first")->resume({});
  open("first/../first/")->resume({});  // however it is called
  EXPECT_THAT([&] { open("second")->resume({}); },
              testing::ThrowsMessage<ConfigError>(
                  testing::HasSubstr("has the rows of the run " + directory_ / "first")));
  EXPECT_THROW(open("second")->open_to_read("1"), ConfigError);
  real_files().remove_all(directory_ / "first");
  open("second")->resume({});
}

TEST_F(SharedRows, OfWhoNeverNamedTheirDirectoryAreNotRemoved) {
  const std::string id = train("one", {}, 0, 2);
  const std::vector<float> expected = values("one", id);
  auto options = cache_options(*tables_, Placement(*tables_, EmbeddingWay::kRowWise, 1), embedding_,
                               {.store = {.kind = embedding_cache::StoreKind::kMemory}}, 3, 2,
                               1 << 30, kAllSamples);
  options.directory = directory_ / "one";
  const auto other = std::make_shared<Rows>(
      real_files(), options, RowsOptions{.run = directory_ / "other"}, *tables_, nullptr);
  EXPECT_THAT([&] { other->resume({}); }, testing::ThrowsMessage<ConfigError>(testing::HasSubstr(
                                              "has rows that this run did not write")));
  EXPECT_FALSE(real_files().exists(directory_ / "one.run"));
  EXPECT_EQ(values("one", id), expected);
}

TEST_F(SharedRows, AreMissedWhereTheirDirectoryIsAnotherOne) {
  const std::string id = train("one", {}, 0, 2);
  EXPECT_THAT([&] { rows_of("elsewhere", {}, nullptr)->resume(id); },
              testing::ThrowsMessage<ConfigError>(testing::AllOf(
                  testing::HasSubstr("embedding_cache.directory: "),
                  testing::HasSubstr("elsewhere has no rows, and the checkpoint names commit"))));
}

TEST_F(SharedRows, AreExportedAlikeWhoeverHadThem) {
  const auto exported = [&](const std::string& name, const Sharing& how) {
    const std::string id = train(name, how, 0, 12);
    const std::shared_ptr<Rows> rows = rows_of(name, {}, nullptr);
    rows->open_to_read(id);
    AtomicFolder folder(real_files(), directory_ / (name + ".export"));
    write_rows(real_files(), folder, *rows, *tables_);
    folder.commit();
    for (size_t t = 0; t < tables_->specs().size(); ++t) {
      const std::string file = directory_ / (name + ".export/rows." + tables_->specs()[t].name);
      const NpyArray keys = read_npy(real_files(), file + ".keys.npy");
      const NpyArray weights = read_npy(real_files(), file + ".npy");
      std::vector<Id> ids(static_cast<size_t>(keys.shape.at(0)));
      std::memcpy(ids.data(), keys.data.data(), keys.data.size());
      EXPECT_TRUE(std::ranges::is_sorted(ids));
      EXPECT_GT(ids.size(), tables_->specs()[t].is_numeric ? 1U : 5U);
      const auto width = static_cast<size_t>(weights.shape.at(1));
      std::vector<float> expected(ids.size() * width);
      rows->look_up(t, ids, expected.data(), width);
      EXPECT_EQ(std::memcmp(expected.data(), weights.data.data(), weights.data.size()), 0);
    }
    return real_files().read(directory_ / (name + ".export/rows.json")) +
           print_manifest(read_manifest(real_files(), directory_ / (name + ".export")));
  };
  const std::string expected = exported("one", {});
  EXPECT_THAT(expected, testing::HasSubstr("\"hashed\""));
  const Json described = parse_json(real_files().read(directory_ / "one.export/rows.json"), "-");
  EXPECT_EQ(described.at("numeric"), Json({"age", "hours"}));
  EXPECT_EQ(described.at("seed"), 3);
  EXPECT_EQ(described.at("tables").at(0).at("first_values").at("vector"),
            Json({{"kind", "normal"}, {"scale", 0.01}}));
  EXPECT_EQ(exported("two", {2}), expected);
  EXPECT_EQ(exported("four", {4, EmbeddingWay::kTableWise}), expected);
}

TEST_F(SharedRows, OfAnotherLayoutHaveNoCountsOfAdmission) {
  embedding_.admission.kind = embedding_cache::AdmissionKind::kCount;
  embedding_.admission.count = 2;
  const std::string one = train("run", {}, 0, 4);
  EXPECT_THAT([&] { train("run", {2}, 4, 8, one); },
              testing::ThrowsMessage<ConfigError>(testing::HasSubstr("embedding.admission")));
  EXPECT_EQ(values("run", train("run", {}, 4, 12, one)),
            values("straight", train("straight", {}, 0, 12)));
}

TEST(RowsId, IsWhatItsTextSays) {
  for (const char* text : {"17", "row_wise:3,4", "table_wise.12:1,2,3", "row_wise.1:9"}) {
    EXPECT_EQ(RowsId::parse(text).text(), text);
  }
  for (const char* text : {"", "x", "rows:1", "row_wise:", "row_wise.x:1", "1,,2", "0", "1,2x"}) {
    EXPECT_THROW(RowsId::parse(text), IoError) << text;
  }
}

TEST(Placement, GivesEveryKeyOneOwnerAndEveryRankItsShare) {
  const SomeSamples samples(1);
  const Tables tables(samples.schema(), {});
  for (const EmbeddingWay way : {EmbeddingWay::kRowWise, EmbeddingWay::kTableWise}) {
    const Placement placement(tables, way, 3);
    for (size_t t = 0; t < tables.specs().size(); ++t) {
      std::vector<uint64_t> rows(3);
      uint64_t all = 0;
      for (const TableField& field : tables.specs()[t].fields) {
        std::set<int> owners;
        for (uint64_t id = 0; id < field.rows; ++id) {
          owners.insert(placement.owner(t, field.first + id));
          ++rows.at(static_cast<size_t>(placement.owner(t, field.first + id)));
        }
        all += field.rows;
        EXPECT_EQ(way == EmbeddingWay::kTableWise && field.rows > 0, owners.size() == 1);
      }
      EXPECT_LE(*std::max_element(rows.begin(), rows.end()), placement.share(t, all));
    }
  }
}

}  // namespace
}  // namespace mstrain::recommender
