#include "core/nn/random_scope.h"
#include "core/ops/random.h"
#include "core/optim/optimizer.h"
#include "core/runtime/context.h"
#include "core/transform/clip.h"
#include "suites/transformer/vit/hf_names.h"
#include "suites/transformer/vit/model.h"
#include "tests/core/transform/support.h"
#include "tests/suites/transformer/golden_model.h"

namespace mstrain::vit {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t kBatch = 3;

// That of tests/golden/vit_hf.py.
VitConfig tiny_vit(const Json& options = Json::object()) {
  Json json = Json::parse(R"({"model_type": "vit", "image_size": 8, "patch_size": 2,
    "num_channels": 3, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3,
    "intermediate_size": 20, "num_labels": 5})");
  json.update(options);
  return config_from_hf(json, "config.json");
}

const golden::File& golden_file() {
  static const golden::File kFile = golden::read_file("vit_hf");
  return kFile;
}
const golden::Case& plain() { return golden_file().cases.front(); }

// For a model with the parameters of the first case.
Params golden_params(const Vit& model, Dtype dtype) {
  return golden::params(model.specs(), plain(), dtype);
}

Tensor golden_pixels(int64_t channels, int64_t height, int64_t width, Dtype dtype) {
  std::vector<double> values;
  for (int64_t i = 0; i < kBatch * channels * height * width; ++i) {
    values.push_back(static_cast<double>(i * 37 % 101) / 50 - 1);
  }
  return cast(tensor<double>(values, {kBatch, channels, height, width}), dtype);
}

Tensor golden_labels() { return tensor<int32_t>(std::vector<int32_t>{3, 0, 4}, {kBatch}); }

Tensor mean_loss(const CrossEntropySums& sums) {
  return sums.loss / cast(sums.count, sums.loss.dtype());
}

Tensor loss_of(const Vit& model, const Params& p, const Tensor& pixels, const Tensor& labels) {
  return mean_loss(model.losses(p, pixels, {labels}));
}

void expect_golden(const golden::Case& expected, Recompute recompute, Dtype dtype,
                   double tolerance) {
  SCOPED_TRACE(expected.name);
  const Vit model(tiny_vit(expected.config), recompute);
  const Params p = golden::params(model.specs(), expected, dtype);
  const Tensor pixels = golden_pixels(model.config().num_channels, expected.rest.at("height"),
                                      expected.rest.at("width"), dtype);
  const std::vector<double> logits = to_doubles(model(p, pixels));
  for (size_t i = 0; i < expected.logits.size(); ++i) {
    EXPECT_NEAR(logits[expected.logits.size() + i], expected.logits[i], tolerance);
  }
  const auto loss = [&](const Params& p, const Tensor& x, const Tensor& y) {
    return loss_of(model, p, x, y);
  };
  const auto eager = value_and_grad(loss)(p, pixels, golden_labels());
  const auto compiled = jit(value_and_grad(loss))(p, pixels, golden_labels());
  for (const auto& [value, grads] : {eager, compiled}) {
    EXPECT_NEAR(item(value), expected.loss, tolerance);
    golden::expect_gradients(grads, expected, {.absolute = tolerance});
  }
}

TEST(Vit, EqualsHuggingFacesImplementation) {
  for (const golden::Case& expected : golden_file().cases) {
    expect_golden(expected, Recompute::kNone, Dtype::kF64, 1e-11);
    expect_golden(expected, Recompute::kNone, Dtype::kF32, 1e-5);
  }
}

TEST(Vit, RecomputedEqualsHuggingFacesImplementation) {
  const golden::Case& expected = plain();
  expect_golden(expected, Recompute::kFull, Dtype::kF64, 1e-11);
  expect_golden(expected, Recompute::kSelective, Dtype::kF64, 1e-11);
}

TEST(Vit, FiveStepsOfAdamWEqualHuggingFaces) {
  const Vit model(tiny_vit());
  Params params = golden_params(model, Dtype::kF32);
  const Optimizer optimizer({.type = OptimizerType::kAdamW,
                             .lr = 3e-3,
                             .betas = {0.9, 0.95},
                             .eps = 1e-8,
                             .weight_decay = 0.1},
                            model.specs());
  OptimizerState state = optimizer.init(params);
  const Tensor pixels = golden_pixels(3, 8, 8, Dtype::kF32);
  for (const double expected : golden_file().rest.at("step_losses")) {
    const auto [value, grads] = value_and_grad(
        [&](const Params& p) { return loss_of(model, p, pixels, golden_labels()); })(params);
    EXPECT_NEAR(item(value), expected, 2e-5);
    const Tensor factor = cast(clip_factor(global_norm(grads), 1.0), Dtype::kF32);
    std::tie(params, state) =
        optimizer.update(std::move(params), grads, std::move(state), scalar(3e-3), factor);
  }
}

