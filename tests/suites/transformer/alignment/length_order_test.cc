// Samples of unlike lengths: batches in their order, and steps whose rows are no longer than they need.
#include "suites/transformer/alignment/length_order.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/train/length_parts.h"
#include "suites/transformer/alignment/answer_rows.h"
#include "tests/core/base/message_of.h"
#include "tests/ranks.h"
#include "tests/suites/transformer/alignment/answer_runs.h"

namespace mstrain {
namespace {

std::vector<LengthOrder::Lengths> lengths_of(int64_t rows) {
  std::mt19937 random(5);
  std::vector<LengthOrder::Lengths> out;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t answer = 1 + static_cast<int64_t>(random() % 20);
    out.push_back({answer + static_cast<int64_t>(random() % 100), answer});
  }
  return out;
}

TEST(LengthOrder, ABatchHasItsSamplesFromShortToLong) {
  const std::vector<LengthOrder::Lengths> lengths = lengths_of(50);
  const LengthOrder order(lengths, /*shuffle=*/true);
  for (int64_t first = 0; first < 200; first += 8) {
    const std::vector<int64_t> rows = order.batch(3, first, 8);
    std::vector<int64_t> expected;
    for (int64_t sample = first; sample < first + 8; ++sample) {
      expected.push_back(row_of_sample(50, true, 3, sample));
    }
    EXPECT_THAT(rows, testing::UnorderedElementsAreArray(expected));
    EXPECT_TRUE(std::ranges::is_sorted(
        rows, {}, [&](int64_t row) { return lengths[static_cast<size_t>(row)].positions; }));
  }
}

TEST(LengthOrder, TheLongestOfAPlaceIsThatOfSomeStep) {
  const std::vector<LengthOrder::Lengths> lengths = lengths_of(50);
  for (const bool shuffle : {false, true}) {
    const LengthOrder order(lengths, shuffle);
    const StepRange steps{.seed = 3, .batch = 8, .first = 4, .end = 4 + 40 * 8};
    const std::vector<LengthOrder::Lengths> longest = order.longest(steps);
    ASSERT_EQ(longest.size(), 8U);
    std::vector<int64_t> positions(8, 0);
    std::vector<int64_t> answers(8, 0);
    for (int64_t first = steps.first; first < steps.end; first += 8) {
      const std::vector<int64_t> rows = order.batch(3, first, 8);
      for (size_t place = 0; place < 8; ++place) {
        const LengthOrder::Lengths& it = lengths[static_cast<size_t>(rows[place])];
        positions[place] = std::max(positions[place], it.positions);
        for (size_t behind = place; behind < 8; ++behind) {
          answers[behind] = std::max(answers[behind], it.answer);
        }
      }
    }
    for (size_t place = 0; place < 8; ++place) {
      EXPECT_EQ(longest[place].positions, positions[place]);
      EXPECT_EQ(longest[place].answer, answers[place]);
    }
    // Whose lengths nobody looked at.
    EXPECT_THAT(message_of<Error>([&] { order.batch(3, steps.end, 8); }),
                testing::HasSubstr("the batch of 8 from sample 324 on"));
    EXPECT_THROW(order.batch(4, 4, 8), Error);
    EXPECT_THROW(order.batch(3, 5, 8), Error);
  }
}

TEST(LengthOrder, SoManySamplesAreNotLookedAt) {
  const LengthOrder order(lengths_of(50), true);
  EXPECT_TRUE(order.longest({.seed = 3, .batch = 8, .first = 0, .end = int64_t{1} << 40}).empty());
}

// A task whose sample at place i of a batch has at most units[i].
TrainTask task_of(const std::vector<int64_t>& units) {
  TrainTask task;
  task.units.count = *std::ranges::max_element(units);
  task.in_parts = [units](const StepRange& steps, int64_t parts) {
    EXPECT_EQ(steps.batch, std::ssize(units));
    std::vector<TrainTask> out;
    for (int64_t part = 1; part <= parts; ++part) {
      out.emplace_back().units.count =
          units[static_cast<size_t>(std::ssize(units) / parts * part - 1)];
    }
    return out;
  };
  return task;
}

std::vector<std::pair<int64_t, int64_t>> parts_with(const TrainTask& task, int64_t batch,
                                                    int64_t micro, int64_t ranks) {
  TrainConfig config;
  config.batch.global = batch;
  std::vector<std::pair<int64_t, int64_t>> out;
  for (const LengthPart& part : length_parts(task, config, micro, ranks)) {
    EXPECT_EQ(part.task.units.count, task.units.count);
    out.emplace_back(part.samples, part.units);
  }
  return out;
}

TEST(LengthParts, AreWhatNeedsTheFewestUnits) {
  using Parts = std::vector<std::pair<int64_t, int64_t>>;
  const TrainTask task =
      task_of({16, 16, 32, 32, 48, 64, 64, 64, 80, 96, 128, 128, 256, 256, 512, 1024});
  const Parts best{{8, 64}, {4, 128}, {2, 256}, {2, 1024}};
  EXPECT_EQ(parts_with(task, 16, 1, 1), best);
  EXPECT_EQ(parts_with(task, 16, 2, 1), best);
  EXPECT_EQ(parts_with(task, 16, 1, 2), best);
  EXPECT_EQ(parts_with(task, 16, 4, 1), (Parts{{4, 32}, {4, 64}, {4, 128}, {4, 1024}}));
  EXPECT_EQ(parts_with(task, 16, 4, 2), (Parts{{8, 64}, {8, 1024}}));
  EXPECT_EQ(parts_with(task, 16, 8, 2), Parts());  // one micro-batch
  EXPECT_EQ(parts_with(task_of({93, 94, 95, 96, 97, 98, 99, 100}), 8, 1, 1), Parts());
  EXPECT_EQ(parts_with(TrainTask(), 8, 1, 1), Parts());
}

TEST(LengthParts, MicroBatchesKeepToThemWhereTheyAreLargeEnough) {
  TrainConfig config;
  config.batch.global = 32;
  std::vector<int64_t> units(32, 64);
  units[31] = 1024;
  EXPECT_EQ(most_in_micro_batch(task_of(units), config, 1), 4);
  EXPECT_EQ(most_in_micro_batch(task_of(units), config, 2), 2);
  EXPECT_EQ(most_in_micro_batch(task_of(std::vector<int64_t>(32, 64)), config, 1), 32);
  units.assign(32, 4);
  units[31] = 100;
  EXPECT_EQ(most_in_micro_batch(task_of(units), config, 1), 16);
}

// Texts of 3 to 120 tokens.
class UnlikeLengths : public AnswerRuns {
 protected:
  UnlikeLengths() {
    write_roomy_model();
    std::mt19937 random(1);
    std::string pairs;
    std::string answers;
    for (int i = 0; i < 96; ++i) {
      const auto some = [&](uint32_t most) {
        std::string out;
        for (uint32_t left = 1 + random() % most; left > 0; --left) {
          out += static_cast<char>('a' + random() % 26);
        }
        return out;
      };
      const uint32_t most = i % 8 == 0 ? 80 : 12;
      const std::string prompt = R"({"prompt": ")" + some(most);
      const std::string good = some(most / 2);
      pairs +=
          prompt + R"(", "chosen": ")" + good + R"(", "rejected": ")" + some(most / 3) + "\"}\n";
      answers += prompt + R"(", "response": ")" + good + "\"}\n";
    }
    write_file_atomic(real_files(), folder_ / "pairs.jsonl", pairs);
    write_file_atomic(real_files(), folder_ / "answers.jsonl", answers);
  }
  YamlNode config_of(const std::string& name, const std::string& objective,
                     const Overrides& changes = {}) {
    YamlNode config = tree(name, objective, objective == "type: reward" ? ", head: score" : "", 4);
    config.find("model")->find("init")->find("from")->text = folder_ / "roomy";
    config.find("data")->find("train")->text =
        folder_ / (objective == "type: sft" ? "answers.jsonl" : "pairs.jsonl");
    apply_overrides(config,
                    Overrides{"data.packing=false", "data.seq_length=127", "batch.global=16",
                              "eval.interval=4", "checkpoint.interval=2"});
    apply_overrides(config, changes);
    return config;
  }
  std::string planned(const YamlNode& config) {
    std::FILE* const out = std::tmpfile();
    dry_run({real_files(), config, stop_, out}, {});
    std::rewind(out);
    std::string text(1 << 16, ' ');
    text.resize(std::fread(text.data(), 1, text.size(), out));
    std::fclose(out);
    return text;
  }
};

