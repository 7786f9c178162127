// What the command prints, accepts and refuses, and with which exit status.
#include <gmock/gmock.h>

#include <filesystem>

#include "core/base/isa.h"
#include "core/base/json.h"
#include "core/base/yaml.h"
#include "core/io/events.h"
#include "core/train/metrics_file.h"
#include "tests/core/train/memory_disk.h"
#include "tests/launcher/command.h"

namespace mstrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

std::string shipped(const std::string& name) {
  return std::string(MSTRAIN_SOURCE_DIR) + "/configs/" + name;
}

TEST(Command, SaysWhatItIs) {
  const CommandResult version = run_command({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.out, AllOf(StartsWith("mstrain "), HasSubstr("\ncompiler "),
                                 HasSubstr("\ninstruction set " + std::string(to_string(isa()))),
                                 HasSubstr("\nbackend reference "), HasSubstr("\nbackend cpu ")));
  const CommandResult help = run_command({"--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* word : {"--config", "--dry-run", "--print-config", "generate", "eval", "inspect",
                           "report", "130"}) {
    EXPECT_THAT(help.out, HasSubstr(word));
  }
}

// The value of an environment variable, for the commands that begin as long as this lives.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) {
      before_ = before;
    }
    setenv(name, value, 1);
  }
  ~Environment() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(Processor, TheEnvironmentLimitsTheInstructionSet) {
  const Environment limit("MSTRAIN_ISA", "avx2");
  EXPECT_THAT(run_command({"--version"}).out, HasSubstr("\ninstruction set avx2"));
}

TEST(Processor, AnUnknownInstructionSetIsStatus2BeforeAnythingBegins) {
  const Environment limit("MSTRAIN_ISA", "avx3");
  const CommandResult result = run_command({"--version"});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err,
              StartsWith("MSTRAIN_ISA=avx3: unknown instruction set; did you mean avx2"));
}

TEST(Processor, ARunThatGoesOnUnderAnotherNumberOfThreadsWarnsOnce) {
  const SmallRun run;
  const std::string threads = "run.threads=";
  const CommandResult first =
      run_command(run.arguments("run", {"run.time_limit_hours=1.0e-9", threads + "1"}));
  ASSERT_EQ(first.status, 130) << first.err;
  const CommandResult same =
      run_command(run.arguments("run", {"run.time_limit_hours=1.0e-9", threads + "1"}));
  EXPECT_THAT(same.err, Not(HasSubstr("last bits")));
  const CommandResult other = run_command(run.arguments("run", {threads + "2"}));
  EXPECT_EQ(other.status, 0) << other.err;
  const std::string set(to_string(isa()));
  const std::string warning = "made with " + set + " and 1 thread, going on with " + set +
                              " and 2: numbers differ in their last bits";
  EXPECT_THAT(other.err, HasSubstr(warning));
  EXPECT_EQ(other.err.find(warning), other.err.rfind(warning));
}

TEST(Command, EachCommandHasHelpOfItsOwn) {
  const CommandResult all = run_command({"--help"});
  for (const char* name :
       {"generate", "eval", "forward", "export", "tokenize", "inspect", "report"}) {
    EXPECT_THAT(all.out, HasSubstr(std::string("\n  ") + name));
    const CommandResult own = run_command({name, "--help"});
    EXPECT_EQ(own.status, 0) << own.err;
    EXPECT_THAT(own.out, StartsWith(std::string("usage: mstrain ") + name + " "));
    EXPECT_THAT(own.out, Not(HasSubstr("Exit status")));
  }
  // Beside other arguments as well, and nothing is done.
  EXPECT_THAT(run_command({"generate", "--checkpoint", "x", "-h"}).out,
              AllOf(HasSubstr("--temperature T"), HasSubstr("0: the most likely token")));
}