int64_t parameter_count(int64_t width, int64_t layers, int64_t heads, int64_t patch) {
  VitConfig config;
  config.num_classes = 1000;
  config.hidden_size = width;
  config.num_layers = layers;
  config.num_attention_heads = heads;
  config.patch_size = patch;
  int64_t count = 0;
  for (const ParamSpec& spec : Vit(config).specs()) {
    count += spec.type.elements();
  }
  return count;
}

TEST(Vit, HasTheKnownNumbersOfParameters) {
  EXPECT_EQ(parameter_count(768, 12, 12, 16), 86567656);
  EXPECT_EQ(parameter_count(768, 12, 12, 32), 88224232);
  EXPECT_EQ(parameter_count(1024, 24, 16, 16), 304326632);
  EXPECT_EQ(parameter_count(1280, 32, 16, 14), 632045800);
}

TEST(Vit, DecaysMatricesOnly) {
  for (const ParamSpec& spec : Vit(tiny_vit()).specs()) {
    const bool matrix =
        spec.name.ends_with("weight") && spec.name.find("layernorm") == std::string::npos;
    EXPECT_EQ(spec.decay, matrix) << spec.name;
  }
}

TEST(Vit, AMixtureOfTwoLabelsCostsItsSharesOfBoth) {
  const Vit model(tiny_vit());
  const Params p = golden_params(model, Dtype::kF64);
  const Tensor pixels = golden_pixels(3, 8, 8, Dtype::kF64);
  const Tensor others = tensor<int32_t>(std::vector<int32_t>{1, 2, 4}, {kBatch});
  const Tensor labels = tensor<int32_t>(std::vector<int32_t>{3, -100, 4}, {kBatch});
  const Tensor first = tensor<int32_t>(std::vector<int32_t>{3, -100, -100}, {kBatch});
  const Tensor other = tensor<int32_t>(std::vector<int32_t>{1, -100, -100}, {kBatch});
  const Tensor last = tensor<int32_t>(std::vector<int32_t>{-100, -100, 4}, {kBatch});
  const Tensor shares = tensor<float>(std::vector<float>{0.75F, 0.5F, 0.25F}, {kBatch});
  const auto sum_of = [&](const Tensor& y) { return item(model.losses(p, pixels, {y}).loss); };
  const auto check_sums = [&] {
    const CrossEntropySums mixed = model.losses(p, pixels, {labels, others, shares});
    EXPECT_NEAR(item(mixed.loss), 0.75 * sum_of(first) + 0.25 * sum_of(other) + sum_of(last),
                1e-12);
    EXPECT_EQ(item(mixed.count), 2);
    EXPECT_EQ(item(mixed.correct), item(model.losses(p, pixels, {labels}).correct));
  };
  check_sums();
  VitConfig smoothing = model.config();
  smoothing.label_smoothing = 0.1;
  const Vit smooth(smoothing);
  Context context = current_context();
  context.training = true;
  const ContextScope scope(context);
  const Tensor ones = full({kBatch}, 1);
  EXPECT_NEAR(item(smooth.losses(p, pixels, {labels, others, ones}).loss),
              item(smooth.losses(p, pixels, {labels}).loss), 1e-12);
  EXPECT_GT(std::abs(item(smooth.losses(p, pixels, {labels}).loss) - sum_of(labels)), 1e-3);
}

TEST(Vit, DropoutActsAtEachOfItsSites) {
  Context context = current_context();
  context.training = true;
  const ContextScope scope(context);
  const RandomScope random(rng_key(1));
  const auto logits = [](const DropoutConfig& dropout) {
    VitConfig config = tiny_vit();
    config.dropout = dropout;
    const Vit model(config);
    return to_doubles(
        model(golden_params(model, Dtype::kF64), golden_pixels(3, 8, 8, Dtype::kF64)));
  };
  const std::vector<double> without = logits({});
  EXPECT_NE(logits({0.5, 0}), without);
  EXPECT_NE(logits({0, 0.5}), without);
  EXPECT_EQ(logits({0.5, 0.5}), logits({0.5, 0.5}));
}

TEST(Vit, RefusesWhatCannotBe) {
  VitConfig config = tiny_vit();
  config.num_attention_heads = 5;
  EXPECT_THAT([&] { Vit{config}; },
              ThrowsMessage<ConfigError>(HasSubstr("model.num_attention_heads: 5 heads do not")));
  config = tiny_vit();
  config.patch_size = 3;
  EXPECT_THAT([&] { Vit{config}; },
              ThrowsMessage<ConfigError>(HasSubstr("model.image_size: 8 is no multiple")));
  config = tiny_vit();
  config.num_classes = {};
  EXPECT_THAT([&] { Vit{config}; }, ThrowsMessage<ConfigError>(HasSubstr("model.num_classes")));
  const Vit model(tiny_vit());
  const Params p = golden_params(model, Dtype::kF32);
  EXPECT_THAT([&] { model(p, golden_pixels(3, 8, 7, Dtype::kF32)); },
              ThrowsMessage<Error>(HasSubstr("images are [3, 3, 8, 7]; expected [batch, 3,")));
  EXPECT_THAT([&] { model(p, golden_pixels(1, 8, 8, Dtype::kF32)); },
              ThrowsMessage<Error>(HasSubstr("expected [batch, 3, height, width]")));
}

