// Runs of recommenders as a user has them: killed, gone on with, and used to predict.
#include <gmock/gmock.h>

#include <cmath>
#include <sstream>

#include "core/base/rng.h"
#include "tests/launcher/job.h"
#include "tests/launcher/recommender_run.h"
#include "tests/launcher/save_watch.h"

namespace mstrain {
namespace {

std::string newest(const std::string& directory, const char* file) {
  const auto folder =
      newest_checkpoint(real_files(), join_path(directory, "checkpoints"), /*set_aside=*/false);
  return folder ? real_files().read(join_path(*folder, file)) : "";
}

// What an evaluation of the newest checkpoint says, but for its time.
std::string evaluated(const std::string& directory) {
  std::string out = run_command({"eval", "--checkpoint", directory}).out;
  const size_t seconds = out.find(" predictions");
  return out.erase(seconds, out.find('\n') - seconds);
}

TEST(RecommenderKill, AtAnyMomentChangesNeitherWeightsNorRows) {
  const TemporaryFolder folder;
  const std::string steps = kSanitized ? "schedule.total_steps=400" : "schedule.total_steps=3000";
  const std::vector<std::string> more{steps, "checkpoint.interval=20", "eval.interval=1000"};
  const std::string straight = folder / "straight";
  const std::string killed = folder / "killed";
  ASSERT_EQ(run_command(recommender_run(straight, more)).status, 0);
  Rng rng(20261125);
  int64_t kills = 0;
  for (int64_t i = 0; i < std::max<int64_t>(4, repetitions(12)); ++i) {
    std::vector<std::string> how = more;  // what is in memory changes from time to time
    how.push_back(i % 2 == 0 ? "embedding_cache.host_rows=400" : "embedding_cache.host_rows=800");
    how.push_back("embedding_cache.pipeline.depth=" + std::to_string(i % 4));
    RunningCommand command(recommender_run(killed, how));
    const SaveWatch watch(killed);
    const size_t before = checkpoints_of(killed).size();
    while (!command.ended() && (before == 0 && i > 0 && checkpoints_of(killed).empty())) {
      sleep(0.002);
    }
    sleep(0.05 + 0.1 * rng.uniform());
    if (command.ended()) {
      ASSERT_EQ(command.wait().status, 0);
      break;
    }
    command.signal(SIGKILL);
    command.wait();
    ++kills;
  }
  EXPECT_GT(kills, 1);
  const CommandResult last = run_command(recommender_run(killed, more));
  ASSERT_EQ(last.status, 0) << last.err;
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    EXPECT_EQ(newest(killed, file), newest(straight, file)) << file;
  }
  EXPECT_THAT(evaluated(killed), testing::HasSubstr("eval_auc"));
  EXPECT_EQ(evaluated(killed), evaluated(straight));
}

TEST(RecommenderRestart, KeepsTheEarlierRunWhereTheNewOneCannotBegin) {
  const TemporaryFolder folder;
  const std::string run = folder / "run";
  ASSERT_EQ(run_command(recommender_run(run, {"schedule.total_steps=20"})).status, 0);
  const std::string before = evaluated(run);
  const CommandResult refused = run_command(recommender_run(
      run, {"schedule.total_steps=20", "embedding_cache.host_rows=10", "--restart"}));
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, testing::ContainsRegex(
                               "command line: embedding_cache.host_rows: table .* a batch has "
                               "[0-9]+ distinct ids and does not fit into 10 rows"));
  EXPECT_EQ(evaluated(run), before);
}

TEST(Recommender, WithoutNumericColumnsEmbedsNone) {
  const TemporaryFolder folder;
  const CommandResult refused = run_command(
      recommender_run(folder / "run", {"model.embed_numeric=true", "data.synthetic.numeric=0"}));
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, testing::HasSubstr("model.embed_numeric: true, but the data have no"));
}

