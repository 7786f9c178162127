// Losses of answers against the same worked out from logits in double precision, for a GPT and a Llama; and whole runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/train/gradient_program.h"
#include "core/transform/grad.h"
#include "suites/transformer/alignment/answer_tasks.h"
#include "suites/transformer/alignment/grpo_task.h"
#include "tests/core/base/message_of.h"
#include "tests/suites/transformer/alignment/answer_runs.h"
#include "tests/suites/transformer/alignment/answer_subjects.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

class AnswerLosses : public testing::TestWithParam<bool> {
 protected:
  const Subject subject_ = GetParam() ? llama_subject() : gpt_subject();
  const Params params_ = init_params(subject_.network->specs(), 1);
  const Params initial_ = init_params(subject_.network->specs(), 2);

  Params with_reference(const std::string& folder) const {
    Params all = params_;
    for (const ParamSpec& spec : subject_.network->specs()) {
      all.set(folder + "." + spec.name, *initial_.find(spec.name));
    }
    return all;
  }
};
INSTANTIATE_TEST_SUITE_P(Models, AnswerLosses, testing::Bool(),
                         [](const auto& info) { return info.param ? "Llama" : "Gpt"; });

TEST_P(AnswerLosses, FineTuningScoresAnswersAlonePackedOrNot) {
  double expected = 0;
  for (const AnswerSample& sample : kTexts) {
    expected -= log_prob(subject_, params_, sample.texts[0]);
  }
  for (const RowKind kind : {RowKind::kSingle, RowKind::kPacked}) {
    const AnswerRows rows(kTexts, kind, kSeq);
    EXPECT_EQ(rows.count(), kind == RowKind::kPacked ? 2 : 3);
    const TrainTask task = sft_task(*subject_.network, subject_.model, kind, kSeq);
    const TaskSums sums = task.sums(params_, batch_of(rows, 4));
    EXPECT_NEAR(item(sums.loss.sum), expected, 1e-5 * expected);
    EXPECT_EQ(item(sums.loss.count), 2 + 2 + 2);
    EXPECT_EQ(item(sums.metrics[1].count), 3);
  }
}

TEST_P(AnswerLosses, AnswersAreExactWhereEachTokenIsTheLikeliest) {
  // The likeliest continuation of each prompt, token by token.
  std::vector<AnswerSample> samples;
  for (const int32_t first : {1, 4, 7}) {
    std::vector<int32_t> ids{first};
    for (int i = 0; i < 2; ++i) {
      const auto length = static_cast<int64_t>(ids.size());
      const std::vector<double> logits =
          to_doubles((*subject_.model)(params_, tensor<int32_t>(ids, {1, length})));
      const auto last = logits.end() - kVocab;
      ids.push_back(static_cast<int32_t>(std::max_element(last, logits.end()) - last));
    }
    samples.push_back({{text(ids, 1)}});
  }
  samples[1].texts[0].ids[2] = (samples[1].texts[0].ids[2] + 1) % kVocab;
  for (const RowKind kind : {RowKind::kSingle, RowKind::kPacked}) {
    const AnswerRows rows(samples, kind, kSeq);
    const TrainTask task = sft_task(*subject_.network, subject_.model, kind, kSeq);
    const TaskSums sums = task.sums(params_, batch_of(rows, rows.count()));
    EXPECT_EQ(item(sums.metrics[0].sum), 5);
    EXPECT_EQ(item(sums.metrics[1].sum), 2);
    EXPECT_EQ(item(sums.metrics[1].count), 3);
  }
}