TEST_F(UnlikeLengths, AStepOfPartsIsThatOfWholeRows) {
  int number = 0;
  for (const std::string objective : {"type: sft", "type: dpo", "type: reward"}) {
    const auto next_name = [&] { return std::to_string(number++); };
    const YamlNode whole = config_of(next_name(), objective, {"batch.micro=16"});
    EXPECT_THAT(planned(whole), testing::Not(testing::HasSubstr("rows ")));
    const std::vector<Json> expected = train(whole);
    for (const Overrides& changes :
         {Overrides{}, Overrides{"batch.micro=1"}, Overrides{"batch.micro=4"},
          Overrides{"batch.micro=2", "run.execution=eager"}}) {
      const YamlNode config = config_of(next_name(), objective, changes);
      EXPECT_THAT(planned(config),
                  testing::ContainsRegex("rows +[0-9]+ of [0-9]+, .*112|rows .*127"));
      const std::vector<Json> rows = train(config);
      for (const char* key : {"loss", "grad_norm", "eval_loss"}) {
        const std::vector<double> found = of(rows, key);
        const std::vector<double> other = of(expected, key);
        ASSERT_EQ(found.size(), other.size());
        for (size_t i = 0; i < found.size(); ++i) {
          EXPECT_NEAR(found[i], other[i], 1e-5 * std::abs(other[i]) + 1e-6)
              << objective << " " << key << " " << i << " "
              << fmt::format("{}", fmt::join(changes, " "));
        }
      }
    }
  }
}

