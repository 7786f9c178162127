#include "suites/transformer/alignment/answer_tasks.h"

#include <algorithm>
#include <array>

#include "core/data/windows.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/train/metrics.h"
#include "suites/transformer/alignment/grpo_task.h"

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

// The rows of both, one after the other, [2 b, t]; and what is found of such rows, [b] of each.
Tensor in_turn(const Tensor& x_bt, const Tensor& y_bt) {
  const Tensor both[] = {x_bt, y_bt};
  return flatten(stack(both, 1), 0, 1);
}
std::array<Tensor, 2> of_each(const Tensor& found) {
  const Tensor found_b2 = reshape(found, {found.dim(0) / 2, 2});
  return {select(found_b2, 1, 0), select(found_b2, 1, 1)};
}

// log_ratios() of both answers of each pair, whose tokens and targets `batch` holds.
std::array<Tensor, 2> ratios_of_pairs(const CausalModel& model, const Params& params,
                                      const std::string& reference, std::span<const Tensor> batch,
                                      const AnswerGroups& groups) {
  if (groups.size == 1) {
    return {log_ratios(model, params, reference, batch[0], batch[1]),
            log_ratios(model, params, reference, batch[2], batch[3])};
  }
  return of_each(log_ratios(model, params, reference, in_turn(batch[0], batch[2]),
                            in_turn(batch[1], batch[3]), groups));
}

// Of both answers of each pair, [b].
std::array<Tensor, 2> scores_of_pairs(const CausalModel& model, const Params& params,
                                      std::span<const Tensor> batch, const AnswerGroups& groups) {
  const auto is_end = [](const Tensor& targets) { return not_equal(targets, kIgnoreTarget); };
  if (groups.size == 1) {
    return {model.scores(params, batch[0], is_end(batch[1])),
            model.scores(params, batch[2], is_end(batch[3]))};
  }
  const Tensor targets_bt = in_turn(batch[1], batch[3]);
  const SharedPrompts rows(in_turn(batch[0], batch[2]), targets_bt, groups);
  return of_each(model.scores_of_features(params, rows.features(model, params),
                                          is_end(rows.of_answers(targets_bt))));
}

// Of pairs that share prompts.
void add_stream(TrainTask& task, const AnswerGroups& groups, int64_t seq) {
  if (groups.size > 1) {
    task.stream = [groups, seq](int64_t pairs) { return groups.stream(2 * pairs, seq); };
  }
}

// What a task over pairs finds in rows [b]. Rows that fill up a batch have no answers.
TaskSums sums_of_pairs(const Tensor& targets_bt, const Tensor& loss_b, const Tensor& chosen_b,
                       const Tensor& rejected_b) {
  const Tensor is_pair = by_answer(not_equal(targets_bt, kIgnoreTarget), {}) > 0;
  const Tensor pairs = count(is_pair);
  const Tensor margin_b = chosen_b - rejected_b;
  const auto total = [&](const Tensor& x_b) { return sum(where(is_pair, x_b, 0)); };
  return {{total(loss_b), pairs},
          {{count(logical_and(is_pair, margin_b > 0)), pairs},
           {total(margin_b), pairs},
           {total(chosen_b), pairs},
           {total(rejected_b), pairs}}};
}

}  // namespace

