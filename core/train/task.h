// What is trained, as functions: the trainer knows no model and no kind of data.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/data/batch_part.h"
#include "core/tensor/params.h"
#include "core/train/checkpoint.h"
#include "core/train/outside.h"

namespace mstrain {

// What a mean is made of: sum / count, scalars [] of any type.
struct Sum {
  Tensor sum;
  Tensor count;

  template <class V>
  void fields(V& v) {
    v("sum", sum);
    v("count", count);
  }
};

// What a task finds in some samples of a batch.
struct TaskSums {
  Sum loss;                  // over predictions
  std::vector<Sum> metrics;  // those of TrainTask::metrics
  // Where TrainTask::has_scores: log-odds and labels, f32 [samples] each. A label below 0 does not count. Where has_groups, a third: what
  // group a sample is of, i64 below 2^53.
  Tensors scores = {};

  template <class V>
  void fields(V& v) {
    v("loss", loss);
    v("metrics", metrics);
    v("scores", scores);
  }
};

// So many tokens, images or whatever samples are made of.
struct Units {
  std::string name = "sample";  // of one
  int64_t count = 1;
};

// The samples that the steps of a run take, in batches that follow one another.
struct StepRange {
  uint64_t seed = 0;
  int64_t batch = 1;  // samples of a step
  int64_t first = 0;  // of the first of these steps
  int64_t end = 0;    // behind the last one's

  auto operator<=>(const StepRange&) const = default;
};

// Where a run goes on.
struct RunBegin {
  uint64_t seed = 0;
  int64_t step = 0;     // steps before
  int64_t samples = 0;  // that they took
};

struct TrainTask {
  std::vector<ParamSpec> parameters;
  // The shape under which checkpoints store parameter i: the same elements in the same order.
  std::vector<Shape> stored_shapes;
  // The file of a checkpoint that holds them, and the names that each has there; null: its own.
  std::string stored_file = kModelFile;
  std::function<std::vector<std::string>(const std::string& name)> stored_names;
  // The weights that a run begins with; null: those of the initialisers.
  std::function<Params()> initial;

  // What sums() needs besides and no step changes: without gradients and optimizer state, and in no checkpoint. They are
  // kept in the types that they have here.
  std::vector<ParamSpec> frozen;
  std::function<Params()> frozen_weights;  // read or made when a run begins or goes on
  std::optional<int64_t> frozen_numbers;   // how many they are, where some are in codes
  FrozenOrigins frozen_origins;            // of what is read, and of other models that the run asks

  // Types of the tensors of a batch of `rows` samples; the first dim of each is `rows`.
  std::function<Types(int64_t rows)> batch_types;
  // Over a batch, or a part of its samples: sums, never means, so that whoever adds up the parts divides once, by the count of
  // all of them. Pure. In a context that is training it drops out, drawing from the RandomScope, and smooths labels; in any
  // other it does neither. It is given all weights, trained and frozen.
  std::function<TaskSums(const Params&, std::span<const Tensor> batch)> sums;
  // Lengths of the sequences that a sample is of: dim 1 of each tensor of a batch has one of them. None: it is of no sequences. Where
  // there is one, tensors that begin with samples and positions are what passes through all layers.
  std::vector<int64_t> positions;
  // Where batches have no positions, but the model makes some of each sample: how many of them pass through all layers, as dim 1 of what
  // does.
  int64_t positions_inside = 0;
  // In training: the first two dims of what passes through all layers, of so many samples; null: samples and positions.
  std::function<Shape(int64_t rows)> stream;
  // In training: how many samples that follow each other share work where one micro-batch has them, such as a prompt's answers. A sample takes the
  // least memory and time where micro-batches are of whole groups.
  int64_t samples_together = 1;
  // In training, where samples are of unlike lengths and the batches of a run come in rising order of these: of each of so many equal parts
  // of a batch, positions, batch_types, sums and units over samples that are no longer than those that stand there in any of `steps`. The
  // tensors of their batches are those of this task, cut off behind in some dims. Empty: it is not known. Null: all samples are as long.
  std::function<std::vector<TrainTask>(const StepRange& steps, int64_t parts)> in_parts;
  std::optional<RunBegin> begin;     // of the steps; none: the first ones of a run with run.seed
  std::vector<std::string> metrics;  // of kMetricKinds: what sums() gives besides the loss
  bool measures_steps = false;  // steps have the metrics, too: they cost little beside the loss
  bool has_scores = false;      // sums() gives them: evaluations rank the samples
  bool has_groups = false;      // and rank those of each group