TEST(RecommenderRanks, ComeToTheSameBitsUnderAnyLayoutAndWhateverIsKilled) {
  const Environment leaks("ASAN_OPTIONS", "detect_leaks=0");  // those of MPI itself
  const TemporaryFolder folder;
  const std::string killed = folder / "killed";
  const std::vector<std::string> more{"batch.micro=10", "batch.global=40", "checkpoint.interval=20",
                                      "eval.interval=1000000",
                                      "schedule={type: constant, min_lr_ratio: 0}"};
  const auto with = [&](const std::string& directory, std::initializer_list<std::string> others) {
    std::vector<std::string> all = recommender_run(directory, more);
    all.insert(all.end(), others.begin(), others.end());
    return all;
  };
  Rng rng(20261126);
  const int64_t kills = repetitions(3, 100);
  for (int64_t i = 0; i < kills && !testing::Test::HasFatalFailure(); ++i) {
    const int ranks = i % 3 == 1 ? 4 : 2;
    const auto victim = static_cast<int>(rng.below(static_cast<uint64_t>(ranks)));
    SCOPED_TRACE(fmt::format("kill {}: rank {} of {}", i, victim, ranks));
    const SaveWatch watch(killed);
    RunningJob job(
        with(killed,
             {kLong, i % 2 == 0 ? "parallel.embedding=row_wise" : "parallel.embedding=table_wise",
              "embedding_cache.pipeline.depth=" + std::to_string(i % 4),
              i % 2 == 0 ? "embedding_cache.host_rows=400" : "embedding_cache.host_rows=800"}),
        ranks, killed);
    watch.await_checkpoints(job, rng.below(4) + 1);
    sleep(rng.uniform() * 0.05);
    ASSERT_EQ(kill(job.rank(victim), SIGKILL), 0);
    ASSERT_EQ(job.wait().status, 1);
  }
  const std::string total =
      fmt::format("schedule.total_steps={}", checkpoints_of(killed).back() + 5);
  const CommandResult last = run_command(with_ranks(with(killed, {total}), 2));
  ASSERT_EQ(last.status, 0) << last.err;
  EXPECT_THAT(last.err, testing::HasSubstr("skew"));
  const std::string straight = folder / "straight";
  ASSERT_EQ(run_command(with(straight, {total})).status, 0);
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    EXPECT_EQ(newest(killed, file), newest(straight, file)) << file;
  }
  const auto quality = [](const std::string& directory) {
    return run_command({"eval", "--checkpoint", directory}).out;
  };
  EXPECT_THAT(quality(killed), testing::HasSubstr("eval_auc"));
  const auto auc = [](const std::string& text) { return text.substr(text.find("eval_auc")); };
  EXPECT_EQ(auc(quality(killed)), auc(quality(straight)));
}

TEST(RecommenderRanks, NormaliseAndForgetAlikeHoweverABatchIsDivided) {
  const Environment leaks("ASAN_OPTIONS", "detect_leaks=0");
  const TemporaryFolder folder;
  const auto arguments = [&](const char* name, int64_t steps) {
    return recommender_run(
        folder / name,
        {"batch.micro=10", "batch.global=40", fmt::format("schedule.total_steps={}", steps),
         "checkpoint.interval=15", "eval.interval=1000000", "model.batch_norm={samples: 5}",
         "embedding.eviction={max_rows: 250, score: lfu}", "embedding.evict_every=8",
         "schedule={type: constant, min_lr_ratio: 0}"});
  };
  ASSERT_EQ(run_command(arguments("one", 60)).status, 0);
  const CommandResult half = run_command(with_ranks(arguments("two", 30), 2));
  ASSERT_EQ(half.status, 0) << half.err;
  ASSERT_EQ(run_command(with_ranks(arguments("two", 60), 2)).status, 0);
  const std::string weights = newest(folder / "one", "model.safetensors");
  EXPECT_THAT(weights, testing::HasSubstr("running_var"));
  EXPECT_EQ(newest(folder / "two", "model.safetensors"), weights);
  EXPECT_EQ(newest(folder / "two", "optimizer.safetensors"),
            newest(folder / "one", "optimizer.safetensors"));
  EXPECT_EQ(evaluated(folder / "two"), evaluated(folder / "one"));
}

TEST(RecommenderRanks, AreEvaluatedWhileTheyTrain) {
  const Environment leaks("ASAN_OPTIONS", "detect_leaks=0");
  const TemporaryFolder folder;
  const std::string directory = folder / "run";
  std::vector<std::string> arguments = recommender_run(
      directory, {kLong, "batch.micro=25", "checkpoint.interval=50", "checkpoint.keep=1000",
                  "eval.interval=1000000", "schedule={type: constant, min_lr_ratio: 0}"});
  const SaveWatch watch(directory);
  RunningJob job(arguments, 2, directory);
  watch.await_checkpoints(job, 2);
  const CommandResult result =
      run_command({"eval", "--checkpoint", join_path(directory, "checkpoints/step-00000050")});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, testing::HasSubstr("eval_auc"));
  EXPECT_FALSE(job.ended());
  job.signal(SIGINT);
  EXPECT_EQ(job.wait().status, 130);
}

// Each rank had rows for its part of a batch; who evaluates reads them as it likes.
TEST(RecommenderRanks, AreEvaluatedWhateverRowsEachOfThemHad) {
  const Environment leaks("ASAN_OPTIONS", "detect_leaks=0");
  const TemporaryFolder folder;
  const std::string directory = folder / "run";
  ASSERT_EQ(run_command(
                with_ranks(recommender_run(directory, {"schedule.total_steps=20", "batch.micro=25",
                                                       "embedding_cache.host_rows=90"}),
                           2))
                .status,
            0);
  const CommandResult result = run_command({"eval", "--checkpoint", directory});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, testing::HasSubstr("eval_auc"));
}

