// Runs that train adapters on a Hugging Face directory, and what they leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "core/base/log.h"
#include "core/base/rng.h"
#include "core/runtime/context.h"
#include "core/tensor/host.h"
#include "core/train/checkpoint.h"
#include "core/train/metrics_file.h"
#include "suites/run/adapter_files.h"
#include "suites/run/export.h"
#include "suites/run/run.h"
#include "suites/run/stop_ids.h"
#include "suites/run/stored_model.h"
#include "tests/core/base/message_of.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/suites/transformer/hf_directory.h"

namespace mstrain::gpt {
namespace {

using testing::HasSubstr;
using testing::IsSupersetOf;

class LoraRun : public testing::Test {
 protected:
  LoraRun() {
    base_ = folder_ / "base";
    real_files().create_directories(base_);
    write_model(base_, tiny_config({{"vocab_size", 257}}));
    write_file_atomic(real_files(), folder_ / "text.txt",
                      "the cat sat on the mat, and so on, and so on, until it was late");
  }

  // `rest`: more of the section `model`, and of the file.
  std::string text(const std::string& run, const std::string& model, const std::string& rest = "") {
    return "run: {output_dir: " + folder_ / run + ", threads: 1}\nmodel: {" + model +
           "}\ndata: {train: " + folder_ / "text.txt" +
           ", split: 1.0, tokenizer: {type: byte}, seq_length: 8}\n"
           "batch: {global: 4}\noptimizer: {lr: 1.0e-2}\n"
           "schedule: {type: constant, total_steps: 6}\nlog: {interval: 1}\n"
           "checkpoint: {interval: 3, keep: 9}\n" +
           rest;
  }
  std::string from_base() const { return "init: {from: " + base_ + "}"; }

  Outcome train(const std::string& yaml, const std::atomic<bool>& stop = never()) {
    std::FILE* const out = std::tmpfile();
    const Outcome outcome = run({real_files(), parse_yaml(yaml, "run.yaml"), stop, out});
    std::fclose(out);
    return outcome;
  }
  std::vector<double> losses(const std::string& run) {
    std::vector<double> out;
    for (const Json& row : read_metrics(real_files(), folder_ / (run + "/metrics.jsonl"))) {
      out.push_back(row.at("loss"));
    }
    return out;
  }
  std::string checkpoint_file(const std::string& run, int step, const std::string& name) {
    return real_files().read(folder_ /
                             (run + "/checkpoints/" + checkpoint_name(step) + "/" + name));
  }
  static std::string warnings_of(const std::function<void()>& f) {
    std::string said;
    const LogSink before =
        set_log_sink([&](LogLevel, std::string_view text) { said += std::string(text) + "\n"; });
    f();
    set_log_sink(before);
    return said;
  }
  static const std::atomic<bool>& never() {
    static const std::atomic<bool> stop = false;
    return stop;
  }

  static const std::atomic<bool>& stopped() {
    static const std::atomic<bool> stop = true;
    return stop;
  }

