#include "suites/transformer/alignment/ppo_task.h"

#include <cmath>

#include "core/data/windows.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/runtime/context.h"
#include "suites/transformer/alignment/answer_tasks.h"
#include "suites/transformer/alignment/grpo_task.h"

namespace mstrain {

TrainTask ppo_task(const Network& network, std::shared_ptr<const CausalModel> model,
                   const PpoConfig& config, int64_t seq, const std::string& reference,
                   Dtype dtype) {
  TrainTask task = sft_task(network, model, RowKind::kSingle, seq);
  if (!reference.empty() && config.kl > 0) {
    add_reference(task, reference, dtype);
  }
  task.batch_types = [seq, generation = config.generation](int64_t rows) {
    Types types(2, TensorType{Dtype::kI32, {rows, seq}});
    types.insert(types.end(), 4, {Dtype::kF32, {rows, seq}});
    add_support(generation, types);
    return types;
  };
  task.sums = [fine_tuning = std::move(task.sums), model = std::move(model), config](
                  const Params& params, std::span<const Tensor> batch) {
    if (!current_context().training) {
      return fine_tuning(params, batch.first(2));
    }
    const Tensor& targets_bt = batch[1];
    const Tensor &advantage_bt = batch[2], &return_bt = batch[3], &written_value_bt = batch[4],
                 &written_bt = batch[5];
    const Tensor counted_bt = not_equal(targets_bt, kIgnoreTarget);
    const Tensor features_btc = model->features(params, batch[0]);
    const Tensor log_prob_bt = drawn_log_probs(*model, params, features_btc, targets_bt,
                                               drawn_from(config.generation, batch));
    const Tensor policy_bt =
        clipped_loss(config.writing(), log_prob_bt, written_bt, counted_bt, advantage_bt);
    const Tensor value_bt = cast(model->values(params, features_btc), Dtype::kF32);
    const Tensor near_bt = clip(value_bt - written_value_bt, -config.value_clip, config.value_clip);
    const Tensor miss_bt =
        maximum(square(value_bt - return_bt), square(written_value_bt + near_bt - return_bt));
    const Tensor loss_bt = policy_bt + miss_bt * (config.value_weight / 2);
    const Tensor tokens = sum(cast(counted_bt, Dtype::kI32));
    const Tensor answers = sum(cast(sum(cast(counted_bt, Dtype::kI32), {1}) > 0, Dtype::kI32));
    return TaskSums{{sum(where(counted_bt, loss_bt, 0)), tokens},
                    {{tokens, tokens}, {answers, answers}}};
  };
  return task;
}

TokenAdvantages token_advantages(const PpoConfig& config, const ValuedAnswers& answers) {
  const size_t all = answers.targets.size();
  const size_t seq = all / answers.rewards.size();
  TokenAdvantages out{std::vector<float>(all, 0.0F), std::vector<float>(all, 0.0F)};
  double count = 0, sum = 0;
  for (size_t row = 0; row < answers.rewards.size(); ++row) {
    double next_value = 0, advantage = 0;
    bool is_last = true;
    for (size_t at = (row + 1) * seq; at-- > row * seq;) {
      if (answers.targets[at] == kIgnoreTarget) {
        continue;
      }
      double earned = is_last ? answers.rewards[row] : 0;
      if (!answers.reference.empty()) {
        earned -= config.kl * (static_cast<double>(answers.log_probs[at]) - answers.reference[at]);
      }
      const double value = answers.values[at];
      advantage = earned + config.discount * next_value - value +
                  config.discount * config.gae_lambda * advantage;
      out.advantages[at] = static_cast<float>(advantage);
      out.returns[at] = static_cast<float>(advantage + value);
      next_value = value;
      is_last = false;
      ++count;
      sum += advantage;
    }
  }
  if (!config.whiten || count < 2) {
    return out;
  }
  const double mean = sum / count;
  double squares = 0;
  for (size_t at = 0; at < all; ++at) {
    squares += answers.targets[at] == kIgnoreTarget ? 0 : std::pow(out.advantages[at] - mean, 2);
  }
  const double scale = 1 / std::sqrt(squares / (count - 1) + 1e-8);
  for (size_t at = 0; at < all; ++at) {
    if (answers.targets[at] != kIgnoreTarget) {
      out.advantages[at] = static_cast<float>((out.advantages[at] - mean) * scale);
    }
  }
  return out;
}

double explained_variance(std::span<const float> values, std::span<const float> returns,
                          std::span<const int32_t> targets) {
  double count = 0, sum = 0, squares = 0, misses = 0, miss_squares = 0;
  for (size_t at = 0; at < targets.size(); ++at) {
    if (targets[at] != kIgnoreTarget) {
      const double found = returns[at];
      const double miss = found - values[at];
      ++count;
      sum += found;
      squares += found * found;
      misses += miss;
      miss_squares += miss * miss;
    }
  }
  const double variance = squares - sum * sum / count;
  return count == 0 || variance <= 0 ? 0 : 1 - (miss_squares - misses * misses / count) / variance;
}

}  // namespace mstrain
