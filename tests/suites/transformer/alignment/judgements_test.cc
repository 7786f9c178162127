// Answers that are judged one by one (KTO), reward models, and what is measured of written answers, against formulas by hand; and whole runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "core/ops/build.h"
#include "core/train/gradient_program.h"
#include "core/transform/grad.h"
#include "suites/run/export.h"
#include "suites/run/stored_model.h"
#include "suites/transformer/alignment/answer_log_probs.h"
#include "suites/transformer/alignment/answer_tasks.h"
#include "suites/transformer/alignment/reward_model.h"
#include "tests/core/base/message_of.h"
#include "tests/suites/transformer/alignment/answer_runs.h"
#include "tests/suites/transformer/alignment/answer_subjects.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

// Both answers of each pair by themselves.
std::vector<AnswerSample> judged_samples() {
  std::vector<AnswerSample> out;
  for (const AnswerSample& pair : kPairs) {
    out.push_back({.texts = {pair.texts[0]}, .is_wanted = true});
    out.push_back({.texts = {pair.texts[1]}, .is_wanted = false});
  }
  return out;
}

class Judgements : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Models, Judgements, testing::Bool(),
                         [](const auto& info) { return info.param ? "Llama" : "Gpt"; });

TEST_P(Judgements, AreThoseOfThePaper) {
  const Subject subject = GetParam() ? llama_subject() : gpt_subject();
  const Params initial = init_params(subject.network->specs(), 2);
  Params params = init_params(subject.network->specs(), 1);
  for (const ParamSpec& spec : subject.network->specs()) {
    params.set("reference." + spec.name, *initial.find(spec.name));
  }
  const std::vector<AnswerSample> samples = judged_samples();
  const AnswerRows rows(samples, RowKind::kJudged, kSeq);
  ObjectiveConfig objective;
  objective.type = ObjectiveType::kKto;
  objective.beta = 0.3;
  objective.wanted_weight = 1.25;
  objective.unwanted_weight = 0.5;
  const double point = 0.7;
  const auto surprise = [](double x) { return 1 / (1 + std::exp(x)); };
  double loss = 0, right = 0, wanted = 0, unwanted = 0;
  for (const AnswerSample& sample : samples) {
    const AnswerText& answer = sample.texts[0];
    const double r = 0.3 * (log_prob(subject, params, answer) - log_prob(subject, initial, answer));
    loss += sample.is_wanted ? 1.25 * surprise(r - 0.3 * point) : 0.5 * surprise(0.3 * point - r);
    right += (r > 0) == sample.is_wanted ? 1 : 0;
    (sample.is_wanted ? wanted : unwanted) += r;
  }
  // The fifth row fills up the batch.
  Tensors batch = batch_of(rows, 5);
  std::vector<float> judgements;
  for (int64_t i = 0; i < 5; ++i) {
    judgements.push_back(rows.judgement(i));
  }
  EXPECT_THAT(judgements, testing::ElementsAre(1, -1, 1, -1, 0));
  batch.push_back(tensor<float>(judgements, {5}));
  batch.push_back(full({5}, point, Dtype::kF32));
  const TrainTask task =
      judged_task(*subject.network, subject.model, objective, kSeq, "reference", Dtype::kF32);
  EXPECT_EQ(task.batch_types(5).size(), batch.size());
  const TaskSums sums = task.sums(params, batch);
  EXPECT_EQ(item(sums.loss.count), 4);
  EXPECT_NEAR(item(sums.loss.sum), loss, 1e-5 * loss);
  EXPECT_EQ(item(sums.metrics[0].sum), right);
  EXPECT_NEAR(item(sums.metrics[1].sum), wanted, 1e-5);
  EXPECT_NEAR(item(sums.metrics[2].sum), unwanted, 1e-5);
  EXPECT_EQ(item(sums.metrics[1].count), 2);
  EXPECT_EQ(item(sums.metrics[2].count), 2);
}