Tensor log_ratios(const CausalModel& model, const Params& params, const std::string& reference,
                  const Tensor& tokens_bt, const Tensor& targets_bt, const AnswerGroups& groups) {
  return sum(answer_log_probs(model, params, tokens_bt, targets_bt, {}, groups) -
                 reference_log_probs(model, params, reference, tokens_bt, targets_bt, {}, groups),
             {1});
}

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
                          const std::string& reference, Dtype dtype, const AnswerGroups& groups) {
  TrainTask task = task_of_rows(network, RowKind::kPairs, seq);
  if (!reference.empty()) {
    add_reference(task, reference, dtype);
  }
  add_stream(task, groups, seq);
  task.sums = [model = std::move(model), objective, reference, groups](
                  const Params& params, std::span<const Tensor> batch) {
    const std::array<Tensor, 2> found = ratios_of_pairs(*model, params, reference, batch, groups);
    const auto log_ratio = [&](size_t answer) {
      const Tensor& ratio_b = found[answer];
      if (objective.type != ObjectiveType::kIpo) {
        return ratio_b;
      }
      const Tensor tokens_b = by_answer(not_equal(batch[2 * answer + 1], kIgnoreTarget), {});
      return ratio_b / cast(maximum(tokens_b, 1), ratio_b.dtype());
    };
    const Tensor chosen_b = log_ratio(0);
    const Tensor rejected_b = log_ratio(1);
    const Tensor difference_b = chosen_b - rejected_b;
    const Tensor margin_b = difference_b * objective.beta;
    const double wrong = objective.label_smoothing;
    const Tensor loss_b = objective.type == ObjectiveType::kIpo
                              ? square(difference_b - 1 / (2 * objective.beta))
                              : softplus(-margin_b) * (1 - wrong) + softplus(margin_b) * wrong;
    return sums_of_pairs(batch[1], loss_b, chosen_b * objective.beta, rejected_b * objective.beta);
  };
  task.metrics = {kEvalAccuracy, kEvalMargin, kEvalChosenReward, kEvalRejectedReward};
  task.measures_steps = true;
  task.units = {"token", 2 * seq};
  return task;
}

TrainTask judged_task(const Network& network, std::shared_ptr<const CausalModel> model,
                      const ObjectiveConfig& objective, int64_t seq, const std::string& reference,
                      Dtype dtype) {
  TrainTask task = task_of_rows(network, RowKind::kJudged, seq);
  if (!reference.empty()) {
    add_reference(task, reference, dtype);
  }
  task.batch_types = [tokens = std::move(task.batch_types)](int64_t rows) {
    Types types = tokens(rows);
    types.insert(types.end(), 2, {Dtype::kF32, {rows}});
    return types;
  };
  task.positions = {};  // judgements have none
  task.sums = [model = std::move(model), objective, reference](const Params& params,
                                                               std::span<const Tensor> batch) {
    const Tensor reward_b =
        log_ratios(*model, params, reference, batch[0], batch[1]) * objective.beta;
    const Tensor point_b = batch[3] * objective.beta;
    const Tensor is_wanted = batch[2] > 0;
    const Tensor is_unwanted = batch[2] < 0;
    const Tensor loss_b =
        where(is_wanted, sigmoid(point_b - reward_b) * objective.wanted_weight, 0) +
        where(is_unwanted, sigmoid(reward_b - point_b) * objective.unwanted_weight, 0);
    const Tensor answers = count(logical_or(is_wanted, is_unwanted));
    const Tensor right =
        logical_or(logical_and(is_wanted, reward_b > 0), logical_and(is_unwanted, reward_b < 0));
    return TaskSums{{sum(loss_b), answers},
                    {{count(right), answers},
                     {sum(where(is_wanted, reward_b, 0)), count(is_wanted)},
                     {sum(where(is_unwanted, reward_b, 0)), count(is_unwanted)}}};
  };
  task.metrics = {kEvalAccuracy, kEvalChosenReward, kEvalRejectedReward};
  task.measures_steps = true;
  task.units = {"token", seq};
  return task;
}

TrainTask scored_task(const Network& network, std::shared_ptr<const CausalModel> model,
                      const ObjectiveConfig& objective, int64_t seq, const AnswerGroups& groups) {
  TrainTask task = task_of_rows(network, RowKind::kEnds, seq);
  add_stream(task, groups, seq);
  task.sums = [model = std::move(model), center = objective.center, groups](
                  const Params& params, std::span<const Tensor> batch) {
    const auto [chosen_b, rejected_b] = scores_of_pairs(*model, params, batch, groups);
    Tensor loss_b = softplus(rejected_b - chosen_b);
    if (center > 0) {
      loss_b = loss_b + square(chosen_b + rejected_b) * center;
    }
    return sums_of_pairs(batch[1], loss_b, chosen_b, rejected_b);
  };
  task.metrics = {kEvalAccuracy, kEvalMargin, kEvalChosenReward, kEvalRejectedReward};
  task.measures_steps = true;
  task.units = {"token", 2 * seq};
  return task;
}

}  // namespace mstrain
