#include "core/train/trainer.h"

#include <chrono>
#include <cmath>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/tensor/host.h"

namespace mstrain {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

// A step whose numbers have not been read yet.
struct Trainer::Pending {
  StepMetrics metrics;
  Tensor loss;
  Tensor grad_norm;
  Clock::time_point begin = Clock::now();
};

Trainer::Trainer(const TrainTask& task, const TrainData& data, const TrainConfig& config,
                 const StepProgram& program)
    : task_(task),
      data_(data),
      config_(config),
      program_(program),
      lr_(config.schedule, config.optimizer.lr) {}

void Trainer::start(uint64_t seed, int64_t micro) {
  progress_ = {0, seed, 0, micro, data_.identity, lr_.state()};
  state_ = {};
  state_.params = task_.initial != nullptr ? task_.initial() : init_params(task_.parameters, seed);
  state_.optimizer = program_.optimizer().init(state_.params);
  batches_ = data_.training(seed, config_.batch.global, 0);
}

void Trainer::restore(FileSystem& files, const std::string& folder) {
  const std::string path = join_path(folder, kStateFile);
  progress_ = parse_progress(files.read(path, 1 << 20), path);
  if (progress_.data != data_.identity) {
    fail(
        "{}: was trained on other data than this configuration names (other files, sizes or "
        "vocabulary); restore the data or choose another run.output_dir",
        folder);
  }
  lr_.restore(progress_.schedule);
  state_ = program_.form();
  size_t leaf = 0;
  LeafVisitor allocate(LeafVisitor::Access::kWrite, [&](const std::string&, Tensor& tensor) {
    tensor = uninitialised(program_.state_types()[leaf++]);
  });
  allocate("", state_);
  load_tensors(files, folder, kModelFile, stored_model());
  load_tensors(files, folder, kOptimizerFile, stored_optimizer());
  state_.optimizer.step = scalar(static_cast<double>(progress_.step), Dtype::kI32);
  batches_ = data_.training(progress_.seed, config_.batch.global, progress_.samples);
}

std::vector<StoredTensor> Trainer::stored_model() const {
  std::vector<StoredTensor> out;
  for (size_t i = 0; i < task_.parameters.size(); ++i) {
    const std::string& name = task_.parameters[i].name;
    out.push_back({name, task_.stored_shapes[i], *state_.params.find(name)});
  }
  return out;
}

std::vector<StoredTensor> Trainer::stored_optimizer() const {
  std::vector<StoredTensor> out;
  for (const auto& [slot, values] : state_.optimizer.slots) {
    for (size_t i = 0; i < task_.parameters.size(); ++i) {
      const std::string& name = task_.parameters[i].name;
      out.push_back({name + "." + slot, task_.stored_shapes[i], *values.find(name)});
    }
  }
  return out;
}

CheckpointContents Trainer::checkpoint() const {
  ProgressState progress = progress_;
  progress.schedule = lr_.state();
  return {progress, stored_model(), stored_optimizer(), data_.checkpoint_files};
}

void Trainer::advance(Pending& pending) {
  pending.metrics = {};
  pending.begin = Clock::now();
  pending.metrics.begin = nanoseconds(pending.begin);
  pending.metrics.lr = lr_.at(progress_.step);
  StepResult result =
      program_.run(std::move(state_), batches_->next(), pending.metrics.lr, progress_.seed);
  state_ = std::move(result.state);
  pending.loss = std::move(result.loss);
  pending.grad_norm = std::move(result.grad_norm);
  pending.metrics.step = ++progress_.step;
  progress_.samples = batches_->samples();
}

void Trainer::tell(Pending& pending, Callbacks callbacks) {
  if (!pending.loss) {
    return;
  }
  StepMetrics& metrics = pending.metrics;
  metrics.loss = item(pending.loss);
  metrics.grad_norm = item(pending.grad_norm);
  pending.loss = Tensor();
  pending.grad_norm = Tensor();
  if (!std::isfinite(metrics.loss) || !std::isfinite(metrics.grad_norm)) {
    fail(
        "step {}: the loss is {} and the gradient's norm {}; the last checkpoint is from before. "
        "Try a "
        "lower optimizer.lr, a longer schedule.warmup_steps or a lower optimizer.clip_grad",
        metrics.step, metrics.loss, metrics.grad_norm);
  }
  for (Callback* callback : callbacks) {
    callback->on_step(metrics);
  }
}

void Trainer::visit(Callbacks callbacks, Moment moment) {
  for (Callback* callback : callbacks) {
    if (callback->wants(progress_.step, moment)) {
      callback->on_state(*this, moment);
    }
  }
}

bool Trainer::run(Callbacks callbacks, const std::atomic<bool>& stop) {
  const int64_t total = config_.schedule.total_steps;
  const auto wanted = [&](Moment moment) {
    bool any = false;
    for (Callback* callback : callbacks) {
      any = callback->wants(progress_.step, moment) || any;
    }
    return any;
  };
  visit(callbacks, Moment::kStep);  // what a run that went on had not done yet
  Pending last;
  while (progress_.step < total && !stop) {
    Pending next;
    advance(next);
    tell(last, callbacks);
    next.metrics.seconds = seconds_since(next.begin);
    last = std::move(next);
    if (wanted(Moment::kStep)) {
      tell(last, callbacks);
      visit(callbacks, Moment::kStep);
    }
  }
  tell(last, callbacks);
  const bool finished = progress_.step >= total;
  visit(callbacks, finished ? Moment::kFinished : Moment::kInterrupted);
  return finished;
}

}  // namespace mstrain
