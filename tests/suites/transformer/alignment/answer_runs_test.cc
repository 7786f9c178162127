// Whole runs that learn of answers, of preferences and of what answers earn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/train/checkpoint.h"
#include "tests/core/base/message_of.h"
#include "tests/suites/transformer/alignment/answer_runs.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

TEST_F(AnswerRuns, PreferencesBeginUndecidedAndAreLearnt) {
  for (const std::string lora : {"", ", lora: {rank: 4}"}) {
    const std::vector<Json> rows =
        train(tree("dpo" + std::to_string(lora.size()), "type: dpo, beta: 0.5", lora, 24));
    const std::vector<double> losses = of(rows, "loss");
    EXPECT_NEAR(losses.front(), std::log(2.0), 1e-6);
    EXPECT_LT(losses.back(), 0.6 * losses.front()) << lora;
    EXPECT_EQ(of(rows, "eval_accuracy").back(), 1);
    // Of each step's own pairs: nothing is preferred at first.
    const std::vector<double> margins = of(rows, "margin");
    ASSERT_EQ(margins.size(), losses.size());
    EXPECT_NEAR(margins.front(), 0, 1e-6);
    EXPECT_EQ(of(rows, "accuracy").back(), 1);
    for (size_t i = 0; i < margins.size(); ++i) {
      const double apart = of(rows, "chosen_reward")[i] - of(rows, "rejected_reward")[i];
      EXPECT_NEAR(margins[i], apart, 1e-5);
      EXPECT_GE(losses[i] + 1e-6, std::log1p(std::exp(-margins[i])));  // by Jensen
    }
  }
}

// Sums and counts over micro-batches.
TEST_F(AnswerRuns, StepsMeasureTheSameHoweverTheyAreComputed) {
  const auto rows_of = [&](const std::string& name, const std::string& change) {
    YamlNode config = tree(name, "type: dpo, beta: 0.5", "", 4);
    apply_overrides(config, std::vector<std::string>{change});
    return train(config);
  };
  const std::vector<Json> whole = rows_of("whole", "batch.micro=6");
  const std::vector<Json> parts = rows_of("parts", "batch.micro=1");
  const std::vector<Json> eager = rows_of("eager", "run.execution=eager");
  for (const char* key : {"accuracy", "margin", "chosen_reward", "rejected_reward"}) {
    const std::vector<double> expected = of(whole, key);
    ASSERT_EQ(expected.size(), 4U) << key;
    // The first step's pairs are ties, but for roundings.
    for (size_t i = std::string_view(key) == "accuracy" ? 1 : 0; i < expected.size(); ++i) {
      EXPECT_NEAR(of(parts, key)[i], expected[i], 1e-4) << key;
      EXPECT_NEAR(of(eager, key)[i], expected[i], 1e-4) << key;
    }
  }
}

// Any letter, figure or mark earns: a third of all bytes.
const char* const kPrintable =
    "type: grpo, grpo: {group: 3, answer_tokens: 1, rewards: [{type: regex, pattern: '^[!-~]'}]";

TEST_F(AnswerRuns, WhatAnswersEarnRises) {
  const std::vector<std::pair<std::string, std::string>> kinds = {
      {"}", ""}, {"}", ", lora: {rank: 4}"}, {", passes: 3}", ""}};
  for (const auto& [more, lora] : kinds) {
    const std::vector<Json> rows = train(
        tree("grpo" + std::to_string(more.size() + lora.size()), kPrintable + more, lora, 120));
    const std::vector<double> rewards = of(rows, "reward");
    const bool is_once = more == "}";
    const size_t some = is_once ? 20 : 8;
    const auto mean = [&](size_t from) {
      return std::accumulate(rewards.begin() + static_cast<ptrdiff_t>(from),
                             rewards.begin() + static_cast<ptrdiff_t>(from + some), 0.0) /
             static_cast<double>(some);
    };
    ASSERT_GE(rewards.size(), is_once ? 100U : 40U);  // those steps that write
    EXPECT_LT(mean(0), 0.75);
    // Adapters of a network that nobody trained move less.
    EXPECT_GT(mean(rewards.size() - some), lora.empty() ? 0.9 : mean(0) + 0.05) << lora;
    EXPECT_EQ(of(rows, "cut_answers").back(), 1);
  }
}

