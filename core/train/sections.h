// The sections of a run's configuration that do not depend on what is trained.
#pragma once

#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/nn/model_layer.h"
#include "core/optim/precision_config.h"
#include "core/tensor/jit.h"
#include "core/train/callback_sections.h"
#include "core/train/find_lr_config.h"
#include "core/train/parallel_config.h"
#include "core/train/sweep_config.h"

namespace mstrain {

enum class RunMode { kTrain, kEval, kGenerate, kBenchmark, kFindLr };
enum class Execution { kEager, kGraph };

struct RunConfig {
  std::string name = "run";
  RunMode mode = RunMode::kTrain;
  Execution execution = Execution::kGraph;
  AutoOr<std::string> output_dir;
  int64_t seed = 1234;
  std::string device = "cpu";
  std::optional<std::string> device_description;
  AutoOr<int64_t> threads;
  std::optional<double> time_limit_hours;

  template <class V>
  void fields(V& v) {
    v("name", name, "what reports call the run",
      rule::elsewhere_called({"run_name", "wandb_run_name", "experiment_name"}));
    v("mode", mode,
      "what to do; eval and generate use the newest checkpoint of output_dir; find_lr looks for a "
      "learning rate",
      rule::one_of({"train", "eval", "generate", "benchmark", "find_lr"})
          .elsewhere_called({"eval_only", "do_train", "do_eval", "auto_lr_find", "lr_find"}));
    v("execution", execution, "operation by operation, or the whole step as one plan",
      rule::one_of({"eager", "graph"}).elsewhere_called({"compile", "torch_compile"}));
    v("output_dir", output_dir, "where everything is written; auto: out/<name>",
      rule::path().elsewhere_called({"out_dir", "output", "save_dir", "log_dir", "logging_dir"}));
    v("seed", seed, "of initial weights, order of the data and dropout",
      rule::at_least(0).elsewhere_called({"random_seed", "data_seed", "rng_seed"}));
    v("device", device, "what the run computes on; auto: cuda where that runs here, else cpu",
      rule::one_of({"cpu", "cuda", "auto"})
          .elsewhere_called({"accelerator", "use_cuda", "no_cuda"}));
    v("device_description", device_description,
      "a file that says what a device is which is not here, as configs/devices/h100_80gb.yaml: "
      "--dry-run plans for it",
      rule::path());
    v("threads", threads, "processors to use; auto: all",
      rule::at_least(1).at_most(1024).elsewhere_called({"num_threads", "n_threads"}));
    v("time_limit_hours", time_limit_hours,
      "the run saves and ends as if interrupted after so many hours; the same command goes on",
      rule::positive());
  }

  std::string directory() const { return output_dir.value_or("out/" + name); }
};

struct BatchConfig {
  int64_t global = 8;
  AutoOr<int64_t> micro;

  template <class V>
  void fields(V& v) {
    v("global", global, "samples in a step",
      rule::at_least(1)
          .elsewhere_called({"global_batch_size", "train_batch_size", "total_batch_size"})
          .elsewhere_measured_by({"gradient_accumulation_steps"}));
    v("micro", micro, "samples computed at once; auto: as many as fit into memory",
      rule::at_least(1).elsewhere_called(
          {"batch_size", "per_device_train_batch_size", "micro_batch_size", "device_batch_size"}));
  }
};

enum class Offload { kNone, kCpu };

struct OffloadConfig {
  Offload optimizer = Offload::kNone;
  Offload activations = Offload::kNone;
  double min_kb = 64;

  template <class V>
  void fields(V& v) {
    v("optimizer", optimizer,
      "where what the optimizer keeps lies between updates; cpu: in the host's memory, from where "
      "it comes parameter by parameter",
      rule::one_of({"none", "cpu"})
          .elsewhere_called({"offload_optimizer", "cpu_offload", "optimizer_cpu_offload"}));
    v("activations", activations,
      "where what the forward pass leaves for the backward pass waits; cpu: in the host's memory",
      rule::one_of({"none", "cpu"})
          .elsewhere_called({"cpu_checkpointing", "activation_offloading", "cpu_offloading"}));
    v("min_kb", min_kb,
      "activations of less, in 10^3 bytes, stay on the device: they are not worth a copy",
      rule::at_least(0));
  }

