// A model of one's own that has no layers by name, through the door that all models share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/mstrain.h"
#include "suites/run/init_from.h"
#include "suites/run/model_run.h"
#include "suites/run/plan.h"
#include "suites/run/stored_model.h"
#include "suites/transformer/text/next_token.h"
#include "suites/transformer/text/text_run.h"
#include "tests/core/base/message_of.h"
#include "tests/suites/transformer/runs_on_ranks.h"

namespace mstrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

enum class BigramType { kBigram };

struct BigramConfig {
  BigramType type = BigramType::kBigram;
  AutoOr<int64_t> vocab_size;
  int64_t width = 8;
  std::string described_as = "bigram";
  InitFrom init;

  template <class V>
  void fields(V& v) {
    v("type", type, "model family", rule::one_of({"bigram"}));
    v("vocab_size", vocab_size, "tokens", rule::at_least(1));
    v("width", width, "width of the states", rule::at_least(1));
    v("described_as", described_as, "model_type of config.json");
    v("init", init, "initial weights");
  }
};

class BigramNetwork final : public Network {
 public:
  explicit BigramNetwork(const BigramConfig& config) : config_(config) {}

  const BigramConfig& config() const { return config_; }
  Tensor states(const Params& p, const Tensor& tokens_bt) const {
    return embedding(p / "embedding", tokens_bt, *config_.vocab_size.value, config_.width);
  }
  Tensor head(const Params& p) const {
    return (p / "head").get("weight", {*config_.vocab_size.value, config_.width}, normal_init(0.1));
  }

  std::vector<ParamSpec> specs() const override {
    return declare_params([&](const Params& p) {
      states(p, zeros({Dtype::kI32, {1, 1}}));
      head(p);
    });
  }
  int64_t num_layers() const override { return 20; }  // which no key tells
  std::optional<int64_t> ids() const override { return config_.vocab_size.value; }
  StoredMeaning meaning(const std::string& stored) const override {
    return {StoredMeaning::Kind::kParameter, stored};
  }
  OrderedJson description(const Json&) const override {
    return {{"model_type", config_.described_as}, {"width", config_.width}};
  }
  YamlNode section() const override { return write_config(config_); }
  std::vector<std::pair<std::string, std::string>> identity() const override {
    return weight_keys(section());
  }
  std::vector<InputSpec> inputs() const override { return {}; }
  Computed compute(const Params&, const NamedTensors&) const override { return {}; }

 private:
  BigramConfig config_;
};

class BigramRun final : public TextRun {
 public:
  std::shared_ptr<const Network> network() const override {
    return std::make_shared<BigramNetwork>(model_);
  }
  void take_network(const Network& network) override {
    model_ = dynamic_cast<const BigramNetwork&>(network).config();
  }
  TrainTask task() const override {
    return next_token_task(*network(), data.seq_length,
                           [of = BigramNetwork(model_)](const Params& p, const Tensor& tokens_bt,
                                                        const Tensor& targets_bt) {
                             return linear_cross_entropy(of.states(p, tokens_bt),
                                                         transpose(of.head(p)), targets_bt);
                           });
  }
  TrainData samples(const Json& source) const override {
    TrainData out = text_data(source);
    add_windows(corpus(), data, out);
    return out;
  }
  LeastSize least_size() const override { return least_size_with(0, 2); }

 private:
  AutoOr<int64_t>& vocab_size() override { return model_.vocab_size; }
  void declare_model(ConfigFields& keys) override { model_.fields(keys); }

  BigramConfig model_;
};

std::shared_ptr<const Network> describe(const Json& json, const std::string&, const Holds&) {
  BigramConfig config;
  config.width = json.at("width").get<int64_t>();  // throws what nlohmann throws
  return std::make_shared<BigramNetwork>(config);
}

class OwnModel : public RunsOnRanks {
 protected:
  OwnModel() : RunsOnRanks(2000) {
    // Behind the models of the house, the first of which is the one that a configuration means by none.
    static const bool is_known =
        (add_model({"bigram",
                    {"bigram"},
                    [] { return std::unique_ptr<ModelRun>(new BigramRun); },
                    describe}),
         true);
    EXPECT_TRUE(is_known);
  }

  YamlNode tree(const std::string& more = "", const std::string& model = "") {
    return parse_yaml("run: {output_dir: " + folder_ / "out" +
                          ", threads: 1}\nmodel: {type: bigram" + model +
                          "}\ndata: " + data_of_text() +
                          "\nbatch: {global: 8, micro: 4}\nschedule: {total_steps: 2}\n" + more,
                      "run.yaml");
  }
  template <class Action>
  std::string printed(const Action& action) {
    std::FILE* const out = std::tmpfile();
    action(out);
    std::rewind(out);
    std::string text(1 << 14, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), out));
    std::fclose(out);
    return text;
  }
};

TEST_F(OwnModel, WithoutLayersByNameIsPlannedAsItIs) {
  EXPECT_THAT(printed([&](std::FILE* out) {
                dry_run({real_files(), tree(), stop_, out, {}}, {});
              }),
              HasSubstr("fits"));
  const auto refused = [&] {
    printed([&](std::FILE* out) {
      dry_run({real_files(), tree("memory: {limit_gb: 0.00001}\n"), stop_, out, {}}, {});
    });
  };
  EXPECT_THAT(message_of<PlanError>(refused), HasSubstr("limit"));
  const Cluster cluster =
      read_cluster(real_files(), MSTRAIN_SOURCE_DIR "/configs/clusters/a100_80gb_x8.yaml",
                   {"cluster.gpus_per_node=2"});
  const std::string text = printed([&](std::FILE* out) {
    plan({.files = real_files(),
          .tree = tree("parallel: {data: 2}\n"),
          .cluster = cluster,
          .json = true,
          .out = out});
  });
  const Json json = parse_json(text, "plan");
  EXPECT_TRUE(json["fits"]);
  EXPECT_EQ(json["memory"]["parameters"], 2 * 256 * 8 * 4) << text;
}

TEST_F(OwnModel, MustDescribeItselfAsItsEntryReadsIt) {
  EXPECT_EQ(run_on({}, tree()), Outcome::kFinished);
  YamlNode other = tree("", ", described_as: bigrams");
  apply_overrides(other, Overrides{"run.output_dir=" + folder_ / "other"});
  EXPECT_THAT(message_of<Error>([&] { run_on({}, other); }),
              AllOf(HasSubstr("model.type bigram"), HasSubstr("model_type \"bigrams\""),
                    HasSubstr("hf_types): bigram")));
}

TEST_F(OwnModel, FailuresOfItsCodeNameTheFileThatItRead) {
  write_file_atomic(real_files(), folder_ / "config.json", "{\"model_type\": \"bigram\"}");
  save_params(real_files(), folder_ / "model.safetensors", Params());
  EXPECT_THAT(message_of<IoError>([&] { open_model(real_files(), folder_.path()); }),
              AllOf(HasSubstr(folder_ / "config.json: "), HasSubstr("width")));
}

}  // namespace
}  // namespace mstrain