TEST_F(AnswerRuns, HeldOutPromptsAreAnsweredAndRewarded) {
  train(tree("tuned", "type: sft", "", 60));
  YamlNode config = tree(
      "grpo", "type: grpo, grpo: {group: 3, answer_tokens: 5, rewards: [{type: exact, weight: 2}]}",
      "");
  apply_overrides(config, Overrides{"model.init.from=" + folder_ / "tuned",
                                    "checkpoint.best=eval_reward", "eval.interval=3"});
  const std::vector<Json> rows = train(config);
  const std::vector<double> rewards = of(rows, "eval_reward");
  const std::vector<double> matches = of(rows, "eval_exact_match");
  ASSERT_EQ(rewards.size(), 4U);
  for (size_t i = 0; i < rewards.size(); ++i) {
    EXPECT_DOUBLE_EQ(rewards[i], 2 * matches[i]);  // both are of greedy answers
  }
  EXPECT_GT(rewards[0], 0);
  EXPECT_EQ(of(rows, "reward/exact").size(), of(rows, "reward").size());
  EXPECT_EQ(std::ranges::count_if(rows,
                                  [](const Json& row) {
                                    return row.contains("samples") &&
                                           row["samples"].at(0).contains("reward");
                                  }),
            4);
  std::FILE* const out = std::tmpfile();
  evaluate_checkpoint({real_files(), config, stop_, out}, folder_ / "grpo");
  std::rewind(out);
  std::string said(1000, '\0');
  said.resize(std::fread(said.data(), 1, said.size(), out));
  std::fclose(out);
  EXPECT_THAT(said, HasSubstr("reward"));
}

TEST_F(AnswerRuns, HeldOutPromptsWithoutAnswersAreRewardedAlone) {
  train(tree("tuned", "type: sft", "", 2));
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    lines += fmt::format("{{\"prompt\": \"{}\"}}\n", i);
  }
  write_file_atomic(real_files(), folder_ / "prompts.jsonl", lines);
  YamlNode config = tree("asked",
                         "type: grpo, grpo: {group: 3, answer_tokens: 5, rewards: [{type: length, "
                         "at_most: 5}]}",
                         "", 3);
  apply_overrides(config, Overrides{"model.init.from=" + folder_ / "tuned",
                                    "data.train=" + folder_ / "prompts.jsonl", "data.split=0.5"});
  const std::vector<Json> rows = train(config);
  EXPECT_EQ(of(rows, "eval_reward"), std::vector<double>{1});
  EXPECT_TRUE(of(rows, "eval_loss").empty());
}

// A row tells of answers that were written before the newest checkpoint, where steps since learnt from the same ones.
TEST_F(AnswerRuns, ARunThatGoesOnTellsWhatWasWrittenBeforeToo) {
  const std::vector<std::pair<std::string, std::string>> kinds = {
      {kPrintable + std::string(", passes: 3, resample: 1}"), ""},
      {"type: ppo, ppo: {answer_tokens: 4, passes: 3, rewards: [{type: length, at_most: 2}]}",
       ", head: both"}};
  for (const auto& [objective, model] : kinds) {
    YamlNode config = tree("goes_on" + std::to_string(model.size()), objective, model, 10);
    config.find("data")->find("train")->text = folder_ / "answers.jsonl";
    apply_overrides(config, Overrides{"log.interval=6", "eval.interval=none",
                                      "checkpoint={interval: 1, keep: 20}"});
    const auto said = [](std::vector<Json> rows) {
      for (Json& row : rows) {
        for (const char* key : {"time", "step_seconds", "writing_seconds", "tokens_per_second",
                                "busy_processors", "resident_bytes"}) {
          row.erase(key);
        }
      }
      return rows;
    };
    const std::vector<Json> whole = said(train(config));
    ASSERT_EQ(whole.size(), 3U);  // of steps 1, 6 and 10
    for (const Json& row : whole) {
      EXPECT_TRUE(row.contains("reward")) << row;
    }
    const std::string checkpoints = find_config(config, "run.output_dir")->text + "/checkpoints/";
    for (int64_t step = 6; step <= 10; ++step) {
      real_files().remove_all(checkpoints + checkpoint_name(step));
    }
    EXPECT_EQ(said(train(config)), whole);  // from step 5, which learnt from what 4 wrote
  }
}

TEST_F(AnswerRuns, RewardsAreAskedOnceForEachStep) {
  const YamlNode config = tree("counted",
                               "type: grpo, grpo: {group: 3, answer_tokens: 2, rewards: [{type: "
                               "library, path: " +
                                   std::string(MSTRAIN_PLUGINS) + "/libreward_counts.so}]}",
                               "", 3);
  YamlNode without = config;
  apply_overrides(without, Overrides{"eval.interval=none"});
  EXPECT_THAT(of(train(without), "reward"), testing::ElementsAre(1, 2, 3));
}