  // Tensors of a batch, by their places in it, that hold rows of tables outside the state of a step: floating, and in the loss.
  // The step gives their gradients to BatchStream::learn.
  std::vector<size_t> looked_up;
  bool asks_whole_weights = false;  // beside steps: to write answers, or to compare them
  int64_t outside_bytes =
      0;  // of memory that these tables, or models that rewards ask, take on a rank

  // Batches that a stream of data holds in the host's memory at a time, ahead of their use; 0: they are too small to count.
  int64_t batches_held = 0;

  // Whether what a step computes of a sample has the bits that whoever else computes it gets (Context::batch_invariant).
  bool batch_invariant = false;

  bool loss_in_nats = false;  // of a prediction's logarithm: perplexity is its exponential

  Units units;  // in a sample: what throughput counts
};

// What rows of tables learn from a step.
struct RowGradients {
  int64_t step = 0;        // from 1
  Tensors gradients;       // of the mean loss, in the order of TrainTask::looked_up
  double lr_scale = 1;     // the step's learning rate over optimizer.lr
  bool is_applied = true;  // false: the step is skipped, and nobody learns
};

// An endless sequence of batches that goes on exactly from a number of samples.
class BatchStream {
 public:
  virtual ~BatchStream() = default;
  virtual Tensors next() = 0;
  virtual int64_t samples() const = 0;  // taken so far, of whole batches
  // After each step on what next() gave, where the task looks rows up. Every rank calls it.
  virtual void learn(const RowGradients&) {}
};

// A sample as it enters the model, for people.
struct SamplePicture {
  std::string png;    // a file
  std::string label;  // what is asked for
};

// What a model has written after a prompt.
struct Continuation {
  std::string prompt;
  std::string text;
  std::optional<double> reward = {};  // that it earns, where it earns any
};

struct Earned {
  double sum = 0;                   // of all rewards
  std::vector<Continuation> texts;  // each with its own
};

// Held-out data.
struct EvaluationSet {
  std::string name;  // empty where they are the only ones
  // The first `samples` of all `total`. Samples after these, which fill up the last batch, count nothing.
  std::function<std::unique_ptr<BatchStream>(const BatchPart& part, int64_t samples)> first;
  int64_t total = 0;
  // Of any sample; else there is no loss, and nothing that follows from it.
  bool has_targets = true;
  // What the model's own texts to samples first … first + count - 1 earn, a function of its weights, whole; null where nothing is paid. Every rank
  // calls it.
  std::function<Earned(const Params& whole, int64_t first, int64_t count)> earned = {};
};

// The data of a run, opened when it is needed.
struct TrainData {
  // Batches, or a rank's part of each, from sample `first` on, in an order that `seed` decides.
  std::function<std::unique_ptr<BatchStream>(uint64_t seed, const BatchPart& part, int64_t first)>
      training;
  std::vector<EvaluationSet> evaluation;  // none where nothing is held out
  std::shared_ptr<OutsideState> outside;  // null: there is none
  // Bytes of the text whose predictions a batch of it scores; null where the data are no text.
  std::function<int64_t(std::span<const Tensor> batch)> scored_bytes;

  std::string identity;                                               // equal for equal data
  std::vector<std::pair<std::string, std::string>> checkpoint_files;  // config.json, tokenizer

  // A continuation of `prompt`, for reports; null where the model writes no text.
  std::function<std::string(const Params&, const std::string& prompt, int64_t tokens)> sample;
  // Some of the first samples of a run with this seed; null where they are no pictures.
  std::function<std::vector<SamplePicture>(uint64_t seed)> pictures;
};

}  // namespace mstrain
