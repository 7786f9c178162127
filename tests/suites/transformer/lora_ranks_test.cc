// Adapters that are trained on many ranks are those of one: bit for bit where ranks share samples, layers and memory, and but for the
// order of sums where they share weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/tensor/host.h"
#include "suites/run/adapter_files.h"
#include "suites/run/export.h"
#include "suites/run/stored_model.h"
#include "tests/core/base/message_of.h"
#include "tests/suites/transformer/shared_weights.h"

namespace mstrain {
namespace {

class LoraOnRanks : public SharedWeights {
 protected:
  static constexpr const char* kAdam = "adamw, lr: 1e-2, clip_grad: 0.1";
  static constexpr const char* kSgd = "sgd, lr: 0.02, clip_grad: 0.5";

  // Sections of a run that trains adapters on a model of these sections.
  std::string on_base(const std::string& name, const std::string& sections, const std::string& lora,
                      const std::string& optimizer = kSgd, const std::string& data = "") {
    train_on({}, name + "_base", sections, 2);
    return "model: {init: {from: " + folder_ / (name + "_base") +
           "}, lora: {rank: 4, dropout: 0.1" + lora + "}}\n" + text(data) +
           "checkpoint: {interval: 5}\noptimizer: {type: " + optimizer + "}\n";
  }
  std::string llama() {
    return "model: {type: llama, hidden_size: 32, num_layers: 4, num_attention_heads: 4, "
           "num_key_value_heads: 2, ffn_hidden_size: 64}\n" +
           text();
  }
  // What a run leaves.
  std::vector<std::string> files_of(const std::string& name) {
    const std::string folder = find_checkpoint(real_files(), folder_ / name);
    EXPECT_FALSE(real_files().exists(join_path(folder, kModelFile)));
    std::vector<std::string> out;
    for (const char* file : {kAdapterFile, kOptimizerFile}) {
      out.push_back(real_files().read(join_path(folder, file)));
    }
    return out;
  }
};

TEST_F(LoraOnRanks, HaveTheBitsOfOneRank) {
  for (const char* base : {"auto", "nf4"}) {
    const std::string sections =
        on_base(base, llama(), std::string(", modules_to_save: [norm], base: ") + base, kAdam);
    const std::string alone = std::string("alone_") + base;
    const std::vector<double> losses = train_on({}, alone, sections, kSteps);
    EXPECT_NE(losses.front(), losses[2]);
    const Division divisions[] = {
        {2, 1, ", zero: {stage: 0}"},
        {2, 1, ", zero: {stage: 1, min_numel: 0}"},
        {4, 1, ", zero: {stage: 2, min_numel: 0}"},
        {2, 1, ", zero: {stage: 3, min_numel: 0}"},
        {1, 1, "", "", 1, 2},
        {1, 1, ", schedule: zb_h1", "", 1, 4},
        {2, 1, ", schedule: zbv, zero: {stage: 3, min_numel: 0}", "", 1, 2}};
    int next = 0;
    for (const Division& division : divisions) {
      const std::string name = fmt::format("{}_{}", base, next++);
      SCOPED_TRACE(name + division.more);
      EXPECT_EQ(train_on(division, name, sections, kSteps), losses);
      EXPECT_EQ(files_of(name), files_of(alone));
    }
  }
}

TEST_F(LoraOnRanks, FollowTheWeightsThatRanksShare) {
  const std::vector<Division> divisions{{1, 2},
                                        {1, 4},
                                        {2, 2, ", zero: {stage: 3, min_numel: 0}"},
                                        {1, 2, "", "", 2},
                                        {1, 2, ", sequence_parallel: false", "", 1, 2}};
  expect_same("gpt", on_base("gpt", gpt(), ""), divisions);
  // Few steps: gradients of A begin as zeros, and Adam makes as much of their last bits as of any. In 30 steps one rank alone
  // comes to differ from itself by 1e-2, where it adds up in micro-batches of another size.
  expect_same("adam", on_base("adam", gpt(), "", kAdam), {{1, 2}}, 1e-5, 6);
  expect_same("llama", on_base("llama", llama(), ", modules_to_save: [lm_head]"),
              kSanitized ? std::vector{divisions.back()} : divisions);
  expect_same("nf4",
              on_base("nf4", llama(), ", targets: [q_proj, k_proj, o_proj, down_proj], base: nf4"),
              {{1, 2}, {2, 2, ", zero: {stage: 3, min_numel: 0}"}, {1, 4, "", "", 1, 2}});
  expect_same("t5",
              on_base("t5",
                      "model: {type: t5, hidden_size: 32, num_layers: 2, num_attention_heads: 4, "
                      "d_kv: 8, ffn_hidden_size: 64}\n" +
                          text(", packing: false"),
                      "", kSgd, ", packing: false"),
              {{1, 2}, {2, 2}, {1, 2, "", "", 1, 2}});
}

// The products with the weights that adapters leave as they are.
TEST_F(LoraOnRanks, MakeProductsOf8Bits) {
  const auto in_type = [](const std::string& sections, bool in_float8) {
    return sections + "precision: {params: bf16" +
           (in_float8 ? ", products: fp8, fp8_history: 4}\n" : "}\n");
  };
  const std::string llama_sections = on_base("llama", llama(), "");
  const std::string sections = in_type(llama_sections, true);
  const std::vector<double> losses = train_on({}, "alone", sections, kSteps);
  const std::vector<double> wide = train_on({}, "wide", in_type(llama_sections, false), kSteps);
  EXPECT_NE(losses, wide);
  expect_near(losses, wide, 0.1);
  int next = 0;
  for (const Division& division : {Division{2, 1, ", zero: {stage: 3, min_numel: 0}"},
                                   {1, 1, ", schedule: zb_h1", "", 1, 2}}) {
    const std::string name = fmt::format("shared_{}", next++);
    SCOPED_TRACE(name);
    EXPECT_EQ(train_on(division, name, sections, kSteps), losses);
    EXPECT_EQ(files_of(name), files_of("alone"));
  }
  expect_same("gpt", in_type(on_base("gpt", gpt(), ""), true), {{1, 2}, {1, 2, "", "", 2}}, 2e-2);
  EXPECT_THAT(error_of([&] {
                train_on({}, "nf4", in_type(on_base("nf4", gpt(), ", base: nf4"), true), 1);
              }),
              testing::HasSubstr("precision.products: the model has no layers whose weights"));
}

// Of what one rank keeps of each: A is shared where the weight's sums are, B where its results are.
TEST_F(LoraOnRanks, AreSharedAsTheirWeights) {
  LoraConfig lora;
  lora.rank = 4;
  train_on({}, "gpt", gpt(), 1);
  train_on({}, "llama", llama(), 1);
  const auto shared_dims = [&](const std::string& model, const std::string& layer) {
    const StoredModel stored = open_model(real_files(), folder_ / model);
    std::map<std::string, std::optional<int>> dims;
    for (const ParamSpec& spec : AdaptedNetwork(stored.network, lora).specs()) {
      dims.emplace(spec.name, spec.shared_dim);
    }
    return std::pair(dims.at(lora_a_name(layer)), dims.at(lora_b_name(layer)));
  };
  using Dims = std::pair<std::optional<int>, std::optional<int>>;
  EXPECT_EQ(shared_dims("gpt", "transformer.h.1.attn.c_attn"), Dims(std::nullopt, 1));
  EXPECT_EQ(shared_dims("gpt", "transformer.h.1.attn.c_proj"), Dims(1, std::nullopt));
  EXPECT_EQ(shared_dims("gpt", "transformer.h.1.mlp.c_fc"), Dims(std::nullopt, 0));
  EXPECT_EQ(shared_dims("llama", "model.layers.0.self_attn.o_proj"), Dims(1, std::nullopt));
  EXPECT_EQ(shared_dims("llama", "model.layers.0.mlp.down_proj"), Dims(1, std::nullopt));
}

TEST_F(LoraOnRanks, GoOnUnderAnyOtherLayoutAndAreExported) {
  const std::string sections = on_base("moves", gpt(), "");
  const std::vector<double> alone = train_on({}, "alone", sections, 20);
  train_on({2, 1, ", zero: {stage: 3, min_numel: 0}", "", 1, 2}, "moved", sections, 5);
  train_on({}, "moved", sections, 10);
  EXPECT_EQ(train_on({4, 1, ", zero: {stage: 1, min_numel: 0}"}, "moved", sections, 15),
            std::vector<double>(alone.begin(), alone.begin() + 33));
  expect_near(train_on({2, 2, ", zero: {stage: 3, min_numel: 0}"}, "moved", sections, 20), alone,
              1e-5);
  const NamedTensors inputs{
      {"input_ids", tensor<int32_t>(std::vector<int32_t>{1, 2, 3, 4, 5, 6}, {2, 3})}};
  std::vector<double> logits[2];
  for (const bool merges : {false, true}) {
    const std::string exported = folder_ / (merges ? "merged" : "adapter");
    export_model(real_files(), folder_ / "moved", exported, {.merges = merges});
    const StoredModel stored = open_model(real_files(), exported);
    EXPECT_EQ(stored.base == nullptr, merges);
    logits[merges ? 1 : 0] =
        to_doubles(stored.network->compute(load_params(real_files(), stored), inputs).logits);
  }
  ASSERT_EQ(logits[0].size(), logits[1].size());
  for (size_t i = 0; i < logits[0].size(); ++i) {
    EXPECT_NEAR(logits[0][i], logits[1][i], 1e-5);
  }
}

TEST_F(LoraOnRanks, ThatRanksDoNotDivideAreRefusedWithTheNearestChoices) {
  EXPECT_THAT(error_of([&] {
                train_on({1, 3}, "three", on_base("odd", gpt(), ""), 1);
              }),
              testing::HasSubstr("parallel.tensor: 3 ranks do not divide the "));
}

}  // namespace
}  // namespace mstrain
