// Training that begins with a Hugging Face directory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/log.h"
#include "core/data/simple_tokenizers.h"
#include "core/train/metrics_file.h"
#include "suites/run/run.h"
#include "suites/run/stored_model.h"
#include "tests/core/base/message_of.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/suites/transformer/hf_directory.h"

namespace mstrain::gpt {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string run_text(const std::string& folder, const std::string& model) {
  return "run: {output_dir: " + folder + "/run, threads: 1}\nmodel: " + model +
         "\ndata: {train: " + folder +
         "/text.txt, split: 1.0, tokenizer: {type: byte}, seq_length: 8, shuffle: false}\n"
         "batch: {global: 4}\n"
         "optimizer: {type: adamw, lr: 3.0e-3, betas: [0.9, 0.95], weight_decay: 0.1}\n"
         "schedule: {type: constant, total_steps: 5}\n"
         "log: {interval: 1}\n";
}

class FineTuningTest : public testing::Test {
 protected:
  FineTuningTest() {
    write_model(folder_.path(), tiny_config({{"vocab_size", 257}}));
    write_file_atomic(real_files(), folder_ / "text.txt",
                      golden::read_file("gpt_hf").rest.at("text").get<std::string>());
  }
  YamlNode tree(const std::string& model) {
    return parse_yaml(run_text(folder_.path(), model), "run.yaml");
  }
  TemporaryFolder folder_;
  std::atomic<bool> stop_ = false;
};

TEST_F(FineTuningTest, FiveStepsTrackPyTorch) {
  const YamlNode config = tree("{init: {from: " + folder_.path() + "}}");
  std::FILE* const out = std::tmpfile();
  EXPECT_EQ(run({real_files(), config, stop_, out}), Outcome::kFinished);
  std::fclose(out);
  const std::vector<Json> rows = read_metrics(real_files(), folder_ / "run/metrics.jsonl");
  const std::vector<double> expected = golden::read_file("gpt_hf").rest.at("step_losses");
  ASSERT_EQ(rows.size(), expected.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_NEAR(rows[i]["loss"].get<double>(), expected[i], 1e-4) << i;
  }
  const StoredModel saved = open_model(real_files(), folder_ / "run");
  EXPECT_THAT(saved.folder, HasSubstr("step-00000005"));
  EXPECT_EQ(saved.description["eos_token_id"], 5);
  EXPECT_EQ(saved.network->section().find("hidden_size")->text, "12");
}

TEST_F(FineTuningTest, AnotherTokenizerThanThatOfTheWeightsIsAWarning) {
  const auto warnings_of = [&](const std::string& folder) {
    std::string said;
    const LogSink before =
        set_log_sink([&](LogLevel, std::string_view text) { said += std::string(text) + "\n"; });
    std::FILE* const out = std::tmpfile();
    run({real_files(), tree("{init: {from: " + folder + "}}"), stop_, out});
    std::fclose(out);
    set_log_sink(before);
    return said;
  };
  const auto warns = HasSubstr("run.yaml:3: data.tokenizer: is not the tokenizer of ");
  stop_ = true;
  write_file_atomic(real_files(), folder_ / kTokenizerFile, CharTokenizer::of_text("ab").to_json());
  EXPECT_THAT(warnings_of(folder_.path()), warns);
  write_file_atomic(real_files(), folder_ / kTokenizerFile, ByteTokenizer().to_json());
  EXPECT_THAT(warnings_of(folder_.path()), testing::Not(warns));
}

TEST_F(FineTuningTest, InterruptedBeforeItsFirstStepPromisesNoCheckpoint) {
  stop_ = true;
  std::FILE* const out = std::tmpfile();
  EXPECT_EQ(run({real_files(), tree("{init: {from: " + folder_.path() + "}}"), stop_, out}),
            Outcome::kInterrupted);
  std::rewind(out);
  char line[512] = "";
  EXPECT_NE(std::fgets(line, sizeof line, out), nullptr);
  std::fclose(out);
  EXPECT_THAT(line, HasSubstr("interrupted before its first step, with nothing to save"));
  EXPECT_TRUE(real_files().list(folder_ / "run/checkpoints").empty());
}

TEST_F(FineTuningTest, TheNetworkIsTakenFromTheDirectory) {
  const YamlNode config = resolved_config(
      real_files(), tree("{dropout: {hidden: 0.3}, num_layers: 2, vocab_size: auto, "
                         "ffn_hidden_size: 48, init: {from: " +
                         folder_.path() + "}}"));
  EXPECT_EQ(find_config(config, "model.hidden_size")->text, "12");
  EXPECT_EQ(find_config(config, "model.vocab_size")->text, "257");
  EXPECT_EQ(find_config(config, "model.dropout.hidden")->text, "0.3");
  EXPECT_EQ(find_config(config, "model.init.from")->text, folder_.path());
  EXPECT_TRUE(resolved_config(real_files(), config).same_value(config));
}

TEST_F(FineTuningTest, ADirectoryIsNamedInSections) {
  const YamlNode all = tree("{init: {from: " + folder_.path() + "}}");
  YamlNode in_one_key = YamlNode::map();
  in_one_key.file = all.file;
  in_one_key.add("model.init.from", *find_config(all, "model.init.from"));
  for (const YamlNode& node : {in_one_key, tree("{init.from: " + folder_.path() + "}")}) {
    EXPECT_EQ(begins_with(node), std::nullopt);
    EXPECT_THAT(message_of<ConfigError>([&] { resolved_config(real_files(), node); }),
                HasSubstr("run.yaml:2: model.init.from: unknown key; in a file that is"));
  }
}

TEST_F(FineTuningTest, AnotherNetworkIsAnErrorOfTheConfiguration) {
  const auto error = [&](const std::string& keys) {
    return message_of<Error>([&] {
      resolved_config(real_files(), tree("{" + keys + ", init: {from: " + folder_.path() + "}}"));
    });
  };
  EXPECT_EQ(error("hidden_size: 24"), "run.yaml:2: model.hidden_size: 24 differs from 12 in " +
                                          folder_.path() +
                                          "/config.json; leave it out to take that");
  EXPECT_THAT(error("ffn_hidden_size: 40"), HasSubstr("model.ffn_hidden_size: 40 differs from 48"));
  EXPECT_THAT(error("norm: {eps: 0.1}"), HasSubstr("model.norm.eps: 0.1 differs from"));
  EXPECT_THAT(error("hiden_size: 12"), HasSubstr("did you mean model.hidden_size?"));
  EXPECT_THAT(
      message_of<Error>([&] { resolved_config(real_files(), tree("{init: {from: /nowhere}}")); }),
      StartsWith("run.yaml:2: model.init.from: /nowhere: no such file"));
}

}  // namespace
}  // namespace mstrain::gpt
