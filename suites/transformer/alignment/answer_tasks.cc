#include "suites/transformer/alignment/answer_tasks.h"

#include <algorithm>

#include "core/data/windows.h"
#include "core/nn/lora.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/train/metrics.h"
#include "suites/transformer/text/key_value_cache.h"

namespace mstrain {
namespace {

Tensor count(const Tensor& flags) { return sum(cast(flags, Dtype::kI32)); }

TrainTask task_of_rows(const Network& network, RowKind kind, int64_t seq) {
  TrainTask task;
  task.parameters = network.specs();
  task.stored_shapes = stored_shapes(network, task.parameters);
  task.batch_types = [kind, seq](int64_t rows) {
    return Types(static_cast<size_t>(tensors_of(kind)), TensorType{Dtype::kI32, {rows, seq}});
  };
  task.positions = {seq};
  return task;
}

// Whether each token of flags[b, t] is set, counted by answer: [b], or of packed rows [b, t + 1] by segment.
Tensor by_answer(const Tensor& flags_bt, const TokenView& view) {
  const Tensor flags = cast(flags_bt, Dtype::kI32);
  if (!view.segments_bt.defined()) {
    return sum(flags, {1});
  }
  const Shape counts{flags.dim(0), flags.dim(1) + 1};
  return scatter_add_along(zeros({Dtype::kI32, counts}), view.segments_bt, flags, 1);
}

// An answer's log-probability: the sum over its tokens, and how many they are (i32); [b].
struct Likelihood {
  Tensor log_prob, tokens;
};
Likelihood likelihood(const CausalModel& model, const Params& params, const Tensor& tokens_bt,
                      const Tensor& targets_bt) {
  const auto rows = model.token_losses(params, tokens_bt, targets_bt, {}, /*smooths=*/false);
  return {-sum(rows.loss, {1}), by_answer(not_equal(targets_bt, kIgnoreTarget), {})};
}

// Without the run's adapters and dropout.
Likelihood reference_likelihood(const CausalModel& model, const Params& params,
                                const Tensor& tokens_bt, const Tensor& targets_bt) {
  const Context context = for_inference();
  const ContextScope scope(context);
  const LoraScope no_adapters(nullptr);
  Likelihood found = likelihood(model, params, tokens_bt, targets_bt);
  found.log_prob = stop_gradient(found.log_prob);
  return found;
}

}  // namespace

TrainTask sft_task(const Network& network, std::shared_ptr<const CausalModel> model, RowKind kind,
                   int64_t seq) {
  TrainTask task = task_of_rows(network, kind, seq);
  task.sums = [model = std::move(model), kind](const Params& params,
                                               std::span<const Tensor> batch) {
    TokenView view;
    if (kind == RowKind::kPacked) {
      view.segments_bt = batch[2];
      view.positions_bt = batch[3];
    }
    const Tensor& targets_bt = batch[1];
    const auto rows = model->token_losses(params, batch[0], targets_bt, view, /*smooths=*/true);
    const Tensor counted = not_equal(targets_bt, kIgnoreTarget);
    const Tensor right = logical_and(counted, equal(targets_bt, rows.best));
    const Tensor wrong = logical_and(counted, not_equal(targets_bt, rows.best));
    const Tensor is_answer = by_answer(counted, view) > 0;
    const Tensor is_exact = logical_and(is_answer, equal(by_answer(wrong, view), 0));
    return TaskSums{{sum(rows.loss), count(counted)},
                    {{count(right), count(counted)}, {count(is_exact), count(is_answer)}}};
  };
  task.metrics = {kEvalAccuracy, kEvalExactMatch};
  task.loss_in_nats = true;
  task.units = {"token", seq};
  return task;
}

void add_reference(TrainTask& task, const std::string& reference, Dtype dtype) {
  task.frozen = task.parameters;
  for (ParamSpec& spec : task.frozen) {
    spec.name = reference + "." + spec.name;
    spec.type.dtype = dtype;
  }
}

TrainTask preference_task(const Network& network, std::shared_ptr<const CausalModel> model,
                          const ObjectiveConfig& objective, int64_t seq,
                          const std::string& reference, Dtype dtype) {
  TrainTask task = task_of_rows(network, RowKind::kPairs, seq);
  if (!reference.empty()) {
    add_reference(task, reference, dtype);
  }
  task.sums = [model = std::move(model), objective, reference](const Params& params,
                                                               std::span<const Tensor> batch) {
    const Params initial = reference.empty() ? params : params / reference;
    const auto log_ratio = [&](size_t answer) {
      const Tensor& tokens_bt = batch[2 * answer];
      const Tensor& targets_bt = batch[2 * answer + 1];
      const Likelihood now = likelihood(*model, params, tokens_bt, targets_bt);
      const Likelihood then = reference_likelihood(*model, initial, tokens_bt, targets_bt);
      const Tensor ratio = now.log_prob - then.log_prob;
      return objective.type == ObjectiveType::kIpo
                 ? ratio / cast(maximum(now.tokens, 1), ratio.dtype())
                 : ratio;
    };
    const Tensor chosen_b = log_ratio(0);
    const Tensor rejected_b = log_ratio(1);
    const Tensor difference_b = chosen_b - rejected_b;
    const Tensor margin_b = difference_b * objective.beta;
    const double wrong = objective.label_smoothing;
    const Tensor loss_b = objective.type == ObjectiveType::kIpo
                              ? square(difference_b - 1 / (2 * objective.beta))
                              : softplus(-margin_b) * (1 - wrong) + softplus(margin_b) * wrong;
    // Rows that fill up a batch have no answers.
    const Tensor is_pair = by_answer(not_equal(batch[1], kIgnoreTarget), {}) > 0;
    const Tensor pairs = count(is_pair);
    const auto total = [&](const Tensor& x_b) { return sum(where(is_pair, x_b, 0)); };
    return TaskSums{{total(loss_b), pairs},
                    {{count(logical_and(is_pair, margin_b > 0)), pairs},
                     {total(margin_b), pairs},
                     {total(chosen_b * objective.beta), pairs},
                     {total(rejected_b * objective.beta), pairs}}};
  };
  task.metrics = {kEvalAccuracy, kEvalMargin, kEvalChosenReward, kEvalRejectedReward};
  task.units = {"token", 2 * seq};
  return task;
}

}  // namespace mstrain
