// Models whose weights ranks share along `tensor`: their losses are those of one rank, and so are the files of their checkpoints,
// but for the order of sums.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/io/safetensors.h"
#include "suites/run/stored_model.h"
#include "tests/core/base/message_of.h"
#include "tests/suites/transformer/pictures.h"
#include "tests/suites/transformer/shared_weights.h"

namespace mstrain {
namespace {

TEST_F(SharedWeights, OfAGptWithDropoutAndClippingGiveTheLossesOfOneRank) {
  expect_same("gpt",
              gpt(", dropout: {hidden: 0.1, attention: 0.1, embedding: 0.1}") +
                  "optimizer: {lr: 1e-3, clip_grad: 0.5, weight_decay: 0.1}",
              {{1, 2},
               {1, 4},
               {1, 2, ", sequence_parallel: false"},
               {2, 2, ", zero: {stage: 1, min_numel: 0}"},
               {2, 2, ", zero: {stage: 2, min_numel: 0}, reduction: fast"},
               {2, 2, ", zero: {stage: 3, min_numel: 0}"},
               {4, 2, ", zero: {stage: 3, min_numel: 0, group: 2}"}});
}

TEST_F(SharedWeights, OfAGptWithAHeadOfItsOwnInBf16GiveTheLossesOfOneRank) {
  expect_same("bf16", gpt(", tie_embeddings: false") + "precision: {params: bf16}",
              {{1, 2}, {2, 2}}, 2e-2);
}

TEST_F(SharedWeights, OfALlamaGiveTheLossesOfOneRank) {
  expect_same("llama",
              "model: {type: llama, hidden_size: 32, num_layers: 2, num_attention_heads: 4, "
              "num_key_value_heads: 2, ffn_hidden_size: 64}\n" +
                  text(),
              {{1, 2}, {1, 4}, {2, 2}});
  expect_same("norms",
              "model: {type: llama, hidden_size: 32, num_layers: 2, num_attention_heads: 4, "
              "num_key_value_heads: 2, ffn_hidden_size: 64, qk_norm: true}\n" +
                  text(),
              {{1, 2}, {1, 4}, {1, 2, "", "", 2, 2}});
}

TEST_F(SharedWeights, AndPositionsAlongContextGiveTheLossesOfOneRank) {
  expect_same("gpt", gpt(", dropout: {hidden: 0.1, attention: 0.1, embedding: 0.1}"),
              {{1, 1, "", "", 2}, {2, 1, ", zero: {stage: 3, min_numel: 0}", "", 2}});
  expect_same("llama",
              "model: {type: llama, hidden_size: 32, num_layers: 2, num_attention_heads: 4, "
              "num_key_value_heads: 2, ffn_hidden_size: 64}\n" +
                  text(),
              {{1, 1, "", "", 4}, {2, 2, ", zero: {stage: 1, min_numel: 0}", "", 2}});
  EXPECT_THAT(error_of([&] {
                train_on({1, 1, "", "", 17}, "many", gpt());
              }),
              testing::HasSubstr("parallel.context: 17 ranks cannot share 16 positions; say 16 at "
                                 "most"));
}

// Of 16 positions three ranks have six each, the last of them two that are filled up.
TEST_F(SharedWeights, AndUnevenPartsOfPositionsAlongContextGiveTheLossesOfOneRank) {
  const std::string with_dropout = gpt(", dropout: {hidden: 0.1, attention: 0.1, embedding: 0.1}");
  expect_same("gpt", with_dropout,
              {{1, 1, "", "", 3},
               {1, 1, ", context_way: ring", "", 3},
               {1, 2, ", context_way: gather, zero: {stage: 3, min_numel: 0}", "", 3}});
  expect_same("mistral",
              "model: {type: llama, hidden_size: 32, num_layers: 2, num_attention_heads: 4, "
              "num_key_value_heads: 2, ffn_hidden_size: 64, sliding_window: 6}\n" +
                  text(", packing: false"),
              {{1, 1, ", context_way: ring", "", 3}, {1, 1, ", context_way: gather", "", 3, 2}});
}

TEST_F(SharedWeights, AndAttentionAlongContextByAnyWayGiveTheLossesOfOneRank) {
  const std::string with_dropout = gpt(", dropout: {hidden: 0.1, attention: 0.1, embedding: 0.1}");
  expect_same("gpt", with_dropout,
              {{1, 1, ", context_way: gather", "", 2},
               {1, 1, ", context_way: all_to_all", "", 4},
               {1, 1, ", context_way: ring", "", 4},
               {1, 2, ", context_way: ring, zero: {stage: 3, min_numel: 0}", "", 2}});
  expect_same("mistral",
              "model: {type: llama, hidden_size: 32, num_layers: 2, num_attention_heads: 4, "
              "num_key_value_heads: 2, ffn_hidden_size: 64, sliding_window: 6}\n" +
                  text(", packing: false"),
              {{1, 1, ", context_way: ring", "", 4},
               {1, 1, ", context_way: all_to_all", "", 2},
               {1, 2, ", context_way: ring", "", 2},
               {1, 1, ", context_way: ring", "", 2, 2}});
  expect_same("bf16", gpt() + "precision: {params: bf16}", {{1, 1, ", context_way: ring", "", 2}},
              2e-2);
  EXPECT_THAT(error_of([&] {
                train_on({1, 1, ", context_way: all_to_all", "", 8}, "eight", gpt());
              }),
              testing::HasSubstr("parallel.context_way: 8 ranks cannot share this attention by "
                                 "all_to_all; say gather or ring"));
}

// Copies of two samples of a micro-batch of four are micro-batches of two.
TEST_F(SharedWeights, AndCopiesGiveTheBitsOfMicroBatchesOfTheirSize) {
  const std::string model = gpt(", dropout: {hidden: 0.1, attention: 0.1, embedding: 0.1}");
  const std::string wide = "optimizer: {clip_grad: 0.5}";
  const auto with_micro = [&](const std::string& micro) {
    std::string text = model + wide;
    return text.replace(text.find("micro: 2"), 8, "micro: " + micro);
  };
  const Division tensor{1, 2};
  const std::vector<double> expected = train_on(tensor, "plain", with_micro("2"), 6);
  EXPECT_EQ(train_on({1, 2, ", copies: 2"}, "copies", with_micro("4"), 6), expected);
  EXPECT_EQ(train_on({1, 2, ", copies: 4"}, "four", with_micro("8"), 6), expected);
  EXPECT_EQ(
      train_on({2, 2, ", copies: 2, zero: {stage: 3, min_numel: 0}"}, "parts", with_micro("4"), 6),
      expected);
  EXPECT_EQ(train_on({1, 2, ", copies: 2"}, "auto", with_micro("auto"), 6).size(), expected.size());
  EXPECT_EQ(train_on({1, 2, ", copies: 2", "", 1, 2}, "stages", with_micro("4"), 6), expected);
  EXPECT_EQ(train_on({1, 2, ", copies: 2, schedule: zb_h1", "", 1, 2}, "split", with_micro("4"), 6),
            expected);
  EXPECT_EQ(train_on({2, 2, ", copies: 2, zero: {stage: 3, min_numel: 0}", "", 1, 2}, "eight",
                     with_micro("2"), 6),
            train_on(tensor, "small", with_micro("1"), 6));
  EXPECT_THAT(error_of([&] {
                train_on({1, 2, ", copies: 2"}, "odd", with_micro("1"), 6);
              }),
              testing::HasSubstr("parallel.copies: 2 does not divide the 1 samples of a "
                                 "micro-batch (batch.micro); possible: 1"));
}

TEST_F(SharedWeights, AndProductsInPiecesGiveTheLossesOfOneRank) {
  const std::string pieces = ", overlap: {tensor: true}";
  expect_same("gpt", gpt(", dropout: {hidden: 0.1, attention: 0.1, embedding: 0.1}"),
              {{1, 2, pieces},
               {1, 2, pieces + ", sequence_parallel: false"},
               {2, 2, pieces + ", zero: {stage: 3, min_numel: 0}"},
               {1, 2, pieces, "", 1, 2}});
  expect_same("llama",
              "model: {type: llama, hidden_size: 32, num_layers: 2, num_attention_heads: 4, "
              "num_key_value_heads: 2, ffn_hidden_size: 64}\n" +
                  text(),
              {{1, 2, pieces}, {1, 4, pieces + ", copies: 2"}});
}

TEST_F(SharedWeights, InPipelinesGiveTheLossesOfOneRank) {
  expect_same("gpt",
              gpt(", dropout: {hidden: 0.1, attention: 0.1, embedding: 0.1}") +
                  "optimizer: {lr: 1e-3, clip_grad: 0.5, weight_decay: 0.1}",
              {{1, 2, "", "", 1, 2},
               {1, 2, ", sequence_parallel: false, schedule: zb_h1", "", 1, 2},
               {2, 2, ", schedule: gpipe, zero: {stage: 3, min_numel: 0}", "", 1, 2},
               {1, 2, ", zero: {stage: 1, min_numel: 0}", "", 2, 2}});
  expect_same("llama",
              "model: {type: llama, hidden_size: 32, num_layers: 4, num_attention_heads: 4, "
              "num_key_value_heads: 2, ffn_hidden_size: 64}\n" +
                  text(),
              {{1, 2, ", schedule: interleaved, virtual_pipeline: 2", "", 1, 2},
               {1, 1, ", schedule: zbv", "", 2, 2}},
              1e-5);
}

TEST_F(SharedWeights, OfAT5GiveTheLossesOfOneRank) {
  expect_same("t5",
              "model: {type: t5, hidden_size: 32, num_layers: 2, num_attention_heads: 4, d_kv: 8, "
              "ffn_hidden_size: 64}\n" +
                  text(", packing: false"),
              {{1, 2},
               {2, 2},
               {1, 2, "", "", 1, 2},
               {1, 1, "", "", 2},
               {2, 1, ", zero: {stage: 3, min_numel: 0}", "", 2},
               {1, 2, ", context_way: ring", "", 2},
               {1, 1, ", context_way: gather", "", 2, 2},
               {1, 1, ", context_way: all_to_all", "", 4}});
}

TEST_F(SharedWeights, OfAT5WithDropoutAlongContextGiveTheLossesOfOneRank) {
  expect_same("t5",
              "model: {type: t5, hidden_size: 32, num_layers: 2, num_attention_heads: 4, d_kv: 8, "
              "ffn_hidden_size: 64, dropout: 0.1}\n" +
                  text(", packing: false"),
              {{1, 1, "", "", 2}, {1, 1, ", context_way: ring", "", 4}});
}

class SharedVit : public SharedWeights {
 protected:
  // Of `side` pixels: patches of 4 and the class token.
  std::string vit(int64_t side, const std::string& more = "") {
    write_pictures(folder_ / "pictures", {"green", "red"}, 9, Image(8, 8, 3), rng_);
    return fmt::format(
        "model: {{type: vit, image_size: {}, patch_size: 4, hidden_size: 16, num_layers: 2, "
        "num_attention_heads: 4{}}}\ndata: {{train: {}, "
        "augment: {{crop: resized, flip: 0.5}}}}\nbatch: {{global: 8, micro: 2}}\n",
        side, more, folder_ / "pictures");
  }
};

TEST_F(SharedVit, OfAVitGiveTheLossesOfOneRank) {
  expect_same("vit", vit(8), {{1, 2}, {1, 4}, {2, 2}, {1, 2, "", "", 1, 2}});
}

// 5 and 17 positions, of which two, three and four ranks have uneven parts.
TEST_F(SharedVit, AndItsPositionsAlongContextGiveTheLossesOfOneRank) {
  const std::string dropout = ", dropout: {hidden: 0.1, attention: 0.1}";
  expect_same("small", vit(8, dropout), {{1, 1, "", "", 2}, {1, 1, "", "", 4}});
  expect_same("vit", vit(16, dropout) + "optimizer: {clip_grad: 0.5}",
              {{1, 1, "", "", 2},
               {1, 1, "", "", 3},
               {1, 1, ", context_way: ring", "", 4},
               {1, 1, ", context_way: gather", "", 2},
               {1, 1, ", context_way: all_to_all", "", 4},
               {1, 2, ", context_way: ring", "", 2},
               {2, 1, ", zero: {stage: 3, min_numel: 0}", "", 2},
               {1, 2, ", copies: 2", "", 2, 1},
               {1, 1, "", "", 2, 2}});
  EXPECT_THAT(
      error_of([&] {
        train_on({1, 1, "", "", 6}, "six", vit(8));
      }),
      testing::HasSubstr("parallel.context: 6 ranks cannot share 5 positions; say 5 at most"));
}

constexpr const char* kFloat8 = "precision: {params: bf16, products: fp8, fp8_history: 4}\n";

TEST_F(SharedWeights, WithProductsOf8BitsGiveTheLossesOfOneRank) {
  expect_same("gpt", gpt() + kFloat8,
              {{1, 2},
               {1, 2, ", sequence_parallel: false"},
               {2, 2, ", zero: {stage: 3, min_numel: 0}"},
               {1, 2, ", schedule: zb_h1", "", 1, 2},
               {1, 1, "", "", 2},
               {1, 1, ", context_way: ring", "", 3},
               {1, 2, "", "", 2, 2}},
              2e-2);
  expect_same("llama",
              "model: {type: llama, hidden_size: 32, num_layers: 2, num_attention_heads: 4, "
              "num_key_value_heads: 2, ffn_hidden_size: 64}\n" +
                  text() + kFloat8,
              {{1, 2}, {1, 1, "", "", 2}}, 2e-2);
}

// Magnitudes of the first step: of weights, and of what the first product reads, all bits; of all else but for the order of sums.
TEST_F(SharedWeights, HaveTheMagnitudesOfOneRank) {
  const auto magnitudes = [&](const Division& division, const std::string& name) {
    train_on(division, name, gpt() + kFloat8, 1);
    const std::string folder = find_checkpoint(real_files(), folder_ / name);
    const SafetensorsFile file(real_files(), join_path(folder, kOptimizerFile));
    const auto bytes = file.data(file.at("fp8_magnitudes"));
    std::vector<float> out(bytes.size() / sizeof(float));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    out.resize(out.size() / 4);  // the other steps have none yet
    return out;
  };
  const std::vector<float> alone = magnitudes({}, "alone");
  ASSERT_EQ(alone.size(), 2U * 4 * 3);
  int next = 0;
  for (const Division& division :
       {Division{1, 2}, {1, 4}, {1, 1, "", "", 2}, {1, 1, "", "", 3}, {1, 2, "", "", 2, 2}}) {
    const std::vector<float> found = magnitudes(division, fmt::format("shared_{}", next++));
    SCOPED_TRACE(next);
    ASSERT_EQ(found.size(), alone.size());
    EXPECT_EQ(found[0], alone[0]);
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_GT(alone[i], 0) << i;
      // Of what goes in, of a weight, of a gradient, whose codes have two bits behind the first.
      const double apart[] = {5e-2, 0, 0.125};
      EXPECT_NEAR(found[i], alone[i], apart[i % 3] * alone[i]) << i;
    }
  }
}

TEST_F(SharedWeights, WithProductsOf8BitsGoOnUnderAnyLayout) {
  const std::string sections = gpt() + kFloat8 + "checkpoint: {interval: 5}";
  const std::vector<double> alone = train_on({}, "alone", sections, 15);
  train_on({1, 2, ", zero: {stage: 3, min_numel: 0}", "", 1, 2}, "moves", sections, 5);
  train_on({}, "moves", sections, 10);
  expect_near(train_on({1, 1, "", "", 2, 2}, "moves", sections, 15), alone, 2e-2);
}

// Rows of the last ranks that are none of the vocabulary take no part, and are in no file.
TEST_F(SharedWeights, OfVocabulariesThatRanksDoNotDivideGiveTheLossesOfOneRank) {
  const std::string dropout = ", dropout: {hidden: 0.1, attention: 0.1, embedding: 0.1}";
  const std::string clipped = "optimizer: {lr: 1e-3, clip_grad: 0.5, weight_decay: 0.1}";
  expect_same("tied", gpt(", vocab_size: 257" + dropout) + clipped,
              {{1, 2},
               {1, 4},
               {1, 2, ", overlap: {tensor: true}"},
               {1, 2, ", copies: 2", "", 2, 1},
               {2, 2, ", zero: {stage: 3, min_numel: 0}"}});
  expect_same("untied", gpt(", vocab_size: 263, tie_embeddings: false") + clipped,
              {{1, 4, ", sequence_parallel: false"},
               {1, 2, ", zero: {stage: 1, min_numel: 0}, schedule: zb_h1", "", 1, 2}});
  expect_same("smoothed", gpt(", vocab_size: 257, label_smoothing: 0.1"), {{1, 2}, {1, 4}});
  const std::string six =
      "hidden_size: 48, num_layers: 2, num_attention_heads: 6, ffn_hidden_size: 96";
  expect_same("llama", "model: {type: llama, vocab_size: 257, " + six + "}\n" + text(),
              {{1, 2}, {1, 3}, {1, 6}, {1, 3, "", "", 1, 2}});
  expect_same(
      "t5", "model: {type: t5, d_kv: 8, vocab_size: 401, " + six + "}\n" + text(", packing: false"),
      {{1, 2}, {1, 3}, {1, 2, "", "", 1, 2}});
  expect_same("bf16", gpt(", vocab_size: 257") + "precision: {params: bf16}", {{1, 2}}, 2e-2);
  expect_same("fp8", gpt(", vocab_size: 257") + kFloat8, {{1, 2}}, 2e-2);
}

TEST_F(SharedWeights, OfAVocabularyThatRanksDoNotDivideAreStoredWhole) {
  const std::string sections = gpt(", vocab_size: 257") + "checkpoint: {interval: 5}";
  const std::vector<double> alone = train_on({}, "alone", sections, 20);
  train_on({1, 2, ", zero: {stage: 3, min_numel: 0}", "", 1, 2}, "moves", sections, 5);
  train_on({}, "moves", sections, 10);
  train_on({1, 4}, "moves", sections, 15);
  expect_near(train_on({2, 2, ", zero: {stage: 1, min_numel: 0}"}, "moves", sections, 20), alone,
              1e-5);
  const StoredModel stored = open_model(real_files(), folder_ / "moves");
  const Params params = load_params(real_files(), stored);
  EXPECT_EQ(params.find("transformer.wte.weight")->shape(), (Shape{257, 32}));
}

TEST_F(SharedWeights, AreStoredWholeSoThatAnyLayoutGoesOn) {
  const std::string sections = gpt() + "checkpoint: {interval: 5}";
  const std::vector<double> alone = train_on({}, "alone", sections, 20);
  train_on({1, 2, ", zero: {stage: 3, min_numel: 0}", "", 1, 2}, "moves", sections, 5);
  train_on({}, "moves", sections, 10);
  train_on({2, 2, ", zero: {stage: 3, min_numel: 0}"}, "moves", sections, 15);
  expect_near(train_on({2, 2, ", zero: {stage: 1, min_numel: 0}", "", 1, 2}, "moves", sections, 20),
              alone, 1e-5);
}

TEST_F(SharedWeights, HaveTheSameBitsForAnyNumberOfRanksAlongDataAndPipeline) {
  const std::string sections = gpt(", dropout: {hidden: 0.1}");
  const std::vector<double> two = train_on({1, 2}, "two", sections, 10);
  EXPECT_EQ(train_on({2, 2, ", zero: {stage: 2, min_numel: 0}"}, "four", sections, 10), two);
  EXPECT_EQ(train_on({1, 2, ", schedule: zb_h1", "", 1, 2}, "stages", sections, 10), two);
  EXPECT_EQ(train_on({2, 2, ", zero: {stage: 3, min_numel: 0}", "", 1, 2}, "eight", sections, 10),
            two);
}

TEST_F(SharedWeights, ArePlannedWithoutOtherRanks) {
  const auto plan = [&](int64_t tensor) {
    const YamlNode tree = parse_yaml(
        gpt() + fmt::format("schedule: {{total_steps: 5}}\nparallel: {{tensor: {}}}\n", tensor),
        "run.yaml");
    std::FILE* const out = std::tmpfile();
    dry_run({real_files(), tree, stop_, out, {}}, {});
    std::rewind(out);
    std::string text(1 << 14, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), out));
    std::fclose(out);
    return text;
  };
  EXPECT_THAT(plan(2), testing::HasSubstr("2 share a step; what follows is for each"));
  const auto bytes_of = [](const std::string& text) {
    const std::string key = "per parameter";
    return std::stod(text.substr(text.find(key) + key.size()));
  };
  EXPECT_LT(bytes_of(plan(4)), 0.4 * bytes_of(plan(1)));
}

TEST_F(SharedWeights, ThatRanksDoNotDivideAreRefusedWithTheNearestChoices) {
  EXPECT_THAT(error_of([&] {
                train_on({1, 3}, "heads", gpt());
              }),
              testing::HasSubstr("3 ranks do not divide the 4 of dim 2 of "
                                 "transformer.h.0.attn.c_attn.weight [32, 3, 4, 8]; say 2, or make "
                                 "it 6"));
  EXPECT_THAT(error_of([&] {
                train_on({1, 2}, "lamb", gpt() + "optimizer: {type: lamb}");
              }),
              testing::HasSubstr("optimizer.type: lamb needs norms of whole weights"));
  EXPECT_THAT(error_of([&] {
                train_on({1, 2, "", ", execution: eager"}, "eager", gpt());
              }),
              testing::HasSubstr("run.execution: eager runs on one rank along tensor and context"));
}

}  // namespace
}  // namespace mstrain
