// A GPT's loss and gradients on documents of uneven length, padded with ignored targets: the same in any micro-batches, with
// dropout, with label smoothing, in every precision; and its evaluation with any number of samples at once.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "core/base/rng.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "core/train/evaluation.h"
#include "suites/transformer/gpt/gpt_run.h"
#include "suites/transformer/gpt/model.h"
#include "tests/core/base/temporary_folder.h"

namespace mstrain::gpt {
namespace {

constexpr int64_t kGlobal = 16;

class GptObjective : public testing::Test {
 protected:
  GptObjective() {
    for (const char* name : {"train.jsonl", "valid.jsonl"}) {
      Rng rng(7);
      std::string lines;
      for (int document = 0; document < 60; ++document) {
        std::string text;
        for (uint64_t length = 2 + rng.below(document % 3 == 0 ? 40 : 6); length > 0; --length) {
          text += static_cast<char>('a' + rng.below(8));
        }
        lines += "{\"text\": \"" + text + "\"}\n";
      }
      real_files().open(folder_ / name, WriteMode::kTruncate)->append(lines);
    }
  }

  GptRun config() const {
    GptRun out;
    out.model.hidden_size = 16;
    out.model.num_layers = 2;
    out.model.num_attention_heads = 2;
    out.model.max_position_embeddings = 12;
    out.model.init.std = 0.2;
    out.data.train = {{folder_ / "train.jsonl", {}}};
    out.data.valid = {{"", {{folder_ / "valid.jsonl", {}}}}};
    out.data.tokenizer.type = TokenizerType::kByte;
    out.data.seq_length = 12;
    out.data.packing = false;
    out.train.batch.global = kGlobal;
    out.train.optimizer.type = OptimizerType::kSgd;
    out.train.optimizer.clip_grad.reset();
    out.train.optimizer.weight_decay = 0;
    return out;
  }

  struct Opened {
    GptRun config;
    Corpus corpus;
    TrainTask task;
    TrainData data;
  };
  static Opened open(GptRun config, Dtype dtype = Dtype::kF32) {
    const Corpus corpus = open_corpus(real_files(), config.data);
    config.use(corpus);
    config.settle(config.data_ids(), YamlNode());
    TrainTask task = config.task();
    for (ParamSpec& spec : task.parameters) {
      spec.type.dtype = dtype;
    }
    TrainData data = config.samples();
    return {std::move(config), corpus, std::move(task), std::move(data)};
  }

  struct Step {
    double loss = 0, grad_norm = 0;
    std::vector<double> change;  // of all parameters
  };
  static StepProgram program_of(const Opened& run, int64_t micro) {
    return {run.task, run.config.train, micro, one_thread()};
  }
  static Step step_of(const Opened& run, int64_t micro, Tensors batch) {
    return step_of(run, program_of(run, micro), std::move(batch), 0);
  }
  static Step step_of(const Opened& run, const StepProgram& program, Tensors batch,
                      int64_t number) {
    const Params before = init_params(run.task.parameters, 11);
    const StepResult result = program.run(program.first_state(init_params(run.task.parameters, 11)),
                                          std::move(batch), {.lr = 1, .seed = 5, .step = number});
    Step out{item(result.loss), item(result.grad_norm), {}};
    // What is updated: the f32 masters, where there are any.
    const auto& slots = result.state.optimizer.slots;
    const auto masters = std::find_if(slots.begin(), slots.end(),
                                      [](const auto& slot) { return slot.first == "master"; });
    const Params& after = masters == slots.end() ? result.state.params : masters->second;
    for (size_t i = 0; i < before.size(); ++i) {
      const std::vector<double> old_values = to_doubles(before.tensor(i));
      const std::vector<double> new_values = to_doubles(*after.find(before.name(i)));
      for (size_t j = 0; j < old_values.size(); ++j) {
        out.change.push_back(old_values[j] - new_values[j]);
      }
    }
    return out;
  }