// The network draws an end once in 257 tokens: of some seeds the first step has one, and a later one has none.
TEST_F(AnswerRuns, AStepWhoseAnswersAreAllCutTeachesNothing) {
  for (int seed = 0; seed < 200; ++seed) {
    YamlNode config = tree("cut" + std::to_string(seed),
                           "type: grpo, grpo: {group: 3, answer_tokens: 7, leave_out_cut: true, "
                           "rewards: [{type: regex, pattern: '^[!-~]'}]}",
                           "", 4);
    apply_overrides(config, Overrides{"run.seed=" + std::to_string(seed)});
    std::vector<Json> rows;
    try {
      rows = train(config);
    } catch (const Error& error) {
      ASSERT_THAT(error.what(), HasSubstr("step 1: no answer comes to an end"));
      continue;
    }
    const std::vector<double> cut = of(rows, "cut_answers");
    const auto all = std::find(cut.begin(), cut.end(), 1.0);
    if (all != cut.end()) {
      const auto step = static_cast<size_t>(all - cut.begin());
      EXPECT_EQ(of(rows, "loss").at(step), 0);
      EXPECT_EQ(of(rows, "grad_norm").at(step), 0);
      EXPECT_LT(cut[0], 1);
      return;
    }
  }
  FAIL() << "no seed of 200 has such a step";
}

TEST_F(AnswerRuns, GoOnBitForBit) {
  int number = 0;
  for (const std::string& objective :
       {std::string("type: dpo"), std::string("type: ipo"), std::string("type: sft"),
        kPrintable + std::string(", kl: 0.1, resample: 1}"),
        kPrintable + std::string(", passes: 3, ratios: sequence}")}) {
    const std::string type = std::to_string(number++);
    const std::vector<double> straight = of(train(tree("straight" + type, objective, "")), "loss");
    const std::string name = "stopped" + type;
    train(tree(name, objective, "", 5));
    EXPECT_EQ(of(train(tree(name, objective, "")), "loss"), straight) << objective;
  }
}

// A row is as long as the longest sample needs it, whatever data.seq_length allows.
TEST_F(AnswerRuns, EmptyPlacesAreNotComputed) {
  write_roomy_model();
  const std::string writing = "answer_tokens: 4, rewards: [{type: length, at_most: 2}]}";
  struct Kind {
    std::string objective, model, data;
  };
  const std::vector<Kind> kinds = {{"type: sft", "", "answers"},
                                   {"type: dpo", "", "pairs"},
                                   {"type: kto", "", "pairs"},
                                   {"type: reward", ", head: score", "pairs"},
                                   {"type: grpo, grpo: {group: 3, " + writing, "", "answers"},
                                   {"type: ppo, ppo: {" + writing, ", head: both", "answers"}};
  for (const Kind& kind : kinds) {
    std::vector<std::vector<double>> losses;
    for (const int64_t seq : {16, 128}) {
      YamlNode config =
          tree(fmt::format("{}{}", &kind - kinds.data(), seq), kind.objective, kind.model, 6);
      config.find("data")->find("train")->text = folder_ / (kind.data + ".jsonl");
      config.find("model")->find("init")->find("from")->text = folder_ / "roomy";
      set_config(config, "data.packing", YamlNode::boolean(false));
      set_config(config, "data.seq_length", YamlNode::integer(seq));
      const std::vector<Json> rows = train(config);
      losses.push_back(of(rows, "loss"));
      losses.push_back(of(rows, "eval_loss"));
      const std::unique_ptr<ModelRun> opened = read_run(config);
      opened->open_data(real_files(), config, {});
      opened->settle(opened->data_ids(), config);
      EXPECT_EQ(opened->task().batch_types(2)[0].shape, Shape({2, 16})) << kind.objective;
    }
    EXPECT_EQ(losses[0].size(), 6U);
    EXPECT_EQ(losses[0], losses[2]) << kind.objective;
    EXPECT_EQ(losses[1], losses[3]) << kind.objective;
  }
}

TEST_F(AnswerRuns, TheReferenceStaysWhereTheRunBegan) {
  const YamlNode config = tree("dpo", "type: dpo, beta: 0.5", "");
  const double loss = of(train(config), "eval_loss").back();
  std::FILE* const out = std::tmpfile();
  evaluate_checkpoint({real_files(), config, stop_, out}, folder_ / "dpo");
  std::rewind(out);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), out));
  std::fclose(out);
  EXPECT_THAT(text, HasSubstr(fmt::format("eval_loss {:.6f}", loss)));
  EXPECT_LT(loss, 0.69);  // what a reference of its own weights would give
}

