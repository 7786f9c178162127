// Training with rules, through the command: what a YAML file asks for, and what a run leaves behind.
#include <gmock/gmock.h>

#include "core/base/json.h"
#include "core/train/checkpoint.h"
#include "core/train/metrics_file.h"
#include "tests/core/data/small_tokenizers.h"
#include "tests/core/train/memory_disk.h"
#include "tests/launcher/command.h"

namespace mstrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string file_of(const SmallRun& run, const std::string& path) {
  return real_files().read(run.path(path));
}

TEST(Rules, EndARunAndItsBestWeightsAreWhatItLeaves) {
  const SmallRun run;
  const std::vector<std::string> more{
      "schedule.total_steps=400",
      "eval.interval=5",
      "checkpoint.best=eval_bits_per_byte",
      "optimizer.lr=0.3",
      "schedule.type=constant",
      "schedule.min_lr_ratio=0",
      "eval.early_stopping={monitor: eval_perplexity, patience: 3, restore_best: true}",
      "schedule.reduce_on_plateau={factor: 0.5, patience: 1}"};
  const CommandResult result = run_command(run.arguments("run", more));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("(early stopping: 3 evaluations without a better "
                                          "eval_perplexity; the best is "),
                                HasSubstr("; the weights are those of step "),
                                HasSubstr("best eval_bits_per_byte ")));
  EXPECT_THAT(result.err, AllOf(HasSubstr("is on a plateau, the learning rate falls to 0.15"),
                                HasSubstr("  bits per byte "), HasSubstr("  accuracy 0."),
                                HasSubstr("\"the \" goes on \"")));
  const Json best = parse_json(file_of(run, "run/run.json"), "run.json")["best"];
  const std::vector<int64_t> steps = list_checkpoints(real_files(), run.path("run/checkpoints"));
  const std::string last = "run/checkpoints/" + checkpoint_name(steps.back());
  EXPECT_LT(best["step"], steps.back());
  EXPECT_EQ(file_of(run, last + "/model.safetensors"),
            file_of(run, "run/" + best["checkpoint"].get<std::string>() + "/model.safetensors"));
  const CommandResult again = run_command(run.arguments("run", more));
  EXPECT_EQ(again.status, 0);
  EXPECT_THAT(again.out, HasSubstr("by early stopping; raise eval.early_stopping.patience"));
}

TEST(Rules, AMonitorThatDoesNotExistIsBadConfiguration) {
  const SmallRun run;
  const CommandResult result =
      run_command(run.arguments("run", {"eval.early_stopping={monitor: eval_acuracy}"}));
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("did you mean eval_accuracy?"));
  const CommandResult nothing = run_command(
      run.arguments("run", {"eval.early_stopping={monitor: eval_loss}", "data.split=1"}));
  EXPECT_EQ(nothing.status, 2);
  EXPECT_THAT(nothing.err, HasSubstr("eval.early_stopping.monitor: eval_loss needs evaluations"));
}

TEST(TimeLimit, SavesExits130AndGoesOn) {
  const SmallRun run;
  ASSERT_EQ(run_command(run.arguments("straight")).status, 0);
  for (int i = 0; i < 3; ++i) {
    const CommandResult result =
        run_command(run.arguments("limited", {"run.time_limit_hours=1.0e-9"}));
    EXPECT_EQ(result.status, 130) << result.err;
    EXPECT_THAT(result.err, HasSubstr("run.time_limit_hours: 1e-09 hours are over"));
    EXPECT_THAT(result.out, HasSubstr("the same command goes on"));
  }
  ASSERT_EQ(run_command(run.arguments("limited")).status, 0);
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    const std::string path = std::string("/checkpoints/step-00000040/") + file;
    EXPECT_EQ(file_of(run, "limited" + path), file_of(run, "straight" + path));
  }
}

TEST(Tokenizer, TravelsInTheCheckpoint) {
  const SmallRun run;
  const std::string tokenizer = words().dump();
  write_text(run.path("words/tokenizer.json"), tokenizer);
  const CommandResult trained = run_command(
      run.arguments("run", {"data.tokenizer.type=hf", "data.tokenizer.path=" + run.path("words")}));
  ASSERT_EQ(trained.status, 0) << trained.err;
  real_files().remove_all(run.path("words"));

  EXPECT_EQ(file_of(run, "run/checkpoints/step-00000040/tokenizer.json"), tokenizer);
  const CommandResult generated = run_command({"generate", "--checkpoint", run.path("run"),
                                               "--prompt", "the c", "--tokens", "5", "--greedy"});
  EXPECT_EQ(generated.status, 0) << generated.err;
  EXPECT_THAT(generated.out, StartsWith("the c"));
  const CommandResult evaluated = run_command({"eval", "--checkpoint", run.path("run")});
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  double loss = 0;
  for (const Json& row : read_metrics(real_files(), run.path("run/metrics.jsonl"))) {
    loss = row.value("eval_loss", loss);
  }
  EXPECT_NEAR(std::stod(evaluated.out.substr(10)), loss, 1e-5);
  EXPECT_THAT(evaluated.out,
              AllOf(HasSubstr("\neval_perplexity "), HasSubstr("\neval_bits_per_byte "),
                    HasSubstr("\neval_accuracy ")));
  const CommandResult exported =
      run_command({"export", "--checkpoint", run.path("run"), "--output", run.path("exported")});
  ASSERT_EQ(exported.status, 0) << exported.err;
  EXPECT_EQ(file_of(run, "exported/tokenizer.json"), tokenizer);
}

}  // namespace
}  // namespace mstrain