TEST(Judgements, AMismatchedRowHasOnePromptAndTheOtherAnswer) {
  const AnswerRows rows(judged_samples(), RowKind::kJudged, 5);
  std::vector<int32_t> tokens(10, 0), targets(10, kIgnoreTarget);
  rows.write_mismatched(0, 3, tokens, targets, 1);
  constexpr int32_t kNo = kIgnoreTarget;
  EXPECT_THAT(tokens, testing::ElementsAre(0, 0, 0, 0, 0, 1, 2, 2, 0, 0));
  EXPECT_THAT(targets, testing::ElementsAre(kNo, kNo, kNo, kNo, kNo, kNo, 2, 3, kNo, kNo));
}

TEST_P(Judgements, RewardModelsScoreWholeTextsAtTheirLastToken) {
  const Subject subject = subject_with(GetParam(), HeadType::kScore);
  EXPECT_TRUE(subject.network->scores_texts());
  EXPECT_EQ(subject.network->writer(nullptr, Execution::kGraph), nullptr);
  const Params params = init_params(subject.network->specs(), 1);
  EXPECT_NE(params.find(kScoreWeight), nullptr);
  EXPECT_EQ(params.find("lm_head.weight"), nullptr);
  const auto score = [&](const AnswerText& text) {
    const auto length = static_cast<int64_t>(text.ids.size());
    const Tensor tokens_bt = tensor<int32_t>(text.ids, {1, length});
    const std::vector<double> features = to_doubles(subject.model->features(params, tokens_bt));
    const std::vector<double> weight = to_doubles(*params.find(kScoreWeight));
    double sum = 0;
    for (size_t i = 0; i < weight.size(); ++i) {
      sum += weight[i] * features[features.size() - weight.size() + i];
    }
    EXPECT_NEAR(item(subject.network->compute(params, {{"input_ids", tokens_bt}}).logits), sum,
                1e-5);
    return sum;
  };
  ObjectiveConfig objective;
  objective.type = ObjectiveType::kReward;
  objective.center = 0.25;
  double loss = 0, margin = 0, right = 0;
  for (const AnswerSample& pair : kPairs) {
    const double chosen = score(pair.texts[0]);
    const double rejected = score(pair.texts[1]);
    loss += std::log1p(std::exp(rejected - chosen)) + 0.25 * std::pow(chosen + rejected, 2);
    margin += chosen - rejected;
    right += chosen > rejected ? 1 : 0;
  }
  const AnswerRows rows(kPairs, RowKind::kEnds, kSeq);
  for (const AnswerGroups& groups :
       {AnswerGroups(), AnswerGroups{.size = 2, .answer_tokens = 4, .before_target = 3},
        AnswerGroups{.size = 2, .answer_tokens = 6, .before_target = 5}}) {
    const TrainTask task = scored_task(*subject.network, subject.model, objective, kSeq, groups);
    const TaskSums sums = task.sums(params, batch_of(rows, 3));
    EXPECT_EQ(item(sums.loss.count), 2);
    EXPECT_NEAR(item(sums.loss.sum), loss, 1e-5 * loss);
    EXPECT_EQ(item(sums.metrics[0].sum), right);
    EXPECT_NEAR(item(sums.metrics[1].sum), margin, 1e-5);
  }
  // Padding is not seen.
  const Tensor padded_bt =
      tensor<int32_t>(std::vector<int32_t>{4, 2, 3, 0, 0, 4, 9, 9, 1, 3}, {2, 5});
  const Tensor mask_bt =
      tensor<int32_t>(std::vector<int32_t>{1, 1, 1, 0, 0, 1, 1, 1, 1, 1}, {2, 5});
  const std::vector<double> both = to_doubles(
      subject.network->compute(params, {{"input_ids", padded_bt}, {"attention_mask", mask_bt}})
          .logits);
  EXPECT_NEAR(both[0], score(kPairs[1].texts[1]), 1e-5);
  EXPECT_NEAR(both[1], score(kPairs[1].texts[0]), 1e-5);
}

