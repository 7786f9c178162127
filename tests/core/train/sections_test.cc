#include "core/train/sections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/train/small_task.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string message_for(const std::string& yaml) {
  try {
    const YamlNode tree = parse_yaml(yaml, "my.yaml");
    WholeConfig config;
    read_config(tree, config);
    check_train_config(config.train, tree);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Sections, MistakesNameLineKeyAndChoice) {
  const std::pair<const char*, const char*> kCases[] = {
      {"run: {execution: graf}",
       "my.yaml:1: run.execution: expected one of eager, graph, found "
       "\"graf\"; did you mean graph?"},
      {"batch:\n  global: 12\n  micro: 5",
       "my.yaml:3: batch.micro: 5 does not divide batch.global 12; possible: 12, 6, 4, 3, 2, 1"},
      {"batch:\n  glbal: 12", "my.yaml:2: batch.glbal: unknown key; did you mean batch.global?"},
      {"memory: {recompute: half}", "expected one of none, selective, full"},
      {"memory: {loss_chunks: 0}", "memory.loss_chunks"},
      {"memory: {loss_chunks: all}", "expected auto or none or an integer"},
      {"parallel: {tensors: 8}", "parallel.tensors: unknown key; did you mean parallel.tensor?"},
      {"parallel: {data: 0}", "my.yaml:1: parallel.data: expected -1 or an integer >= 1, found 0"},
      {"checkpoint: {keep: 0}", "my.yaml:1: checkpoint.keep: expected an integer >= 1, found"},
      {"eval: {batches: some}", "eval.batches: expected all or an integer >= 1"},
      {"run: {seed: -1}", "run.seed: expected an integer >= 0"},
      {"fusion: {level: 2}", "fusion.level: expected one of O0, O1, O2"},
      {"run: {output_dir: \"\"}", "run.output_dir: expected a folder's name"},
      {"run: {execution: eager}\nprofile: {steps: 2}",
       "my.yaml:2: profile.steps: run.execution: eager has no plan whose kernels could be timed"},
      {"run: {mode: benchmark}\nprofile: {steps: 2}", "my.yaml:2: profile.steps: run.mode"},
      {"profile: {first: 0}", "profile.first: expected an integer >= 1"},
      {"eval:\n  early_stopping: {monitor: eval_los}",
       "my.yaml:2: eval.early_stopping.monitor: 'eval_los' is no metric of an evaluation; did you "
       "mean eval_loss?"},
      {"eval: {early_stopping: {patiens: 3}}",
       "eval.early_stopping.patiens: unknown key; did you mean eval.early_stopping.patience?"},
      {"eval: {early_stopping: {mode: less}}", "expected one of auto, min, max"},
      {"checkpoint: {best: accuracy}",
       "checkpoint.best: 'accuracy' is no metric of an evaluation; did you mean eval_accuracy?"},
      {"schedule: {reduce_on_plateau: {monitor: loss}}",
       "schedule.reduce_on_plateau.monitor: 'loss' is no metric of an evaluation"},
      {"schedule: {reduce_on_plateau: {factor: 1}}", "schedule.reduce_on_plateau.factor"},
      {"schedule: {type: plateau, reduce_on_plateau: {}}", "schedule.reduce_on_plateau"},
      {"optimizer: {not_finite: ignore}", "expected one of stop, skip"},
      {"checkpoint: {async: maybe}", "checkpoint.async: expected auto or true or false"},
  };
  for (const auto& [yaml, expected] : kCases) {
    EXPECT_THAT(message_for(yaml), HasSubstr(expected)) << yaml;
  }
  EXPECT_EQ(message_for("batch: {global: 12, micro: 4}"), "");
  EXPECT_THAT(message_for("run: {name: ../../x}"),
              HasSubstr("run.name: \"../../x\" is no name; a folder is"));
  EXPECT_THAT(message_for("optimizer: {lr: 1.0e300}"),
              HasSubstr("optimizer.lr: expected a number >= 0"));
  EXPECT_THAT(message_for("batch: {global: 10000000000, micro: 3}"),
              HasSubstr("possible: 10000000000, "));
  EXPECT_EQ(message_for("eval: {early_stopping: {}}\nschedule: {reduce_on_plateau: null}"), "");
  EXPECT_EQ(message_for("run: {execution: eager}\nprofile: {steps: 0}"), "");
}

// What a run that goes on must be asked for.
std::vector<std::string> not_free(const YamlNode& before, const YamlNode& now) {
  std::vector<std::string> out;
  for (const KeyChange& change : changed_keys(before, now)) {
    if (may_change(change.key) != Changing::kFreely) {
      out.push_back(describe(change));
    }
  }
  return out;
}

TEST(Sections, ARunOfAnEarlierVersionGoesOnWithTheDefaultsOfNewKeys) {
  const TrainConfig config = small_config("a");
  YamlNode before = resolved(config);
  auto& keys = before.find("optimizer")->children;
  std::erase_if(keys, [](const YamlNode& key) { return key.key == "not_finite"; });
  EXPECT_THAT(not_free(before, resolved(config)), ElementsAre());
  TrainConfig changed = config;
  changed.optimizer.not_finite = NotFinite::kSkip;
  EXPECT_THAT(not_free(before, resolved(changed)),
              ElementsAre("optimizer.not_finite: stop, now skip"));
}

TEST(Sections, ARunOfAnEarlierVersionHasTheFloatsThatItBeganWith) {
  const auto rate = [](const char* written) {
    return parse_yaml(fmt::format("embedding: {{optimizer: {{lr: {}}}}}", written), "-");
  };
  EXPECT_THAT(not_free(rate("0.0010000000474974513"), rate("0.001")), ElementsAre());
  EXPECT_THAT(not_free(rate("0.0010000000474974513"), rate("0.002")), testing::SizeIs(1));
  EXPECT_THAT(not_free(rate("0.001"), rate("0.0010000000474974513")), testing::SizeIs(1));
}

TEST(Sections, OnlySomeKeysMayChangeInTheMiddleOfARun) {
  const TrainConfig before = small_config("a");
  TrainConfig now = before;
  now.run.output_dir = std::string("b");
  now.checkpoint.keep = 7;
  now.eval.interval = 9;
  now.log.interval = 9;
  now.profile.steps = 1;
  now.schedule.total_steps = 99;
  now.batch.micro = 2;
  EXPECT_THAT(not_free(resolved(before), resolved(now)), ElementsAre());
  now.schedule.warmup_steps = 4;
  now.optimizer.betas = {0.5, 0.6};
  EXPECT_THAT(not_free(resolved(before), resolved(now)),
              ElementsAre("optimizer.betas: [0.9, 0.999], now [0.5, 0.6]",
                          "schedule.warmup_steps: 3, now 4"));
  EXPECT_EQ(may_change("optimizer.betas"), Changing::kOnRequest);
  EXPECT_EQ(may_change("optimizer.skip_spikes.window"), Changing::kOnRequest);
  EXPECT_EQ(may_change("data.train"), Changing::kOnRequest);
  EXPECT_EQ(may_change("embedding.optimizer.lr"), Changing::kOnRequest);
  EXPECT_EQ(may_change("embedding.eviction.ttl_steps"), Changing::kOnRequest);
  for (const char* key :
       {"model.hidden_size", "embedding.optimizer.kind", "optimizer.type", "data.seq_length",
        "data.tokenizer.type", "precision.params", "optimizer.lrx", "run.seed"}) {
    EXPECT_EQ(may_change(key), Changing::kNever) << key;
  }
}

}  // namespace
}  // namespace mstrain