TEST(Command, BadUsageIsStatus2AndSaysWhatIsKnown) {
  const SmallRun run;
  const std::pair<std::vector<std::string>, const char*> kCases[] = {
      {{}, "--config FILE is missing"},
      {{"genrate"}, "genrate: unknown command; did you mean generate?"},
      {{"--confg", "x.yaml"}, "--confg: unknown option; did you mean --config?"},
      {{"--config"}, "--config: expected FILE after it"},
      {{"--config", run.path("none.yaml")}, "none.yaml"},
      {{"--config", run.config(), "model.hidden_size"}, "expected key.path=value"},
      {{"--dry-run=yes"}, "--dry-run: takes no value"},
      {{"generate", "--checkpoint", "x"}, "--prompt TEXT is missing"},
      {{"generate", "--checkpoint", "x", "--prompt", "a", "--tokens", "many"},
       "--tokens: expected an integer, found \"many\""},
      {{"generate", "--checkpoint", "x", "--prompt", "a", "--temperature", "-1"},
       "--temperature -1"},
      {{"generate", "--checkpoint", "x", "--prompt", "a", "--greedy", "--temperature", "1"},
       "--greedy: takes no --temperature"},
      {{"generate", "--checkpont", "x"}, "did you mean --checkpoint?; see mstrain generate --help"},
      {{"generate", "--checkpoint", "x", "--prompt", "a", "--greedy", "--top-k", "3"}, "--greedy"},
      {{"eval"}, "--checkpoint DIR is missing"},
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
       "found \"adamwx\"; did you mean adamw?"},
      {"log:", "logs:", "bad.yaml:10: logs: unknown key; did you mean log?"},
      {"log:", "parallel: {tensor: 2}\nlog:", "bad.yaml:10: parallel: unknown key"},
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
  const auto failing = [&](const std::string& override) {
    const CommandResult result = run_command(run.arguments("run", {override}));
    EXPECT_EQ(result.status, 1) << override;
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
  EXPECT_THAT(failing("data.train=" + run.path("bad.txt")),
              StartsWith("command line: data.train: "));
}

TEST(Command, ATildeIsTheHomeFolder) {
  const SmallRun run;
  const Environment home("HOME", run.path("").c_str());
  const CommandResult result = run_command({"--config", run.config(), "data.train=~/text.txt",
                                            "run.output_dir=~/there", "schedule.total_steps=6"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(real_files().exists(run.path("there/report.html")));
}

TEST(Command, ATokenizerHasAShortForm) {
  const SmallRun run;
  for (const char* name : {"char", "byte"}) {
    const CommandResult result = run_command(
        {"--config", run.config(), std::string("data.tokenizer=") + name, "--print-config"});
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(std::string("tokenizer: {type: ") + name + ", path: null}"));
  }
  const CommandResult path = run_command(
      {"--config", run.config(), "data.tokenizer=some/tokenizer.json", "--print-config"});
  EXPECT_THAT(path.out, HasSubstr("tokenizer: {type: hf, path: some/tokenizer.json}"));
}

TEST(Command, ATemperatureOfZeroIsGreedyAndExportSaysWhatItWrote) {
  const SmallRun run;
  ASSERT_EQ(run_command(run.arguments("run", {"schedule.total_steps=6"})).status, 0);
  const auto generate = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "--checkpoint", run.path("run"), "--prompt", "the cat",
                               "--tokens", "30"});
    const CommandResult result = run_command(more);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  EXPECT_EQ(generate({"--temperature", "0", "--seed", "5"}), generate({"--greedy"}));

  const CommandResult exported =
      run_command({"export", "--checkpoint", run.path("run"), "--output", run.path("out")});
  ASSERT_EQ(exported.status, 0) << exported.err;
  EXPECT_THAT(exported.out,
              AllOf(HasSubstr(run.path("out/model.safetensors") + ": "),
                    HasSubstr(run.path("out/config.json") + ": "), HasSubstr(" bytes\n")));
}

TEST(Command, EvalOfWhatIsMissingSaysSo) {
  const CommandResult result = run_command({"eval", "--checkpoint", "nosuch"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, StartsWith("nosuch: no such file or folder"));
}

TEST(Command, TheResolvedConfigurationReadsBackAsItself) {
  const SmallRun run;
  write_text(run.path("child.yaml"), "extends: small.yaml\nmodel: {hidden_size: 32}\n");
  const CommandResult first =
      run_command({"--config", run.path("child.yaml"), "optimizer.lr=0.25", "--print-config"});
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.out, AllOf(HasSubstr("hidden_size: 32"), HasSubstr("lr: 0.25"),
                               HasSubstr("num_layers: 2"), HasSubstr("seed: 1234")));
  write_text(run.path("resolved.yaml"), first.out);
  EXPECT_EQ(run_command({"--config", run.path("resolved.yaml"), "--print-config"}).out, first.out);
}

