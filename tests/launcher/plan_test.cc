#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/files.h"
#include "core/base/json.h"
#include "tests/amount.h"
#include "tests/launcher/command.h"

namespace mstrain {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

CommandResult plan(const std::vector<std::string>& more, const std::string& config = "gpt_10b.yaml",
                   const std::string& cluster = "a100_80gb_x8.yaml") {
  std::vector<std::string> arguments{"plan", "--config", shipped(config), "--cluster",
                                     shipped("clusters/" + cluster)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_command(arguments);
}

Json planned(std::vector<std::string> more, const std::string& config = "gpt_10b.yaml") {
  more.emplace_back("--json");
  const CommandResult result = plan(more, config);
  EXPECT_EQ(result.status, 0) << result.err;
  return parse_json(result.out, "plan");
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> out;
  for (const auto& [key, value] : object.items()) {
    out.push_back(key);
  }
  return out;
}

TEST(Plan, AsJsonHasTheKeysThatProgramsRead) {
  const Json json = planned({"parallel.tensor=8", "batch.micro=4"});
  EXPECT_THAT(keys_of(json), ElementsAre("breakdown", "fits", "memory", "model_flops_utilization",
                                         "peak_bytes_per_rank", "step_seconds", "tokens_per_second",
                                         "tokens_per_second_per_device"));
  EXPECT_THAT(keys_of(json["breakdown"]),
              ElementsAre("attention", "data", "exposed_communication", "memory_bound", "optimizer",
                          "pipeline_bubble", "products", "tensor"));
  EXPECT_TRUE(json["fits"]);
  double memory = 0;
  for (const auto& [part, bytes] : json["memory"].items()) {
    memory += bytes.get<double>();
  }
  EXPECT_NEAR(memory, json["peak_bytes_per_rank"].get<double>(), 16);
  EXPECT_DOUBLE_EQ(json["tokens_per_second"].get<double>(),
                   8 * json["tokens_per_second_per_device"].get<double>());
}

// What a step keeps follows from the program that would run: on one device both say the same.
TEST(Plan, OfOneDeviceKeepsWhatTheDryRunForItKeeps) {
  for (const char* rule : {"none", "selective"}) {
    const std::vector<std::string> keys{"precision.params=bf16", "batch.micro=4", "batch.global=8",
                                        std::string("memory.recompute=") + rule};
    std::vector<std::string> alone = keys;
    alone.insert(alone.end(), {"cluster.gpus_per_node=1", "parallel.data=1"});
    const Json memory = planned(alone, "gpt_124m.yaml")["memory"];
    std::vector<std::string> dry{
        "--config",        shipped("gpt_124m.yaml"),
        "--dry-run",       "--offline",
        "run.device=cuda", "run.device_description=" + shipped("devices/a100_80gb.yaml")};
    dry.insert(dry.end(), keys.begin(), keys.end());
    std::string text = run_command(dry).out;
    std::erase(text, ',');
    for (const char* part : {"parameters", "optimizer", "activations"}) {
      const auto bytes = std::to_string(memory[part].get<int64_t>());
      EXPECT_THAT(text, HasSubstr(" " + bytes.substr(0, 8))) << rule << ' ' << part;
    }
  }
}

TEST(Plan, WithProductsOf8BitsIsFasterWhereADeviceMakesThem) {
  const std::vector<std::string> eight{"precision.params=bf16", "precision.products=fp8"};
  const auto json_of = [](std::vector<std::string> keys) {
    keys.emplace_back("--json");
    const CommandResult result = plan(keys, "gpt_124m.yaml", "h100_80gb_x8.yaml");
    EXPECT_EQ(result.status, 0) << result.err;
    return parse_json(result.out, "plan");
  };
  const std::vector<std::string> layout{"parallel.data=8", "batch.micro=4", "batch.global=64"};
  std::vector<std::string> keys = layout;
  keys.insert(keys.end(), eight.begin(), eight.end());
  const Json fast = json_of(keys)["breakdown"];
  keys = layout;
  keys.push_back(eight[0]);
  const Json slow = json_of(keys)["breakdown"];
  EXPECT_LT(fast["products"].get<double>(), 0.8 * slow["products"].get<double>());
  EXPECT_GT(fast["products"].get<double>(), 0.4 * slow["products"].get<double>());
  // Ranks share products of codes, and the codes of weights, as they share others: of each in bf16 it is about the half.
  for (const char* share : {"parallel.tensor=4", "parallel.pipeline=4"}) {
    SCOPED_TRACE(share);
    std::vector<std::string> shared{share, "parallel.data=2", "batch.micro=4", "batch.global=64",
                                    eight[0]};
    const Json in_bf16 = json_of(shared);
    shared.push_back(eight[1]);
    const Json in_fp8 = json_of(shared);
    const double ratio = in_fp8["breakdown"]["products"].get<double>() /
                         in_bf16["breakdown"]["products"].get<double>();
    EXPECT_GT(ratio, 0.4);
    EXPECT_LT(ratio, 0.85);  // the head's, which are a stage's, stay as they are
    EXPECT_NEAR(in_fp8["memory"]["parameters"].get<double>(),
                in_bf16["memory"]["parameters"].get<double>(), 1e5);
  }
  const CommandResult old = plan(eight, "gpt_124m.yaml");
  EXPECT_EQ(old.status, 3);
  EXPECT_THAT(old.err, HasSubstr("makes no products of 8-bit floats"));
}

TEST(Plan, ForThisMachineMeasuresItAndWritesItDown) {
  const SmallRun folder;
  const std::vector<std::string> asked{"plan",
                                       "--config",
                                       shipped("gpt_quickstart.yaml"),
                                       "--json",
                                       "model.vocab_size=256",
                                       "batch.micro=4",
                                       "parallel.plan=manual",
                                       "parallel.data=2"};
  const auto plan_on = [&](const std::string& cluster, std::vector<std::string> more) {
    more.insert(more.begin(), asked.begin(), asked.end());
    more.insert(more.end(), {"--cluster", cluster});
    return run_command(more);
  };
  const std::string file = folder.path("here.yaml");
  const CommandResult here = plan_on("here", {"--ranks", "2", "--write-cluster", file});
  ASSERT_EQ(here.status, 0) << here.err;
  const Json json = parse_json(here.out, "plan");
  EXPECT_GT(json["step_seconds"].get<double>(), 0);
  EXPECT_TRUE(json["fits"]);
  EXPECT_EQ(parse_json(plan_on(file, {}).out, "plan"), json);
  // The file says what was measured, and keys lie over it as over any other.
  const Json slow = parse_json(plan_on(file, {"cluster.device.memory_gbps=0.1"}).out, "plan");
  EXPECT_GT(slow["breakdown"]["memory_bound"].get<double>(),
            json["breakdown"]["memory_bound"].get<double>());
  EXPECT_THAT(plan_on(file, {"--ranks", "2"}).err, HasSubstr("--ranks: goes with --cluster here"));
  EXPECT_THAT(plan_on("here", {"--ranks", "0"}).err, HasSubstr("--ranks: expected 1 to 1000"));
}

TEST(Plan, WithoutALayoutFindsOneAndWritesItDown) {
  const SmallRun folder;
  const CommandResult found =
      plan({"cluster.nodes=2", "--top", "3", "--write-plan", folder.path("best.yaml")});
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_THAT(found.out,
              AllOf(HasSubstr("16 x NVIDIA A100"), HasSubstr("layouts were considered"),
                    HasSubstr("faster, but they do not fit"), HasSubstr("slower, most")));
  const CommandResult again =
      plan({"cluster.nodes=2", "parallel.plan=" + folder.path("best.yaml")});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(again.out, found.out.substr(0, again.out.size()));
  const CommandResult gone = plan({"parallel.plan=" + folder.path("none.yaml")});
  EXPECT_EQ(gone.status, 2);
  EXPECT_THAT(gone.err, AllOf(HasSubstr("parallel.plan: expected manual, auto or a file"),
                              HasSubstr("none.yaml")));
}

TEST(Plan, OfALayoutThatIsSearchedLeavesWhatIsGiven) {
  for (const int micro : {1, 2, 6}) {
    const CommandResult found =
        plan({"parallel.plan=auto", "batch.global=96", fmt::format("batch.micro={}", micro)});
    EXPECT_THAT(found.out.substr(0, found.out.find('\n')),
                ContainsRegex(fmt::format("micro {}($|,)", micro)))
        << found.err;
  }
}

// A search finds none that a run refuses for what is given.
TEST(Plan, OfALayoutThatIsSearchedIsOneThatRuns) {
  const auto found = [](const std::string& given) {
    const CommandResult result =
        plan({"parallel.plan=auto", given, "--json"}, "gpt_124m.yaml", "h100_80gb_x8.yaml");
    EXPECT_EQ(result.status, 0) << result.err;
    std::vector<std::string> keys;
    const Json json = parse_json(result.out, "plan");
    for (const Json& key : json["layout"]) {
      keys.push_back(key.get<std::string>());
    }
    return keys;
  };
  const auto more_than_one = [](const std::string& axis) {
    return testing::Contains(testing::ContainsRegex("parallel." + axis + "=[2-9]"));
  };
  EXPECT_THAT(found("parallel.context_way=ring"), more_than_one("context"));
  EXPECT_THAT(found("parallel.zero.regather=never"), testing::Contains("parallel.zero.stage=3"));
  EXPECT_THAT(found("parallel.sequence_parallel=true"), more_than_one("tensor"));
  EXPECT_THAT(found("parallel.overlap.tensor=true"), more_than_one("tensor"));
  EXPECT_THAT(
      found("parallel.virtual_pipeline=2"),
      testing::AllOf(testing::Contains("parallel.schedule=interleaved"),
                     testing::Contains("parallel.virtual_pipeline=2"), more_than_one("pipeline")));
  EXPECT_THAT(
      found("parallel.schedule=gpipe"),
      testing::AllOf(testing::Contains("parallel.schedule=gpipe"), more_than_one("pipeline")));
  const CommandResult none =
      plan({"parallel.plan=auto", "parallel.context_way=ring", "parallel.context=1"},
           "gpt_124m.yaml", "h100_80gb_x8.yaml");
  EXPECT_EQ(none.status, 3);
  EXPECT_THAT(none.err, HasSubstr("parallel.context_way: is for parallel.context of 2 or more"));
}

// What a run refuses of a layout for its optimizer, precision or objective.
TEST(Plan, OfALayoutThatARunRefusesIsRefusedAlike) {
  const auto on_8 = [](std::vector<std::string> more) {
    more.insert(more.end(), {"model.vocab_size=50304", "batch.micro=1"});
    return plan(more, "gpt_10b.yaml", "a100_40gb_x8.yaml");
  };
  for (const char* given :
       {"precision.moments=int8", "precision.moments=bf16", "optimizer.type=lamb"}) {
    const CommandResult found = on_8({given});
    EXPECT_EQ(found.status, 0) << given << found.err;
    EXPECT_THAT(found.out.substr(0, found.out.find('\n')), Not(HasSubstr("tensor"))) << given;
    const CommandResult asked = on_8({given, "parallel.tensor=2"});
    EXPECT_EQ(asked.status, 2) << given;
    EXPECT_THAT(asked.err, HasSubstr("with parallel.tensor 2")) << given;
  }
  const auto of_answers = [](std::vector<std::string> more) {
    more.insert(more.end(), {"model.init.from=null", "batch.micro=4"});
    return plan(more, "dpo_addition.yaml", "this_machine.yaml");
  };
  EXPECT_THAT(of_answers({"parallel.plan=auto", "parallel.data=1"}).out, HasSubstr("tensor 2"));
  EXPECT_THAT(of_answers({"parallel.plan=auto", "parallel.data=1", "parallel.tensor=1"}).err,
              HasSubstr("objectives that compare answers are of one stage"));
  const CommandResult context = of_answers({"objective.type=kto", "parallel.context=2"});
  EXPECT_EQ(context.status, 2);
  EXPECT_THAT(context.err, HasSubstr("parallel.context: ranks cannot share the positions"));
}

// Samples of two sequences are not shared along tensor between the products.
TEST(Plan, OfLayoutsTakesOnlyPositionsThatRanksCanShare) {
  const SmallRun folder;
  const std::string file = folder.path("plan.yaml");
  const CommandResult found = plan({"precision.params=bf16", "--write-plan", file}, "t5_11b.yaml");
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_THAT(found.out, HasSubstr("tensor 2"));
  const CommandResult dry =
      run_command({"--config", shipped("t5_11b.yaml"), "--dry-run", "--offline", "run.device=cuda",
                   "run.device_description=" + shipped("devices/a100_80gb.yaml"),
                   "precision.params=bf16", "memory.limit_gb=1000", "parallel.plan=" + file});
  EXPECT_EQ(dry.status, 0) << dry.err;
}

TEST(Plan, TakesTheScheduleOfAFileWhereItIsSound) {
  const SmallRun folder;
  const std::vector<std::string> keys{"parallel.pipeline=8", "parallel.stage_layout=[]",
                                      "model.num_layers=32", "batch.micro=2", "batch.global=32"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), keys.begin(), keys.end());
    return plan(more);
  };
  const std::string file = folder.path("mine.txt");
  const CommandResult shipped_one = with({"parallel.schedule=zb_h1", "--write-schedule", file});
  EXPECT_EQ(shipped_one.status, 0) << shipped_one.err;
  EXPECT_EQ(with({"parallel.schedule=" + file}).out, shipped_one.out);
  std::string text = real_files().read(file);
  text.replace(text.find("F0.0 F0.1"), 9, "F0.1 F0.0");
  write_text(file, text);
  const CommandResult bad = with({"parallel.schedule=" + file});
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.err, HasSubstr("rank 0 sends what F0.1 made where rank 1 waits for what F1.0"));
}

