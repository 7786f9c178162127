// Whole models on many ranks: their bits, and those of their data, are those of one.
#include "suites/run/model_run.h"
#include "suites/run/stored_model.h"
#include "tests/suites/transformer/pictures.h"
#include "tests/suites/transformer/runs_on_ranks.h"

namespace mstrain {
namespace {

class ModelOnRanks : public RunsOnRanks {
 protected:
  ModelOnRanks() : RunsOnRanks(900) {}

  // Three steps; the files of the last checkpoint. `stages`: keys of `parallel` beside ZeRO, where
  // ranks share layers.
  std::vector<std::string> train_on(int ranks, const std::string& name, const std::string& model,
                                    const std::string& data, const std::string& more,
                                    const std::string& stages = "") {
    const std::string output = folder_ / (name + std::to_string(ranks));
    const YamlNode tree = parse_yaml(
        "run: {output_dir: " + output + ", threads: 1}\nmodel: " + model + "\ndata: " + data +
            "\nbatch: {global: 8, micro: 2}\nschedule: {type: constant, total_steps: 3}\n"
            "parallel: {zero: {stage: 2, min_numel: 0}" +
            stages + "}\n" + more,
        "run.yaml");
    EXPECT_EQ(run_on(mesh_of(read_run(tree)->train.parallel, ranks), tree), Outcome::kFinished);
    const std::string folder = open_model(real_files(), output).folder;
    std::vector<std::string> files;
    for (const std::string& file : real_files().list(folder)) {
      files.push_back(file + "\n" + real_files().read(join_path(folder, file)));
    }
    return files;
  }
  void expect_same(const std::string& name, const std::string& model, const std::string& data,
                   const std::string& more = "") {
    const auto alone = train_on(1, name, model, data, more);
    EXPECT_EQ(train_on(2, name, model, data, more), alone);
    EXPECT_EQ(train_on(4, name, model, data, more), alone);
  }
};

TEST_F(ModelOnRanks, AGptWithDropoutWritesTheFilesOfOneRank) {
  expect_same("gpt",
              "{type: gpt, hidden_size: 32, num_layers: 2, num_attention_heads: 2, "
              "dropout: {hidden: 0.1, attention: 0.1}}",
              data_of_text(), "eval: {interval: 2}\nprecision: {params: bf16}\n");
  expect_same("gpt_f32", "{type: gpt, hidden_size: 32, num_layers: 2, num_attention_heads: 2}",
              data_of_text());
}

TEST_F(ModelOnRanks, AT5OnCorruptedTextWritesTheFilesOfOneRank) {
  expect_same("t5",
              "{type: t5, hidden_size: 32, num_layers: 2, num_attention_heads: 2, d_kv: 16, "
              "ffn_hidden_size: 64}",
              data_of_text(", packing: false"));
}

// Encoder and decoder read one table of rows. Cuts lie within the encoder, at its end and within
// the decoder.
TEST_F(ModelOnRanks, AT5WhoseLayersRanksShareWritesTheFilesOfOneRank) {
  const std::string model =
      "{type: t5, hidden_size: 32, num_layers: 2, num_attention_heads: 2, d_kv: 16, "
      "ffn_hidden_size: 64, tie_embeddings: false}";
  const std::string data = data_of_text(", packing: false");
  const auto alone = train_on(1, "t5", model, data, "");
  int next = 0;
  const auto expect_same_in = [&](int ranks, const std::string& stages) {
    SCOPED_TRACE(stages);
    EXPECT_EQ(train_on(ranks, fmt::format("stages{}_", next++), model, data, "", stages), alone);
  };
  expect_same_in(2, ", pipeline: 2, stage_layout: [1, 3]");
  expect_same_in(2, ", pipeline: 2, schedule: zbv");
  expect_same_in(4, ", pipeline: 2");
  expect_same_in(4, ", pipeline: 4, schedule: zb_h1");
}

TEST_F(ModelOnRanks, AVitOfMixedPicturesWritesTheFilesOfOneRank) {
  write_pictures(folder_ / "pictures", {"green", "red"}, 9, Image(8, 8, 3), rng_);
  expect_same("vit",
              "{type: vit, image_size: 8, patch_size: 4, hidden_size: 16, num_layers: 2, "
              "num_attention_heads: 2}",
              "{train: " + folder_ / "pictures" +
                  ", augment: {crop: resized, flip: 0.5, mixup: 0.2, cutmix: 0.2}}");
}

}  // namespace
}  // namespace mstrain
