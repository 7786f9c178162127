// Rows that leave a run, and those that one begins with.
#include <gmock/gmock.h>

#include <cstring>
#include <map>

#include "core/io/atomic_file.h"
#include "core/io/npy.h"
#include "tests/launcher/job.h"
#include "tests/launcher/recommender_run.h"

namespace mstrain {
namespace {

using Rows = std::map<uint64_t, std::vector<float>>;

std::vector<uint64_t> keys_in(const std::string& path) {
  const NpyArray array = read_npy(real_files(), path);
  EXPECT_EQ(array.dtype, Dtype::kI64);
  std::vector<uint64_t> keys(static_cast<size_t>(array.shape.at(0)));
  std::memcpy(keys.data(), array.data.data(), array.data.size());
  return keys;
}

Rows rows_in(const std::string& folder) {
  const std::vector<uint64_t> keys = keys_in(join_path(folder, "rows.rows.keys.npy"));
  const NpyArray weights = read_npy(real_files(), join_path(folder, "rows.rows.npy"));
  const auto width = static_cast<size_t>(weights.shape.at(1));
  Rows rows;
  for (size_t i = 0; i < keys.size(); ++i) {
    std::vector<float> row(width);
    std::memcpy(row.data(), weights.data.data() + i * width * sizeof(float), width * sizeof(float));
    rows[keys[i]] = std::move(row);
  }
  return rows;
}

// What evaluation says of its predictions, whatever time it took.
std::string quality(const std::string& model) {
  std::string out = run_command({"eval", "--checkpoint", model}).out;
  const size_t seconds = out.find(" predictions");
  return out.erase(seconds, out.find('\n') - seconds);
}

class RecommenderRows : public testing::Test {
 protected:
  std::vector<std::string> run(const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> all{"checkpoint.interval=20", "checkpoint.keep=10",
                                 "eval.interval=1000000", "batch.micro=25"};
    all.insert(all.end(), more.begin(), more.end());
    return recommender_run(folder_ / name, all);
  }
  CommandResult exported(const std::string& checkpoint, const std::string& to,
                         const std::vector<std::string>& more = {}) {
    std::vector<std::string> all{"export", "--checkpoint", folder_ / checkpoint, "--output",
                                 folder_ / to};
    all.insert(all.end(), more.begin(), more.end());
    return run_command(all);
  }