TEST(DryRun, CountsThePublishedModels) {
  const std::pair<const char*, const char*> kCases[] = {
      {"gpt_124m.yaml", "124,439,808 parameters"},   {"gpt_355m.yaml", "354,823,168 parameters"},
      {"gpt_774m.yaml", "774,030,080 parameters"},   {"gpt_1558m.yaml", "1,557,611,200 parameters"},
      {"gpt_10b.yaml", "11,274,946,560 parameters"},
  };
  for (const auto& [name, expected] : kCases) {
    const CommandResult result =
        run_command({"--config", shipped(name), "--dry-run", "memory.limit_gb=100000"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(expected));
    for (const char* category : {"gradients", "optimizer", "activations", "transient", "workspace",
                                 "per token", "per step"}) {
      EXPECT_THAT(result.out, HasSubstr(category)) << name;
    }
  }
}

TEST(DryRun, EveryShippedConfigurationHasAPlan) {
  int count = 0;
  for (const std::string& name : real_files().list(shipped(""))) {
    if (!name.ends_with(".yaml")) {
      continue;
    }
    ++count;
    // The vocabulary stands for data that a test machine does not have.
    const CommandResult result = run_command({"--config", shipped(name), "--dry-run",
                                              "memory.limit_gb=100000", "model.vocab_size=50257"});
    EXPECT_EQ(result.status, 0) << name << ": " << result.err;
    EXPECT_THAT(result.out, HasSubstr("\nfits\n")) << name;
  }
  EXPECT_GE(count, 7);
}

// What recomputation and chunks of the loss save is known before anything runs.
TEST(DryRun, SaysWhatChoicesSaveAndCost) {
  const CommandResult result =
      run_command({"--config", shipped("gpt_124m.yaml"), "--dry-run", "memory.limit_gb=100000",
                   "batch.global=8", "batch.micro=8", "memory.loss_chunks=none"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto number_after = [&](const std::string& choice, const std::string& word) {
    const size_t line = result.out.find("  " + choice);
    EXPECT_NE(line, std::string::npos) << choice;
    std::string digits;
    for (size_t i = result.out.find(word, line) + word.size();
         result.out[i] != ' ' || digits.empty(); ++i) {
      if (result.out[i] != ',' && result.out[i] != ' ') {
        digits += result.out[i];
      }
    }
    return std::stod(digits);
  };
  const double selective = number_after("memory.recompute=selective", "saves");
  EXPECT_GT(selective, 1e8);
  EXPECT_GT(number_after("memory.recompute=full", "saves"), selective);
  EXPECT_GT(number_after("memory.recompute=selective", "adds"), 0);
  EXPECT_GT(number_after("memory.recompute=full", "adds"),
            number_after("memory.recompute=selective", "adds") * 10);
  EXPECT_GT(number_after("memory.loss_chunks=auto", "saves"), 1e9);  // of 1.6 GB of logits
  // Moments of 8 bits are 6 bytes a parameter less, and so is the copy that checkpoints are written from.
  const double parameters = 124439808;
  EXPECT_NEAR(number_after("precision.moments=int8", "saves"), 12 * parameters, 0.1 * parameters);
  EXPECT_GT(number_after("precision.moments=int8 precision.params=bf16 precision.grads=bf16 "
                         "precision.master=none",
                         "saves"),
            10 * parameters);

  // What is on already is not offered.
  const CommandResult lean = run_command(
      {"--config", shipped("gpt_124m.yaml"), "--dry-run", "memory.limit_gb=100000",
       "batch.global=8", "batch.micro=8", "memory.recompute=full", "precision.moments=int8",
       "precision.params=bf16", "precision.grads=bf16", "precision.master=none"});
  ASSERT_EQ(lean.status, 0) << lean.err;
  EXPECT_THAT(lean.out, Not(HasSubstr("choices")));
}

// Plans of a few layers tell what choices come to with many: the lines are those of the plans themselves, about.
TEST(DryRun, ReckonsChoicesFromFewerLayers) {
  const auto choices = [](int layers) {
    const CommandResult result = run_command(
        {"--config", shipped("gpt_124m.yaml"), "--dry-run", "--offline", "memory.limit_gb=100000",
         "batch.global=8", "batch.micro=2", "model.num_layers=" + std::to_string(layers)});
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  const auto saved = [](const std::string& out, const std::string& choice) {
    const size_t line = out.find("  " + choice + " ");
    EXPECT_NE(line, std::string::npos) << choice << " in " << out;
    const size_t unit = out.find(" GB", line);
    return std::stod(out.substr(out.rfind(' ', unit - 1), unit));
  };
  const std::string exact = choices(16);
  const std::string about = choices(17);
  EXPECT_THAT(exact, HasSubstr("choices, against this plan\n"));
  EXPECT_THAT(about, HasSubstr("choices, against this plan, about"));
  for (const char* choice : {"memory.recompute=selective", "memory.recompute=full"}) {
    EXPECT_NEAR(saved(about, choice) / saved(exact, choice), 17.0 / 16, 0.05) << choice;
  }
}

TEST(DryRun, WhatDoesNotFitIsStatus3AfterThePlan) {
  const CommandResult large =
      run_command({"--config", shipped("gpt_10b.yaml"), "--dry-run", "memory.limit_gb=20"});
  EXPECT_EQ(large.status, 3);
  EXPECT_THAT(large.out, HasSubstr("11,274,946,560 parameters"));
  EXPECT_THAT(large.out, Not(HasSubstr("fits")));
  EXPECT_THAT(large.err,
              AllOf(HasSubstr("or a smaller model"), HasSubstr("precision.master=none")));
  // Leaner states, of 10 bytes a parameter, are what 11.3 billion parameters need here.
  const CommandResult lean =
      run_command({"--config", shipped("gpt_10b.yaml"), "--dry-run", "memory.limit_gb=150"});
  EXPECT_EQ(lean.status, 3);
  EXPECT_THAT(lean.err, AllOf(HasSubstr("what would fit:"), HasSubstr("\n  precision.")));
  // States take 2 GB; the activations of 8 samples more than what is left.
  const CommandResult tight = run_command({"--config", shipped("gpt_124m.yaml"), "--dry-run",
                                           "memory.limit_gb=6", "batch.micro=8", "batch.global=8"});
  EXPECT_EQ(tight.status, 3);
  EXPECT_THAT(tight.err, AllOf(HasSubstr("what would fit:"), HasSubstr("batch.micro="),
                               HasSubstr("memory.recompute=full")));
}

TEST(DryRun, SaysWhatTheRunWillStumbleOver) {
  const SmallRun run;
  const auto warnings = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"--config", run.config(), "--dry-run", "run.output_dir=" + run.path("planned")});
    const CommandResult result = run_command(more);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("\nfits\n"));
    EXPECT_FALSE(real_files().exists(run.path("planned")));
    return result.err;
  };
  EXPECT_EQ(warnings({}), "");
  const std::string missing = "data.train=" + run.path("none.txt");
  EXPECT_THAT(warnings({missing, "model.vocab_size=100"}),
              HasSubstr("data.train: " + run.path("none.txt") + ": no such file"));
  EXPECT_THAT(warnings({missing, "data.tokenizer=byte"}), HasSubstr("no such file"));
  EXPECT_EQ(warnings({missing, "model.vocab_size=100", "--offline"}), "");
  EXPECT_THAT(warnings({"data.tokenizer=byte", "model.vocab_size=50257"}),
              HasSubstr("model.vocab_size: 50,257 tokens, but data.tokenizer has 256"));
  EXPECT_EQ(warnings({"data.tokenizer=byte", "model.vocab_size=384"}), "");
  EXPECT_THAT(warnings({"schedule.warmup_steps=40"}), HasSubstr("schedule.warmup_steps: 40 steps"));
  EXPECT_THAT(warnings({"run.threads=1000"}), HasSubstr("run.threads: 1000 threads would share"));
  EXPECT_THAT(warnings({"optimizer.lr=20"}), HasSubstr("optimizer.lr: 20 moves every weight"));
  EXPECT_THAT(warnings({"run.output_dir=/proc/nothing/run"}),
              HasSubstr("run.output_dir: /proc/nothing/run could not be written"));
  EXPECT_THAT(warnings({"run.output_dir=" + run.config() + "/run"}),
              HasSubstr("small.yaml is no folder"));

  const auto refused = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--config", run.config(), "--dry-run"});
    const CommandResult result = run_command(more);
    EXPECT_EQ(result.status, 2) << result.err;
    return result.err;
  };
  EXPECT_THAT(refused({"data.tokenizer=byte", "model.vocab_size=200"}),
              HasSubstr("model.vocab_size: 200 is less than the 256 tokens"));
  EXPECT_THAT(refused({"--offline"}), HasSubstr("model.vocab_size: auto asks the tokenizer"));
  EXPECT_THAT(run_command({"--config", run.config(), "--offline"}).err,
              HasSubstr("--offline: goes with --dry-run"));
}

