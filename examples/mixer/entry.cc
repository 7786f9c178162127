#include "entry.h"

#include "core/mstrain.h"
#include "model.h"
#include "suites/transformer/text/next_token.h"
#include "suites/transformer/text/text_run.h"

namespace mstrain::mixer {
namespace {

class MixerNetwork final : public Network {
 public:
  explicit MixerNetwork(const MixerConfig& config) : config_(config) {}

  const MixerConfig& config() const { return config_; }

  std::vector<ParamSpec> specs() const override {
    return declare_params([&](const Params& p) {
      Mixer(config_).logits(p, zeros({Dtype::kI32, {1, 1}}));
    });
  }
  int64_t num_layers() const override { return config_.num_layers; }
  std::optional<int64_t> ids() const override { return config_.vocab_size.value; }
  StoredMeaning meaning(const std::string& stored) const override {
    return {StoredMeaning::Kind::kParameter, stored};
  }
  OrderedJson description(const Json&) const override {
    OrderedJson json;
    json["model_type"] = "mixer";
    json["vocab_size"] = *config_.vocab_size.value;
    json["hidden_size"] = config_.hidden_size;
    json["num_layers"] = config_.num_layers;
    json["max_position_embeddings"] = config_.max_position_embeddings;
    return json;
  }
  YamlNode section() const override { return write_config(config_); }
  std::vector<std::pair<std::string, std::string>> identity() const override {
    return weight_keys(section());
  }
  std::vector<InputSpec> inputs() const override {
    const std::vector<InputSpec::Dim> dims{{"batch"}, {"time", config_.max_position_embeddings}};
    const int64_t vocab = *config_.vocab_size.value;
    return {{"input_ids", dims, {{0, vocab}}, true}, {"labels", dims, {{0, vocab, -100}}}};
  }
  // The labels are those of the positions themselves.
  Computed compute(const Params& params, const NamedTensors& inputs) const override {
    const Mixer mixer(config_);
    Computed out{mixer.logits(params, inputs.at("input_ids")), Tensor()};
    if (const Tensor labels_bt = given(inputs, "labels"); labels_bt.defined()) {
      out.loss = cross_entropy(out.logits, labels_bt);
    }
    return out;
  }

 private:
  MixerConfig config_;
};

class MixerRun final : public TextRun {
 public:
  std::shared_ptr<const Network> network() const override {
    return std::make_shared<MixerNetwork>(model_);
  }
  void take_network(const Network& network) override {
    model_ = dynamic_cast<const MixerNetwork&>(network).config();
  }
  TrainTask task() const override {
    return next_token_task(*network(), data.seq_length,
                           [mixer = Mixer(model_)](const Params& params, const Tensor& tokens_bt,
                                                   const Tensor& targets_bt) {
                             return mixer.losses(params, tokens_bt, targets_bt);
                           });
  }
  TrainData samples(const Json& source) const override {
    TrainData out = text_data(source);
    add_windows(corpus(), data, out);
    return out;
  }
  LeastSize least_size() const override {
    const auto hidden = static_cast<double>(model_.hidden_size);
    const auto positions = static_cast<double>(model_.max_position_embeddings);
    const auto layers = static_cast<double>(model_.num_layers);
    return least_size_with(layers * (8 * hidden * hidden + positions * positions), 2);
  }

 private:
  AutoOr<int64_t>& vocab_size() override { return model_.vocab_size; }
  void declare_model(ConfigFields& keys) override { model_.fields(keys); }
  void check(const YamlNode& tree) const override {
    TextRun::check(tree);
    if (data.seq_length > model_.max_position_embeddings) {
      config_fail(tree, "data.seq_length", "is more than model.max_position_embeddings");
    }
  }

  MixerConfig model_;
};

std::shared_ptr<const Network> describe(const Json& json, const std::string& source, const Holds&) {
  const auto count = [&](const char* key) {
    const auto found = json.find(key);
    check(found != json.end() && found->is_number_integer() && *found > 0 && *found < (1 << 28),
          "{}: {}: expected a positive number", source, key);
    return found->get<int64_t>();
  };
  MixerConfig config;
  config.vocab_size = count("vocab_size");
  config.hidden_size = count("hidden_size");
  config.num_layers = count("num_layers");
  config.max_position_embeddings = count("max_position_embeddings");
  return std::make_shared<MixerNetwork>(config);
}

}  // namespace

ModelEntry entry() {
  return {"mixer", {"mixer"}, [] { return std::unique_ptr<ModelRun>(new MixerRun); }, describe};
}

}  // namespace mstrain::mixer
