#include "core/train/trainer.h"

#include <algorithm>
#include <chrono>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/isa.h"
#include "core/base/log.h"
#include "core/ops/block_code.h"
#include "core/tensor/host.h"
#include "core/train/numbers.h"
#include "core/train/rank_talk.h"
#include "core/train/state_fields.h"

namespace mstrain {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Json saved_loss_scale(const LossScaleState& state) {
  return {{"scale", item(state.scale)}, {"taken", static_cast<int64_t>(item(state.taken))}};
}

std::optional<LossScaleState> restored_loss_scale(const PrecisionConfig& config,
                                                  const Json& saved) {
  if (!config.scales_dynamically()) {
    return std::nullopt;
  }
  constexpr const char* kOwner = "loss scale";
  const auto scale = saved.is_object() ? saved.find("scale") : saved.end();
  check(scale != saved.end() && scale->is_number() && scale->get<double>() > 0,
        "{}: the saved state has none", kOwner);
  return LossScaleState{
      scalar(scale->get<double>()),
      scalar(static_cast<double>(state_count(saved, "taken", kOwner)), Dtype::kI32)};
}

// What part of its peak a rate is, where that peak may be 0.
double share_of_peak(const ScheduleConfig& config, const LearningRate& seen, int64_t step) {
  LearningRate share(config, 1);
  share.restore(seen.state());
  return share.at(step);
}

}  // namespace

// A step whose numbers have not been read yet.
struct Trainer::Pending {
  StepMetrics metrics;
  Tensor loss;
  Tensor grad_norm;
  Tensors loss_scale;
  Tensors layer_norms;
  Tensors measured;
  Clock::time_point begin = Clock::now();
};

Trainer::Trainer(const TrainTask& task, const TrainData& data, const TrainConfig& config,
                 const StepProgram& program)
    : task_(task),
      data_(data),
      config_(config),
      program_(program),
      lr_(config.schedule, config.optimizer.lr),
      guard_(config.optimizer, config.precision, !task.looked_up.empty()) {}

void Trainer::start(uint64_t seed, int64_t micro) {
  frozen_ = program_.own_frozen(frozen_weights(task_));
  progress_ = {};
  progress_.seed = seed;
  progress_.micro_batch = micro;
  progress_.data = data_.identity;
  progress_.frozen = task_.frozen_origins;
  state_ = {};
  state_ = task_.initial != nullptr ? program_.first_state(task_.initial())
                                    : program_.first_state([&](const ParamSpec& spec) {
                                        return init_params(std::span(&spec, 1), seed).tensor(0);
                                      });
  if (data_.outside != nullptr) {
    data_.outside->resume(std::nullopt);
  }
  open_batches();
}

void Trainer::open_batches() {
  const Ranks* const ranks = current_context().ranks.get();
  const BatchPart part(config_.batch.global, progress_.micro_batch,
                       ranks == nullptr ? 1 : ranks->mesh().size(kDataAxis),
                       ranks == nullptr ? 0 : ranks->coordinate(kDataAxis));
  batches_ = data_.training(progress_.seed, part, progress_.samples);
}

void Trainer::restore(FileSystem& files, const std::string& folder, int64_t micro, Data data) {
  progress_ = read_progress(files, folder);
  progress_.micro_batch = micro;
  if (data == Data::kSame && progress_.data != data_.identity) {
    fail(
        "{}: was trained on other data than this configuration names (other files, sizes or "
        "vocabulary); restore the data or choose another run.output_dir",
        folder);
  }
  progress_.data = data_.identity;
  for (const auto& [key, origin] : progress_.frozen) {
    const auto now = task_.frozen_origins.find(key);
    check(now == task_.frozen_origins.end() || now->second.manifest == origin.manifest,
          "{}: goes on upon weights that stay as they are, and {} of {} holds others now; bring "
          "those back or choose another run.output_dir",
          folder, origin.checkpoint.empty() ? "the folder" : origin.checkpoint, key);
  }
  progress_.frozen = task_.frozen_origins;
  if (data == Data::kAnew) {
    progress_.samples = 0;
  }
  lr_.restore(progress_.schedule);
  if (!progress_.guard.is_null()) {
    guard_.restore(progress_.guard);
  }
  state_.optimizer.loss_scale = restored_loss_scale(config_.precision, progress_.loss_scale);
  frozen_ = program_.own_frozen(frozen_weights(task_));
  load_state_of(files, folder);
  open_batches();
}

void Trainer::load_state_of(FileSystem& files, const std::string& folder) {
  const std::optional<LossScaleState> loss_scale = state_.optimizer.loss_scale;
  state_ = program_.uninitialised_state();
  load_tensors(files, folder, task_.stored_file, stored_model());
  load_tensors(files, folder, kOptimizerFile, stored_optimizer());
  const int64_t updates = progress_.step - guard_.skipped();
  state_.optimizer.step = scalar(static_cast<double>(updates), Dtype::kI32);
  state_.optimizer.loss_scale = loss_scale;
  if (data_.outside != nullptr) {
    resume_outside(files, folder, *data_.outside);
  }
}

