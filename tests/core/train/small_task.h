// A task that trains in microseconds: regression by two layers with dropout, on data that are a function of their index.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/base/rng.h"
#include "core/nn/layers.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/matmul.h"
#include "core/ops/reduce.h"
#include "core/ops/statistics.h"
#include "core/tensor/host.h"
#include "core/train/session.h"

namespace mstrain {

class IndexedBatches final : public BatchStream {
 public:
  using Hook = std::function<void(int64_t first_sample)>;
  IndexedBatches(uint64_t seed, const BatchPart& part, int64_t first, Hook hook)
      : seed_(seed), part_(part), next_(first), hook_(std::move(hook)) {}

  Tensors next() override {
    if (hook_ != nullptr) {
      hook_(next_);
    }
    std::vector<float> x;
    std::vector<float> y;
    for (int64_t row = 0; row < part_.rows(); ++row) {
      Rng rng(seed_, static_cast<uint64_t>(next_ + part_.sample(row)));
      float sum = 0;
      for (int i = 0; i < 4; ++i) {
        x.push_back(static_cast<float>(rng.normal()));
        sum += x.back();
      }
      y.push_back(std::tanh(sum));
    }
    next_ += part_.batch;
    return {tensor<float>(x, {part_.rows(), 4}), tensor<float>(y, {part_.rows(), 1})};
  }
  int64_t samples() const override { return next_; }

 private:
  uint64_t seed_;
  BatchPart part_;
  int64_t next_;
  Hook hook_;
};

// Regression of the small data by a model.
template <class Model>
TrainTask regression_task(const Model& model) {
  TrainTask task;
  task.parameters = declare_params([&](const Params& p) {
    model(p, zeros({Dtype::kF32, {1, 4}}));
  });
  for (const ParamSpec& spec : task.parameters) {
    task.stored_shapes.push_back(spec.type.shape);
  }
  task.batch_types = [](int64_t rows) {
    return Types{{Dtype::kF32, {rows, 4}}, {Dtype::kF32, {rows, 1}}};
  };
  task.sums = [model](const Params& p, std::span<const Tensor> batch) {
    const Tensor errors = square(model(p, batch[0]) - batch[1]);
    return TaskSums{{sum(errors), full({}, static_cast<double>(errors.elements()))}, {}};
  };
  return task;
}

inline TrainTask small_task(double dropout_rate = 0.1) {
  return regression_task([dropout_rate](const Params& p, const Tensor& x) {
    const Tensor hidden = dropout(p / "drop", tanh(linear(p / "in", x, {8})), dropout_rate);
    return linear(p / "out", hidden, {1});
  });
}

// `hook` is called before each training batch with the number of its first sample.
inline TrainData small_data(IndexedBatches::Hook hook = nullptr) {
  TrainData data;
  data.training = [hook](uint64_t seed, const BatchPart& part, int64_t first) {
    return std::make_unique<IndexedBatches>(seed, part, first, hook);
  };
  const auto first = [](const BatchPart& part, int64_t samples) {
    check(samples % part.batch == 0, "{} samples in batches of {}", samples, part.batch);
    return std::make_unique<IndexedBatches>(99, part, 0, nullptr);
  };
  data.evaluation = {{"", first, 16}};
  data.identity = "indexed";
  data.checkpoint_files = {{"config.json", "{}\n"}};
  return data;
}

// small_data() in which the batches of these steps, of 8 samples each, have targets without a number.
inline TrainData poisoned_data(std::vector<int64_t> steps, IndexedBatches::Hook hook = nullptr) {
  class Poisoned final : public BatchStream {
   public:
    Poisoned(std::unique_ptr<BatchStream> inner, std::vector<int64_t> steps)
        : inner_(std::move(inner)), steps_(std::move(steps)) {}
    Tensors next() override {
      Tensors batch = inner_->next();
      for (const int64_t step : steps_) {
        if (inner_->samples() == step * 8) {
          batch[1] = full({8, 1}, std::numeric_limits<double>::quiet_NaN());
        }
      }
      return batch;
    }
    int64_t samples() const override { return inner_->samples(); }

   private:
    std::unique_ptr<BatchStream> inner_;
    std::vector<int64_t> steps_;
  };
  TrainData data = small_data(std::move(hook));
  data.training = [inner = data.training, steps = std::move(steps)](
                      uint64_t seed, const BatchPart& part, int64_t first) {
    return std::make_unique<Poisoned>(inner(seed, part, first), steps);
  };
  return data;
}

inline TrainConfig small_config(const std::string& directory) {
  TrainConfig config;
  config.run.name = "small";
  config.run.output_dir = directory;
  config.run.threads = 1;
  config.batch.global = 8;
  config.optimizer.lr = 1e-2;
  config.schedule.total_steps = 20;
  config.schedule.warmup_steps = 3;
  config.checkpoint.interval = 5;
  config.eval.interval = 4;
  config.log.interval = 2;
  return config;
}

struct WholeConfig {
  TrainConfig train;
  template <class V>
  void fields(V& v) {
    train.fields_before_model(v);
    train.fields_after_data(v);
  }
};

inline YamlNode resolved(const TrainConfig& config) { return write_config(WholeConfig{config}); }

inline SessionResult run_small(const TrainConfig& config, FileSystem& files = real_files(),
                               const TrainData& data = small_data(),
                               const TrainTask& task = small_task(),
                               const std::atomic<bool>* stop = nullptr,
                               const SessionStart& start = {}) {
  static const std::atomic<bool> never = false;
  return train(
      files, config, resolved(config), task, data,
      [](const RunPlan& plan, int64_t limit) { throw PlanError(refusal(plan, limit, {})); },
      stop != nullptr ? *stop : never, {}, start);
}

// The file `name` of the checkpoint at `step`.
inline std::string checkpoint_file(const std::string& directory, int64_t step, const char* name) {
  return real_files().read(
      join_path(join_path(join_path(directory, "checkpoints"), checkpoint_name(step)), name));
}

// What metrics.jsonl says apart from times: those of two runs of one configuration are equal.
inline std::vector<std::string> timeless_metrics(const std::string& directory) {
  std::vector<std::string> out;
  for (Json row : read_metrics(real_files(), join_path(directory, kMetricsFile))) {
    for (const char* key : {"time", "step_seconds", "samples_per_second", "eval_seconds",
                            "busy_processors", "resident_bytes"}) {
      row.erase(key);
    }
    out.push_back(row.dump());
  }
  return out;
}

// Both directories hold the same run, bit for bit, whatever they say that it was asked for.
inline void expect_same_run(const std::string& a, const std::string& b, int64_t step) {
  for (const char* file :
       {"model.safetensors", "optimizer.safetensors", "state.json", "config.json"}) {
    EXPECT_EQ(checkpoint_file(a, step, file), checkpoint_file(b, step, file)) << file;
  }
  EXPECT_EQ(timeless_metrics(a), timeless_metrics(b));
}

}  // namespace mstrain