  TemporaryFolder folder_;
  std::string base_;
};

// A weight goes into its codes as it is read: what is in memory is never more than the codes and what is read beside them.
TEST_F(LoraRun, ReadsTheBaseStraightIntoItsCodes) {
  const StoredModel stored = open_model(real_files(), base_);
  LoraConfig lora;
  for (const WeightCode code : kAllWeightCodes) {
    lora.base = code;
    const AdaptedNetwork network(stored.network, lora);
    const std::vector<ParamSpec> frozen = frozen_specs(network, Dtype::kBF16);
    const auto allocator = std::make_shared<Allocator>(0);
    Context context = current_context();
    context.allocator = allocator;
    const ContextScope scope(context);
    const Params read = initial_params(real_files(), stored, network, 1, frozen, code);
    int64_t kept = 0;
    int64_t coded = 0;
    for (size_t i = 0; i < read.size(); ++i) {
      kept += Allocator::rounded(read.tensor(i).type().bytes());
      coded += read.tensor(i).dtype() == Dtype::kU8 ? 1 : 0;
    }
    EXPECT_EQ(coded, 8);  // of two layers with four each
    EXPECT_LE(allocator->stats().peak_bytes, kept + 4096);
  }
}

TEST_F(LoraRun, LearnsAndLeavesTheAdapterAlone) {
  EXPECT_EQ(train(text("run", from_base() + ", lora: {rank: 3, dropout: 0.1}")),
            Outcome::kFinished);
  const std::vector<double> all = losses("run");
  EXPECT_LT(all.back(), all.front());
  const std::string folder = find_checkpoint(real_files(), folder_ / "run");
  EXPECT_FALSE(real_files().exists(join_path(folder, kModelFile)));
  const SafetensorsFile weights(real_files(), join_path(folder, kAdapterFile));
  EXPECT_EQ(weights.entries().size(), 2 * 2 * 4);
  const TensorEntry& b = weights.at("base_model.model.transformer.h.1.attn.c_attn.lora_B.weight");
  EXPECT_EQ(b.shape, (std::vector<int64_t>{36, 3}));
  EXPECT_EQ(weights.at("base_model.model.transformer.h.0.attn.c_proj.lora_A.weight").shape,
            (std::vector<int64_t>{3, 12}));
  const Json config = Json::parse(checkpoint_file("run", 6, kAdapterConfigFile));
  EXPECT_EQ(config["base_model_name_or_path"], base_);
  EXPECT_EQ(config["target_modules"], Json({"c_attn", "c_fc", "c_proj"}));
  EXPECT_EQ(config["fan_in_fan_out"], true);
  EXPECT_EQ(config["task_type"], "CAUSAL_LM");
}

TEST_F(LoraRun, GoesOnInTheSameBits) {
  for (const std::string base : {"auto", "bf16", "int8", "nf4"}) {
    const std::string model =
        from_base() +
        ", lora: {rank: 3, dropout: 0.2, targets: [c_attn, mlp.c_proj], base: " + base + "}";
    EXPECT_EQ(train(text("straight_" + base, model)), Outcome::kFinished);
    std::string shorter = text("stopped_" + base, model);
    shorter.replace(shorter.find("total_steps: 6"), 14, "total_steps: 3");
    EXPECT_EQ(train(shorter), Outcome::kFinished);
    EXPECT_EQ(train(text("stopped_" + base, model)), Outcome::kFinished);
    for (const char* file : {kAdapterFile, kOptimizerFile}) {
      EXPECT_EQ(checkpoint_file("straight_" + base, 6, file),
                checkpoint_file("stopped_" + base, 6, file))
          << base << ' ' << file;
    }
  }
  // Fewer bits are another model, if only a little.
  EXPECT_NE(losses("straight_auto"), losses("straight_nf4"));
  for (const char* base : {"bf16", "int8", "nf4"}) {
    EXPECT_NEAR(losses("straight_auto").front(), losses(std::string("straight_") + base).front(),
                0.5)
        << base;
  }
}

TEST_F(LoraRun, AnAdapterIsAModelForEveryCommand) {
  train(text("run", from_base() + ", lora: {rank: 2, targets: [c_fc]}"));
  const std::string adapter = folder_ / "adapter";
  export_model(real_files(), folder_ / "run", adapter);
  EXPECT_TRUE(real_files().exists(join_path(adapter, kAdapterFile)));
  const std::string merged = folder_ / "merged";
  export_model(real_files(), adapter, merged, {.merges = true});
  const StoredModel one = open_model(real_files(), adapter);
  const StoredModel other = open_model(real_files(), merged);
  EXPECT_NE(one.base, nullptr);
  EXPECT_EQ(other.base, nullptr);
  const std::vector<int32_t> ids{1, 2, 3, 4, 5, 6};
  const NamedTensors inputs{{"input_ids", tensor<int32_t>(ids, {2, 3})}};
  const std::vector<double> expected =
      to_doubles(one.network->compute(load_params(real_files(), one), inputs).logits);
  const std::vector<double> found =
      to_doubles(other.network->compute(load_params(real_files(), other), inputs).logits);
  const StoredModel plain = open_model(real_files(), base_);
  const std::vector<double> before =
      to_doubles(plain.network->compute(load_params(real_files(), plain), inputs).logits);
  double change = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-5);
    change = std::max(change, std::abs(before[i] - expected[i]));
  }
  EXPECT_GT(change, 1e-3);
  EXPECT_THAT(message_of<Error>([&] {
                export_model(real_files(), base_, folder_ / "nothing", {.merges = true});
              }),
              HasSubstr("is no adapter"));
  // Training goes on with it, on other data or at another rate.
  EXPECT_EQ(train(text("more", "init: {from: " + adapter + "}")), Outcome::kFinished);
  EXPECT_EQ(Json::parse(checkpoint_file("more", 6, kAdapterConfigFile))["base_model_name_or_path"],
            base_);
  EXPECT_EQ(Json::parse(checkpoint_file("more", 6, kAdapterConfigFile))["r"], 2);
}

