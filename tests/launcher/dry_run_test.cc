// What a dry run counts, warns of and refuses.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/core/train/memory_disk.h"
#include "tests/launcher/command.h"
#include "tests/launcher/recommender_run.h"

namespace mstrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(DryRun, CountsThePublishedModels) {
  if (kSanitized) {
    GTEST_SKIP() << "a question of size, which the plain build answers";
  }
  const std::pair<const char*, const char*> kCases[] = {
      {"gpt_124m.yaml", "124,439,808 parameters"},   {"gpt_355m.yaml", "354,823,168 parameters"},
      {"gpt_774m.yaml", "774,030,080 parameters"},   {"gpt_1558m.yaml", "1,557,611,200 parameters"},
      {"gpt_10b.yaml", "11,274,946,560 parameters"}, {"llama_160m.yaml", "152,980,224 parameters"},
      {"llama_1b.yaml", "1,235,814,400 parameters"}, {"llama_8b.yaml", "8,030,261,248 parameters"},
      {"vit_b16.yaml", "86,567,656 parameters"},     {"vit_b32.yaml", "88,224,232 parameters"},
      {"vit_l16.yaml", "304,326,632 parameters"},    {"vit_h14.yaml", "632,045,800 parameters"},
      {"t5_small.yaml", "60,506,624 parameters"},    {"t5_base.yaml", "222,903,552 parameters"},
      {"t5_large.yaml", "737,668,096 parameters"},   {"t5_3b.yaml", "2,851,598,336 parameters"},
      {"t5_11b.yaml", "11,307,321,344 parameters"},
  };
  for (size_t i = 0; i < std::size(kCases); i += static_cast<size_t>(stride(1))) {
    const auto& [name, expected] = kCases[i];
    const CommandResult result =
        run_command({"--config", shipped(name), "--dry-run", "memory.limit_gb=100000"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(expected));
    const bool is_vit = std::string_view(name).starts_with("vit_");
    for (const char* category : {"gradients", "optimizer", "activations", "transient", "workspace",
                                 is_vit ? "per image" : "per token", "per step"}) {
      EXPECT_THAT(result.out, HasSubstr(category)) << name;
    }
  }
}

TEST(DryRun, EveryShippedConfigurationHasAPlan) {
  if (kSanitized) {
    GTEST_SKIP() << "a question of size, which the plain build answers";
  }
  int count = 0;
  for (const std::string& name : real_files().list(shipped(""))) {
    if (!name.ends_with(".yaml")) {
      continue;
    }
    ++count;
    // The vocabulary stands for data that a test machine does not have.
    std::vector<std::string> arguments{"--config", shipped(name), "--dry-run",
                                       "memory.limit_gb=100000"};
    for (const char* model_of_text :
         {"gpt_", "llama_", "t5_", "sft_", "dpo_", "kto_", "reward_", "grpo_", "ppo_addition"}) {
      if (name.starts_with(model_of_text)) {
        arguments.push_back("model.vocab_size=50257");
      }
    }
    if (name.ends_with("_addition.yaml") && !name.starts_with("sft_")) {
      arguments.push_back("model.init.from=null");  // a run that is not here
    }
    const CommandResult result = run_command(arguments);
    EXPECT_EQ(result.status, 0) << name << ": " << result.err;
    EXPECT_THAT(result.out, HasSubstr("\nfits\n")) << name;
  }
  EXPECT_GE(count, 38);
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

// Of a small Llama whose rows have room for `seq` bytes.
std::string small_llama(int64_t seq, const std::string& data) {
  return fmt::format(
      "model: {{type: llama, hidden_size: 64, num_layers: 2, num_attention_heads: 2,\n"
      "        ffn_hidden_size: 128, max_position_embeddings: {0}}}\n"
      "data: {{train: {1}, tokenizer: {{type: byte}}, seq_length: {0}}}\n"
      "batch: {{global: 16}}\nschedule: {{total_steps: 2}}\neval: {{interval: none}}\n",
      seq, data);
}

TEST(DryRun, KnowsWhatPairsShareOfItsChoicesToo) {
  const SmallRun run;
  const std::string prompt(100, 'p');
  std::string pairs;
  for (int i = 0; i < 20; ++i) {
    pairs += fmt::format("{{\"prompt\": \"{}\", \"chosen\": \"a{}\", \"rejected\": \"b\"}}\n",
                         prompt, i);
  }
  write_text(run.path("pairs.jsonl"), pairs);
  const std::string file = run.path("reward.yaml");
  write_text(file, small_llama(110, run.path("pairs.jsonl")) + "objective: {type: reward}\n");
  const auto planned = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"--config", file, "--dry-run"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult result = run_command(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  const auto number_after = [](std::string text, const std::string& what) {
    text = text.substr(text.find(what) + what.size());
    text = text.substr(text.find_first_of("0123456789"));
    std::string digits = text.substr(0, text.find(' '));
    std::erase(digits, ',');
    return std::stod(digits);
  };
  const std::string plan = planned({});
  const std::string choice = "  memory.recompute=full";
  EXPECT_NEAR(number_after(plan, choice),
              number_after(plan, "\n  total") -
                  number_after(planned({"memory.recompute=full"}), "\n  total"),
              1 << 16);
}

TEST(DryRun, OffersNothingThatTheRunRefuses) {
  const SmallRun run;
  write_text(run.path("prompts.jsonl"), "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n");
  const std::string file = run.path("grpo.yaml");
  write_text(file, small_llama(16, run.path("prompts.jsonl")) +
                       "objective: {type: grpo, grpo: {group: 4, answer_tokens: 4,\n"
                       "            rewards: [{type: exact}], generation: {exact: true}}}\n");
  const CommandResult result = run_command({"--config", file, "--dry-run"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("precision.moments=int8"), HasSubstr("fits"),
                                Not(HasSubstr("precision.params=bf16"))));
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

// What is planned for a device that is described has its memory, its rates and its back end, and none of this machine's.
TEST(DryRun, PlansForADescribedDevice) {
  const SmallRun run;
  const std::vector<std::string> kOnH100{
      "run.device=cuda", "run.device_description=" + shipped("devices/h100_80gb.yaml")};
  const auto planned = [&](std::vector<std::string> arguments,
                           const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), kOnH100.begin(), kOnH100.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_command(arguments);
  };
  const CommandResult small =
      planned({"--config", run.config(), "--dry-run", "--plan", run.path("plan.txt")}, {});
  EXPECT_EQ(small.status, 0) << small.err;
  EXPECT_EQ(small.err, "");
  EXPECT_THAT(small.out,
              AllOf(HasSubstr("of 80.00 GB (memory.limit_gb: auto, the device's)"),
                    HasSubstr("an estimate from the rates of NVIDIA H100 SXM5 80 GB"),
                    HasSubstr("planned for cuda, NVIDIA H100 SXM5 80 GB"), HasSubstr("\nfits\n")));
  const std::string plan = real_files().read(run.path("plan.txt"));
  EXPECT_THAT(plan, HasSubstr(" bytes, cuda"));
  EXPECT_THAT(plan, Not(HasSubstr(" bytes, cpu")));

  const CommandResult large = planned({"--config", shipped("gpt_10b.yaml"), "--dry-run"}, {});
  EXPECT_EQ(large.status, 3);
  EXPECT_THAT(large.out, Not(HasSubstr("fits")));
  EXPECT_THAT(large.err, AllOf(HasSubstr("but 80.00 GB are there (memory.limit_gb; NVIDIA H100"),
                               HasSubstr("what would fit:"), HasSubstr("precision.master=none")));
}

// Their sums travel together: more tensors than a kernel of CUDA takes.
TEST(DryRun, PlansRanksWithManySmallGradientsForADescribedDevice) {
  const SmallRun run;
  const CommandResult result =
      run_command({"--config", run.config(), "--dry-run", "model.num_layers=24", "parallel.data=2",
                   "run.device=cuda", "run.device_description=" + shipped("devices/h200.yaml")});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\nfits\n"));
}

TEST(DryRun, OfARecommenderAsksNothingOfTheDescribedDevice) {
  const SmallRun run;
  const std::vector<std::string> kOnH200{"--dry-run", "run.device=cuda",
                                         "run.device_description=" + shipped("devices/h200.yaml")};
  const CommandResult result = run_command(recommender_run(run.path("rows"), kOnH200));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("planned for cuda, NVIDIA H200"), HasSubstr("\nrows, as the first"),
                    HasSubstr("(the rates of NVIDIA H200"), HasSubstr("\nfits\n")));
}

TEST(DryRun, OfAnAgentSaysThatItLearnsOnProcessors) {
  for (const char* config : {"ppo_cartpole.yaml", "muzero_cartpole.yaml"}) {
    const CommandResult result =
        run_command({"--config", shipped(config), "--dry-run", "run.device=cuda",
                     "run.device_description=" + shipped("devices/h200.yaml")});
    EXPECT_EQ(result.status, 2) << config;
    EXPECT_THAT(result.err, HasSubstr("run.device: cuda, but agents act and learn on processors"));
  }
}

TEST(DryRun, CountsWhatLiesInTheHostsMemory) {
  const CommandResult result = run_command(
      {"--config", shipped("gpt_10b.yaml"), "--dry-run", "--offline", "run.device=cuda",
       "run.device_description=" + shipped("devices/h100_80gb.yaml"), "precision.grads=bf16",
       "memory.recompute=full", "memory.offload={optimizer: cpu, activations: cpu}"});
  EXPECT_EQ(result.status, 0) << result.err;
  // Master and two moments, 12 bytes for each of 11,3 billion parameters.
  EXPECT_THAT(result.out, AllOf(HasSubstr("memory of the host beside it, in bytes\n"),
                                HasSubstr("memory.offload.optimizer"), HasSubstr("\nfits\n")));
}

TEST(DryRun, EveryShippedDeviceIsDescribed) {
  const SmallRun run;
  int count = 0;
  for (const std::string& name : real_files().list(shipped("devices"))) {
    ++count;
    const CommandResult result =
        run_command({"--config", run.config(), "--dry-run", "run.device=cuda",
                     "run.device_description=" + shipped("devices/" + name)});
    EXPECT_EQ(result.status, 0) << name << ": " << result.err;
    EXPECT_THAT(result.out, HasSubstr("planned for cuda, NVIDIA ")) << name;
  }
  EXPECT_EQ(count, 3);
}

TEST(DryRun, SaysWhatADeviceLacks) {
  const SmallRun run;
  write_text(run.path("device.yaml"), "name: x\nmemory_gb: 8\nmemory_gbp: 100\n");
  write_text(run.path("old.yaml"),
             "name: old\nmemory_gb: 8\nmemory_gbps: 100\npeak_tflops: {fp32: 1}\n");
  const auto refused = [&](std::vector<std::string> arguments, int status = 2) {
    arguments.insert(arguments.begin(),
                     {"--config", run.config(), "run.output_dir=" + run.path("out")});
    const CommandResult result = run_command(arguments);
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_FALSE(real_files().exists(run.path("out")));
    return result.err;
  };
  EXPECT_THAT(refused({"run.device=cuda"}, 3),
              AllOf(HasSubstr("run.device: cuda does not run here ("),
                    HasSubstr("--dry-run plans for one that run.device_description describes")));
  EXPECT_THAT(refused({"run.device=cuda", "--dry-run"}, 3),
              HasSubstr("run.device_description=configs/devices/h100_80gb.yaml"));
  EXPECT_THAT(refused({"run.device=cudda", "--dry-run"}), HasSubstr("did you mean cuda?"));
  EXPECT_THAT(refused({"run.device_description=x.yaml", "--dry-run"}),
              HasSubstr("run.device_description: describes a device that is not here"));
  EXPECT_THAT(refused({"run.device=cuda", "run.device_description=" + run.path("device.yaml"),
                       "--dry-run"}),
              HasSubstr("device.yaml:3: memory_gbp: unknown key; did you mean memory_gb?"));
  const CommandResult old =
      run_command({"--config", run.config(), "--dry-run", "run.device=cuda",
                   "precision.params=bf16", "run.device_description=" + run.path("old.yaml")});
  EXPECT_EQ(old.status, 1);
  EXPECT_THAT(old.err, HasSubstr("the cuda back end has no bf16"));
}

TEST(DryRun, SaysWhatTheRunWillStumbleOver) {
  const SmallRun run;
  const auto warnings = [&](std::vector<std::string> more) {
    if (more.empty() || !more[0].starts_with("run.output_dir=")) {
      more.push_back("run.output_dir=" + run.path("planned"));
    }
    more.insert(more.begin(), {"--config", run.config(), "--dry-run"});
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
  EXPECT_THAT(warnings({"checkpoint.minutes=1", "checkpoint.interval=5"}),
              HasSubstr("checkpoint.minutes: counts only where checkpoint.interval is auto"));
  const std::string valid = "data.valid=" + run.path("text.txt");
  EXPECT_THAT(warnings({valid, "data.split=0.5"}),
              HasSubstr("data.split: counts only where data.valid is null"));
  EXPECT_EQ(warnings({valid, "data.split=1"}), "");
  EXPECT_EQ(warnings({valid, "data.split=null"}), "");
  EXPECT_THAT(warnings({"run.output_dir=/proc/nothing/run"}),
              HasSubstr("run.output_dir: /proc/nothing/run could not be written"));
  EXPECT_THAT(warnings({"run.output_dir=" + run.config() + "/run"}),
              HasSubstr("small.yaml is no folder"));

  // An earlier run stands there.
  ASSERT_EQ(run_command(run.arguments("old", {"schedule.total_steps=2"})).status, 0);
  const std::string old = "run.output_dir=" + run.path("old");
  EXPECT_EQ(warnings({old}), "");
  EXPECT_THAT(warnings({old, "sweep={keys: {optimizer.lr: [1.0e-3]}}"}),
              HasSubstr("old: holds a run that is no sweep"));
  const std::string another = "this run began with other values (model.hidden_size: ";
  EXPECT_THAT(warnings({old, "model.hidden_size=32"}), HasSubstr(another));
  EXPECT_EQ(warnings({old, "model.hidden_size=32", "--restart"}), "");
  // An earlier version that wrote its configuration knew fewer keys: the run had the default of those that came since.
  const std::string written = real_files().read(run.path("old/config.yaml"), 1 << 20);
  const std::string line = "  label_smoothing: 0.0\n";
  ASSERT_NE(written.find(line), written.npos);
  std::string before = written;
  before.erase(before.find(line), line.size());
  write_text(run.path("old/config.yaml"), before);
  EXPECT_EQ(warnings({old}), "");
  EXPECT_THAT(warnings({old, "model.label_smoothing=0.1"}),
              HasSubstr("other values (model.label_smoothing: 0.0, now 0.1"));
  write_text(run.path("old/config.yaml"), written);
  EXPECT_THAT(warnings({old, "checkpoint.resume=never"}), HasSubstr("checkpoint.resume: never"));
  real_files().remove_all(run.path("old/checkpoints"));
  EXPECT_THAT(warnings({old}), HasSubstr("finished at step 2, and its checkpoints are gone"));
  write_text(run.path("swept/sweep.json"), "{}");
  EXPECT_THAT(warnings({"run.output_dir=" + run.path("swept")}), HasSubstr("holds a sweep"));

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

}  // namespace
}  // namespace mstrain
