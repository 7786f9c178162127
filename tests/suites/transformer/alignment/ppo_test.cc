// PPO of language models: advantages by brute force, the loss by hand, and whole runs.
#include "suites/transformer/alignment/ppo_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/data/simple_tokenizers.h"
#include "core/data/windows.h"
#include "core/ops/build.h"
#include "suites/run/stored_model.h"
#include "suites/transformer/alignment/grpo_task.h"
#include "tests/core/base/message_of.h"
#include "tests/suites/transformer/alignment/answer_runs.h"
#include "tests/suites/transformer/alignment/answer_subjects.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

constexpr int32_t kNothing = kIgnoreTarget;

TEST(TokenAdvantages, AreSumsOfWhatFollows) {
  const std::vector<int32_t> targets{
      kNothing, 3,        4,        5,        kNothing, kNothing,
      7,        kNothing, kNothing, kNothing, kNothing, kNothing};  // three rows
  const std::vector<float> log_probs{0, -1, -2, -0.5F, 0, 0, -3, 0, 0, 0, 0, 0};
  const std::vector<float> reference{0, -1.5F, -1, -0.5F, 0, 0, -2, 0, 0, 0, 0, 0};
  const std::vector<float> values{9, 0.5F, -0.25F, 1, 9, 9, 0.75F, 9, 9, 9, 9, 9};
  const std::vector<float> rewards{2, -1, 5};
  PpoConfig config{.discount = 0.9, .gae_lambda = 0.8, .kl = 0.3, .whiten = false};
  const std::vector<size_t> places{1, 2, 3};
  for (const bool pays : {true, false}) {
    const auto earned = [&](size_t at) {
      return (at == 3 ? 2.0 : 0.0) -
             (pays ? 0.3 * (static_cast<double>(log_probs[at]) - reference[at]) : 0);
    };
    const auto delta = [&](size_t at) {
      return earned(at) + (at == 3 ? 0 : 0.9 * values[at + 1]) - values[at];
    };
    const TokenAdvantages found = token_advantages(
        config, {.targets = targets,
                 .log_probs = log_probs,
                 .reference = pays ? std::span<const float>(reference) : std::span<const float>(),
                 .values = values,
                 .rewards = rewards});
    for (const size_t at : places) {
      double advantage = 0;
      for (size_t later = at; later <= 3; ++later) {
        advantage += std::pow(0.72, static_cast<double>(later - at)) * delta(later);
      }
      EXPECT_NEAR(found.advantages[at], advantage, 1e-6) << at;
      EXPECT_NEAR(found.returns[at], advantage + values[at], 1e-6) << at;
    }
    EXPECT_NEAR(found.advantages[6], -1 - 0.75 + (pays ? 0.3 : 0), 1e-6);
    for (const size_t at : {0, 4, 5, 7, 8, 11}) {
      EXPECT_EQ(found.advantages[at], 0);
      EXPECT_EQ(found.returns[at], 0);
    }
  }
  // With discount and lambda 1 returns are all that is earned from there on, whatever the values.
  config = {.discount = 1, .gae_lambda = 1, .kl = 0, .whiten = true};
  const TokenAdvantages found = token_advantages(config, {.targets = targets,
                                                          .log_probs = log_probs,
                                                          .reference = {},
                                                          .values = values,
                                                          .rewards = rewards});
  for (const size_t at : places) {
    EXPECT_NEAR(found.returns[at], 2, 1e-6);
  }
  double sum = 0, squares = 0;
  for (const float advantage : found.advantages) {
    sum += advantage;
    squares += advantage * advantage;
  }
  EXPECT_NEAR(sum, 0, 1e-5);
  EXPECT_NEAR(squares, 3, 1e-4);  // of four tokens, of a sample
  EXPECT_EQ(explained_variance(found.returns, found.returns, targets), 1);
  EXPECT_NEAR(explained_variance(std::vector<float>(12, 0.5F), found.returns, targets), 0, 1e-9);
}

TEST(Ppo, TheLossIsThatOfThePapers) {
  for (const bool is_llama : {false, true}) {
    const Subject subject = subject_with(is_llama, HeadType::kBoth);
    const Params params = init_params(subject.network->specs(), 1);
    const AnswerRows rows(kTexts, RowKind::kSingle, kSeq);
    Tensors batch = batch_of(rows, 4);  // the last row is empty
    const std::vector<int32_t> targets = to_vector<int32_t>(batch[1]);
    const std::vector<double> now =
        to_doubles(answer_log_probs(*subject.model, params, batch[0], batch[1]));
    const std::vector<double> values =
        to_doubles(subject.model->values(params, subject.model->features(params, batch[0])));
    std::vector<float> numbers[4];  // advantages, returns, values, log-probabilities
    for (size_t at = 0; at < targets.size(); ++at) {
      const auto x = static_cast<double>(at);
      numbers[0].push_back(static_cast<float>(std::sin(x)));
      numbers[1].push_back(static_cast<float>(std::cos(2 * x)));
      numbers[2].push_back(static_cast<float>(values[at] + 0.4 * std::sin(5 * x)));
      numbers[3].push_back(static_cast<float>(now[at] + 0.3 * std::cos(3 * x)));
    }
    PpoConfig config{.clip = 0.15, .value_clip = 0.25, .value_weight = 0.6};
    const auto loss_of = [&](bool is_new) {
      double loss = 0, tokens = 0;
      for (size_t at = 0; at < targets.size(); ++at) {
        if (targets[at] == kNothing) {
          continue;
        }
        const double ratio = is_new ? 1 : std::exp(now[at] - numbers[3][at]);
        const double gain =
            std::min(ratio * numbers[0][at], std::clamp(ratio, 0.85, 1.15) * numbers[0][at]);
        const double near = numbers[2][at] + std::clamp(values[at] - numbers[2][at], -0.25, 0.25);
        const double miss =
            std::max(std::pow(values[at] - numbers[1][at], 2), std::pow(near - numbers[1][at], 2));
        loss += -gain + 0.3 * miss;
        ++tokens;
      }
      return loss / tokens;
    };
    Context training = current_context();
    training.training = true;
    const ContextScope scope(training);
    const TrainTask task = ppo_task(*subject.network, subject.model, config, kSeq, "", Dtype::kF32);
    for (const bool is_new : {false, true}) {
      Tensors given = batch;
      for (size_t i = 0; i < 4; ++i) {
        given.push_back(is_new && i == 3
                            ? full({4, kSeq}, std::numeric_limits<double>::quiet_NaN(), Dtype::kF32)
                            : tensor<float>(numbers[i], {4, kSeq}));
      }
      EXPECT_EQ(task.batch_types(4).size(), given.size());
      const Sum loss = task.sums(params, given).loss;
      EXPECT_NEAR(item(loss.sum) / item(loss.count), loss_of(is_new), 2e-6) << is_llama << is_new;
    }
  }
}