TEST_F(LoraRun, MistakesAreNamed) {
  const auto error = [&](const std::string& model) {
    return message_of<Error>([&] { train(text("bad", model)); });
  };
  EXPECT_THAT(
      error(from_base() + ", lora: {targets: [c_atn]}"),
      testing::AllOf(HasSubstr("run.yaml:2: model.lora"), HasSubstr("c_atn"), HasSubstr("c_attn")));
  EXPECT_THAT(error(from_base() + ", lora: {targets: [lm_head]}"),
              testing::AllOf(HasSubstr("lm_head gets no adapter"),
                             HasSubstr("modules_to_save: [wte] trains")));
  EXPECT_THAT(error(from_base() + ", lora: {targets: [ln_f]}"),
              HasSubstr("modules_to_save: [ln_f] trains"));
  EXPECT_THAT(error(from_base() + ", lora: {targets: c_fc}"), HasSubstr("did you mean [c_fc]?"));
  EXPECT_THAT(error(from_base() + ", lora: {targets: [c_fc], modules_to_save: [c_fc]}"),
              HasSubstr("model.lora.targets names no layer but of modules_to_save"));
  EXPECT_THAT(error(from_base() + ", lora: {modules_to_save: [wt]}"), HasSubstr("wt"));
  EXPECT_THAT(error(from_base() + ", lora: {rank: 0}"), HasSubstr("model.lora.rank"));
  EXPECT_THAT(error("lora: {}"), HasSubstr("give model.init.from"));
  train(text("run", from_base() + ", lora: {rank: 2}"));
  const std::string from_run = "init: {from: " + folder_ / "run" + "}";
  EXPECT_THAT(error(from_run + ", lora: null"), HasSubstr("is an adapter"));
  EXPECT_THAT(error(from_run + ", lora: {rank: 4}"),
              HasSubstr("model.lora.rank: 4 differs from 2 in " +
                        join_path(find_checkpoint(real_files(), folder_ / "run"),
                                  "adapter_config.json (r)")));
  real_files().rename(base_, folder_ / "elsewhere");
  EXPECT_THAT(message_of<Error>([&] { open_model(real_files(), folder_ / "run"); }),
              testing::AllOf(HasSubstr("base_model_name_or_path"), HasSubstr(base_)));
}

TEST_F(LoraRun, ARankThatIsWiderThanALayerIsAWarning) {
  const auto said = [&](int rank) {
    return warnings_of([&] {
      train(text("rank", from_base() + fmt::format(", lora: {{rank: {}}}", rank)), stopped());
    });
  };
  EXPECT_THAT(said(13),
              HasSubstr("run.yaml:2: model.lora.rank: 13 is more than the smaller side of "
                        "transformer.h.0.attn.c_attn, 12"));
  EXPECT_THAT(said(12), testing::Not(HasSubstr("model.lora.rank")));
}