TEST_F(AnswerRuns, TellWhatBecameOfTheirLines) {
  write_file_atomic(real_files(), folder_ / "answers.jsonl",
                    "x\n"
                    "{\"prompt\": \"a\", \"response\": \"\"}\n"
                    "{\"prompt\": \"a\", \"response\": \"bbbbbbbbbbbb\"}\n"
                    "{\"prompt\": \"aaaaaaaaaa\", \"response\": \"b\"}\n"
                    "{\"prompt\": \"a\", \"response\": \"b\"}\n");
  YamlNode config = tree("told", "type: sft, malformed: 1", "", 2);
  apply_overrides(config, Overrides{"data.split=1"});
  const std::vector<Json> rows = train(config);
  for (const char* key : {"data_malformed", "data_empty", "data_cut", "data_overlong"}) {
    EXPECT_EQ(of(rows, key), std::vector<double>{1}) << key;
  }
}

// Nothing is scored of lines without an answer, and of data without any there is no evaluation.
TEST_F(AnswerRuns, PromptsAloneTeachWhatNeedsNoAnswer) {
  std::string lines;
  for (int i = 0; i < 8; ++i) {
    lines += fmt::format("{{\"prompt\": \"{}\"}}\n", static_cast<char>('a' + i));
  }
  write_file_atomic(real_files(), folder_ / "answers.jsonl", lines);
  const std::vector<Json> rows =
      train(tree("bare",
                 "type: grpo, grpo: {group: 3, answer_tokens: 3, rewards: [{type: length, "
                 "at_most: 2}]}",
                 "", 2));
  EXPECT_EQ(of(rows, "reward").size(), 2U);
  EXPECT_TRUE(of(rows, "eval_loss").empty());
}

TEST_F(AnswerRuns, WhatMakesNoSenseIsNamed) {
  const auto error = [&](const YamlNode& config) {
    return message_of<Error>([&] { run({real_files(), config, stop_, stdout}); });
  };
  EXPECT_THAT(error(tree("a", "type: sft, beta: 0.3", "")), HasSubstr("objective.beta"));
  EXPECT_THAT(error(tree("a", "type: ipo, label_smoothing: 0.1", "")),
              HasSubstr("objective.label_smoothing"));
  EXPECT_THAT(error(tree("a", "type: dpoo", "")), HasSubstr("dpo"));
  EXPECT_THAT(error(tree("a", "type: grpo, grpo: {group: 4}", "")),
              HasSubstr("objective.grpo.group: must divide batch.global, 6"));
  YamlNode eight = tree("a", "type: grpo, grpo: {group: 3}", "");
  apply_overrides(eight, Overrides{"precision={params: bf16, products: fp8}"});
  EXPECT_THAT(error(eight), HasSubstr("precision.products: fp8, but answers"));
  eight = tree("a", "type: dpo", "");
  apply_overrides(eight, Overrides{"precision={params: bf16, products: fp8}"});
  EXPECT_THAT(error(eight),
              HasSubstr("precision.products: fp8, but the model that the run begins"));
  EXPECT_THAT(error(tree("a", std::string(kPrintable) + ", clip_high: 0.3}", "")),
              HasSubstr("objective.grpo.clip_high: is for objective.grpo.passes"));
  EXPECT_THAT(error(tree("a", "type: grpo, grpo: {group: 3, answer_tokens: 8}", "")),
              HasSubstr("objective.grpo.answer_tokens"));
  EXPECT_THAT(error(tree("a", std::string(kPrintable) + ", leave_out_cut: true}", "")),
              HasSubstr("no answer comes to an end within 1 tokens"));
  EXPECT_THAT(
      error(tree(
          "a",
          "type: grpo, grpo: {group: 3, answer_tokens: 1, rewards: [{type: regex, pattern: '('}]}",
          "")),
      HasSubstr("objective.grpo.rewards[0]: pattern (: "));
  EXPECT_THAT(error(tree("a", "type: dpo", ", lora: {rank: 2, modules_to_save: [ln_f]}")),
              HasSubstr("model.lora.modules_to_save"));
  EXPECT_THAT(error(tree("a", std::string(kPrintable) + ", generation: {top_k: 258}}", "")),
              HasSubstr("objective.grpo.generation.top_k: 258 is more than the 257 tokens"));
  EXPECT_THAT(error(tree("a", "type: kto, wanted_weight: 0, unwanted_weight: 0", "")),
              HasSubstr("objective.unwanted_weight: 0, as is objective.wanted_weight"));
  YamlNode config = tree("a", "type: dpo", "");
  YamlNode& init = *config.find("model")->find("init");
  init.find("from")->text = "/nowhere";
  EXPECT_THAT(error(config), HasSubstr("model.init.from"));
}

}  // namespace
}  // namespace mstrain
