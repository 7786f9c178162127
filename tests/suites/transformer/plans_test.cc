// What the plans of the shipped configurations amount to, compared with
// tests/golden/plans: a change of the compiler shows there what it did.
// MSTRAIN_UPDATE_GOLDEN=1 writes the files anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <sstream>

#include "core/data/simple_tokenizers.h"
#include "core/exec/execute.h"
#include "core/train/planned_run.h"
#include "core/train/session.h"
#include "suites/transformer/text/text_run.h"

namespace mstrain {
namespace {

constexpr int64_t kCharacters = 65;  // of tinyshakespeare

PlannedRun planned(const std::string& path) {
  // What the machine would decide otherwise.
  YamlNode tree =
      load_config(path, std::vector<std::string>{"run.threads=2", "memory.limit_gb=1e6"});
  const std::unique_ptr<ModelRun> run = read_run(tree);
  auto& config = dynamic_cast<TextRun&>(*run);
  if (config.train.batch.global > 64) {
    config.train.batch.micro = 4;
  }
  if (!config.network()->ids()) {
    const bool bytes = config.data.tokenizer.type == TokenizerType::kByte;
    config.settle(bytes ? ByteTokenizer().vocab_size() : kCharacters, tree);
  }
  const Context context = make_context(config.train);
  const ContextScope scope(context);
  PlannedRun plan =
      plan_run(config.task(), config.train, context, memory_limit(config.train.memory, context),
               config.data.valid.has_value() || config.data.split < 1);
  EXPECT_EQ(context.allocator->stats().peak_bytes, 0);
  return plan;
}

// Figures by section and name.
std::map<std::string, std::string> figures_of(const std::string& text) {
  std::map<std::string, std::string> out;
  std::string section;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t end = line.find_last_not_of(' ', line.rfind(' '));
    if (line.starts_with("== ")) {
      section = line.substr(3);
    } else if (end != std::string::npos) {
      out[section + ": " + line.substr(0, end + 1)] = line.substr(line.rfind(' ') + 1);
    }
  }
  return out;
}

// "step: step matmul: 195, was 99", a line each.
std::string differences(const std::string& before, const std::string& now) {
  auto old_figures = figures_of(before);
  auto new_figures = figures_of(now);
  std::string out;
  for (const auto& [name, value] : old_figures) {
    new_figures.try_emplace(name, "none");
  }
  for (const auto& [name, value] : new_figures) {
    const std::string& was = old_figures.try_emplace(name, "none").first->second;
    out += value == was ? "" : fmt::format("  {}: {}, was {}\n", name, value, was);
  }
  return out;
}

TEST(Plans, OfShippedConfigurationsAreTheGoldenOnes) {
  const std::string configs = std::string(MSTRAIN_SOURCE_DIR) + "/configs";
  const std::string golden = std::string(MSTRAIN_SOURCE_DIR) + "/tests/golden/plans";
  const bool update = std::getenv("MSTRAIN_UPDATE_GOLDEN") != nullptr;
  int compared = 0;
  for (const std::string& file : real_files().list(configs)) {
    if (!file.ends_with(".yaml") || !(file.starts_with("gpt_") || file.starts_with("llama_"))) {
      continue;
    }
    const PlannedRun run = planned(join_path(configs, file));
    std::string text = "== step\n" + summary(plan_of(*run.step->program()));
    if (run.loss != nullptr) {
      text += "\n== evaluation\n" +
              run.loss->text([](const Program& program) { return summary(plan_of(program)); });
    }
    const std::string path = join_path(golden, file.substr(0, file.rfind('.')) + ".txt");
    if (update) {
      real_files().create_directories(golden);
      write_file_atomic(real_files(), path, text);
    }
    ASSERT_TRUE(real_files().exists(path))
        << path << ": is missing; docs/plans.md says how to make it";
    const std::string before = real_files().read(path);
    EXPECT_TRUE(before == text) << file << ": its plan has changed; where that is meant, "
                                << "docs/plans.md says how to accept it\n"
                                << differences(before, text);
    ++compared;
  }
  EXPECT_GE(compared, 11);
}

TEST(Plans, AreTheSameTextEachTime) {
  const std::string path = std::string(MSTRAIN_SOURCE_DIR) + "/configs/gpt_quickstart.yaml";
  const std::string text = plan_text(planned(path));
  EXPECT_EQ(plan_text(planned(path)), text);
  EXPECT_NE(text.find("@transformer.h.3.mlp.c_fc"), std::string::npos);
}

}  // namespace
}  // namespace mstrain
