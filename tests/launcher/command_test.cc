// What the command prints and takes.
#include <gmock/gmock.h>

#include "core/base/isa.h"
#include "tests/core/train/memory_disk.h"
#include "tests/launcher/command.h"

namespace mstrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Command, FailsWhereWhatItPrintsIsLost) {
  const CommandResult lost =
      RunningCommand({"-c", std::string(MSTRAIN_COMMAND) + " --version >/dev/full"}, "sh").wait();
  EXPECT_EQ(lost.status, 1);
  EXPECT_THAT(lost.err, HasSubstr("standard output: cannot write: No space left on device"));
}

TEST(Command, SaysWhatItIs) {
  const CommandResult version = run_command({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.out, AllOf(StartsWith("mstrain "), HasSubstr("\ncompiler "),
                                 HasSubstr("\ninstruction set " + std::string(to_string(isa()))),
                                 HasSubstr("\nbackend reference "), HasSubstr("\nbackend cpu "),
                                 HasSubstr("\nbackend cuda (")));
  const CommandResult help = run_command({"--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* word : {"--config", "--dry-run", "--print-config", "generate", "eval", "inspect",
                           "report", "130"}) {
    EXPECT_THAT(help.out, HasSubstr(word));
  }
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

TEST(Command, KeysAreDescribedByTheirDeclarations) {
  const CommandResult schedule = run_command({"keys", "schedule", "eval.early_stopping.patience"});
  EXPECT_EQ(schedule.status, 0) << schedule.err;
  EXPECT_THAT(schedule.out,
              AllOf(StartsWith("schedule.type: cosine\n    shape of the learning rate"),
                    HasSubstr("(one of constant, linear, cosine, polynomial, step, wsd, plateau)"),
                    HasSubstr("\nschedule.gamma: 0.1\n"),
                    HasSubstr("\neval.early_stopping.patience: "), Not(HasSubstr("\noptimizer."))));
  EXPECT_THAT(run_command({"keys"}).out,
              AllOf(HasSubstr("\ndata.train: required\n"), HasSubstr("\nmodel.type: gpt\n")));
  EXPECT_THAT(run_command({"keys", "algorithm.type=ppo"}).out,
              AllOf(HasSubstr("\nalgorithm.type: ppo\n"), HasSubstr("\noptimizer.type: adam\n"),
                    Not(HasSubstr("\nmodel."))));
  EXPECT_THAT(run_command({"keys", "algorithm.type=alphazero", "algorithm"}).out,
              HasSubstr("algorithm.simulations: "));
  const SmallRun run;
  EXPECT_THAT(run_command({"keys", "--config", run.config(), "model.type=t5", "model"}).out,
              HasSubstr("model.type: t5\n"));
  const CommandResult unknown = run_command({"keys", "schedul"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err,
              HasSubstr("keys: there is no section or key schedul here; did you mean schedule?"));
}

TEST(Command, AKeyThatIsGivenTwiceIsTold) {
  const SmallRun run;
  const CommandResult twice = run_command(
      run.arguments("run", {"optimizer.lr=1e-3", "optimizer.lr=2e-3", "--print-config"}));
  EXPECT_EQ(twice.status, 0) << twice.err;
  EXPECT_THAT(twice.err,
              HasSubstr("command line: optimizer.lr: is given twice; 2e-3 counts, not 1e-3"));
  EXPECT_THAT(twice.out, HasSubstr("lr: 0.002"));
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

}  // namespace
}  // namespace mstrain