  TemporaryFolder folder_;
};

// Steps that learn nothing to speak of.
const std::vector<std::string> kStill{"schedule.total_steps=1", "optimizer.lr=1e-30",
                                      "embedding.optimizer.lr=1e-30",
                                      "embedding.wide_optimizer={kind: sgd, lr: 1.0e-30}"};

TEST_F(RecommenderRows, AreWhatAnotherRunBeginsWith) {
  ASSERT_EQ(run_command(run("first", {"schedule.total_steps=60"})).status, 0);
  ASSERT_EQ(exported("first", "exported").status, 0);
  const std::string expected = quality(folder_ / "first");
  const auto begin = [&](const std::string& name, const std::string& from, int ranks,
                         std::vector<std::string> keys) {
    keys.insert(keys.end(), kStill.begin(), kStill.end());
    keys.push_back("model.init.from=" + (folder_ / from));
    return run_command(ranks == 1 ? run(name, keys) : with_ranks(run(name, keys), ranks));
  };
  for (const auto& [name, from, ranks] :
       {std::tuple("of_export", "exported", 1), std::tuple("of_run", "first", 1),
        std::tuple("shared", "exported", 2)}) {
    const CommandResult begun = begin(name, from, ranks, {"embedding.eviction={ttl_steps: 5}"});
    ASSERT_EQ(begun.status, 0) << begun.err;
    EXPECT_THAT(begun.err, testing::HasSubstr("begins with "));
    EXPECT_THAT(begun.err,
                testing::HasSubstr("embedding.evict_every: 1000 steps between two looks for rows "
                                   "to forget, in a run of 1: it forgets none"));
    EXPECT_EQ(quality(folder_ / name), expected) << name;
  }
  const CommandResult another = begin("another", "exported", 1, {"data.synthetic.vocab=300"});
  EXPECT_NE(another.status, 0);
  EXPECT_THAT(another.err, testing::HasSubstr("has 200 ids, and this run's has 300"));
  const CommandResult wider = begin("wider", "exported", 1, {"data.synthetic.fields=5"});
  EXPECT_THAT(wider.err, testing::HasSubstr("config.json: model.num_fields: 4, but a sample of the "
                                            "data has 5 vectors; the dense layers of "));
  const std::filesystem::path folder(folder_ / "exported");
  std::filesystem::remove(folder / "MANIFEST.json");
  const std::string file = (folder / "rows.json").string();
  Json rows = parse_json(real_files().read(file), file);
  Json& fields = rows.at("tables").at(0).at("fields");
  std::swap(fields.at(0).at("name"), fields.at(1).at("name"));
  write_file_atomic(real_files(), file, rows.dump());
  EXPECT_THAT(begin("crossed", "exported", 1, {}).err,
              testing::HasSubstr("dense layers know them by their place"));
  std::filesystem::remove(folder / "rows.json");
  const CommandResult without = begin("without", "exported", 1, {});
  EXPECT_NE(without.status, 0);
  EXPECT_THAT(without.err, testing::HasSubstr("rows.json: is missing"));
}

TEST_F(RecommenderRows, SinceACheckpointMakeTheLaterOnesOfTheEarlier) {
  const Environment leaks("ASAN_OPTIONS", "detect_leaks=0");  // those of MPI itself
  for (const int ranks : {1, 2}) {
    // Rows are forgotten soon enough to begin again, and to begin and go between the two checkpoints.
    const std::vector<std::string> keys{"schedule.total_steps=60", "embedding.evict_every=5",
                                        ranks == 1
                                            ? "embedding.eviction={ttl_steps: 4, max_rows: 200}"
                                            : "embedding.eviction={ttl_steps: 12}"};
    const std::string name = fmt::format("run{}", ranks);
    const std::vector<std::string> command = run(name, keys);
    ASSERT_EQ(run_command(ranks == 1 ? command : with_ranks(command, ranks)).status, 0);
    const std::string early = name + "/checkpoints/step-00000040";
    ASSERT_EQ(exported(early, name + "-early").status, 0);
    ASSERT_EQ(exported(name, name + "-late").status, 0);
    const CommandResult changed = exported(name, name + "-changes", {"--since", folder_ / early});
    ASSERT_EQ(changed.status, 0) << changed.err;
    Rows rows = rows_in(folder_ / (name + "-early"));
    const Rows all = rows;
    const std::string changes = folder_ / (name + "-changes");
    const std::vector<uint64_t> gone = keys_in(join_path(changes, "rows.rows.gone.npy"));
    const Rows learned = rows_in(changes);
    EXPECT_GT(gone.size(), 0U);
    EXPECT_LE(learned.size(), all.size());
    for (const uint64_t key : gone) {
      EXPECT_FALSE(learned.contains(key)) << "whatever is applied first, the row must stay";
      EXPECT_EQ(rows.erase(key), 1U) << "no row of the earlier checkpoint";
    }
    for (const auto& [key, row] : learned) {
      rows[key] = row;
    }
    EXPECT_EQ(rows, rows_in(folder_ / (name + "-late")));
    EXPECT_NE(rows, all);

    EXPECT_THAT(exported(early, name + "-none", {"--since", folder_ / name}).err,
                testing::HasSubstr("is of step 60, and what is exported of step 40"));
    std::vector<std::string> other = kStill;
    other.push_back("model.init.from=" + changes);
    EXPECT_THAT(run_command(run(name + "-begun", other)).err,
                testing::HasSubstr("holds what an export with --since left"));
  }
  const std::string rows = folder_ / "run1/rows";
  const std::string told = run_command({"inspect", rows}).out;
  EXPECT_THAT(told, testing::HasSubstr("rows of a recommender"));
  EXPECT_THAT(told, testing::HasSubstr("of step 60: rows "));
  EXPECT_THAT(told, testing::HasSubstr("ec_tool stats " + rows));
  EXPECT_THAT(exported("run1", "none", {"--since", folder_ / "run2"}).err,
              testing::HasSubstr("is of another run"));
}

// The measure that is watched was best at the first evaluation, that of checkpoint.best later: both stay, with their rows.
TEST_F(RecommenderRows, OfTheBestCheckpointStayWhereEarlierOnesArePutBack) {
  const Environment leaks("ASAN_OPTIONS", "detect_leaks=0");  // those of MPI itself
  for (const int ranks : {1, 2}) {
    const std::string name = fmt::format("run{}", ranks);
    const auto command = [&](const std::string& to, const std::vector<std::string>& more) {
      std::vector<std::string> keys{"eval.interval=20", "checkpoint.interval=10",
                                    "schedule.type=constant", "schedule.min_lr_ratio=null"};
      keys.insert(keys.end(), more.begin(), more.end());
      return run_command(ranks == 1 ? run(to, keys) : with_ranks(run(to, keys), ranks));
    };
    const CommandResult trained =
        command(name, {"checkpoint.best=eval_loss",
                       "eval.early_stopping={monitor: eval_loss, mode: max, patience: 2, "
                       "restore_best: true}"});
    ASSERT_EQ(trained.status, 0) << trained.err;
    const std::string checkpoints = name + "/checkpoints/";
    ASSERT_EQ(exported(checkpoints + "step-00000060.best", name + "-best").status, 0);
    ASSERT_EQ(exported(checkpoints + "step-00000050", name + "-fifty").status, 0);
    ASSERT_EQ(exported(checkpoints + "step-00000020", name + "-early").status, 0);
    ASSERT_EQ(exported(name, name + "-end").status, 0);
    ASSERT_EQ(command(name + "s", {"schedule.total_steps=60"}).status, 0);
    ASSERT_EQ(exported(name + "s", name + "-straight").status, 0);
    EXPECT_EQ(rows_in(folder_ / (name + "-best")), rows_in(folder_ / (name + "-straight")));
    EXPECT_EQ(rows_in(folder_ / (name + "-end")), rows_in(folder_ / (name + "-early")));
    EXPECT_NE(rows_in(folder_ / (name + "-end")), rows_in(folder_ / (name + "-fifty")));
    EXPECT_THAT(
        exported(name, "none", {"--since", folder_ / (checkpoints + "step-00000050")}).err,
        testing::HasSubstr("--since: what is exported does not come from step 50: the run has "
                           "gone back to weights of an earlier step since"));
    EXPECT_EQ(
        exported(name, name + "-changes", {"--since", folder_ / (checkpoints + "step-00000020")})
            .status,
        0);
  }
}

TEST_F(RecommenderRows, AreSavedBesideACheckpointThatIsDamaged) {
  const auto of = [&](const char* name, int64_t steps) {
    return run(name, {fmt::format("schedule={{type: constant, min_lr_ratio: 0, total_steps: {}}}",
                                  steps)});
  };
  ASSERT_EQ(run_command(of("run", 40)).status, 0);
  const std::string early = folder_ / "run/checkpoints/step-00000020/state.json";
  write_file_atomic(real_files(), early, "{");
  const CommandResult longer = run_command(of("run", 60));
  EXPECT_EQ(longer.status, 0) << longer.err;
  EXPECT_THAT(longer.err, testing::HasSubstr(early + ": "));
  EXPECT_THAT(longer.err,
              testing::HasSubstr("the checkpoint is damaged, and what it names may go"));
  ASSERT_EQ(run_command(of("straight", 60)).status, 0);
  EXPECT_EQ(quality(folder_ / "run"), quality(folder_ / "straight"));
}

TEST_F(RecommenderRows, OfWhichTheNewestCheckpointsAreDamagedAreToldWithWhatToDo) {
  const std::vector<std::string> command = run("run", {"schedule.total_steps=40"});
  ASSERT_EQ(run_command(command).status, 0);
  std::filesystem::remove(folder_ / "run/rows/commits/00000002/state.bin");
  std::vector<std::string> longer = command;
  longer.push_back("schedule.total_steps=50");
  const std::string newest = folder_ / "run/checkpoints/step-00000040";
  EXPECT_THAT(run_command(longer).err,
              testing::HasSubstr("state.bin: missing; " + newest +
                                 " needs it: move that folder away, and the same command goes on "
                                 "from the checkpoint before"));
  std::filesystem::rename(newest, newest + ".away");
  const CommandResult again = run_command(longer);
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, testing::HasSubstr("going on from step 20"));
}

}  // namespace
}  // namespace mstrain
