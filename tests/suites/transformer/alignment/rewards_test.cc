#include "suites/transformer/alignment/rewards.h"

#include <gmock/gmock.h>

#include "core/base/error.h"
#include "suites/transformer/alignment/numbers_in_text.h"
#include "tests/core/base/message_of.h"

namespace mstrain {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;

double earned(const Rewards& rewards, const std::string& text, const std::string& expected,
              int64_t tokens) {
  const std::vector<WrittenAnswer> answers{
      {.prompt = "?", .text = text, .expected = expected, .tokens = tokens}};
  return rewards.of(answers)[0];
}

TEST(Rewards, AddUpByRule) {
  const Rewards rewards({{.type = RewardType::kExact, .weight = 2},
                         {.type = RewardType::kNumber, .weight = 0.5},
                         {.type = RewardType::kRegex, .weight = 0.25, .pattern = "^[0-9]+$"},
                         {.type = RewardType::kLength, .weight = 0.125, .at_most = 3}},
                        {});
  EXPECT_EQ(earned(rewards, "46", "46", 3), 2.875);
  EXPECT_EQ(earned(rewards, "it is 46", "46", 9), 0.5);
  EXPECT_EQ(earned(rewards, "47", "46", 2), 0.375);
  EXPECT_EQ(earned(rewards, "", "46", 4), 0);
}

TEST(Rewards, PlacesArePartOfAnAnswer) {
  const Rewards rewards({{.type = RewardType::kPlaces, .weight = 3}}, {});
  EXPECT_EQ(earned(rewards, "146", "146", 3), 3);
  EXPECT_EQ(earned(rewards, "156", "146", 3), 2);
  EXPECT_EQ(earned(rewards, "46", "146", 2), 0);
  EXPECT_EQ(earned(rewards, "1460", "14", 4), 1.5);
  EXPECT_EQ(share_in_place("", ""), 1);
}

TEST(Rewards, TheLastNumberIsTheAnswer) {
  EXPECT_EQ(last_number("12 + 30 = 42."), 42);
  EXPECT_EQ(last_number("-3.5"), -3.5);
  EXPECT_EQ(last_number("10-3"), 3);
  EXPECT_EQ(last_number("x=-7 apples"), -7);
  EXPECT_EQ(last_number(".5"), 0.5);
  EXPECT_EQ(last_number("so -.5!"), -0.5);
  EXPECT_EQ(last_number("wait ... 5"), 5);
  EXPECT_EQ(last_number("wait...5"), 5);
  EXPECT_EQ(last_number("1.2.3"), std::nullopt);
  EXPECT_EQ(last_number("7 of 9.99.1"), 7);
  EXPECT_EQ(last_number("1e3"), 1000);
  EXPECT_EQ(last_number("2.5E-1."), 0.25);
  EXPECT_EQ(last_number("1e+2"), 100);
  EXPECT_EQ(last_number("4 eggs, 3e"), 3);
  EXPECT_EQ(last_number("+5"), 5);
  EXPECT_EQ(last_number("\u22125"), -5);
  EXPECT_EQ(last_number("3/4"), 0.75);
  EXPECT_EQ(last_number("-1/2"), -0.5);
  EXPECT_EQ(last_number("1/0"), std::nullopt);
  EXPECT_EQ(last_number("8, on 24/12/2024"), 8);
  EXPECT_EQ(last_number("and/or 3/"), 3);
  EXPECT_EQ(last_number("none"), std::nullopt);
  EXPECT_EQ(last_number("costs $1,234.50"), 1234.5);
  EXPECT_EQ(last_number("-12,345,678"), -12345678);
  EXPECT_EQ(last_number("1,2,3"), 3);
  EXPECT_EQ(last_number("2020,100"), 100);
  EXPECT_EQ(last_number(",100"), 100);
  EXPECT_EQ(last_number("7,50"), 50);
  EXPECT_EQ(last_number(std::string(400, '9')), std::nullopt);  // beyond every double
}

TEST(Rewards, AdvantagesAreWithinTheGroup) {
  const std::vector<double> rewards{1, 0, 0, 1};
  EXPECT_THAT(advantages_of(rewards, AdvantageScale::kNone), ElementsAre(0.5, -0.5, -0.5, 0.5));
  const double scaled = 0.5 / (std::sqrt(1.0 / 3) + 1e-4);
  EXPECT_THAT(advantages_of(rewards, AdvantageScale::kDeviation),
              ElementsAre(DoubleNear(scaled, 1e-12), DoubleNear(-scaled, 1e-12),
                          DoubleNear(-scaled, 1e-12), DoubleNear(scaled, 1e-12)));
  EXPECT_THAT(advantages_of(std::vector<double>{0.1, 0.1, 0.1}, AdvantageScale::kDeviation),
              ElementsAre(0, 0, 0));
}

TEST(Rewards, AdvantagesBelowZeroCountAsOneSays) {
  const std::vector<double> rewards{1, 0, 0, 3};
  EXPECT_EQ(advantages_of(rewards, AdvantageScale::kNone), (std::vector<double>{0, -1, -1, 2}));
  EXPECT_EQ(advantages_of(rewards, AdvantageScale::kNone, 0.25),
            (std::vector<double>{0, -0.25, -0.25, 2}));
}

TEST(Rewards, WhatNoFloatHoldsIsAnError) {
  const Rewards rewards({{.type = RewardType::kExact, .weight = 1e300}}, {});
  EXPECT_THAT(message_of<Error>([&] { earned(rewards, "46", "46", 3); }),
              HasSubstr("the answer \"46\" earns 1 by exact, which no float holds"));
}

TEST(Rewards, AreAlsoKnownByRule) {
  const Rewards rewards({{.type = RewardType::kExact, .weight = 2},
                         {.type = RewardType::kRegex, .pattern = "4"},
                         {.type = RewardType::kRegex, .pattern = "6"}},
                        {});
  EXPECT_THAT(rewards.names(), ElementsAre("exact", "regex", "regex_2"));
  const std::vector<WrittenAnswer> answers{{.text = "4", .expected = "4"},
                                           {.text = "6", .expected = "4"}};
  const Rewards::Earned earned = rewards.earned(answers);
  EXPECT_THAT(earned.total, ElementsAre(3, 1));
  EXPECT_THAT(earned.rules, ElementsAre(ElementsAre(1, 0), ElementsAre(1, 0), ElementsAre(0, 1)));
}

TEST(Rewards, APatternThatTakesTooLongIsAnError) {
  const Rewards rewards({{.type = RewardType::kRegex, .pattern = "(x+x+)+y\\1"}}, {});
  const std::string text = std::string(40, 'x') + " y";
  EXPECT_THAT(message_of<Error>([&] { earned(rewards, text, "", 9); }),
              HasSubstr("pattern (x+x+)+y\\1 in the answer \"" + text + "\" takes more than "));
}

std::string library(const std::string& name) {
  return std::string(MSTRAIN_PLUGINS) + "/libreward_" + name + ".so";
}
Rewards from_library(const std::string& name, double weight = 1) {
  return Rewards({{.type = RewardType::kLibrary, .weight = weight, .path = library(name)}}, {});
}

TEST(RewardLibrary, ScoresWithOtherRules) {
  EXPECT_EQ(earned(from_library("even", 2), "146", "", 4), 2);
  EXPECT_EQ(earned(from_library("even", 2), "147", "", 4), 0);
  EXPECT_DOUBLE_EQ(earned(from_library("even", 2), "4", "", 4), 1.6);
  const Rewards both({{.type = RewardType::kExact, .weight = 10},
                      {.type = RewardType::kLibrary, .path = library("even")}},
                     {});
  const std::vector<WrittenAnswer> answers{{.text = "146", .expected = "146"},
                                           {.text = "146", .expected = "145"},
                                           {.text = "145", .expected = "145"},
                                           {.text = std::string("2\0"
                                                                "2",
                                                                3),
                                            .expected = ""}};
  EXPECT_THAT(both.of(answers), ElementsAre(11, 1, 10, 1));
}

TEST(RewardLibrary, MistakesNameTheFileAndWhatIsWrong) {
  const std::pair<const char*, const char*> kFaults[] = {
      {"other_version", "made for version 7 of the interface"},
      {"no_function", "its function score is NULL"},
      {"no_name", "it gives no name"},
      {"gives_null", "mstrain_reward() gave NULL"},
      {"nothing", "no such file"},
      {"gives_nan", "faulty gives nan to the answer \"46\" of \"?\""},
      {"leaves_out", "faulty gives nan to the answer \"46\" of \"?\""},
      {"fails", "faulty: score() failed with 3: the judge is asleep"},
      {"says_nothing", "faulty: score() failed with 3"},
      {"writes_too_much", "faulty: score() wrote more than the 1 rewards it was asked for"}};
  for (const auto& [name, why] : kFaults) {
    const std::string message =
        message_of<Error>([&] { earned(from_library(name), "46", "46", 3); });
    EXPECT_THAT(message, HasSubstr(library(name) + ": ")) << name;
    EXPECT_THAT(message, HasSubstr(why)) << name;
  }
  EXPECT_DEATH(earned(from_library("aborts"), "46", "46", 3),
               "mstrain: .*libreward_aborts.so crashed in score\\(\\): it called abort\\(\\)");
  EXPECT_EXIT(
      earned(from_library("exits"), "46", "46", 3), testing::ExitedWithCode(1),
      "mstrain: .*libreward_exits.so ended the process in score\\(\\): it called exit\\(\\)");
}

TEST(RewardLibrary, KeysBelongToTheirTypes) {
  const auto message_for = [](const std::string& rule) {
    const YamlNode tree = parse_yaml("objective: {grpo: {rewards: [" + rule + "]}}", "my.yaml");
    GrpoConfig config;
    config.rewards = {{}};
    if (rule.find("library") != std::string::npos) {
      config.rewards[0].type = RewardType::kLibrary;
    }
    if (rule.find("path") != std::string::npos) {
      config.rewards[0].path = "nowhere.so";
    }
    return message_of<ConfigError>(
        [&] { check_rewards(config.rewards, "objective.grpo.rewards", tree); });
  };
  EXPECT_THAT(
      message_for("{type: exact, path: nowhere.so}"),
      HasSubstr("my.yaml:1: objective.grpo.rewards[0]: path belongs to types library and model"));
  EXPECT_THAT(message_for("{type: library}"), HasSubstr("types library and model need path"));
  EXPECT_THAT(message_for("{type: library, path: nowhere.so}"),
              HasSubstr("nowhere.so: no such file"));
  const YamlNode two = parse_yaml(
      "objective:\n  grpo:\n    rewards:\n      - {type: exact}\n      - {type: regex}\n",
      "my.yaml");
  const std::vector<RewardConfig> rules{{}, {.type = RewardType::kRegex}};
  EXPECT_THAT(message_of<ConfigError>([&] { check_rewards(rules, "objective.grpo.rewards", two); }),
              HasSubstr("my.yaml:5: objective.grpo.rewards[1]: type regex needs pattern"));
  const std::vector<RewardConfig> nothing{{.weight = 0},
                                          {.type = RewardType::kPlaces, .weight = 0}};
  EXPECT_THAT(
      message_of<ConfigError>([&] { check_rewards(nothing, "objective.grpo.rewards", two); }),
      HasSubstr("objective.grpo.rewards: all weights are 0"));
}

}  // namespace
}  // namespace mstrain