TEST(Plan, WhatDoesNotFitIsStatus3WithChoicesThatDo) {
  const CommandResult result = plan({"parallel.zero.stage=1", "batch.micro=8"});
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.err, AllOf(HasSubstr("the plan needs"), HasSubstr("what would fit:"),
                                HasSubstr("memory.recompute=selective")));
  const CommandResult json = plan({"parallel.zero.stage=1", "batch.micro=8", "--json"});
  EXPECT_EQ(json.status, 3);
  EXPECT_EQ(json.err, result.err);
  EXPECT_FALSE(parse_json(json.out, "plan")["fits"].get<bool>());
}

TEST(Plan, ForADeviceThatHasNothingLeftAdvisesNoRanks) {
  const CommandResult none = plan({"cluster.device.memory_gb=0.001"}, "gpt_124m.yaml");
  EXPECT_EQ(none.status, 3);
  EXPECT_THAT(none.err,
              AllOf(HasSubstr("a device keeps 2.00 GB for itself"), Not(HasSubstr("more ranks"))));
}

TEST(Plan, ImpossibleLayoutsAreStatus2WithTheNearestPossible) {
  const CommandResult heads = plan({"cluster.nodes=2", "parallel.tensor=16"});
  EXPECT_EQ(heads.status, 2);
  EXPECT_THAT(heads.err, HasSubstr("16 does not divide the model's 40 heads"));
  const CommandResult layers = plan({"parallel.pipeline=8"});
  EXPECT_EQ(layers.status, 2);
  EXPECT_THAT(layers.err,
              HasSubstr("35 layers do not divide into 8 parts; the nearest that do: 7"));
}

