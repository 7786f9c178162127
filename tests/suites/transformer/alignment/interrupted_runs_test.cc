// Runs by answers that are interrupted, or go on from a checkpoint before they write.
#include <gmock/gmock.h>

#include "core/train/checkpoint.h"
#include "core/train/trainer.h"
#include "suites/run/stored_model.h"
#include "tests/suites/transformer/alignment/answer_runs.h"

namespace mstrain {
namespace {

class StopAfter final : public Callback {
 public:
  StopAfter(int64_t step, std::atomic<bool>& stop) : step_(step), stop_(stop) {}
  void on_step(Trainer&, const StepMetrics& metrics) override { stop_ = metrics.step >= step_; }

 private:
  int64_t step_;
  std::atomic<bool>& stop_;
};

class InterruptedAnswerRuns : public AnswerRuns {
 protected:
  // Without what differs from one run to the next.
  static std::vector<Json> said(std::vector<Json> rows) {
    for (Json& row : rows) {
      for (const char* key : {"time", "step_seconds", "writing_seconds", "tokens_per_second",
                              "busy_processors", "resident_bytes", "eval_seconds"}) {
        row.erase(key);
      }
    }
    return rows;
  }
  YamlNode with(const std::string& name, const std::string& objective, const std::string& model,
                const Overrides& changes) {
    YamlNode config = tree(name, objective, model, 10);
    config.find("data")->find("train")->text =
        folder_ / (objective.starts_with("type: kto") ? "pairs.jsonl" : "answers.jsonl");
    apply_overrides(config, changes);
    return config;
  }
  // The weights of the last checkpoint.
  static std::string weights(const YamlNode& config) {
    return real_files().read(find_config(config, "run.output_dir")->text + "/checkpoints/" +
                             checkpoint_name(10) + "/model.safetensors");
  }
};

TEST_F(InterruptedAnswerRuns, WriteNoRowsOfTheirOwn) {
  const std::vector<std::pair<std::string, std::string>> kinds = {
      {"type: sft", ""},
      {"type: kto, beta: 0.5", ""},
      {"type: grpo, grpo: {group: 3, answer_tokens: 2, rewards: [{type: length, at_most: 2}]}", ""},
      {"type: ppo, ppo: {answer_tokens: 4, passes: 3, rewards: [{type: length, at_most: 2}]}",
       ", head: both"}};
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    const auto& [objective, model] = kinds[kind];
    const Overrides changes{"log.interval=4", "checkpoint.interval=1000"};
    const YamlNode straight = with("straight" + std::to_string(kind), objective, model, changes);
    const std::vector<Json> whole = said(train(straight));
    for (const int64_t step : {0, 1, 5}) {
      const YamlNode config =
          with("stopped" + std::to_string(10 * kind + step), objective, model, changes);
      stop_ = step == 0;  // before its first step
      StopAfter stopping(step, stop_);
      std::FILE* const out = std::tmpfile();
      EXPECT_EQ(train_model({real_files(), with_stored_model(real_files(), config), stop_, out},
                            {&stopping})
                    .outcome,
                Outcome::kInterrupted);
      std::fclose(out);
      stop_ = false;
      EXPECT_EQ(said(train(config)), whole) << objective << " stopped at " << step;
      EXPECT_EQ(weights(config), weights(straight)) << objective << " stopped at " << step;
    }
  }
}

// A checkpoint lies between passes over the same answers, and an evaluation comes before others are written.
TEST_F(InterruptedAnswerRuns, GoOnToAnEvaluationBeforeTheyWrite) {
  const std::vector<std::pair<std::string, std::string>> kinds = {
      {"type: grpo, grpo: {group: 3, answer_tokens: 2, passes: 3, rewards: [{type: length, "
       "at_most: 2}], "
       "generation: {temperature: 0.5}}",
       ""},
      {"type: ppo, ppo: {answer_tokens: 4, passes: 3, rewards: [{type: length, at_most: 2}]}",
       ", head: both"}};
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    const auto& [objective, model] = kinds[kind];
    const YamlNode config =
        with("goes_on" + std::to_string(kind), objective, model,
             {"log.interval=20", "eval.interval=5", "checkpoint={interval: 1, keep: 20}"});
    const std::vector<Json> whole = said(train(config));
    const std::string straight = weights(config);
    const std::string checkpoints = find_config(config, "run.output_dir")->text + "/checkpoints/";
    for (int64_t step = 5; step <= 10; ++step) {
      real_files().remove_all(checkpoints + checkpoint_name(step));
    }
    EXPECT_EQ(said(train(config)), whole);
    EXPECT_EQ(weights(config), straight);
  }
}

}  // namespace
}  // namespace mstrain