  bool any() const { return optimizer != Offload::kNone || activations != Offload::kNone; }
  // As the compiler takes it.
  std::optional<int64_t> activation_bytes() const {
    return activations == Offload::kNone ? std::nullopt
                                         : std::optional(static_cast<int64_t>(min_kb * 1e3));
  }
};

struct MemoryConfig {
  AutoOr<double> limit_gb;
  Recompute recompute = Recompute::kNone;
  OffloadConfig offload;
  AutoOr<NoneOr<int64_t>> loss_chunks;
  AutoOr<double> packed_weights_gb;

  template <class V>
  void fields(V& v) {
    v("limit_gb", limit_gb,
      "memory that a run may take, in 10^9 bytes; auto: the machine's, or the device's own",
      rule::positive().at_most(1e9));
    v("recompute", recompute, "what the backward pass computes again instead of keeping it",
      rule::one_of({"none", "selective", "full"})
          .elsewhere_called(
              {"gradient_checkpointing", "activation_checkpointing", "recompute_granularity"}));
    v("offload", offload, "what of a device's memory lies in the host's instead");
    v("loss_chunks", loss_chunks,
      "parts of its rows in which a wide head's loss is computed, so that its logits never exist "
      "as a whole; auto: from 64 MiB of logits on; none: at once, as level O0 does always",
      rule::at_least(1));
    v("packed_weights_gb", packed_weights_gb,
      "memory, in 10^9 bytes, for weights in the layout that products like best, packed once a "
      "step for all its micro-batches; auto: 1 on the cpu; 0: none",
      rule::at_least(0));
  }

  // As the compiler takes it.
  int64_t chunks() const {
    return loss_chunks.is_word() ? kAutoChunks : loss_chunks.value->value_or(1);
  }
  std::optional<int64_t> packed_bytes() const {
    return packed_weights_gb.is_word()
               ? std::nullopt
               : std::optional(static_cast<int64_t>(*packed_weights_gb.value * 1e9));
  }
};

enum class FusionLevel { kO0, kO1, kO2 };

struct FusionConfig {
  FusionLevel level = FusionLevel::kO2;
  std::vector<std::string> off;
  bool explain = false;

  template <class V>
  void fields(V& v) {
    v("level", level, "O0: as in eager execution; O1: simplified; O2: fused as well",
      rule::one_of({"O0", "O1", "O2"}));
    v("off", off, "rules of fusion that are not used; docs/fusion.md names them");
    v("explain", explain,
      "say what was fused and what was not, and why: in a dry run, and in fusion.txt of the run");
  }
};

enum class Resume { kAuto, kNever };

struct CheckpointConfig {
  AutoOr<int64_t> interval;
  double minutes = 5;
  int64_t keep = 3;
  std::optional<std::string> best;
  AutoOr<bool> async;
  Resume resume = Resume::kAuto;

  template <class V>
  void fields(V& v) {
    v("interval", interval,
      "steps between two checkpoints; auto: by time, see minutes; the last step has one besides",
      rule::at_least(1).elsewhere_called({"save_steps", "save_interval", "checkpoint_interval"}));
    v("minutes", minutes, "between two checkpoints, where interval is auto", rule::positive());
    v("keep", keep, "newest checkpoints to keep",
      rule::at_least(1).elsewhere_called({"save_total_limit"}));
    v("best", best,
      "metric of the evaluations by which the best checkpoint is saved and kept besides",
      rule::elsewhere_called({"metric_for_best_model"}));
    v("async", async,
      "training goes on while a copy of the state is written; auto: where memory for the copy is "
      "left");
    v("resume", resume, "auto: go on from the newest checkpoint; never: refuse where there is one",
      rule::one_of({"auto", "never"}).elsewhere_called({"resume_from_checkpoint"}));
  }
};

struct EvalConfig {
  NoneOr<int64_t> interval = 250;
  AllOr<int64_t> batches;
  std::vector<std::string> prompts;
  int64_t sample_tokens = 200;
  AutoOr<int64_t> sample_interval;
  std::optional<EarlyStoppingConfig> early_stopping;

  template <class V>
  void fields(V& v) {
    v("interval", interval,
      "steps between two evaluations; the last step has one besides; none: there are no "
      "evaluations",
      rule::at_least(1).elsewhere_called({"eval_interval", "eval_steps"}));
    v("batches", batches, "batches of batch.global samples to evaluate on, or all held-out data",
      rule::at_least(1)
          .elsewhere_called({"eval_iters"})
          .elsewhere_measured_by({"max_eval_samples"}));
    v("prompts", prompts, "texts to continue as training goes, for log and report");
    v("sample_tokens", sample_tokens, "tokens to generate for each prompt", rule::at_least(1));
    v("sample_interval", sample_interval,
      "steps between two times; the last step has one besides; auto: eval.interval",
      rule::at_least(1));
    v("early_stopping", early_stopping, "end the run when evaluations get no better",
      rule::elsewhere_called({"early_stopping_patience", "load_best_model_at_end"}));
  }