TEST_P(AnswerLosses, PreferencesAreThoseOfThePapers) {
  struct Case {
    ObjectiveType type;
    double beta, smoothing;
  };
  const AnswerRows rows(kPairs, RowKind::kPairs, kSeq);
  for (const Case& each : {Case{ObjectiveType::kDpo, 0.3, 0}, Case{ObjectiveType::kDpo, 0.1, 0.2},
                           Case{ObjectiveType::kIpo, 0.25, 0}}) {
    double loss = 0;
    double right = 0;
    double sums_of_ratios[3] = {};  // difference, chosen, rejected
    for (const AnswerSample& pair : kPairs) {
      double ratio[2];
      for (const size_t i : {0, 1}) {
        const AnswerText& answer = pair.texts[i];
        ratio[i] = log_prob(subject_, params_, answer) - log_prob(subject_, initial_, answer);
        if (each.type == ObjectiveType::kIpo) {
          ratio[i] /= tokens_of(answer);
        }
      }
      const double h = ratio[0] - ratio[1];
      sums_of_ratios[0] += h;
      sums_of_ratios[1] += ratio[0];
      sums_of_ratios[2] += ratio[1];
      right += h > 0 ? 1 : 0;
      const auto surprise = [&](double x) { return std::log1p(std::exp(-each.beta * x)); };
      loss += each.type == ObjectiveType::kIpo
                  ? std::pow(h - 1 / (2 * each.beta), 2)
                  : (1 - each.smoothing) * surprise(h) + each.smoothing * surprise(-h);
    }
    ObjectiveConfig objective;
    objective.type = each.type;
    objective.beta = each.beta;
    objective.label_smoothing = each.smoothing;
    const TrainTask task = preference_task(*subject_.network, subject_.model, objective, kSeq,
                                           "reference", Dtype::kF32);
    EXPECT_EQ(task.frozen.size(), task.parameters.size());
    const TaskSums sums = task.sums(with_reference("reference"), batch_of(rows, 3));
    EXPECT_EQ(item(sums.loss.count), 2);
    EXPECT_NEAR(item(sums.loss.sum), loss, 1e-5 * loss);
    EXPECT_EQ(item(sums.metrics[0].sum), right);
    for (const size_t i : {0, 1, 2}) {
      EXPECT_NEAR(item(sums.metrics[i + 1].sum), each.beta * sums_of_ratios[i], 1e-5);
      EXPECT_EQ(item(sums.metrics[i + 1].count), 2);
    }
  }
}

// At the policy that wrote the answers the ratio is 1: the loss is minus the mean advantage, the gradient that of advantages times
// log-probabilities.
TEST_P(AnswerLosses, RewardedAnswersTeachByTheirAdvantage) {
  const std::vector<double> advantages{0.7, -1.2, 0.4};
  const AnswerRows rows(kTexts, RowKind::kSingle, kSeq);
  Tensors batch = batch_of(rows, 3);
  batch.push_back(tensor<float>(std::vector<float>(advantages.begin(), advantages.end()), {3}));
  Context training = current_context();
  training.training = true;
  const ContextScope scope(training);
  for (const TokenWeights weights :
       {TokenWeights::kToken, TokenWeights::kSequence, TokenWeights::kConstant}) {
    const GrpoConfig config{.answer_tokens = 5, .weights = weights};
    const TrainTask task =
        grpo_task(*subject_.network, subject_.model, config, kSeq, "", Dtype::kF32);
    const auto mean_loss = [&](const Params& params) {
      const Sum loss = task.sums(params, batch).loss;
      return loss.sum / cast(loss.count, Dtype::kF32);
    };
    double expected = 0;
    double count = 0;
    for (size_t i = 0; i < 3; ++i) {
      const double tokens = tokens_of(kTexts[i].texts[0]);
      expected -= advantages[i] * (weights == TokenWeights::kToken      ? tokens
                                   : weights == TokenWeights::kSequence ? 1
                                                                        : tokens / 5);
      count += weights == TokenWeights::kToken ? tokens : 1;
    }
    EXPECT_NEAR(item(mean_loss(params_)), expected / count, 1e-6);
    const auto by_hand = [&](const Params& params) {
      Tensor total = scalar(0.0, Dtype::kF32);
      for (size_t i = 0; i < 3; ++i) {
        const double tokens = tokens_of(kTexts[i].texts[0]);
        const AnswerRows one({kTexts[i]}, RowKind::kSingle, kSeq);
        const Tensors alone = batch_of(one, 1);
        const Tensor loss =
            subject_.model->losses(params, alone[0], alone[1]).loss;  // -log p, summed
        total = total + loss * (advantages[i] * (weights == TokenWeights::kToken      ? 1
                                                 : weights == TokenWeights::kSequence ? 1 / tokens
                                                                                      : 0.2));
      }
      return total / count;
    };
    const Params found = grad(mean_loss)(params_);
    Params wanted = grad(by_hand)(params_);
    for (const auto& [name, value] : wanted.items()) {
      const std::vector<double> a = to_doubles(value), b = to_doubles(*found.find(name));
      for (size_t i = 0; i < a.size(); ++i) {
        ASSERT_NEAR(a[i], b[i], 2e-6) << name << " " << i;
      }
    }
  }
}