TEST(AnswerMeasures, AreMeansOverTokensThatAreLearntFrom) {
  constexpr int32_t kNo = kIgnoreTarget;
  const std::vector<int32_t> targets{kNo, 3, 4, 5, kNo, kNo};
  const std::vector<float> written{0, -1, -2, -0.5F, 0, 0};
  const std::vector<float> now{0, -0.5F, -2.5F, -1, 0, 0};
  EXPECT_NEAR(entropy_of(written, targets), 3.5 / 3, 1e-7);
  const auto k3 = [](double d) { return std::exp(d) - d - 1; };
  EXPECT_NEAR(divergence_of(written, now, targets), (k3(0.5) + k3(-0.5) + k3(-0.5)) / 3, 1e-7);
  GrpoConfig config{.passes = 2};
  // exp(1/2) is above 1.2, exp(-1/2) below 0.8.
  EXPECT_NEAR(clipped_shares(config, now, written, targets, std::vector<float>{1, -1}).high,
              1.0 / 3, 1e-7);
  EXPECT_NEAR(clipped_shares(config, now, written, targets, std::vector<float>{1, -1}).low, 1.0 / 3,
              1e-7);
  EXPECT_NEAR(clipped_shares(config, now, written, targets, std::vector<float>{-1, 1}).low, 1.0 / 3,
              1e-7);
  config.ratios = RatioOf::kSequence;  // exp(0) and exp(-1/2)
  EXPECT_EQ(clipped_shares(config, now, written, targets, std::vector<float>{1, 1}).high, 0);
  EXPECT_NEAR(clipped_shares(config, now, written, targets, std::vector<float>{-1, -1}).low,
              1.0 / 3, 1e-7);
}

class JudgedRuns : public AnswerRuns {
 protected:
  YamlNode judged(const std::string& name, const std::string& objective,
                  const std::string& model = "", int64_t steps = 12) {
    YamlNode out = tree(name, objective, model, steps);
    out.find("data")->find("train")->text = folder_ / "pairs.jsonl";
    return out;
  }
};

TEST_F(JudgedRuns, WantedAnswersAreTold) {
  for (const std::string lora : {"", ", lora: {rank: 4}"}) {
    const std::vector<Json> rows =
        train(judged("kto" + std::to_string(lora.size()), "type: kto, beta: 0.5", lora, 40));
    const std::vector<double> losses = of(rows, "loss");
    EXPECT_NEAR(losses.front(), 0.5, 1e-6);  // the reference is the policy
    EXPECT_LT(losses.back(), 0.4) << lora;
    EXPECT_GT(of(rows, "eval_chosen_reward").back(), of(rows, "eval_rejected_reward").back() + 0.5);
    EXPECT_EQ(of(rows, "reference_point").size(), losses.size());
  }
}

TEST_F(JudgedRuns, LabelsSayTheSameAsPairs) {
  std::string lines;
  for (int i = 0; i < 24; ++i) {
    const std::string prompt(1, static_cast<char>('a' + i));
    lines += R"({"prompt": ")" + prompt + R"(", "response": ")" +
             std::string(1 + static_cast<size_t>(i % 3), 'x') + "\", \"label\": true}\n";
    lines += R"({"prompt": ")" + prompt + "\", \"response\": \"y\", \"label\": false}\n";
  }
  write_file_atomic(real_files(), folder_ / "labels.jsonl", lines);
  const YamlNode pairs = judged("pairs", "type: kto");
  YamlNode labels = judged("labels", "type: kto");
  labels.find("data")->find("train")->text = folder_ / "labels.jsonl";
  EXPECT_EQ(of(train(pairs), "loss"), of(train(labels), "loss"));
}