TEST(DryRun, WeightsThatLackTensorsAreFound) {
  const SmallRun run;
  ASSERT_EQ(run_command(run.arguments("first", {"schedule.total_steps=2"})).status, 0);
  ASSERT_EQ(run_command({"export", "--checkpoint", run.path("first"), "--output", run.path("base")})
                .status,
            0);
  const std::string text = real_files().read(run.path("base/config.json"));
  std::string more_layers = text;
  more_layers.replace(more_layers.find("\"n_layer\": 2"), 12, "\"n_layer\": 3");
  write_text(run.path("base/config.json"), more_layers);
  std::filesystem::remove(run.path("base/MANIFEST.json"));  // or the change itself would be found
  write_text(run.path("tune.yaml"),
             "run: {name: tuned, threads: 1}\nmodel: {init: {from: " + run.path("base") +
                 "}}\ndata: {train: " + run.path("text.txt") +
                 ", seq_length: 16}\nschedule: {total_steps: 2}\n");
  const CommandResult result = run_command({"--config", run.path("tune.yaml"), "--dry-run"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("tune.yaml:2: model.init.from: " + run.path("base") +
                                    ": parameters that the weights lack: transformer.h.2."));
  // The tokenizer that nobody named is that of the weights.
  write_text(run.path("base/config.json"), text);
  const CommandResult tuned =
      run_command({"--config", run.path("tune.yaml"), "run.output_dir=" + run.path("tuned")});
  EXPECT_EQ(tuned.status, 0) << tuned.err;
  EXPECT_THAT(real_files().read(run.path("tuned/config.yaml")),
              HasSubstr("path: " + run.path("base")));
}

TEST(DryRun, AbsurdSizesAreRefusedByArithmetic) {
  const SmallRun run;
  for (const char* size :
       {"model.hidden_size=9000000000000000000", "model.hidden_size=100000000",
        "batch={global: 1000000000000000}", "model.max_position_embeddings=9000000000000000000",
        "model={num_layers: 4096, hidden_size: 1000000, num_attention_heads: 2}"}) {
    const CommandResult result = run_command({"--config", run.config(), "--dry-run", "--offline",
                                              "model.vocab_size=100", size, "memory.limit_gb=16"});
    EXPECT_EQ(result.status, 3) << size << ": " << result.err;
    EXPECT_THAT(result.err, StartsWith("the plan is impossible: ")) << size;
  }
  EXPECT_THAT(
      run_command({"--config", run.config(), "model.num_layers=10000", "--print-config"}).err,
      HasSubstr("model.num_layers: expected an integer >= 1 and <= 4096"));
}

TEST(DryRun, WritesEveryStepOfThePlanOnRequest) {
  const SmallRun run;
  const std::vector<std::string> dry{"--config", run.config(), "--dry-run", "--plan",
                                     run.path("plan.txt")};
  const CommandResult result = run_command(dry);
  ASSERT_EQ(result.status, 0) << result.err;
  const std::string text = real_files().read(run.path("plan.txt"));
  EXPECT_THAT(text,
              AllOf(StartsWith("== step\ndigest "), HasSubstr("\n== evaluation\ndigest "),
                    HasSubstr("dot_general"), HasSubstr("@backward.transformer.h.1.mlp.c_fc")));
  ASSERT_EQ(run_command(dry).status, 0);
  EXPECT_EQ(real_files().read(run.path("plan.txt")), text);

  std::vector<std::string> eager = dry;
  eager.push_back("run.execution=eager");
  EXPECT_EQ(run_command(eager).status, 2);
  EXPECT_THAT(run_command(eager).err, HasSubstr("run.execution: eager"));
  const CommandResult not_dry =
      run_command({"--config", run.config(), "--plan", run.path("other.txt")});
  EXPECT_EQ(not_dry.status, 2);
  EXPECT_THAT(not_dry.err, HasSubstr("--plan: goes with --dry-run"));
}

TEST(Command, TrainsEvaluatesGeneratesInspectsAndReports) {
  const SmallRun run;
  const CommandResult trained = run_command(run.arguments("run"));
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_THAT(trained.out, AllOf(HasSubstr("finished at step 40, eval loss "),
                                 HasSubstr("run/report.html in a browser")));
  EXPECT_THAT(trained.err, AllOf(HasSubstr("step 40/40  loss "), HasSubstr(" tokens/s  0:00 left"),
                                 HasSubstr("step 20  eval loss ")));
  const CommandResult again = run_command(run.arguments("run"));
  EXPECT_EQ(again.status, 0);
  EXPECT_THAT(again.out, HasSubstr("finished at step 40; raise schedule.total_steps to go on"));

  const CommandResult other = run_command(run.arguments("run", {"model.hidden_size=32"}));
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("model.hidden_size: 16, now 32"));

  const std::string checkpoint = run.path("run/checkpoints/step-00000040");
  double eval_loss = 0;
  for (const Json& row : read_metrics(real_files(), run.path("run/metrics.jsonl"))) {
    eval_loss = row.value("eval_loss", eval_loss);
  }
  // From the checkpoint itself, from the run, and with a configuration by name.
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"eval", "--checkpoint", checkpoint},
        std::vector<std::string>{"eval", "--checkpoint", run.path("run")},
        std::vector<std::string>{"eval", "--checkpoint", checkpoint, "--config", run.config()}}) {
    const CommandResult evaluated = run_command(arguments);
    ASSERT_EQ(evaluated.status, 0) << evaluated.err;
    EXPECT_THAT(evaluated.out, StartsWith("eval_loss "));
    EXPECT_NEAR(std::stod(evaluated.out.substr(10)), eval_loss, 1e-5);
  }

  const auto generate = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "--checkpoint", checkpoint, "--prompt", "the cat "});
    const CommandResult result = run_command(more);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, StartsWith("the cat "));
    return result.out;
  };
  const std::string greedy = generate({"--greedy", "--tokens", "30"});
  EXPECT_EQ(greedy.size(), 8 + 30 + 1U);  // prompt, tokens, line end
  EXPECT_EQ(generate({"--greedy", "--tokens", "30"}), greedy);
  EXPECT_EQ(generate({"--top-k", "1", "--tokens", "30"}), greedy);
  const std::string drawn = generate({"--seed", "3", "--tokens", "60", "--top-p", "0.95"});
  EXPECT_EQ(generate({"--seed", "3", "--tokens", "60", "--top-p", "0.95"}), drawn);
  EXPECT_NE(generate({"--seed", "4", "--tokens", "60", "--top-p", "0.95"}), drawn);
  EXPECT_THAT(run_command({"generate", "--checkpoint", checkpoint, "--prompt", "XYZ"}).err,
              HasSubstr("'X'"));

  EXPECT_THAT(
      run_command({"inspect", checkpoint}).out,
      AllOf(HasSubstr("every file has the size and digest"), HasSubstr("step 40, 160 samples"),
            HasSubstr("transformer.h.1.attn.c_attn.weight  F32 [16, 48]")));
  EXPECT_THAT(run_command({"inspect", run.path("run")}).out, HasSubstr("step-00000040: sound"));
  EXPECT_THAT(run_command({"inspect", join_path(checkpoint, "optimizer.safetensors")}).out,
              HasSubstr("transformer.wte.weight.exp_avg_sq"));
  EXPECT_THAT(run_command({"inspect", run.path("text.txt")}).out, HasSubstr("UTF-8 text"));
  const CommandResult missing = run_command({"inspect", run.path("nothing")});
  EXPECT_EQ(missing.status, 1);
  EXPECT_THAT(missing.err, HasSubstr("nothing: no such file"));

  const CommandResult report =
      run_command({"report", run.path("run"), run.path("run"), "--output", run.path("two.html")});
  EXPECT_EQ(report.status, 0) << report.err;
  EXPECT_THAT(real_files().read(run.path("two.html")), StartsWith("<!doctype html>"));

  int event_files = 0;
  for (const std::string& name : real_files().list(run.path("run"))) {
    if (name.starts_with("events.out.tfevents.")) {
      ++event_files;
      EXPECT_GT(read_events(real_files(), run.path("run/" + name)).events.size(), 10U);
    }
  }
  EXPECT_EQ(event_files, 1);
}