// Of a policy that has moved since it wrote: each ratio by hand, clipped where that makes the loss no less.
TEST_P(AnswerLosses, RatiosToTheWriterAreClipped) {
  const std::vector<double> advantages{0.7, -1.2, 0.4};
  const AnswerRows rows(kTexts, RowKind::kSingle, kSeq);
  Tensors batch = batch_of(rows, 3);
  batch.push_back(tensor<float>(std::vector<float>(advantages.begin(), advantages.end()), {3}));
  const std::vector<double> now =
      to_doubles(answer_log_probs(*subject_.model, params_, batch[0], batch[1]));
  const std::vector<int32_t> targets = to_vector<int32_t>(batch[1]);
  std::vector<float> written(now.begin(), now.end());
  for (size_t i = 0; i < written.size(); ++i) {
    written[i] += static_cast<float>(0.25 * std::sin(3.0 * static_cast<double>(i)) -
                                     (i < static_cast<size_t>(kSeq) ? 0.3 : 0.0));
  }
  batch.push_back(tensor<float>(written, batch[1].shape()));
  Context training = current_context();
  training.training = true;
  const ContextScope scope(training);
  const double low = 0.1, high = 0.15;
  for (const RatioOf of : {RatioOf::kToken, RatioOf::kSequence}) {
    const GrpoConfig config{.answer_tokens = 5,
                            .weights = TokenWeights::kSequence,
                            .passes = 2,
                            .ratios = of,
                            .clip_low = low,
                            .clip_high = high};
    const TrainTask task =
        grpo_task(*subject_.network, subject_.model, config, kSeq, "", Dtype::kF32);
    double expected = 0;
    int clipped = 0;
    for (size_t row = 0; row < 3; ++row) {
      std::vector<double> apart;
      for (size_t t = 0; t < kSeq; ++t) {
        const size_t at = row * kSeq + t;
        if (targets[at] != kIgnoreTarget) {
          apart.push_back(now[at] - written[at]);
        }
      }
      const auto tokens = static_cast<double>(apart.size());
      if (of == RatioOf::kSequence) {
        const double mean = std::accumulate(apart.begin(), apart.end(), 0.0) / tokens;
        std::ranges::fill(apart, mean);
      }
      for (const double each : apart) {
        const double ratio = std::exp(each);
        const double bounded = std::clamp(ratio, 1 - low, 1 + high);
        expected -= std::min(ratio * advantages[row], bounded * advantages[row]) / tokens / 3;
        clipped += ratio == bounded ? 0 : 1;
      }
    }
    EXPECT_GT(clipped, 0);
    const auto mean_loss = [&](const Params& params) {
      const Sum loss = task.sums(params, batch).loss;
      return loss.sum / cast(loss.count, Dtype::kF32);
    };
    EXPECT_NEAR(item(mean_loss(params_)), expected, 2e-6);
    // At the writer itself, which NaN stands for, gradients are those without a ratio.
    Tensors fresh = batch;
    fresh[3] = full(batch[1].shape(), std::numeric_limits<double>::quiet_NaN(), Dtype::kF32);
    const TrainTask once =
        grpo_task(*subject_.network, subject_.model,
                  {.answer_tokens = 5, .weights = TokenWeights::kSequence}, kSeq, "", Dtype::kF32);
    const auto loss_of = [](const TrainTask& it, const Tensors& given) {
      return [&it, given](const Params& params) {
        const Sum loss = it.sums(params, given).loss;
        return loss.sum / cast(loss.count, Dtype::kF32);
      };
    };
    const Params found = grad(loss_of(task, fresh))(params_);
    Params wanted = grad(loss_of(once, batch))(params_);
    for (const auto& [name, value] : wanted.items()) {
      const std::vector<double> a = to_doubles(value), b = to_doubles(*found.find(name));
      for (size_t i = 0; i < a.size(); ++i) {
        ASSERT_NEAR(a[i], b[i], 2e-6) << name << " " << i;
      }
    }
  }
}

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
    for (size_t i = 0; i < expected.size(); ++i) {
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
