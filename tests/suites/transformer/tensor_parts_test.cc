// Models whose weights ranks share along `tensor`: their losses are those of one rank, and so are the files of their checkpoints,
// but for the order of sums.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/rng.h"
#include "core/io/images/image.h"
#include "core/train/metrics_file.h"
#include "suites/run/run.h"
#include "tests/core/base/message_of.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/ranks.h"

namespace mstrain {
namespace {

class SharedWeights : public testing::Test {
 protected:
  SharedWeights() {
    std::string text;
    for (int i = 0; i < 2000; ++i) {
      text += i % 37 == 0 ? '\n' : static_cast<char>('a' + rng_.below(20));
    }
    write_file_atomic(real_files(), folder_ / "text.txt", text);
  }

  struct Division {
    int64_t data = 1, tensor = 1;
    std::string more = "";
    std::string run = "";
    int64_t context = 1;
    int64_t pipeline = 1;
  };

  // Goes on in the directory `name`; the losses of all steps and evaluations so far.
  std::vector<double> train_on(const Division& given, const std::string& name,
                               const std::string& sections, int steps = 30) {
    const std::string output = folder_ / name;
    const YamlNode tree =
        parse_yaml(fmt::format("run: {{output_dir: {}, threads: 1{}}}\n{}\nlog: {{interval: 1}}\n"
                               "schedule: {{type: constant, total_steps: {}}}\n"
                               "parallel: {{data: {}, tensor: {}{}, context: {}, pipeline: {}}}\n",
                               output, given.run, sections, steps, given.data, given.tensor,
                               given.more, given.context, given.pipeline),
                   "run.yaml");
    const auto run_one = [&](std::shared_ptr<Ranks> of) {
      std::FILE* const out = std::tmpfile();
      RunRequest request{real_files(), tree, stop_, out, {}};
      request.start.ranks = std::move(of);
      EXPECT_EQ(run(request), Outcome::kFinished);
      std::fclose(out);
    };
    if (given.data * given.tensor * given.context * given.pipeline == 1) {
      run_one(nullptr);
    } else {
      run_ranks(Mesh{{{std::string(kPipelineAxis), given.pipeline},
                      {std::string(kDataAxis), given.data},
                      {std::string(kContextAxis), given.context},
                      {std::string(kTensorAxis), given.tensor}}},
                run_one);
    }
    std::vector<double> losses;
    for (const Json& row : read_metrics(real_files(), join_path(output, kMetricsFile))) {
      for (const char* key : {"loss", "grad_norm", "eval_loss"}) {
        if (row.contains(key)) {
          losses.push_back(row[key].get<double>());
        }
      }
    }
    EXPECT_GE(losses.size(), static_cast<size_t>(2 * steps));
    return losses;
  }

  static void expect_near(const std::vector<double>& found, const std::vector<double>& expected,
                          double relative) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], relative * std::abs(expected[i])) << "number " << i;
    }
  }

  void expect_same(const std::string& name, const std::string& sections,
                   const std::vector<Division>& divisions, double relative = 1e-5) {
    const std::vector<double> alone = train_on({}, name, sections);
    int next = 0;
    for (const Division& division : divisions) {
      SCOPED_TRACE(fmt::format("{}: pipeline {} x data {} x context {} x tensor {}{}", name,
                               division.pipeline, division.data, division.context, division.tensor,
                               division.more));
      expect_near(train_on(division, fmt::format("{}_{}", name, next++), sections), alone,
                  relative);
    }
  }

  std::string text(const std::string& more = "") {
    return "data: {train: " + folder_ / "text.txt" +
           ", split: 0.8, tokenizer: {type: byte}, seq_length: 16" + more +
           "}\nbatch: {global: 8, micro: 2}\neval: {interval: 5}\n";
  }
  std::string gpt(const std::string& more = "") {
    return "model: {type: gpt, hidden_size: 32, num_layers: 2, num_attention_heads: 4, "
           "max_position_embeddings: 16" +
           more + "}\n" + text();
  }

  TemporaryFolder folder_;
  Rng rng_{1};
  std::atomic<bool> stop_ = false;
};

TEST_F(SharedWeights, OfAGptWithDropoutAndClippingGiveTheLossesOfOneRank) {
  expect_same("gpt",
              gpt(", dropout: {hidden: 0.1, attention: 0.1, embedding: 0.1}") +
                  "optimizer: {lr: 1e-3, clip_grad: 0.5, weight_decay: 0.1}",
              {{1, 2},
               {1, 4},
               {1, 2, ", sequence_parallel: false"},
               {2, 2, ", zero: {stage: 1, min_numel: 0}"},
               {2, 2, ", zero: {stage: 2, min_numel: 0}, reduction: fast"},
               {2, 2, ", zero: {stage: 3, min_numel: 0}"}});
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
}

TEST_F(SharedWeights, AndPositionsAlongContextGiveTheLossesOfOneRank) {
  expect_same("gpt", gpt(", dropout: {hidden: 0.1, attention: 0.1, embedding: 0.1}"),
              {{1, 1, "", "", 2}, {2, 1, ", zero: {stage: 3, min_numel: 0}", "", 2}});
  expect_same("llama",
              "model: {type: llama, hidden_size: 32, num_layers: 2, num_attention_heads: 4, "
              "num_key_value_heads: 2, ffn_hidden_size: 64}\n" +
                  text(),
              {{1, 1, "", "", 4}, {2, 2, ", zero: {stage: 1, min_numel: 0}", "", 2}});
  EXPECT_THAT(
      error_of([&] {
        train_on({1, 1, "", "", 3}, "three", gpt());
      }),
      testing::HasSubstr("parallel.context: 3 ranks do not divide 16 positions; take 15 or 18"));
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
              {{1, 2}, {2, 2}, {1, 2, "", "", 1, 2}});
}

TEST_F(SharedWeights, OfAVitGiveTheLossesOfOneRank) {
  for (const char* label : {"red", "green"}) {
    const std::string pictures = folder_ / "pictures/" + label;
    real_files().create_directories(pictures);
    for (int64_t i = 0; i < 9; ++i) {
      Image image(8, 8, 3);
      for (uint8_t& value : image.pixels) {
        value = static_cast<uint8_t>(rng_.below(256));
      }
      write_file_atomic(real_files(), pictures + "/" + std::to_string(i) + ".png",
                        encode_png(image));
    }
  }
  expect_same("vit",
              "model: {type: vit, image_size: 8, patch_size: 4, hidden_size: 16, num_layers: 2, "
              "num_attention_heads: 4}\ndata: {train: " +
                  folder_ / "pictures" +
                  ", augment: {crop: resized, flip: 0.5}}\nbatch: {global: 8, micro: 2}",
              {{1, 2}, {1, 4}, {2, 2}, {1, 2, "", "", 1, 2}});
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
              testing::HasSubstr("3 ranks do not divide the 256 of dim 0 of "
                                 "transformer.wte.weight [256, 32]; say 2, or make it 255 or 258"));
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
