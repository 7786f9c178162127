// Weights that no step of a run changes, where they are those of a run that goes on meanwhile.
#include <gmock/gmock.h>

#include <cstdlib>

#include "core/base/error.h"
#include "core/train/checkpoint.h"
#include "tests/core/base/message_of.h"
#include "tests/suites/transformer/alignment/answer_runs.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

class FrozenOrigins : public AnswerRuns {
 protected:
  YamlNode base(int64_t steps) { return tree("base", "type: sft", "", steps); }
  YamlNode upon_base(const std::string& name, const std::string& objective, const std::string& more,
                     int64_t steps) {
    YamlNode config = tree(name, objective, more, steps);
    apply_overrides(config, Overrides{"model.init.from=" + folder_ / "base"});
    return config;
  }
  std::string checkpoint(int64_t step) {
    return folder_ / "base/checkpoints/" + checkpoint_name(step);
  }
  std::string refused(const YamlNode& config) {
    return message_of<Error>([&] { train(config); });
  }
  // What an evaluation of the run's newest checkpoint prints, but for how long it took.
  std::string evaluated(const YamlNode& config) {
    std::FILE* const out = std::tmpfile();
    evaluate_checkpoint({real_files(), config, stop_, out},
                        find_config(config, "run.output_dir")->text);
    std::rewind(out);
    std::string text(static_cast<size_t>(1) << 12, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), out));
    std::fclose(out);
    return text.substr(0, text.find(", ")) + text.substr(text.find('\n'));
  }
};

TEST_F(FrozenOrigins, StayThoseThatTheRunBeganWith) {
  train(base(6));
  const std::pair<const char*, const char*> kinds[] = {
      {"type: dpo", ""}, {"type: sft", ", lora: {rank: 2}"}, {"type: dpo", ", lora: {rank: 2}"}};
  std::vector<std::vector<double>> straight;
  for (size_t i = 0; i < std::size(kinds); ++i) {
    const auto& [objective, more] = kinds[i];
    straight.push_back(
        of(train(upon_base("straight" + std::to_string(i), objective, more, 12)), "loss"));
    train(upon_base("run" + std::to_string(i), objective, more, 6));
  }
  train(base(12));
  for (size_t i = 0; i < std::size(kinds); ++i) {
    const auto& [objective, more] = kinds[i];
    EXPECT_EQ(of(train(upon_base("run" + std::to_string(i), objective, more, 12)), "loss"),
              straight[i])
        << objective << more;
  }
  // From the beginning they are what the base has come to.
  EXPECT_EQ(of(train(upon_base("anew", "type: dpo", "", 12)), "loss").size(), 12U);

  // Others under the same name, and none.
  real_files().rename(checkpoint(6), folder_ / "aside");
  EXPECT_THAT(refused(upon_base("run0", "type: dpo", "", 18)),
              HasSubstr(checkpoint(6) + ", upon whose weights " + folder_ / "run0/checkpoints" +
                        "/step-00000012 stands, is gone; bring it back, or train anew with "
                        "--restart"));
  real_files().rename(checkpoint(12), checkpoint(6));
  EXPECT_THAT(refused(upon_base("run0", "type: dpo", "", 18)),
              HasSubstr(checkpoint(6) + " holds other weights now than those upon which"));
}

TEST_F(FrozenOrigins, AreWhatACheckpointIsComparedWithWhereItIsEvaluated) {
  train(base(6));
  const YamlNode run = upon_base("run", "type: dpo", "", 6);
  const YamlNode adapted = upon_base("adapted", "type: dpo", ", lora: {rank: 2}", 6);
  train(run);
  train(adapted);
  const std::string before = evaluated(run);
  const std::string adapted_before = evaluated(adapted);
  EXPECT_THAT(before, HasSubstr("eval_accuracy"));
  train(base(12));
  EXPECT_EQ(evaluated(run), before);
  EXPECT_EQ(evaluated(adapted), adapted_before);
  // However the configuration spells it.
  const char* const home = std::getenv("HOME");
  const std::string before_home = home == nullptr ? "" : home;
  ::setenv("HOME", folder_.path().c_str(), 1);
  YamlNode from_home = run;
  apply_overrides(from_home, Overrides{"model.init.from=~/base"});
  EXPECT_EQ(evaluated(from_home), before);
  ::setenv("HOME", before_home.c_str(), 1);
  YamlNode by_key = run;
  apply_overrides(by_key, Overrides{"run.mode=eval"});
  train(by_key);

  const auto refused = [&] { return message_of<Error>([&] { evaluated(run); }); };
  real_files().rename(checkpoint(6), folder_ / "aside");
  EXPECT_THAT(refused(), HasSubstr(checkpoint(6) + ", upon whose weights " + folder_ / "run" +
                                   "/checkpoints/step-00000006 stands, is gone; bring it back"));
  real_files().rename(checkpoint(12), checkpoint(6));
  EXPECT_THAT(refused(),
              HasSubstr(checkpoint(6) + " holds other weights now than those upon which " +
                        folder_ / "run/checkpoints/step-00000006 stands"));
  // An evaluation may compare with others.
  YamlNode other = run;
  apply_overrides(other, Overrides{"model.init.from=" + folder_.path()});
  EXPECT_NE(evaluated(other), before);
}