// The point is a mean over the batch, and so nothing changes with how a step computes it.
TEST_F(JudgedRuns, MicroBatchesAgree) {
  std::vector<std::vector<double>> losses;
  std::map<std::string, std::vector<std::vector<double>>> measures;
  for (const char* micro : {"1", "2", "6"}) {
    YamlNode config = judged(std::string("micro") + micro, "type: kto, beta: 0.5", "", 20);
    YamlNode size = *config.find("batch")->find("global");
    size.text = micro;
    config.find("batch")->add("micro", size);
    const std::vector<Json> rows = train(config);
    losses.push_back(of(rows, "loss"));
    for (const char* key : {"accuracy", "chosen_reward", "rejected_reward"}) {
      measures[key].push_back(of(rows, key));
    }
    const std::vector<double> points = of(rows, "reference_point");
    EXPECT_GT(*std::ranges::max_element(points), 0) << micro;
  }
  for (size_t i = 0; i < losses[0].size(); ++i) {
    EXPECT_NEAR(losses[1][i], losses[0][i], 2e-5);
    EXPECT_NEAR(losses[2][i], losses[0][i], 2e-5);
  }
  for (const auto& [key, found] : measures) {
    ASSERT_FALSE(found[0].empty()) << key;
    for (size_t i = 0; i < found[0].size(); ++i) {
      EXPECT_NEAR(found[1].at(i), found[0][i], 2e-4) << key;
      EXPECT_NEAR(found[2].at(i), found[0][i], 2e-4) << key;
    }
  }
}

TEST_F(JudgedRuns, GoOnBitForBit) {
  int number = 0;
  for (const auto& [objective, model] :
       {std::pair<std::string, std::string>{"type: kto", ""}, {"type: reward", ", head: score"}}) {
    const std::string which = std::to_string(number++);
    const auto straight = of(train(judged("straight" + which, objective, model)), "loss");
    train(judged("stopped" + which, objective, model, 5));
    EXPECT_EQ(of(train(judged("stopped" + which, objective, model)), "loss"), straight);
  }
}

TEST_F(JudgedRuns, ARewardModelTeaches) {
  for (const std::string lora : {"", ", lora: {rank: 4, modules_to_save: [score]}"}) {
    const std::string name = "reward" + std::to_string(lora.size());
    const std::vector<Json> rows =
        train(judged(name, "type: reward, center: 0.01", ", head: score" + lora, 60));
    EXPECT_EQ(of(rows, "eval_accuracy").back(), 1) << lora;
    EXPECT_GT(of(rows, "eval_margin").back(), 1) << lora;
    // Files of its class open again, and answers score as in training.
    const RewardModel model(folder_ / name, {});
    const std::vector<WrittenAnswer> answers{{.prompt = "b", .text = "xx"},
                                             {.prompt = "c", .text = "y"}};
    const std::vector<double> scores = model.score(answers);
    EXPECT_GT(scores[0], scores[1] + 0.5) << lora;
    std::vector<WrittenAnswer> many(70, answers[1]);
    many[69] = answers[0];
    EXPECT_EQ(model.score(many)[69], scores[0]);
    EXPECT_EQ(model.score(many)[0], scores[1]);
    // The head of scores goes with its adapter, and into the weights.
    for (const bool merges : lora.empty() ? std::vector<bool>() : std::vector<bool>{false, true}) {
      const std::string exported = folder_ / (merges ? "merged" : "adapter");
      export_model(real_files(), folder_ / name, exported, {.merges = merges});
      const std::vector<double> again = RewardModel(exported, {}).score(answers);
      EXPECT_NEAR(again[0], scores[0], 1e-5) << merges;
      EXPECT_NEAR(again[1], scores[1], 1e-5) << merges;
    }
  }
  // A policy that is paid by it writes what it likes.
  const std::vector<Json> rows = train(tree("paid",
                                            "type: grpo, grpo: {group: 3, answer_tokens: 2, kl: "
                                            "0.001, passes: 2, rewards: [{type: model, path: " +
                                                folder_ / "reward0" + "}]}",
                                            "", 60));
  const std::vector<double> earned = of(rows, "reward");
  const auto mean = [&](size_t from) {
    return std::accumulate(earned.begin() + static_cast<ptrdiff_t>(from),
                           earned.begin() + static_cast<ptrdiff_t>(from + 8), 0.0) /
           8;
  };
  EXPECT_GT(mean(earned.size() - 8), mean(0) + 0.3);
  for (const char* key : {"entropy", "kl", "clipped_low", "clipped_high"}) {
    EXPECT_FALSE(of(rows, key).empty()) << key;
  }
  EXPECT_NEAR(of(rows, "kl").front(), 0, 1e-6);
  EXPECT_GT(of(rows, "entropy").front(), 4);  // of 257 tokens, nearly ln 257
}