  bool evaluates() const { return !interval.is_word(); }
  // Whether an evaluation, or samples, are due after `step` steps of many.
  bool is_due(int64_t step) const { return evaluates() && step % *interval.value == 0; }
  bool are_samples_due(int64_t step) const {
    return sample_interval.is_word() ? is_due(step) : step % *sample_interval.value == 0;
  }
};

struct LogConfig {
  int64_t interval = 10;
  NoneOr<int64_t> layers;

  template <class V>
  void fields(V& v) {
    v("interval", interval, "steps between two rows of metrics.jsonl",
      rule::at_least(1).elsewhere_called({"log_interval", "logging_steps"}));
    v("layers", layers,
      "steps between two looks at every parameter: norms of weight and gradient, and a histogram "
      "of "
      "the weights; none: no looks",
      rule::at_least(1).elsewhere_called({"wandb_watch", "log_params_norm", "histogram_freq"}));
  }
};

struct ProfileConfig {
  int64_t steps = 0;
  int64_t first = 10;

  template <class V>
  void fields(V& v) {
    v("steps", steps, "steps whose kernels are timed one by one, into profile.json; 0: none",
      rule::at_least(0));
    v("first", first, "the first of them, counted from where the run begins or goes on",
      rule::at_least(1));
  }
};

// All of them; a suite's configuration puts its own sections, `model` and `data`, between `run` and the rest.
struct TrainConfig {
  RunConfig run;
  BatchConfig batch;
  ParallelConfig parallel;
  MemoryConfig memory;
  PrecisionConfig precision;
  UpdateConfig optimizer;
  RateConfig schedule;
  FusionConfig fusion;
  CheckpointConfig checkpoint;
  EvalConfig eval;
  LogConfig log;
  ProfileConfig profile;
  FindLrConfig find_lr;
  std::optional<SweepConfig> sweep;

  template <class V>
  void fields_before_model(V& v) {
    v("run", run, "the run itself");
  }
  template <class V>
  void fields_after_data(V& v) {
    v("batch", batch, "how many samples make a step");
    v("parallel", parallel, "how many ranks share the run, and how");
    v("memory", memory, "what the run may take");
    v("precision", precision, "in which types it is computed and stored");
    v("optimizer", optimizer, "update rule");
    v("schedule", schedule, "learning rate and length");
    v("fusion", fusion, "how far programs are optimised");
    v("checkpoint", checkpoint, "saving and going on");
    v("eval", eval, "evaluation while training");
    v("log", log, "what is written down");
    v("profile", profile, "where the time of a step goes");
    v("find_lr", find_lr, "the ramp of run.mode find_lr");
    v("sweep", sweep, "several runs that differ in some keys, instead of one");
  }
};

// What one key alone cannot tell. Throws ConfigError, with the line where `tree` is what `config` was read from.
void check_train_config(const TrainConfig& config, const YamlNode& tree);

// Whether the batch can be shared by so many ranks along data, each of which may be a pipeline. Throws ConfigError, which names the nearest choices.
void check_batch(const TrainConfig& config, int64_t data_ranks, const YamlNode& tree);

// A key with its values, each as one line of YAML.
struct KeyChange {
  std::string key, before, now;
};
// "model.hidden_size: 128, now 256"
std::string describe(const KeyChange& change);

// The keys whose values differ between two resolved configurations. A key of these sections that is missing from `before` had
// its default.
std::vector<KeyChange> changed_keys(const YamlNode& before, const YamlNode& now);

enum class Changing {
  kFreely,  // run, parallel, log, profile, find_lr, checkpoint, eval, batch.micro, schedule.total_steps, fusion.explain,
            // embedding_cache
  kOnRequest,  // what a run may change its mind about: rates, rules, batches, data, what takes memory
  kNever       // what the state of a run is made of
};
// Whether the key may change while a run goes on.
Changing may_change(std::string_view key);
// The keys that may change on request, for people.
std::string changeable_keys();
// What a key stands or falls with: itself, or the section in its section that it belongs to (optimizer.skip_spikes).
std::string unit_of(std::string_view key);

}  // namespace mstrain