TEST_F(FrozenOrigins, AreThoseOfRewardModelsToo) {
  const auto rewards = [&](int64_t steps) {
    YamlNode config = tree("judge", "type: reward", ", head: score", steps);
    apply_overrides(config, Overrides{"data.train=" + folder_ / "pairs.jsonl"});
    return config;
  };
  const auto paid = [&](const std::string& name, const std::string& kind, int64_t steps) {
    return tree(name,
                "type: " + kind + ", " + kind + ": {" + (kind == "grpo" ? "group: 3, " : "") +
                    "answer_tokens: 2, rewards: [{type: length, at_most: 2}, {type: model, path: " +
                    folder_ / "judge" + "}]}",
                "", steps);
  };
  train(rewards(6));
  YamlNode adapted = paid("adapted", "grpo", 6);
  apply_overrides(adapted, Overrides{"model.lora.rank=2"});
  train(adapted);
  const std::string adapted_before = evaluated(adapted);
  EXPECT_THAT(adapted_before, HasSubstr("eval_reward"));
  std::vector<std::vector<double>> straight;
  for (const std::string kind : {"grpo", "ppo"}) {
    straight.push_back(of(train(paid("straight_" + kind, kind, 12)), "reward"));
    train(paid(kind, kind, 6));
  }
  train(rewards(12));
  for (const std::string kind : {"grpo", "ppo"}) {
    EXPECT_EQ(of(train(paid(kind, kind, 12)), "reward"), straight[kind == "grpo" ? 0 : 1]);
  }
  EXPECT_NE(of(train(paid("anew", "grpo", 12)), "reward"), straight[0]);
  EXPECT_EQ(evaluated(adapted), adapted_before);

  const std::string sixth = folder_ / "judge/checkpoints/" + checkpoint_name(6);
  const std::string twelfth = folder_ / "judge/checkpoints/" + checkpoint_name(12);
  real_files().rename(sixth, folder_ / "aside");
  EXPECT_THAT(refused(paid("grpo", "grpo", 18)),
              HasSubstr("objective.grpo.rewards[1].path: " + sixth + ", upon whose weights " +
                        folder_ / "grpo/checkpoints/step-00000012" + " stands, is gone"));
  real_files().rename(twelfth, sixth);
  EXPECT_THAT(refused(paid("ppo", "ppo", 18)),
              HasSubstr("objective.ppo.rewards[1].path: " + sixth + " holds other weights now"));
}

// The tokenizer of model.init.from is that of whichever checkpoint of it is the newest.
TEST_F(FrozenOrigins, TheSameCommandGoesOnWhereTheBaseWentOn) {
  train(base(6));
  const auto upon = [&](const std::string& name, const std::string& more, int64_t steps) {
    YamlNode config = upon_base(name, "type: sft", more, steps);
    std::erase_if(config.find("data")->children,
                  [](const YamlNode& key) { return key.key == "tokenizer"; });
    return config;
  };
  const auto go_on = [&](const YamlNode& config) {
    const SessionStart start{.with_defaults = [](const YamlNode& before) {
      return resolved_config(real_files(), before);
    }};
    EXPECT_NO_THROW(run({real_files(), config, stop_, stdout, start}));
  };
  const std::string lora = ", lora: {rank: 2}";
  YamlNode sweep = upon("sweep", "", 6);
  apply_overrides(sweep, Overrides{"sweep.keys.optimizer.lr=[1e-3, 2e-3]"});
  go_on(sweep);
  train(upon("whole", "", 6));
  train(upon("adapter", lora, 6));
  train(base(12));
  go_on(sweep);
  go_on(upon("whole", "", 12));
  go_on(upon("adapter", lora, 12));
}

}  // namespace
}  // namespace mstrain