TEST(RecommenderRanks, PoolTheBagsOfTextForEachOther) {
  const Environment leaks("ASAN_OPTIONS", "detect_leaks=0");
  const TemporaryFolder folder;
  Rng rng(11);
  std::string text = "click,town,tags,likes\n";
  for (int i = 0; i < 1200; ++i) {
    text += fmt::format("{},t{},", rng.below(2), rng.below(30));
    for (uint64_t k = rng.below(40); k > 0; --k) {
      text += fmt::format("v{}|", rng.below(400));
    }
    text += fmt::format(",l{} l{}\n", rng.below(50), rng.below(50));
  }
  write_file_atomic(real_files(), folder / "x.csv", text);
  const auto arguments = [&](const char* name) {
    return recommender_run(
        folder / name,
        {"model={type: dcn_v2, embedding_dim: 4, hidden: [8]}", "data.format=csv",
         "data.train=" + (folder / "x.csv"), "data.ids={mode: hash, buckets: 400}",
         "data.csv={label: click, categorical: [town], bags: [{column: tags}, {column: likes, "
         "separator: ' ', pooling: sum}]}",
         "batch.micro=25", "schedule.total_steps=30", "eval.interval=15",
         "parallel.embedding=table_wise"});
  };
  const CommandResult one = run_command(arguments("one"));
  ASSERT_EQ(one.status, 0) << one.err;
  const CommandResult two = run_command(with_ranks(arguments("two"), 2));
  ASSERT_EQ(two.status, 0) << two.err;
  EXPECT_THAT(two.err, testing::ContainsRegex("and [1-9][0-9]* bags as vectors"));
  EXPECT_EQ(newest(folder / "two", "model.safetensors"),
            newest(folder / "one", "model.safetensors"));
  EXPECT_EQ(evaluated(folder / "two"), evaluated(folder / "one"));
}

// Two columns of values that decide, and a number.
std::string census(int64_t lines, uint64_t seed, bool labelled) {
  Rng rng(seed);
  std::string out = labelled ? "age,job,town,rich\n" : "age,job,town\n";
  for (int64_t i = 0; i < lines; ++i) {
    const uint64_t job = rng.below(20);
    const uint64_t town = rng.below(30);
    const double odds = (job % 3 == 0 ? 2 : -1) + (town % 2 == 0 ? 0.5 : -0.5);
    out += fmt::format("{},job{},town{}", rng.below(80), job, town);
    const bool rich = rng.uniform() < 1 / (1 + std::exp(-odds));
    out += labelled ? (rich ? ",yes\n" : ",no\n") : "\n";
  }
  return out;
}

TEST(Score, IsWhatEvaluationsPredict) {
  const TemporaryFolder folder;
  write_file_atomic(real_files(), folder / "train.csv", census(4000, 1, true));
  write_file_atomic(real_files(), folder / "valid.csv", census(777, 2, true));
  write_file_atomic(real_files(), folder / "new.csv", census(777, 2, false));
  const std::string directory = folder / "run";
  const std::vector<std::string> arguments = recommender_run(
      directory,
      {"schedule.total_steps=200", "schedule.type=constant", "optimizer.lr=1e-3",
       "embedding.optimizer.lr=1e-3", "data.format=csv", "data.train=" + (folder / "train.csv"),
       "data.valid=" + (folder / "valid.csv"),
       "data.csv={label: rich, positive: 'yes', numeric: [age], categorical: [job, town], "
       "crosses: [{of: [job, town]}], buckets: [{column: age, boundaries: [20, 40]}]}"});
  const CommandResult trained = run_command(arguments);
  ASSERT_EQ(trained.status, 0) << trained.err;
  const std::string out = folder / "scores.csv";
  const CommandResult scored = run_command(
      {"score", "--checkpoint", directory, "--input", folder / "new.csv", "--output", out});
  ASSERT_EQ(scored.status, 0) << scored.err;
  const CommandResult reordered =
      run_command({"eval", "--checkpoint", directory, "data.csv.categorical=[town, job]"});
  EXPECT_NE(reordered.status, 0);
  EXPECT_THAT(reordered.err, testing::HasSubstr("field job is number 0 there and 1 here"));
  // The log loss of the scores is what eval says.
  std::istringstream scores(real_files().read(out));
  std::istringstream samples(census(777, 2, true));
  std::string line;
  std::getline(scores, line);
  EXPECT_EQ(line, "probability");
  std::string sample;
  std::getline(samples, sample);
  double loss = 0;
  int64_t count = 0;
  while (std::getline(scores, line) && std::getline(samples, sample)) {
    const double p = std::stod(line);
    loss -= sample.ends_with("yes") ? std::log(p) : std::log1p(-p);
    ++count;
  }
  EXPECT_EQ(count, 777);
  const CommandResult evaluated = run_command({"eval", "--checkpoint", directory});
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  EXPECT_NEAR(std::stod(evaluated.out.substr(evaluated.out.find(' '))), loss / 777, 2e-6);
  EXPECT_LT(loss / 777, 0.62);  // the share of yes alone gives 0.66
  // A file without a column that is needed.
  write_file_atomic(real_files(), folder / "bad.csv", std::string("age,jb,town\n1,a,b\n"));
  const CommandResult refused = run_command(
      {"score", "--checkpoint", directory, "--input", folder / "bad.csv", "--output", out});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, testing::HasSubstr("has no column job"));
}

}  // namespace
}  // namespace mstrain
