// Mistakes and what they are told, with which exit status.
#include <gmock/gmock.h>

#include "tests/core/train/memory_disk.h"
#include "tests/launcher/command.h"

namespace mstrain {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// Found only when the program is divided, on whichever rank is first.
TEST(Command, AWayToShareAttentionThatTheDimsDoNotAllowIsStatus2) {
  const SmallRun run;
  for (const std::vector<std::string>& how :
       {std::vector<std::string>{"--dry-run"}, std::vector<std::string>{"--ranks", "2"}}) {
    std::vector<std::string> arguments{
        "--config",      run.config(),         "model.num_attention_heads=1",
        "batch.micro=1", "parallel.context=2", "parallel.context_way=all_to_all"};
    arguments.insert(arguments.end(), how.begin(), how.end());
    const CommandResult result = run_command(arguments);
    EXPECT_EQ(result.status, 2) << how[0];
    EXPECT_THAT(result.err, HasSubstr("by all_to_all; say gather or ring"));
    EXPECT_THAT(result.err, Not(HasSubstr("error: rank")));
  }
}

TEST(Command, BadUsageIsStatus2AndSaysWhatIsKnown) {
  const SmallRun run;
  const std::pair<std::vector<std::string>, const char*> kCases[] = {
      {{}, "--config FILE is missing"},
      {{"genrate"}, "genrate: unknown command; did you mean generate?"},
      {{"genrate", "--checkpoint", "x"}, "genrate: unknown command; did you mean generate?"},
      {{"train", run.config()}, "train: unknown command; a configuration is run by --config FILE"},
      {{run.config()}, "unknown command; did you mean --config "},
      {{"--confg", "x.yaml"}, "--confg: unknown option; did you mean --config?"},
      {{"--config"}, "--config: expected FILE after it"},
      {{"--config", "--dry-run"}, "--config: expected FILE after it, found the option --dry-run"},
      {{"--config", run.path("none.yaml")}, "none.yaml"},
      {{"--config", run.config(), "model.hidden_size"}, "expected key.path=value"},
      {{"--dry-run=yes"}, "--dry-run: takes no value"},
      {{"generate", "--checkpoint", "x"}, "--prompt TEXT is missing"},
      {{"generate", "--checkpoint", "x", "--prompt", "a", "--tokens", "many"},
       "--tokens: expected an integer, found \"many\""},
      {{"generate", "--checkpoint", "x", "--prompt", "a", "--seed", "18446744073709551615"},
       "--seed: expected an integer from -9223372036854775808 to 9223372036854775807, found"},
      {{"generate", "--checkpoint", "x", "--prompt", "a", "--seed", "-1"},
       "--seed: expected at least 0, found -1"},
      {{"--config", run.config(), "--change", "optimizer.lrr=3"},
       "command line: optimizer.lrr: unknown key; did you mean optimizer.lr?"},
      {{"generate", "--checkpoint", "x", "--prompt", "a", "--temperature", "-1"},
       "--temperature -1"},
      {{"generate", "--checkpoint", "x", "--prompt", "a", "--greedy", "--temperature", "1"},
       "--greedy: takes no --temperature"},
      {{"generate", "--checkpoint", "x", "--prompt", "a", "--length-penalty", "2"},
       "--length-penalty: goes with --beams"},
      {{"generate", "--checkpoint", "x", "--prompt", "a", "--weights", "int9"},
       "--weights: expected f32, bf16, int8, nf4, found int9; did you mean int8?"},
      {{"generate", "--checkpont", "x"}, "did you mean --checkpoint?; see mstrain generate --help"},
      {{"generate", "--checkpoint", "x", "--prompt", "a", "--greedy", "--top-k", "3"}, "--greedy"},
      {{"eval"}, "--checkpoint DIR is missing"},
      {{"generate", "--checkpoint", "x", "--model=y", "--prompt", "a"},
       "--model: is given twice, as x and y"},
      {{"inspect"}, "inspect: expected one PATH"},
      {{"report"}, "report: expected RUN_DIR"},
  };
  for (const auto& [arguments, expected] : kCases) {
    const CommandResult result = run_command(arguments);
    EXPECT_EQ(result.status, 2) << expected;
    EXPECT_THAT(result.err, HasSubstr(expected));
    EXPECT_THAT(result.out, IsEmpty());
  }
}

TEST(Command, MistakesInAConfigurationNameFileLineKeyAndChoice) {
  const SmallRun run;
  const std::string good = real_files().read(run.config());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    write_text(run.path("bad.yaml"), text);
    return run_command({"--config", run.path("bad.yaml"), "--print-config"});
  };
  const struct {
    const char *from, *to, *expected;
  } kCases[] = {
      {"num_layers: 2", "num_layer: 2",
       "bad.yaml:2: model.num_layer: unknown key; did you mean model.num_layers?"},
      {"num_layers: 2", "num_layers: two",
       "bad.yaml:2: model.num_layers: expected an integer >= 1"},
      {"num_layers: 2", "num_layers: 0", "bad.yaml:2: model.num_layers: expected an integer >= 1"},
      {"num_attention_heads: 2", "num_attention_heads: 3", "bad.yaml:2: model.num_attention_heads"},
      {"seq_length: 16", "seq_length: 17",
       "bad.yaml:4: data.seq_length: 17 is more than model.max_position_embeddings 16"},
      {"micro: 2", "micro: 3", "bad.yaml:5: batch.micro: 3 does not divide batch.global 4"},
      {"type: adamw", "type: adamwx",
       "bad.yaml:6: optimizer.type: expected one of sgd, adam, adamw, adagrad, rmsprop, lamb, "
       "muon, "
       "found \"adamwx\"; did you mean adamw?"},
      {"log:", "logs:", "bad.yaml:10: logs: unknown key; did you mean log?"},
      {"log:", "parallels: {tensor: 2}\nlog:", "bad.yaml:10: parallels: unknown key"},
      {"type: char", "type: bpp", "did you mean bpe?"},
      {"num_layers: 2", "num_layers: \"2\"",
       "bad.yaml:2: model.num_layers: expected an integer >= 1 and <= 4096, found \"2\" in quotes, "
       "which make "
       "it text"},
      {"batch:", "\tbatch:", "bad.yaml:5: a tab indents this line"},
      {"lr: 1.0e-2, weight_decay: 0.1}", "lr: 1.0e-2", "bad.yaml:6: this '{' is never closed"},
      // What nanoGPT and Hugging Face call it.
      {"num_layers: 2", "n_layer: 2",
       "bad.yaml:2: model.n_layer: unknown key; here that is model.num_layers"},
      {"hidden_size: 16", "n_embd: 16", "here that is model.hidden_size\n"},
      {"seq_length: 16", "block_size: 16", "here that is data.seq_length\n"},
      {"log:", "block_size: 16\nlog:",
       "here that is model.max_position_embeddings and data.seq_length\n"},
      {"log:", "max_iters: 40\nlog:", "here that is schedule.total_steps\n"},
      {"lr: 1.0e-2", "learning_rate: 1.0e-2", "here that is optimizer.lr\n"},
      {"micro: 2", "per_device_train_batch_size: 2", "here that is batch.micro\n"},
      // What they say in another unit: the value would be wrong.
      {"log:", "warmup_ratio: 0.1\nlog:",
       "warmup_ratio: unknown key; here schedule.warmup_steps says it: steps of linear rise in "
       "front\n"},
      {"log:", "min_lr: 6.0e-5\nlog:",
       "here schedule.min_lr_ratio says it: lowest rate as a fraction of optimizer.lr\n"},
      {"micro: 2", "gradient_accumulation_steps: 2",
       "here batch.global says it: samples in a step\n"},
      {"log:", "weight_decay: 0.1\nlog:",
       "weight_decay: unknown key; did you mean optimizer.weight_decay?"},
  };
  for (const auto& [from, to, expected] : kCases) {
    const CommandResult result = with(from, to);
    EXPECT_EQ(result.status, 2) << to;
    EXPECT_THAT(result.err, StartsWith(run.path("bad.yaml"))) << to;
    EXPECT_THAT(result.err, HasSubstr(expected)) << to;
  }
}