// As its own last evaluation said.
TEST_F(LoraRun, IsEvaluatedOnTheBaseAsItKeepsIt) {
  std::vector<std::string> all;
  for (const std::string base : {"auto", "int8", "nf4"}) {
    std::string yaml = text("run_" + base, from_base() + ", lora: {rank: 2, base: " + base + "}",
                            "eval: {interval: 6}\n");
    yaml.replace(yaml.find("split: 1.0"), 10, "split: 0.5");
    train(yaml);
    double expected = 0;
    for (const Json& row :
         read_metrics(real_files(), folder_ / ("run_" + base + "/metrics.jsonl"))) {
      expected = row.value("eval_loss", expected);
    }
    std::FILE* const out = std::tmpfile();
    evaluate_checkpoint({real_files(), parse_yaml(yaml, "run.yaml"), never(), out},
                        folder_ / ("run_" + base));
    std::rewind(out);
    std::string said(4096, '\0');
    said.resize(std::fread(said.data(), 1, said.size(), out));
    std::fclose(out);
    EXPECT_THAT(said, HasSubstr(fmt::format("eval_loss {:.6f} ", expected))) << base;
    all.push_back(said.substr(0, said.find("  (")));
  }
  EXPECT_NE(all[0], all[2]);
}

// A relative path is of where the run was called from, which is a folder above the adapter's.
TEST_F(LoraRun, TheAdaptedModelIsLookedForAboveTheAdapter) {
  train(text("run", from_base() + ", lora: {rank: 2}"));
  const std::string folder = find_checkpoint(real_files(), folder_ / "run");
  const auto name_base = [&](const std::string& base) {
    const std::string path = join_path(folder, kAdapterConfigFile);
    Json config = Json::parse(real_files().read(path));
    config["base_model_name_or_path"] = base;
    write_file_atomic(real_files(), path, config.dump());
  };
  name_base("base");
  EXPECT_EQ(std::filesystem::weakly_canonical(open_model(real_files(), folder).base->folder),
            std::filesystem::weakly_canonical(base_));
  name_base("elsewhere/base");
  EXPECT_THAT(message_of<Error>([&] { open_model(real_files(), folder); }),
              testing::AllOf(HasSubstr("elsewhere/base, which is no folder here"),
                             HasSubstr(std::filesystem::current_path().string()),
                             HasSubstr(folder + " or in any folder above it")));
}

// Modules that are trained whole stand in the adapter's file under their own names.
TEST_F(LoraRun, TrainsModulesWhole) {
  train(text("run", from_base() + ", lora: {rank: 2, targets: [c_fc], modules_to_save: [ln_f]}"));
  const SafetensorsFile weights(
      real_files(), join_path(find_checkpoint(real_files(), folder_ / "run"), kAdapterFile));
  EXPECT_TRUE(weights.contains("base_model.model.transformer.ln_f.weight"));
  const StoredModel stored = open_model(real_files(), folder_ / "run");
  const StoredModel plain = open_model(real_files(), base_);
  const auto norm = [&](const StoredModel& model) {
    return to_doubles(*load_params(real_files(), model).find("transformer.ln_f.weight"));
  };
  EXPECT_NE(norm(stored), norm(plain));
  export_model(real_files(), folder_ / "run", folder_ / "merged", {.merges = true});
  EXPECT_EQ(norm(open_model(real_files(), folder_ / "merged")), norm(stored));
}