StoredTensor Trainer::stored(size_t i, std::string name, const Params& values,
                             const TensorType& type, bool in_parts) const {
  const ParamSpec& spec = task_.parameters[i];
  const Tensor* const value = values.find(spec.name);
  const Shard* const shard = in_parts ? find_shard(program_.shards(), spec.name) : nullptr;
  const TensorParts& parts = program_.parts();
  StoredTensor out{std::move(name),
                   task_.stored_shapes[i],
                   value == nullptr ? Tensor() : *value,
                   shard == nullptr ? nullptr : &shard->axis,
                   parts.ranks(),
                   &parts.axis()};
  out.groups = data_ranks(config_.parallel, current_context());
  out.first = program_.first_rank_with(i);
  out.elsewhere = type;
  if (const auto shared = parts.shared(spec.name)) {
    const Shape& held = shared->held;
    out.rows = 1;
    for (int d = 0; d < shared->dim; ++d) {
      out.rows *= held[d];
    }
    out.width = held.elements() / out.rows;
  }
  return out;
}

std::vector<StoredTensor> Trainer::stored_model() const {
  std::vector<StoredTensor> out;
  for (size_t i = 0; i < task_.parameters.size(); ++i) {
    const std::string& name = task_.parameters[i].name;
    for (const std::string& each :
         task_.stored_names ? task_.stored_names(name) : std::vector{name}) {
      out.push_back(stored(i, each, state_.params, program_.param_types()[i],
                           program_.has_parts_of_parameters()));
    }
  }
  return out;
}

std::vector<StoredTensor> Trainer::stored_optimizer() const {
  std::vector<StoredTensor> out;
  for (size_t s = 0; s < state_.optimizer.slots.size(); ++s) {
    const auto& [slot, values] = state_.optimizer.slots[s];
    for (size_t i = 0; i < task_.parameters.size(); ++i) {
      const std::optional<TensorType>& type = program_.slot_types()[s][i];
      if (!type) {
        continue;
      }
      out.push_back(stored(i, task_.parameters[i].name + "." + slot, values, *type,
                           /*in_parts=*/true));
      if (is_scale_slot(slot)) {
        out.back().shape = Shape{code_blocks(out.back().shape.elements())};
      }
    }
  }
  for (const Tensor& history : state_.magnitudes) {
    out.push_back({"fp8_magnitudes", history.shape(), history});
    out.back().neighbours = program_.parts().ranks();
    out.back().groups = data_ranks(config_.parallel, current_context());
  }
  return out;
}

CheckpointContents Trainer::checkpoint() const {
  ProgressState progress = progress_;
  progress.schedule = lr_.state();
  progress.isa = to_string(isa());
  progress.threads = current_context().num_threads();
  if (config_.optimizer.may_skip() || state_.optimizer.loss_scale) {
    progress.guard = guard_.state();
  }
  if (const auto& scaling = state_.optimizer.loss_scale) {
    progress.loss_scale = saved_loss_scale(*scaling);
  }
  // What a callback that takes no part now had saved is not kept: it would be out of date.
  progress.callbacks = Json::object();
  for (const Callback* callback : callbacks_) {
    if (const std::string name = callback->name(); !name.empty()) {
      progress.callbacks[name] = callback->state();
    }
  }
  if (data_.outside != nullptr) {
    progress.outside[data_.outside->name()] = data_.outside->prepare(progress.step);
  }
  return {progress, stored_model(), stored_optimizer(), data_.checkpoint_files, task_.stored_file};
}

double Trainer::learning_rate(int64_t step) const {
  const double rate = lr_.at(step);
  return lr_factor_ == 1 ? rate : std::max(rate * lr_factor_, std::min(rate, lr_lowest_));
}

void Trainer::scale_learning_rate(double factor, double lowest) {
  lr_factor_ = factor;
  lr_lowest_ = lowest;
}

void Trainer::end(End how, const std::string& reason) {
  if (!end_) {
    end_ = how;
    end_reason_ = reason;
    log_info("step {}: {}", progress_.step, reason);
  }
}

void Trainer::evaluated(const EvaluationRow& row) {
  lr_.observe(row.loss());
  for (Callback* callback : callbacks_) {
    callback->on_evaluation(*this, row);
  }
}

void Trainer::saved(int64_t step, const std::string& folder) {
  for (Callback* callback : callbacks_) {
    callback->on_save(*this, step, folder);
  }
}

void Trainer::advance(Pending& pending) {
  pending.metrics = {};
  pending.begin = Clock::now();
  pending.metrics.begin = nanoseconds(pending.begin);
  pending.metrics.lr = learning_rate(progress_.step);
  Tensors batch = batches_->next();
  StepResult result = program_.run(std::move(state_), batch,
                                   {.lr = pending.metrics.lr,
                                    .seed = progress_.seed,
                                    .step = progress_.step,
                                    .norm_limit = guard_.limit(progress_.step + 1)},
                                   frozen_);
  if (!current_context().device().is_host()) {
    batch_ = std::move(batch);
  }
  state_ = std::move(result.state);
  if (!task_.looked_up.empty()) {
    batches_->learn(
        {.step = progress_.step + 1,
         .gradients = std::move(result.looked_up),
         .lr_scale = config_.optimizer.lr == 0
                         ? lr_factor_ * share_of_peak(config_.schedule, lr_, progress_.step)
                         : pending.metrics.lr / config_.optimizer.lr,
         .is_applied = result.is_applied.empty() || item(result.is_applied[0]) != 0});
  }
  pending.loss = std::move(result.loss);
  pending.grad_norm = std::move(result.grad_norm);
  pending.loss_scale = std::move(result.loss_scale);
  pending.layer_norms = std::move(result.layer_norms);
  pending.measured = std::move(result.metrics);
  pending.metrics.step = ++progress_.step;
  progress_.samples = batches_->samples();
}