class PpoRuns : public AnswerRuns {
 protected:
  static std::string ppo(const std::string& more) {
    return "type: ppo, ppo: {answer_tokens: 1, rewards: [{type: regex, pattern: '^[!-~]'}]" + more +
           "}";
  }
  // Its data are answers, though what it does to them is a policy's.
  YamlNode ppo_tree(const std::string& name, const std::string& more, const std::string& model,
                    int64_t steps) {
    YamlNode out = tree(name, ppo(more), ", head: both" + model, steps);
    out.find("data")->find("train")->text = folder_ / "answers.jsonl";
    return out;
  }
};

TEST_F(PpoRuns, WhatAnswersEarnRises) {
  for (const std::string lora : {"", ", lora: {rank: 4, modules_to_save: [score]}"}) {
    const std::vector<Json> rows =
        train(ppo_tree("ppo" + std::to_string(lora.size()), ", passes: 2, kl: 0.01", lora, 240));
    const std::vector<double> rewards = of(rows, "reward");
    const auto mean = [&](size_t from) {
      return std::accumulate(rewards.begin() + static_cast<ptrdiff_t>(from),
                             rewards.begin() + static_cast<ptrdiff_t>(from + 15), 0.0) /
             15;
    };
    EXPECT_LT(mean(0), 0.75);
    EXPECT_GT(mean(rewards.size() - 15), lora.empty() ? 0.9 : mean(0) + 0.05) << lora;
    for (const char* key : {"kl", "entropy", "clipped_high", "explained_variance"}) {
      EXPECT_FALSE(of(rows, key).empty()) << key;
    }
    EXPECT_TRUE(of(rows, "even_groups").empty());
  }
}

TEST_F(PpoRuns, GoOnBitForBit) {
  for (const std::string more : {", passes: 3, kl: 0.1", ", passes: 1"}) {
    const std::string name = std::to_string(more.size());
    const auto straight = of(train(ppo_tree("straight" + name, more, "", 12)), "loss");
    train(ppo_tree("stopped" + name, more, "", 5));
    EXPECT_EQ(of(train(ppo_tree("stopped" + name, more, "", 12)), "loss"), straight);
  }
}

TEST_F(PpoRuns, WhatItTrainsWritesAndBeginsOthers) {
  train(ppo_tree("ppo", "", "", 6));
  const StoredModel stored = open_model(real_files(), folder_ / "ppo");
  EXPECT_EQ(stored.description["architectures"][0], "GPT2LMHeadModel");
  EXPECT_FALSE(stored.network->scores_texts());
  EXPECT_NE(stored.network->writer(std::make_shared<ByteTokenizer>(), Execution::kGraph), nullptr);
  EXPECT_NE(load_params(real_files(), stored).find(kScoreWeight), nullptr);
  YamlNode next = tree("next", "type: sft", "", 3);  // which has no values
  next.find("model")->find("init")->find("from")->text = folder_ / "ppo";
  EXPECT_EQ(of(train(next), "loss").size(), 3U);
}

TEST_F(PpoRuns, WhatMakesNoSenseIsNamed) {
  const auto error = [&](const YamlNode& config) {
    return message_of<Error>([&] { run({real_files(), config, stop_, stdout}); });
  };
  YamlNode config = ppo_tree("a", "", "", 3);
  config.find("model")->find("head")->text = "next_token";
  EXPECT_THAT(error(config), HasSubstr("model.head: objective.type: ppo needs both"));
  EXPECT_THAT(error(tree("a", "type: sft", ", head: both")),
              HasSubstr("values are learnt with objective.type: ppo"));
  EXPECT_THAT(error(ppo_tree("a", ", clip: 2", "", 3)), HasSubstr("objective.ppo.clip"));
  EXPECT_THAT(error(ppo_tree("a", "", ", lora: {rank: 2}", 3)), HasSubstr("without score"));
  EXPECT_THAT(error(ppo_tree("a", "", ", lora: {rank: 2, modules_to_save: [score, ln_f]}", 3)),
              HasSubstr("model.lora.modules_to_save"));
  EXPECT_THAT(error(ppo_tree("a", ", leave_out_cut: true", "", 3)),
              HasSubstr("raise objective.ppo.answer_tokens"));
}

}  // namespace
}  // namespace mstrain