TEST_F(JudgedRuns, AScoringHeadIsOfItsOwn) {
  const YamlNode config = judged("reward", "type: reward", ", head: score");
  train(config);
  const StoredModel stored = open_model(real_files(), folder_ / "reward");
  EXPECT_EQ(stored.description["architectures"][0], "GPT2ForSequenceClassification");
  EXPECT_TRUE(stored.network->scores_texts());
  // Its trunk begins another run, whose head is drawn.
  YamlNode next = judged("next", "type: reward", ", head: score");
  next.find("model")->find("init")->find("from")->text = folder_ / "reward";
  EXPECT_LT(of(train(next), "loss").front(), std::log(2.0));
}

TEST_F(JudgedRuns, WhatMakesNoSenseIsNamed) {
  const auto error = [&](const YamlNode& config) {
    return message_of<Error>([&] { run({real_files(), config, stop_, stdout}); });
  };
  EXPECT_THAT(error(judged("a", "type: reward", ", head: both")),
              HasSubstr("model.head: objective.type: reward needs score"));
  EXPECT_THAT(error(judged("a", "type: dpo", ", head: score")), HasSubstr("model.head"));
  EXPECT_THAT(error(judged("a", "type: dpo, center: 0.1")), HasSubstr("objective.center"));
  EXPECT_THAT(error(judged("a", "type: dpo, wanted_weight: 2")),
              HasSubstr("objective.wanted_weight"));
  EXPECT_THAT(error(judged("a", "type: reward, beta: 0.3", ", head: score")),
              HasSubstr("objective.beta"));
  EXPECT_THAT(error(judged("a", "type: reward", ", head: score, lora: {rank: 2}")),
              HasSubstr("model.lora.modules_to_save: without score"));
  EXPECT_THAT(error(tree("a", "type: kto", "")),
              HasSubstr("answers.jsonl:1: `label` must be true or false"));
  YamlNode alone = judged("a", "type: kto");
  alone.find("batch")->find("global")->text = "1";
  EXPECT_THAT(error(alone), HasSubstr("batch.global: kto finds its reference point"));
  write_file_atomic(real_files(), folder_ / "one.jsonl",
                    R"({"prompt": "a", "response": "b", "label": true})"
                    "\n"
                    R"({"prompt": "a", "response": "b", "label": true})");
  YamlNode config = judged("a", "type: kto");
  config.find("data")->find("train")->text = folder_ / "one.jsonl";
  EXPECT_THAT(error(config), HasSubstr("all answers are wanted; kto needs both kinds"));
  write_file_atomic(real_files(), folder_ / "one.jsonl",
                    R"({"prompt": "a", "response": "b", "label": 1})");
  EXPECT_THAT(error(config), HasSubstr("one.jsonl:1: `label` must be true or false"));
  EXPECT_THAT(error(tree("a",
                         "type: grpo, grpo: {group: 3, rewards: [{type: model, path: " +
                             folder_.path() + "}]}",
                         "")),
              HasSubstr("writes text; a reward model is trained with objective.type: reward"));
}

}  // namespace
}  // namespace mstrain