TEST(Plan, EveryShippedClusterAndModelIsPlanned) {
  if (kSanitized) {
    GTEST_SKIP() << "a question of size, which the plain build answers";
  }
  for (const std::string& cluster : real_files().list(shipped("clusters"))) {
    const CommandResult result = plan({}, "gpt_quickstart.yaml", cluster);
    EXPECT_EQ(result.status, 0) << cluster << ": " << result.err;
  }
  for (const char* config : {"llama_8b.yaml", "t5_11b.yaml", "vit_h14.yaml"}) {
    const CommandResult result = plan({"precision.params=bf16"}, config);
    EXPECT_EQ(result.status, 0) << config << ": " << result.err;
  }
}

// Of 6 ranks that share batches none has a part of 512 samples.
TEST(Plan, FindsLayoutsWhereRanksCannotAllShareBatches) {
  const CommandResult found =
      plan({"cluster.gpus_per_node=6"}, "gpt_124m.yaml", "h100_80gb_x8.yaml");
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_THAT(found.out, HasSubstr("layouts were considered"));
  const CommandResult given =
      plan({"cluster.gpus_per_node=6", "parallel.data=6"}, "gpt_124m.yaml", "h100_80gb_x8.yaml");
  EXPECT_EQ(given.status, 2);
  EXPECT_THAT(given.err, HasSubstr("parallel.data: 6 does not divide batch.global 512"));
}

TEST(Plan, OfWhatItDoesNotCountIsRefusedBeforeAnythingIsMeasured) {
  const SmallRun folder;
  const auto refused = [&](const std::string& config) {
    const CommandResult result = run_command({"plan", "--config", shipped(config), "--cluster",
                                              "here", "--write-cluster", folder.path("here.yaml")});
    EXPECT_EQ(result.status, 2) << config;
    EXPECT_FALSE(real_files().exists(folder.path("here.yaml")));
    return result.err;
  };
  EXPECT_THAT(refused("ppo_cartpole.yaml"),
              AllOf(HasSubstr("ppo_cartpole.yaml:"), HasSubstr("algorithm: plans are for models")));
  EXPECT_THAT(refused("alphazero_tic_tac_toe.yaml"), HasSubstr("algorithm: plans are for models"));
  EXPECT_THAT(refused("wide_deep_quickstart.yaml"),
              HasSubstr("model.type: plans for clusters do not count rows of ids"));
}

}  // namespace
}  // namespace mstrain