  static void expect_same_step(const Step& a, const Step& b, double tolerance) {
    EXPECT_NEAR(a.loss, b.loss, tolerance * b.loss);
    EXPECT_NEAR(a.grad_norm, b.grad_norm, tolerance * b.grad_norm);
    double difference = 0;
    double norm = 0;
    for (size_t i = 0; i < b.change.size(); ++i) {
      difference += std::pow(a.change[i] - b.change[i], 2);
      norm += std::pow(b.change[i], 2);
    }
    EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(norm));
    EXPECT_GT(norm, 0);
  }

  static void expect_same_in_any_micro_batches(const Opened& run, double tolerance) {
    const auto batches = run.data.training(3, kGlobal, 0);
    const std::array both{batches->next(), batches->next()};
    std::vector<Step> whole;
    for (const int64_t micro : {kGlobal, int64_t{1}, int64_t{2}, int64_t{4}}) {
      const StepProgram program = program_of(run, micro);
      for (size_t i = 0; i < both.size(); ++i) {
        SCOPED_TRACE(fmt::format("batch {} micro {}", i, micro));
        const Step step = step_of(run, program, both[i], static_cast<int64_t>(i));
        if (micro == kGlobal) {
          whole.push_back(step);
        } else {
          expect_same_step(step, whole[i], tolerance);
        }
      }
    }
  }

  static Context one_thread() {
    Context context;
    context.threads = 1;
    return context;
  }

