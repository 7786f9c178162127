#include "suites/transformer/alignment/grpo_task.h"

#include "core/data/windows.h"
#include "core/nn/lora.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/runtime/context.h"
#include "suites/transformer/alignment/answer_tasks.h"
#include "suites/transformer/text/key_value_cache.h"

namespace mstrain {
namespace {

Tensor number_of(const Tensor& flags) { return sum(cast(flags, Dtype::kI32)); }
Tensor by_row(const Tensor& flags_bt) { return sum(cast(flags_bt, Dtype::kI32), {1}); }

// Of the policy to the one that wrote; where it is still the same, `written_bt` is NaN, and they are 1.
Tensor ratios(const GrpoConfig& config, const Tensor& log_prob_bt, const Tensor& written_bt,
              const Tensor& counted_bt) {
  const Tensor old_bt =
      where(equal(written_bt, written_bt), written_bt, stop_gradient(log_prob_bt));
  const Tensor apart_bt = where(counted_bt, log_prob_bt - old_bt, 0);
  if (config.ratios == RatioOf::kToken) {
    return exp(apart_bt);
  }
  const Tensor tokens_b = cast(maximum(by_row(counted_bt), 1), apart_bt.dtype());
  return where(counted_bt, exp(expand_dims(sum(apart_bt, {1}) / tokens_b, 1)), 1);
}

}  // namespace

Tensor answer_log_probs(const CausalModel& model, const Params& params, const Tensor& tokens_bt,
                        const Tensor& targets_bt, const DrawnFrom& from,
                        const AnswerGroups& groups) {
  if (groups.shared_in(tokens_bt.dim(0)) == 1) {
    return drawn_log_probs(model, params, model.features(params, tokens_bt), targets_bt, from);
  }
  const SharedPrompts rows(tokens_bt, targets_bt, groups);
  DrawnFrom of_answers = from;
  if (from.support.defined()) {
    of_answers.support = rows.of_answers(from.support);
  }
  return rows.in_rows(drawn_log_probs(model, params, rows.features(model, params),
                                      rows.of_answers(targets_bt), of_answers));
}

DrawnFrom drawn_from(const GenerationConfig& config, std::span<const Tensor> batch) {
  return {config.temperature, config.support() > 0 ? batch.back() : Tensor()};
}

void add_support(const GenerationConfig& config, Types& batch) {
  if (config.support() > 0) {
    const Shape& rows = batch[0].shape;
    batch.push_back({Dtype::kI32, rows.with_inserted(rows.rank(), config.support())});
  }
}

Tensor reference_log_probs(const CausalModel& model, const Params& params,
                           const std::string& reference, const Tensor& tokens_bt,
                           const Tensor& targets_bt, const DrawnFrom& from,
                           const AnswerGroups& groups) {
  const Context context = for_inference();
  const ContextScope scope(context);
  const LoraScope no_adapters(nullptr);
  const Params initial = reference.empty() ? params : params / reference;
  return stop_gradient(answer_log_probs(model, initial, tokens_bt, targets_bt, from, groups));
}

Tensor clipped_loss(const GrpoConfig& config, const Tensor& log_prob_bt, const Tensor& written_bt,
                    const Tensor& counted_bt, const Tensor& advantage) {
  const Tensor ratio_bt = ratios(config, log_prob_bt, written_bt, counted_bt);
  const Tensor clipped_bt = clip(ratio_bt, 1 - config.clip_low, 1 + config.clip_high);
  return -minimum(ratio_bt * advantage, clipped_bt * advantage);
}

TrainTask grpo_task(const Network& network, std::shared_ptr<const CausalModel> model,
                    const GrpoConfig& config, int64_t seq, const std::string& reference,
                    Dtype dtype, const AnswerGroups& groups) {
  // Whoever does not train is asked what fine-tuning asks.
  TrainTask task = sft_task(network, model, RowKind::kSingle, seq);
  if (!reference.empty() && config.kl > 0) {
    add_reference(task, reference, dtype);
  }
  task.batch_types = [seq, passes = config.passes, generation = config.generation](int64_t rows) {
    const TensorType ids{Dtype::kI32, {rows, seq}};
    Types types{ids, ids, {Dtype::kF32, {rows}}};
    if (passes > 1) {
      types.push_back({Dtype::kF32, {rows, seq}});
    }
    add_support(generation, types);
    return types;
  };
  task.samples_together = groups.size;
  if (groups.size > 1) {
    task.stream = [groups, seq](int64_t rows) { return groups.stream(rows, seq); };
  }
  task.sums = [fine_tuning = std::move(task.sums), model = std::move(model), config, reference,
               groups](const Params& params, std::span<const Tensor> batch) {
    if (!current_context().training) {
      return fine_tuning(params, batch.first(2));
    }
    const Tensor counted_bt = not_equal(batch[1], kIgnoreTarget);
    const DrawnFrom from = drawn_from(config.generation, batch);
    const Tensor log_prob_bt = answer_log_probs(*model, params, batch[0], batch[1], from, groups);
    const Tensor advantage_b1 = reshape(batch[2], {batch[2].dim(0), 1});
    Tensor loss_bt;
    if (config.passes == 1) {
      loss_bt = -(exp(log_prob_bt - stop_gradient(log_prob_bt)) * advantage_b1);
    } else {
      loss_bt = clipped_loss(config, log_prob_bt, batch[3], counted_bt, advantage_b1);
    }
    if (config.kl > 0) {
      const Tensor apart_bt =
          reference_log_probs(*model, params, reference, batch[0], batch[1], from, groups) -
          log_prob_bt;
      loss_bt = loss_bt + (exp(apart_bt) - apart_bt - 1) * config.kl;
    }
    const Tensor loss_b = sum(where(counted_bt, loss_bt, 0), {1});
    const Tensor tokens_b = by_row(counted_bt);
    const Tensor answers = number_of(tokens_b > 0);
    Sum loss;
    switch (config.weights) {
      case TokenWeights::kToken: loss = {sum(loss_b), sum(tokens_b)}; break;
      case TokenWeights::kSequence:
        loss = {sum(loss_b / cast(maximum(tokens_b, 1), loss_b.dtype())), answers};
        break;
      case TokenWeights::kConstant:
        loss = {sum(loss_b) / static_cast<double>(config.answer_tokens), answers};
        break;
    }
    return TaskSums{loss, {{sum(tokens_b), sum(tokens_b)}, {answers, answers}}};
  };
  return task;
}

}  // namespace mstrain