void Trainer::tell(Pending& pending) {
  if (!pending.loss.defined()) {
    return;
  }
  StepMetrics& metrics = pending.metrics;
  metrics.loss = without_sign_of_nan(item(pending.loss));
  metrics.grad_norm = without_sign_of_nan(item(pending.grad_norm));
  pending.loss = Tensor();
  pending.grad_norm = Tensor();
  if (!pending.loss_scale.empty()) {
    metrics.loss_scale = item(pending.loss_scale[0]);
  }
  for (const Tensor& norm : pending.layer_norms) {
    metrics.layer_norms.push_back(item(norm));
  }
  pending.layer_norms.clear();
  for (size_t i = 0; i < pending.measured.size(); ++i) {
    metrics.metrics.push_back(
        {.kind = find_metric_kind(task_.metrics[i]), .value = item(pending.measured[i])});
  }
  pending.measured.clear();
  guard_.observe(metrics.step, metrics.loss, metrics.grad_norm, metrics.loss_scale);
  if (config_.optimizer.may_skip() || metrics.loss_scale) {
    metrics.skipped_steps = guard_.skipped();
  }
  for (Callback* callback : callbacks_) {
    callback->on_step(*this, metrics);
  }
}

bool Trainer::wanted(Moment moment) {
  bool any = false;
  for (Callback* callback : callbacks_) {
    any = callback->wants(progress_.step, moment) || any;
  }
  return any;
}

Trainer::Agreed Trainer::agree(bool wanted, const std::atomic<bool>& stop) {
  Ranks* const ranks = current_context().ranks.get();
  if (ranks == nullptr) {
    return {wanted, stop};
  }
  constexpr int64_t kWanted = 1, kStopped = 2, kFinished = 4, kInterrupted = 8;
  int64_t word = (wanted ? kWanted : 0) | (stop ? kStopped : 0);
  word |= !end_ ? 0 : end_ == End::kFinished ? kFinished : kInterrupted;
  word = told(ranks, word, "trainer.decide");
  if ((word & (kFinished | kInterrupted)) == 0) {
    end_.reset();
  } else {
    end_ = (word & kFinished) != 0 ? End::kFinished : End::kInterrupted;
  }
  return {(word & kWanted) != 0, (word & kStopped) != 0};
}

// Where a callback ends the run, those after it see the state in the visit that ends it.
void Trainer::visit(Moment moment) {
  Ranks* const ranks = current_context().ranks.get();
  for (Callback* callback : callbacks_) {
    const bool wants =
        (moment != Moment::kStep || !end_) && callback->wants(progress_.step, moment);
    if (told(ranks, wants ? 1 : 0, "trainer.visit") != 0) {
      callback->on_state(*this, moment);
    }
  }
}

bool Trainer::run(const std::vector<Callback*>& callbacks, const std::atomic<bool>& stop) {
  const int64_t total = config_.schedule.total_steps;
  callbacks_ = callbacks;
  for (Callback* callback : callbacks_) {
    const auto saved = progress_.callbacks.find(callback->name());
    if (saved != progress_.callbacks.end()) {
      callback->restore(*saved);
    }
  }
  for (Callback* callback : callbacks_) {
    callback->on_start(*this);
  }
  const auto goes_on = [&] { return progress_.step < total && !end_; };
  agree(false, stop);
  if (goes_on()) {
    visit(Moment::kStep);  // what a run that went on had not done yet
  }
  Agreed agreed = agree(false, stop);
  Pending last;
  while (goes_on() && !agreed.stopped) {
    Pending next;
    advance(next);
    tell(last);
    next.metrics.seconds = seconds_since(next.begin);
    last = std::move(next);
    agreed = agree(goes_on() && wanted(Moment::kStep), stop);
    if (agreed.wanted) {
      tell(last);
      visit(Moment::kStep);
      agreed = agree(false, stop);
    }
  }
  tell(last);
  agree(false, stop);
  bool finished = progress_.step >= total || end_ == End::kFinished;
  if (finished && is_interrupted()) {
    end_.reset();  // no step is left that it could keep from beginning
  }
  visit(finished ? Moment::kFinished : Moment::kInterrupted);
  finished = finished && !is_interrupted();
  for (Callback* callback : callbacks_) {
    callback->on_stop(*this);
  }
  if (finished) {
    guard_.check_any(progress_.step);
  }
  return finished;
}

}  // namespace mstrain