  TemporaryFolder folder_;
  const Context context_ = one_thread();
  const ContextScope scope_{context_};
};

TEST_F(GptObjective, IsThatOfTheBatchInAnyMicroBatches) {
  expect_same_in_any_micro_batches(open(config()), 1e-6);
  expect_same_in_any_micro_batches(open(config(), Dtype::kF64), 1e-12);
}

TEST_F(GptObjective, IsThatOfTheBatchWithDropoutAndLabelSmoothing) {
  GptRun regular = config();
  regular.model.dropout = {.hidden = 0.1, .attention = 0.2, .embedding = 0.15};
  regular.model.label_smoothing = 0.1;
  expect_same_in_any_micro_batches(open(regular), 1e-6);
  expect_same_in_any_micro_batches(open(regular, Dtype::kF64), 1e-12);
  regular.train.memory.recompute = Recompute::kFull;
  expect_same_in_any_micro_batches(open(regular), 1e-6);
  regular.train.memory.recompute = Recompute::kNone;
  regular.train.run.execution = Execution::kEager;
  expect_same_in_any_micro_batches(open(regular), 1e-6);
}

TEST_F(GptObjective, IsThatOfTheBatchInEveryPrecision) {
  struct Mode {
    FloatType params, grads;
    LossScale loss_scale;
    double tolerance;
  };
  const auto fixed = [](double scale) {
    return LossScale(NoneOr<OrWord<double, DynamicWord>>(OrWord<double, DynamicWord>(scale)));
  };
  // A product of 16 bits rounds each gradient of a micro-batch by 2^-9 or 2^-12; sums in 16 bits round it again.
  const Mode modes[] = {{FloatType::kFp32, FloatType::kFp32, fixed(1024), 1e-6},
                        {FloatType::kBf16, FloatType::kFp32, {}, 1e-2},
                        {FloatType::kBf16, FloatType::kBf16, {}, 2e-2},
                        {FloatType::kFp16, FloatType::kFp32, {}, 2e-3},
                        {FloatType::kFp16, FloatType::kFp16, fixed(4096), 4e-3}};
  for (const Mode& mode : modes) {
    SCOPED_TRACE(fmt::format("params {} grads {}", static_cast<int>(mode.params),
                             static_cast<int>(mode.grads)));
    GptRun run = config();
    run.model.dropout = {.hidden = 0.1, .attention = 0.1, .embedding = 0.1};
    run.model.label_smoothing = 0.05;
    run.train.precision.params = mode.params;
    run.train.precision.grads = mode.grads;
    run.train.precision.loss_scale = mode.loss_scale;
    expect_same_in_any_micro_batches(open(run), mode.tolerance);
  }
}

// Samples 0 to 11 ignore everything: whole micro-batches have nothing to score.
TEST_F(GptObjective, MicroBatchesWithoutTargetsCountNothing) {
  const Opened run = open(config());
  Tensors batch = run.data.training(3, kGlobal, 0)->next();
  std::vector<int32_t> targets = to_vector<int32_t>(batch[1]);
  std::fill_n(targets.begin(), 12 * 12, kIgnoreTarget);
  batch[1] = tensor<int32_t>(targets, {kGlobal, 12});
  const Step whole = step_of(run, kGlobal, batch);
  for (const int64_t micro : {1, 2, 4}) {
    expect_same_step(step_of(run, micro, batch), whole, 1e-6);
  }
}

TEST_F(GptObjective, OfABatchWithoutTargetsIsZero) {
  const Opened run = open(config());
  Tensors batch = run.data.training(3, kGlobal, 0)->next();
  const std::vector<int32_t> none(kGlobal * 12, kIgnoreTarget);
  batch[1] = tensor<int32_t>(none, {kGlobal, 12});
  for (const int64_t micro : {2, 16}) {
    const Step step = step_of(run, micro, batch);
    EXPECT_EQ(step.loss, 0);
    EXPECT_EQ(step.grad_norm, 0);
    EXPECT_EQ(step.change, std::vector<double>(step.change.size(), 0));
  }
}

// loss = (1 - s) loss of the targets + s mean over all tokens; evaluations measure the plain one.
TEST_F(GptObjective, LabelSmoothingIsOfTrainingAlone) {
  GptRun plain = config();
  GptRun smooth = config();
  smooth.model.label_smoothing = 0.25;
  GptRun smoother = config();
  smoother.model.label_smoothing = 0.5;
  const Tensors batch = open(plain).data.training(3, kGlobal, 0)->next();
  const double none = step_of(open(plain), 4, batch).loss;
  const double some = step_of(open(smooth), 4, batch).loss;
  const double more = step_of(open(smoother), 4, batch).loss;
  EXPECT_GT(std::abs(some - none), 1e-3);
  EXPECT_NEAR(more - none, 2 * (some - none), 1e-5);
  const auto measured = [&](const GptRun& config) {
    const Opened run = open(config);
    const LossProgram program(run.task, run.config.train, 4, one_thread());
    return program
        .run(init_params(run.task.parameters, 11),
             Tensors{slice(batch[0], 0, 0, 4), slice(batch[1], 0, 0, 4)})
        .at(0)
        .sums[0]
        .sum;
  };
  EXPECT_EQ(measured(plain), measured(smooth));
}

TEST_F(GptObjective, AnEvaluationIsTheSameWithAnyNumberOfSamplesAtOnce) {
  const std::atomic<bool> never = false;
  for (const bool all : {true, false}) {
    GptRun run = config();
    run.train.batch.global = 7;  // 21 samples in three batches
    if (!all) {
      run.train.eval.batches = int64_t{3};
    }
    const Opened opened = open(run);
    const Params params = init_params(opened.task.parameters, 11);
    const auto measured = [&](int64_t rows) {
      const LossProgram program(opened.task, opened.config.train, rows, one_thread());
      return *evaluate(program, params, opened.task, opened.data, opened.config.train, rows, never,
                       [&] { return params; });
    };
    const EvaluationResult expected = measured(1);
    for (const int64_t rows : {2, 5, 7, 16, 100}) {
      const EvaluationResult result = measured(rows);
      EXPECT_EQ(result.metrics[0].predictions, expected.metrics[0].predictions) << rows;
      for (size_t i = 0; i < expected.metrics.size(); ++i) {
        EXPECT_NEAR(result.metrics[i].value, expected.metrics[i].value,
                    1e-6 * expected.metrics[i].value)
            << expected.metrics[i].kind->name << " of " << rows;
      }
    }
  }
}

}  // namespace
}  // namespace mstrain::gpt