TEST(Command, ProfilesOnRequest) {
  const SmallRun run;
  const CommandResult result = run_command(run.arguments("run", {"profile.steps=2"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("profile of steps 10 to 11: " + run.path("run/profile.json")));
  const std::string text = real_files().read(run.path("run/profile.json"));
  EXPECT_THAT(text, HasSubstr("\"name\":\"transformer.h.1.mlp.c_fc dot_general"));
  EXPECT_GT(parse_json(text, "profile.json").at("traceEvents").size(), 100U);
}

TEST(Command, InspectTellsARunsStory) {
  const SmallRun run;
  ASSERT_EQ(run_command(run.arguments("run", {"checkpoint.best=eval_loss"})).status, 0);
  const std::vector<std::string> more{"checkpoint.best=eval_loss", "schedule.total_steps=50",
                                      "--change", "optimizer.lr=0.003"};
  const CommandResult changed = run_command(run.arguments("run", more));
  ASSERT_EQ(changed.status, 0) << changed.err;
  EXPECT_THAT(changed.err, HasSubstr("from here on optimizer.lr: 0.01, now 0.003"));
  const CommandResult story = run_command({"inspect", run.path("run")});
  EXPECT_EQ(story.status, 0) << story.err;
  EXPECT_THAT(story.out,
              AllOf(HasSubstr("finished at step 50 of 50"), HasSubstr("best "),
                    HasSubstr("step 0 to 40: finished"), HasSubstr("step 40 to 50: finished"),
                    HasSubstr("optimizer.lr: 0.01, now 0.003"),
                    HasSubstr("mstrain --config " + run.config()),
                    HasSubstr("model.hidden_size: 16"), HasSubstr("step-00000050: sound")));
  EXPECT_THAT(real_files().read(run.path("run/report.html")), HasSubstr("\"before\":\"0.01\""));

  const CommandResult never =
      run_command(run.arguments("run", {"--change", "model.hidden_size=8"}));
  EXPECT_EQ(never.status, 2);
  EXPECT_THAT(never.err, AllOf(StartsWith("--change: model.hidden_size cannot change"),
                               HasSubstr("optimizer.lr")));
  const CommandResult restarted =
      run_command(run.arguments("run", {"model.hidden_size=8", "--restart"}));
  EXPECT_EQ(restarted.status, 0) << restarted.err;
  EXPECT_THAT(restarted.out, HasSubstr("finished at step 40"));
}

// The characters of the new text are those that the run knows, in their old places.
TEST(Command, OtherDataAreReadWithTheTokenizerSoFar) {
  const SmallRun run;
  ASSERT_EQ(run_command(run.arguments("run")).status, 0);
  std::string other;
  for (int i = 0; i < 400; ++i) {
    other += "a cat on a mat\n";
  }
  write_text(run.path("other.txt"), other);
  const CommandResult result = run_command(run.arguments(
      "run", {"schedule.total_steps=44", "--change", "data.train=" + run.path("other.txt")}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("finished at step 44"));
}

TEST(Command, ModesOfAConfiguration) {
  const SmallRun run;
  ASSERT_EQ(run_command(run.arguments("run")).status, 0);
  EXPECT_THAT(run_command(run.arguments("run", {"run.mode=eval"})).out, StartsWith("eval_loss "));
  EXPECT_THAT(run_command(run.arguments("run", {"run.mode=generate"})).out, StartsWith("the "));
  EXPECT_THAT(run_command(run.arguments("none", {"run.mode=benchmark"})).out,
              StartsWith("steps 40  median "));
  EXPECT_FALSE(real_files().exists(run.path("none")));
}

TEST(Command, FailuresWhileRunningAreStatus1) {
  const SmallRun run;
  const CommandResult no_data = run_command(run.arguments("run", {"data.train=/nowhere/text.txt"}));
  EXPECT_EQ(no_data.status, 1);
  EXPECT_THAT(no_data.err, StartsWith("command line: data.train: /nowhere/text.txt"));
  const CommandResult unwritable =
      run_command({"--config", run.config(), "run.output_dir=/proc/nothing/run"});
  EXPECT_EQ(unwritable.status, 1);
  EXPECT_THAT(unwritable.err, StartsWith("/proc/nothing"));
  const CommandResult locked = [&] {
    const auto lock = [&] {
      real_files().create_directories(run.path("run"));
      return real_files().try_lock(run.path("run/.lock"));
    }();
    return run_command(run.arguments("run"));
  }();
  EXPECT_EQ(locked.status, 1);
  EXPECT_THAT(locked.err, HasSubstr("another mstrain is at work here"));
}

}  // namespace
}  // namespace mstrain
