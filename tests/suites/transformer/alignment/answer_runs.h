// Whole runs of a tiny GPT that learns of answers.
#pragma once

#include <gtest/gtest.h>

#include "core/train/metrics_file.h"
#include "suites/run/run.h"
#include "suites/transformer/gpt/gpt_run.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/suites/transformer/hf_directory.h"

namespace mstrain {

class AnswerRuns : public testing::Test {
 protected:
  AnswerRuns() {
    gpt::write_model(folder_.path(), gpt::tiny_config({{"vocab_size", 257}, {"n_positions", 16}}));
    std::string pairs;
    std::string answers;
    for (int i = 0; i < 24; ++i) {
      const std::string prompt(1, static_cast<char>('a' + i));
      const std::string good = std::string(1 + static_cast<size_t>(i % 3), 'x');
      pairs += R"({"prompt": ")" + prompt + R"(", "chosen": ")" + good +
               R"(", "rejected": "y"})"
               "\n";
      answers += R"({"prompt": ")" + prompt + R"(", "response": ")" + good + "\"}\n";
    }
    write_file_atomic(real_files(), folder_ / "pairs.jsonl", pairs);
    write_file_atomic(real_files(), folder_ / "answers.jsonl", answers);
  }

  YamlNode tree(const std::string& name, const std::string& objective, const std::string& more,
                int64_t steps = 12) {
    const bool is_sft =
        objective.find("po") == std::string::npos || objective.find("grpo") != std::string::npos;
    return parse_yaml(
        "run: {output_dir: " + folder_ / name + ", threads: 1}\n" +
            "model: {init: {from: " + folder_.path() + "}" + more +
            "}\ndata: {train: " + folder_ / (is_sft ? "answers" : "pairs") +
            ".jsonl, split: 0.75, tokenizer: {type: byte}, seq_length: 8}\nobjective: {" +
            objective +
            "}\nbatch: {global: 6}\n"
            "optimizer: {type: adamw, lr: 3.0e-3, weight_decay: 0.0}\n"
            "schedule: {type: constant, total_steps: " +
            std::to_string(steps) +
            "}\nlog: {interval: 1}\neval: {interval: 6}\ncheckpoint: {interval: 6}\n",
        "run.yaml");
  }
  // For texts of up to 128 tokens, in the folder "roomy".
  void write_roomy_model() {
    real_files().create_directories(folder_ / "roomy");
    gpt::write_model(folder_ / "roomy",
                     gpt::tiny_config({{"vocab_size", 257}, {"n_positions", 128}}));
  }
  std::vector<Json> train(const YamlNode& config) {
    std::FILE* const out = std::tmpfile();
    EXPECT_EQ(run({real_files(), config, stop_, out}), Outcome::kFinished);
    std::fclose(out);
    return read_metrics(real_files(),
                        find_config(config, "run.output_dir")->text + "/metrics.jsonl");
  }
  static std::vector<double> of(const std::vector<Json>& rows, const char* key) {
    std::vector<double> out;
    for (const Json& row : rows) {
      if (row.contains(key)) {
        out.push_back(row[key].get<double>());
      }
    }
    return out;
  }

  TemporaryFolder folder_;
  std::atomic<bool> stop_ = false;
};

}  // namespace mstrain