TEST(Command, AnEmptyConfigurationIsNamed) {
  const SmallRun run;
  write_text(run.path("empty.yaml"), "# nothing yet\n");
  const CommandResult result = run_command({"--config", run.path("empty.yaml")});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, StartsWith(run.path("empty.yaml") + ": data.train: required key"));
}

TEST(Command, ErrorsOfTheDataNameTheirKey) {
  const SmallRun run;
  const std::string text = run.path("text.txt");
  write_text(run.path("home/notes.txt"), "a text at home");
  const auto failing = [&](const std::string& override, int status = 2) {
    const CommandResult result = run_command(run.arguments("run", {override}));
    EXPECT_EQ(result.status, status) << override;
    return result.err;
  };
  EXPECT_THAT(failing("data.train=" + run.path("txet.txt")),
              StartsWith("command line: data.train: " + run.path("txet.txt") +
                         ": no such file or folder; did you mean " + text));
  EXPECT_THAT(failing("data.valid=" + run.path("none.txt")),
              StartsWith("command line: data.valid: "));
  EXPECT_THAT(failing("data.tokenizer={type: hf, path: nowhere}"),
              StartsWith("command line: data.tokenizer: nowhere: no such tokenizer"));
  write_text(run.path("bad.txt"), "\xff\xfe");
  EXPECT_THAT(failing("model.init.from=" + run.path("none")),
              StartsWith("command line: model.init.from: "));
  EXPECT_THAT(failing("data.train=" + run.path("bad.txt"), /*status=*/1),
              StartsWith("command line: data.train: "));
}

TEST(Command, EvalOfWhatIsMissingSaysSo) {
  const CommandResult result = run_command({"eval", "--checkpoint", "nosuch"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, StartsWith("nosuch: no such file or folder"));
}

}  // namespace
}  // namespace mstrain