TEST(VitNames, BothFormsOfFilesMeanTheSameParameters) {
  using Kind = StoredMeaning::Kind;
  const auto name_of = [](const char* stored) {
    const StoredMeaning is = hf_meaning(VitConfig(), stored);
    EXPECT_EQ(is.kind, Kind::kParameter) << stored;
    return is.name;
  };
  const std::string query = "vit.encoder.layer.11.attention.attention.query.weight";
  EXPECT_EQ(name_of(query.c_str()), query);
  EXPECT_EQ(name_of("encoder.layer.11.attention.attention.query.weight"), query);
  EXPECT_EQ(name_of("vit.layers.11.attention.q_proj.weight"), query);
  EXPECT_EQ(name_of("vit.layers.0.attention.o_proj.bias"),
            "vit.encoder.layer.0.attention.output.dense.bias");
  EXPECT_EQ(name_of("layers.3.mlp.fc2.bias"), "vit.encoder.layer.3.output.dense.bias");
  EXPECT_EQ(name_of("vit.layers.3.layernorm_after.bias"),
            "vit.encoder.layer.3.layernorm_after.bias");
  EXPECT_EQ(name_of("embeddings.cls_token"), "vit.embeddings.cls_token");
  EXPECT_EQ(name_of("classifier.weight"), "classifier.weight");
  for (const char* unused : {"vit.pooler.dense.weight", "pooler.dense.bias",
                             "vit.embeddings.mask_token", "decoder.0.weight"}) {
    EXPECT_EQ(hf_meaning(VitConfig(), unused).kind, Kind::kBuffer) << unused;
  }
}

TEST(VitNames, DescriptionsReadBackAsTheSameModel) {
  VitConfig config = tiny_vit();
  config.dropout = {0.1, 0.2};
  config.qkv_bias = false;
  const Json source{{"encoder_stride", 8}, {"pooler_act", "tanh"}, {"image_size", 99}};
  const OrderedJson json = hf_config(config, source, {"cat", "dog", "eel", "fox", "gnu"});
  EXPECT_EQ(json["encoder_stride"], 8);
  EXPECT_EQ(json["id2label"]["3"], "fox");
  EXPECT_EQ(json["label2id"]["gnu"], 4);
  const Json plain = Json::parse(json.dump());
  const VitConfig again = config_from_hf(plain, "config.json");
  EXPECT_EQ(to_yaml(write_config(again)), to_yaml(write_config(config)));
  EXPECT_EQ(hf_config(again, plain)["id2label"]["0"], "cat");
  config.num_classes = 3;
  EXPECT_EQ(hf_config(config, plain)["id2label"]["0"], "LABEL_0");
}

TEST(VitNames, WhatAsksForAnotherModelIsRefusedByName) {
  const auto message = [](const char* options) { return [=] { tiny_vit(Json::parse(options)); }; };
  for (const auto& [options, expected] : std::vector<std::pair<const char*, const char*>>{
           {R"({"model_type": "bert"})", "model_type is \"bert\", not vit"},
           {R"({"problem_type": "regression"})", "problem_type is \"regression\""},
           {R"({"num_labels": 1})", "there is 1 label"},
           {R"({"id2label": []})", "id2label is []"},
           {R"({"image_size": [8, 6]})", "image_size is [8,6]; images and patches must be square"},
           {R"({"patch_size": 3})", "patch_size 3 does not divide image_size 8"},
           {R"({"num_attention_heads": 5})", "num_attention_heads 5 does not divide"},
           {R"({"hidden_act": "gulu"})", "hidden_act gulu is unknown; did you mean gelu"},
           {R"({"layer_scale": 1})", "layer_scale is unknown and might change"}}) {
    EXPECT_THAT(message(options), ThrowsMessage<Error>(HasSubstr(expected))) << options;
  }
  EXPECT_EQ(tiny_vit(Json::parse(R"({"image_size": [16, 16], "problem_type": null})")).image_size,
            16);
  EXPECT_EQ(
      *tiny_vit(Json::parse(R"({"id2label": {"0": "a", "1": "b", "2": "c"}})")).num_classes.value,
      3);
}

}  // namespace
}  // namespace mstrain::vit