TEST_F(UnlikeLengths, AdaptersLearnTheSame) {
  const Overrides lora{"model.lora.rank=2", "model.lora.dropout=0"};
  Overrides whole = lora;
  whole.emplace_back("batch.micro=16");
  const std::vector<double> expected = of(train(config_of("whole", "type: dpo", whole)), "loss");
  const std::vector<double> found = of(train(config_of("parts", "type: dpo", lora)), "loss");
  ASSERT_EQ(found.size(), 4U);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-5);
  }
}

TEST_F(UnlikeLengths, RanksHaveTheBitsOfOne) {
  const std::vector<double> alone =
      of(train(config_of("alone", "type: dpo", {"batch.micro=1"})), "grad_norm");
  run_ranks({{{std::string(kDataAxis), 2}}}, [&](std::shared_ptr<Ranks> ranks) {
    std::FILE* const out = std::tmpfile();
    const YamlNode config = config_of(
        "shared", "type: dpo",
        {"batch.micro=1", "parallel.data=2", "parallel.zero.stage=3", "parallel.zero.min_numel=1"});
    RunRequest request{real_files(), config, stop_, out, {}};
    request.start.ranks = std::move(ranks);
    EXPECT_EQ(run(request), Outcome::kFinished);
    std::fclose(out);
  });
  EXPECT_EQ(of(read_metrics(real_files(), folder_ / "shared" + "/metrics.jsonl"), "grad_norm"),
            alone);
}

// Killed behind a checkpoint; and with other batches from there on, which begin elsewhere in a pass.
TEST_F(UnlikeLengths, GoOn) {
  const std::vector<double> straight = of(train(config_of("straight", "type: dpo")), "loss");
  const YamlNode config = config_of("killed", "type: dpo");
  train(config);
  real_files().remove_all(folder_ / "killed" + "/checkpoints/step-00000004");
  EXPECT_EQ(of(train(config), "loss"), straight);

  real_files().remove_all(folder_ / "killed" + "/checkpoints/step-00000004");
  std::FILE* const out = std::tmpfile();
  const YamlNode other = config_of("killed", "type: dpo", {"batch.global=24"});
  RunRequest request{real_files(), other, stop_, out, {}};
  request.start.changes = {"batch.global"};
  EXPECT_EQ(run(request), Outcome::kFinished);

  // Other data begin with their first sample.
  real_files().remove_all(folder_ / "killed" + "/checkpoints/step-00000004");
  write_file_atomic(real_files(), folder_ / "others.jsonl",
                    real_files().read(folder_ / "pairs.jsonl") + "\n");
  request.tree = config_of("killed", "type: dpo",
                           {"batch.global=24", "data.train=" + folder_ / "others.jsonl"});
  request.start.changes = {"batch.global", "data.train"};
  EXPECT_EQ(run(request), Outcome::kFinished);
  std::fclose(out);
}

// Draws go by the place in a row.
TEST_F(UnlikeLengths, DropoutKeepsRowsWhole) {
  EXPECT_THAT(
      planned(config_of("drops", "type: dpo", {"model.lora.rank=2", "model.lora.dropout=0.1"})),
      testing::Not(testing::HasSubstr("rows ")));
}

}  // namespace
}  // namespace mstrain
