// Whole runs whose answers are drawn by the probabilities that their steps find, alone and on ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/data/windows.h"
#include "core/ops/reduce.h"
#include "core/tensor/host.h"
#include "core/transform/grad.h"
#include "suites/transformer/alignment/answer_log_probs.h"
#include "suites/transformer/alignment/grpo_task.h"
#include "tests/core/base/message_of.h"
#include "tests/ranks.h"
#include "tests/suites/transformer/alignment/answer_runs.h"

namespace mstrain {
namespace {

constexpr const char* kWritten =
    "grpo: {group: 3, answer_tokens: 4, rewards: [{type: length, at_most: 2}]";

TEST_F(AnswerRuns, TokensAreDrawnByTheProbabilitiesThatStepsFind) {
  const std::string grpo = std::string("type: grpo, ") + kWritten;
  const std::vector<std::pair<std::string, std::string>> kinds = {
      {grpo + "}", ""},
      {grpo + ", passes: 3, kl: 0.1, generation: {exact: true}}", ""},
      {grpo + ", passes: 2}", ", lora: {rank: 4}"},
      {grpo + "}", ", lora: {rank: 4, base: int8}"},
      {grpo + "}", ", lora: {rank: 4, base: nf4}"},
      {grpo + ", passes: 2, kl: 0.1, generation: {temperature: 0.7}}", ""},
      {grpo + ", passes: 2, kl: 0.1, generation: {temperature: 1.3, top_k: 9, top_p: 0.8}}", ""},
      {grpo + ", generation: {top_k: 257, min_p: 0.1}}", ", lora: {rank: 4}"},
      {"type: ppo, ppo: {answer_tokens: 4, passes: 2, rewards: [{type: length, at_most: 2}], "
       "generation: {top_k: 5, temperature: 2}}",
       ", head: both"},
      {"type: ppo, ppo: {answer_tokens: 4, passes: 2, rewards: [{type: length, at_most: 2}]}",
       ", head: both"}};
  for (size_t i = 0; i < kinds.size(); ++i) {
    YamlNode config = tree(fmt::format("exact{}", i), kinds[i].first, kinds[i].second, 9);
    config.find("data")->find("train")->text = folder_ / "answers.jsonl";
    const std::vector<Json> rows = train(config);
    const std::vector<double> most = of(rows, "mismatch_max");
    EXPECT_GE(most.size(), 3U) << i;
    EXPECT_EQ(most, std::vector<double>(most.size(), 0.0)) << i;
    EXPECT_EQ(of(rows, "mismatch_chi_square"), most) << i;
  }
}

// Layers that are computed again are not when answers are written, which looks into them.
TEST_F(AnswerRuns, RecomputationChangesNothing) {
  const std::string grpo = std::string("type: grpo, ") + kWritten + ", passes: 2}";
  std::vector<std::vector<double>> losses;
  for (const char* rule : {"none", "selective", "full"}) {
    YamlNode config = tree(rule, grpo, "", 6);
    set_config(config, "memory.recompute", YamlNode::string(rule));
    losses.push_back(of(train(config), "loss"));
    EXPECT_EQ(losses.back(), losses.front()) << rule;
  }
}

TEST_F(AnswerRuns, WhereTheyCannotBeTheSameSomeMeasureSays) {
  const std::string grpo = std::string("type: grpo, ") + kWritten;
  YamlNode half = tree("half", grpo + ", passes: 2}", "", 6);
  set_config(half, "precision.params", YamlNode::string("bf16"));
  const std::vector<double> most = of(train(half), "mismatch_max");
  ASSERT_FALSE(most.empty());
  EXPECT_LT(*std::max_element(most.begin(), most.end()), 0.3);
  const auto refusal = [&](const char* key, const YamlNode& value) {
    YamlNode demanding = tree("demanding", grpo + ", generation: {exact: true}}", "", 6);
    set_config(demanding, key, value);
    return message_of<ConfigError>([&] { run({real_files(), demanding, stop_, stdout}); });
  };
  const std::string where = "objective.grpo.generation.exact: ";
  EXPECT_THAT(refusal("precision.params", YamlNode::string("bf16")),
              testing::HasSubstr(where + "precision.params is not fp32"));
  EXPECT_THAT(refusal("parallel.context", YamlNode::scalar("2")),
              testing::HasSubstr("unless parallel.context_way is all_to_all or gather"));
}

TEST(AlignedRuns, KnowWhatIsExactOnceTheirVocabularyIsKnown) {
  const auto settle = [](const std::string& exact) {
    const YamlNode tree = parse_yaml(
        "model: {type: llama, hidden_size: 16, num_layers: 1, num_attention_heads: 2, "
        "max_position_embeddings: 8, rope: {type: dynamic, factor: 2.0}}\n"
        "data: {train: x.jsonl, seq_length: 12}\n"
        "objective: {type: grpo, grpo: {answer_tokens: 2, rewards: [{type: length, at_most: 1}], "
        "generation: {exact: " +
            exact + "}}}\nbatch: {global: 8}\nschedule: {total_steps: 2}\n",
        "run.yaml");
    read_run(tree)->settle(257, tree);
  };
  EXPECT_NO_THROW(settle("auto"));
  EXPECT_THAT(message_of<ConfigError>([&] { settle("true"); }),
              testing::HasSubstr("generation.exact: model.rope.type: dynamic"));
}

// The first step whose answers do not all earn the same.
class GroupsOnRanks : public AnswerRuns {
 protected:
  GroupsOnRanks() {
    gpt::write_model(folder_.path(),
                     gpt::tiny_config({{"vocab_size", 258}, {"n_positions", 16}, {"n_head", 2}}));
  }
  YamlNode config_of(const std::string& name, const std::string& generation) {
    return tree(name,
                "type: grpo, grpo: {group: 3, answer_tokens: 1, passes: 2, "
                "rewards: [{type: regex, pattern: '^[!-~]'}]" +
                    generation + "}",
                "", 6);
  }
  void run_on_ranks(const YamlNode& config, std::string_view axis) {
    std::vector<MeshAxis> axes{{std::string(axis), 2}};
    if (axis != kDataAxis) {
      axes.insert(axes.begin(), {std::string(kDataAxis), 1});
    }
    run_ranks({axes}, [&](std::shared_ptr<Ranks> ranks) {
      std::FILE* const out = std::tmpfile();
      RunRequest request{real_files(), config, stop_, out, {}};
      request.start.ranks = std::move(ranks);
      EXPECT_EQ(run(request), Outcome::kFinished);
      std::fclose(out);
    });
  }
  // Gives the metrics of two ranks.
  std::vector<Json> learn_alike(const YamlNode& shared, std::string_view axis) {
    const std::vector<double> alone = of(train(config_of("alone", "")), "grad_norm");
    run_on_ranks(shared, axis);
    const std::vector<Json> rows =
        read_metrics(real_files(), folder_ / "shared" + "/metrics.jsonl");
    const std::vector<double> norms = of(rows, "grad_norm");
    const auto learns = std::find_if(alone.begin(), alone.end(), [](double x) { return x > 0; });
    EXPECT_NE(learns, alone.end());
    EXPECT_EQ(norms.size(), alone.size());
    const auto at = static_cast<size_t>(learns - alone.begin());
    EXPECT_NEAR(norms.at(at), alone.at(at), 1e-4 * alone.at(at));
    return rows;
  }
};

TEST_F(GroupsOnRanks, ThatShareSequencesWriteExactlyAndLearnAlike) {
  YamlNode config = config_of("shared", ", generation: {exact: true}");
  set_config(config, "parallel.context", YamlNode::scalar("2"));
  set_config(config, "parallel.context_way", YamlNode::scalar("gather"));
  const std::vector<double> most = of(learn_alike(config, kContextAxis), "mismatch_max");
  EXPECT_GE(most.size(), 3U);
  EXPECT_EQ(most, std::vector<double>(most.size(), 0.0));
}

// What steps of preferences measure besides their loss.
TEST_F(GroupsOnRanks, MeasureTheSame) {
  const auto config_of = [&](const std::string& name) {
    return tree(name, "type: dpo, beta: 0.5", "", 4);
  };
  const std::vector<Json> alone = train(config_of("alone"));
  for (const std::string_view axis : {kDataAxis, kTensorAxis, kContextAxis}) {
    const std::string name(axis);
    YamlNode config = config_of(name);
    set_config(config, "parallel." + name, YamlNode::scalar("2"));
    run_on_ranks(config, axis);
    const std::vector<Json> rows = read_metrics(real_files(), folder_ / name + "/metrics.jsonl");
    for (const char* key : {"accuracy", "margin", "chosen_reward", "rejected_reward"}) {
      const std::vector<double> expected = of(alone, key);
      ASSERT_EQ(of(rows, key).size(), 4U) << name;
      // The first step's pairs are ties, but for roundings.
      const size_t first = std::string_view(key) == "accuracy" ? 1 : 0;
      for (size_t i = first; i < expected.size(); ++i) {
        EXPECT_NEAR(of(rows, key)[i], expected[i], 1e-4) << name << " " << key;
      }
    }
  }
}

TEST_F(GroupsOnRanks, ThatShareLayersLearnAlike) {
  YamlNode config = config_of("shared", ", generation: {exact: true}");
  set_config(config, "parallel.tensor", YamlNode::scalar("2"));
  const std::vector<double> most = of(learn_alike(config, kTensorAxis), "mismatch_max");
  EXPECT_EQ(most, std::vector<double>(most.size(), 0.0));
}

TEST_F(GroupsOnRanks, ThatShareLayersWriteExactly) {
  const std::string grpo = std::string("type: grpo, ") + kWritten;
  const std::vector<std::pair<std::string, std::string>> kinds = {
      {grpo + ", passes: 2, kl: 0.1, generation: {exact: true, rows: 2}}", ""},
      {grpo + ", generation: {exact: true, temperature: 1.3, top_k: 9, top_p: 0.8}}",
       ", lora: {rank: 4}"},
      {"type: ppo, ppo: {answer_tokens: 4, passes: 2, rewards: [{type: length, at_most: 2}], "
       "generation: {exact: true}}",
       ", head: both"}};
  for (size_t i = 0; i < kinds.size(); ++i) {
    YamlNode config = tree(fmt::format("exact{}", i), kinds[i].first, kinds[i].second, 6);
    config.find("data")->find("train")->text = folder_ / "answers.jsonl";
    set_config(config, "parallel.tensor", YamlNode::scalar("2"));
    run_on_ranks(config, kTensorAxis);
    const std::vector<double> most = of(
        read_metrics(real_files(), find_config(config, "run.output_dir")->text + "/metrics.jsonl"),
        "mismatch_max");
    EXPECT_GE(most.size(), 3U) << i;
    EXPECT_EQ(most, std::vector<double>(most.size(), 0.0)) << i;
  }
}

// Against sums in double precision.
TEST(Drawn, ProbabilitiesAreThoseAmongWhatATokenCouldHaveBeen) {
  const std::vector<float> logits{0.5F, -1, 2, 0.25F, 3, -2, 1, 0, 1.5F, 0.75F, -0.5F, 1};
  const Tensor x = tensor<float>(logits, {3, 4});
  const Tensor targets = tensor<int32_t>(std::vector<int32_t>{2, kIgnoreTarget, 0}, {3});
  const Tensor support =
      tensor<int32_t>(std::vector<int32_t>{2, 0, -1, -1, -1, -1, 3, 1, 0}, {3, 3});
  const std::vector<double> found = to_doubles(drawn_log_probs(x, targets, support));
  EXPECT_NEAR(found[0], 2 - std::log(std::exp(2) + std::exp(0.5)), 1e-6);
  EXPECT_EQ(found[1], 0);
  EXPECT_NEAR(found[2], 1.5 - std::log(std::exp(1) + std::exp(0.75) + std::exp(1.5)), 1e-6);
  // What was cut away gets no gradient, nor does a row without a target.
  const std::vector<double> gradient = to_doubles(grad([&](const Tensor& logits_nv) {
    return sum(drawn_log_probs(logits_nv, targets, support));
  })(x));
  const double p = std::exp(found[0]);
  const std::vector<double> first{-(1 - p), 0, 1 - p, 0};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(gradient[i], first[i], 1e-6) << i;
    EXPECT_EQ(gradient[4 + i], 0) << i;
  }
  EXPECT_EQ(gradient[10], 0);
  const std::vector<double> all = to_doubles(drawn_log_probs(x, targets, Tensor()));
  EXPECT_LT(all[0], found[0]);
}

TEST_F(AnswerRuns, SectionsOfOtherObjectivesAreNotPassedOver) {
  const auto error = [&](const std::string& objective) {
    return message_of<Error>([&] { run({real_files(), tree("a", objective, ""), stop_, stdout}); });
  };
  EXPECT_THAT(error("type: sft, grpo: {group: 3}"),
              testing::HasSubstr("objective.grpo: is for objective.type: grpo"));
  EXPECT_THAT(error(std::string("type: grpo, ppo: {clip: 0.1}, ") + kWritten + "}"),
              testing::HasSubstr("objective.ppo: is for objective.type: ppo"));
}

TEST_F(AnswerRuns, WhatNoStepHeedsIsNamed) {
  const auto error = [&](const char* key, const char* value) {
    YamlNode config = tree("a", std::string("type: grpo, ") + kWritten + "}", "");
    set_config(config, key, YamlNode::scalar(value));
    return message_of<Error>([&] { run({real_files(), config, stop_, stdout}); });
  };
  EXPECT_THAT(error("run.mode", "find_lr"), testing::HasSubstr("run.mode: a step of"));
  EXPECT_THAT(error("model.label_smoothing", "0.1"),
              testing::HasSubstr("model.label_smoothing: is for"));
}

TEST_F(AnswerRuns, SupportsNeedABound) {
  const auto error = [&](const std::string& generation) {
    const YamlNode config = tree(
        "a", std::string("type: grpo, ") + kWritten + ", generation: {" + generation + "}}", "");
    return message_of<Error>([&] { run({real_files(), config, stop_, stdout}); });
  };
  EXPECT_THAT(error("top_p: 0.9"),
              testing::HasSubstr("objective.grpo.generation.top_p: needs generation.top_k"));
  EXPECT_THAT(error("min_p: 0.9"), testing::HasSubstr("objective.grpo.generation.min_p"));
  EXPECT_THAT(error("temperature: 0"), testing::HasSubstr("objective.grpo.generation.temperature"));
}

TEST(Mismatch, IsThatOfTokensThatAreLearntFrom) {
  const std::vector<float> step{-1.0F, -2.0F, 0.0F, -0.5F};
  const std::vector<float> drawn{-1.0F, -2.5F, 9.0F, -0.25F};
  const Mismatch found = mismatch_of(step, drawn, std::vector<int32_t>{4, 1, kIgnoreTarget, 2});
  EXPECT_NEAR(found.mean, 0.25, 1e-12);
  EXPECT_NEAR(found.max, 0.5, 1e-12);
  EXPECT_NEAR(found.chi_square,
              (std::pow(std::exp(0.5) - 1, 2) + std::pow(std::exp(-0.25) - 1, 2)) / 3, 1e-12);
}

}  // namespace
}  // namespace mstrain