// What PEFT needs to train the same: the copy of a weight that the model uses twice, and ends of names that mean nothing else.
TEST_F(LoraRun, TrainsATiedWeightWholeUnderBothNames) {
  train(text("run", from_base() + ", lora: {rank: 2, targets: [c_fc], modules_to_save: [wte]}"));
  const std::string folder = find_checkpoint(real_files(), folder_ / "run");
  const SafetensorsFile weights(real_files(), join_path(folder, kAdapterFile));
  const auto bytes = [&](const char* name) {
    const auto data = weights.data(weights.at(name));
    return std::vector<std::byte>(data.begin(), data.end());
  };
  EXPECT_EQ(bytes("base_model.model.transformer.wte.weight"),
            bytes("base_model.model.lm_head.weight"));
  EXPECT_EQ(Json::parse(checkpoint_file("run", 6, kAdapterConfigFile))["modules_to_save"],
            Json({"lm_head", "wte"}));
  EXPECT_EQ(open_model(real_files(), folder).network->specs().size(),
            open_model(real_files(), folder_ / "run").network->specs().size());
}

// How a model ends its texts stays with it.
TEST_F(LoraRun, KeepsHowTheModelWrites) {
  write_file_atomic(real_files(), join_path(base_, "generation_config.json"),
                    R"({"eos_token_id": [3, 5], "temperature": 0.5})");
  for (const char* more : {"", ", lora: {rank: 2}"}) {
    real_files().remove_all(folder_ / "run");
    train(text("run", from_base() + more));
    EXPECT_EQ(Json::parse(checkpoint_file("run", 6, "generation_config.json")),
              Json({{"eos_token_id", {3, 5}}, {"temperature", 0.5}}));
  }
  // An adapter that stops elsewhere too.
  const std::string adapter = folder_ / "adapter";
  export_model(real_files(), folder_ / "run", adapter);
  write_file_atomic(real_files(), join_path(adapter, kGenerationConfigFile),
                    R"({"eos_token_id": 7})");
  EXPECT_THAT(stop_ids(real_files(), open_model(real_files(), adapter)), IsSupersetOf({7, 3, 5}));
  const auto stops = [&](const std::string& json) {
    write_file_atomic(real_files(), join_path(adapter, kGenerationConfigFile), json);
    return stop_ids(real_files(), open_model(real_files(), adapter));
  };
  EXPECT_THAT(
      message_of<IoError>([&] { stops(R"({"eos_token_id": [7, "x"]})"); }),
      HasSubstr("generation_config.json: eos_token_id is \"x\", not the id of a token, 0 to 256"));
  EXPECT_THAT(
      warnings_of([&] { stops(R"({"eos_token_id": 257})"); }),
      HasSubstr(
          "generation_config.json: eos_token_id is 257, and the model has ids from 0 to 256"));
  EXPECT_EQ(warnings_of([&] { stops(R"({"eos_token_id": null})"); }), "");
}

// Whatever stands in the files of an adapter is read, or refused with an error that names them.
TEST_F(LoraRun, DamagedFilesAreErrors) {
  train(text("run", from_base() + ", lora: {rank: 2, targets: [c_fc]}"));
  const std::string adapter = folder_ / "adapter";
  export_model(real_files(), folder_ / "run", adapter);
  Rng rng(17, 1);
  int refused = 0;
  for (const std::string name : {kAdapterConfigFile, kAdapterFile}) {
    const std::string path = join_path(adapter, name);
    const std::string good = real_files().read(path);
    for (int i = 0; i < 150; ++i) {
      std::string bad = good;
      const size_t within = std::min<size_t>(bad.size(), 700);  // headers
      for (uint64_t changes = 1 + rng.below(3); changes > 0; --changes) {
        bad[rng.below(within)] = static_cast<char>(rng.below(256));
      }
      if (rng.below(4) == 0) {
        bad.resize(rng.below(bad.size()));
      }
      write_file_atomic(real_files(), path, bad);
      try {
        load_params(real_files(), open_model(real_files(), adapter));
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("adapter"));
        ++refused;
      }
    }
    write_file_atomic(real_files(), path, good);
  }
  EXPECT_GT(refused, 100);
  load_params(real_files(), open_model(real_files(), adapter));
}

}  // namespace
}  // namespace mstrain::gpt
