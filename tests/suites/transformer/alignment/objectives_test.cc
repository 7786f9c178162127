// Losses of answers against the same worked out from logits in double precision, for a GPT and a Llama.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/ops/elementwise.h"
#include "core/train/gradient_program.h"
#include "core/transform/grad.h"
#include "suites/transformer/alignment/answer_tasks.h"
#include "suites/transformer/alignment/grpo_task.h"
#include "tests/suites/transformer/alignment/answer_subjects.h"

namespace mstrain {
namespace {

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

// Among pairs one that fills up the batch, whichever answer is longer.
TEST_P(AnswerLosses, PairsThatShareTheirPromptTeachWhatTwoRowsDo) {
  const AnswerRows rows(kPairs, RowKind::kPairs, kSeq);
  const Params all = with_reference("reference");
  for (const ObjectiveType type : {ObjectiveType::kDpo, ObjectiveType::kIpo}) {
    for (const std::string reference : {"reference", ""}) {
      ObjectiveConfig objective;
      objective.type = type;
      const auto found = [&](const AnswerGroups& groups) {
        const TrainTask task = preference_task(*subject_.network, subject_.model, objective, kSeq,
                                               reference, Dtype::kF32, groups);
        return value_and_grad([&](const Params& params) {
          const TaskSums sums = task.sums(params, batch_of(rows, 3));
          Tensors others;
          for (const Sum& each : sums.metrics) {
            others.push_back(each.sum);
          }
          return std::pair(sums.loss.sum, others);
        })(all);
      };
      const auto [each, gradients] = found({});
      const auto [shared, shared_gradients] = found({.size = 2, .answer_tokens = 4});
      EXPECT_NEAR(item(shared.first), item(each.first), 1e-6 * item(each.first));
      for (size_t i = 0; i < each.second.size(); ++i) {
        EXPECT_NEAR(item(shared.second[i]), item(each.second[i]), 1e-5) << i;
      }
      for (size_t i = 0; i < gradients.size(); ++i) {
        EXPECT_THAT(to_doubles(shared_gradients.tensor(i)),
                    testing::Pointwise(testing::DoubleNear(2e-4), to_doubles(gradients.tensor(i))))
            << gradients.name(i);
      }
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

}  // namespace
}  // namespace mstrain
