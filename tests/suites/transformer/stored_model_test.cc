#include "suites/run/stored_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/files_fault.h"
#include "suites/run/export.h"
#include "suites/run/forward.h"
#include "tests/core/base/message_of.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/suites/transformer/hf_directory.h"

namespace mstrain::gpt {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class StoredModelTest : public testing::Test {
 protected:
  static constexpr int64_t kBatch = 2, kLength = 6;

  void write_input(const std::vector<std::string>& names, bool masked = false) {
    std::map<std::string, std::vector<int64_t>> all;
    for (int64_t b = 0; b < kBatch; ++b) {
      for (int64_t t = 0; t < kLength; ++t) {
        const bool hidden = masked && b == 1 && t >= 4;
        all["input_ids"].push_back((7 * b + 3 * t + b * t) % 11);
        all["labels"].push_back((b == 0 && t == 2) || hidden ? -100 : (5 * b + 4 * t + 1) % 11);
        all["attention_mask"].push_back(hidden ? 0 : 1);
      }
    }
    std::map<std::string, std::pair<Shape, std::string>> tensors;
    for (const std::string& name : names) {
      tensors[name] = {{kBatch, kLength}, bytes_of(all.at(name))};
    }
    write_safetensors(folder_ / "in.safetensors", tensors, Dtype::kI64);
  }
  std::vector<float> read(const std::string& name) {
    const SafetensorsFile file(real_files(), folder_ / "out.safetensors");
    const TensorEntry& entry = file.at(name);
    EXPECT_EQ(entry.dtype, Dtype::kF32);
    std::vector<float> values(entry.bytes / sizeof(float));
    std::memcpy(values.data(), file.data(entry).data(), entry.bytes);
    return values;
  }
  void run_forward(bool gradients = true) {
    forward(real_files(),
            {folder_.path(), folder_ / "in.safetensors", folder_ / "out.safetensors", gradients});
  }
  TemporaryFolder folder_;
};

TEST_F(StoredModelTest, ForwardEqualsHuggingFace) {
  for (const golden::Case& expected : golden::read_file("gpt_hf").cases) {
    SCOPED_TRACE(expected.name);
    write_model(folder_.path(), tiny_config(expected.config));
    const bool masked = expected.rest.at("masked");
    write_input(masked ? std::vector<std::string>{"input_ids", "labels", "attention_mask"}
                       : std::vector<std::string>{"input_ids", "labels"},
                masked);
    run_forward();
    ASSERT_EQ(read("loss").size(), 1U);
    EXPECT_NEAR(read("loss")[0], expected.loss, 1e-5);
    const std::vector<float> logits = read("logits");
    ASSERT_EQ(logits.size(), 2U * 6 * 11);
    for (size_t i = 0; i < 11; ++i) {
      EXPECT_NEAR(logits[(6 + 3) * 11 + i], expected.logits[i], 1e-4);
    }
    for (const golden::Gradient& gradient : expected.gradients) {
      const std::vector<float> values = read("grad." + gradient.name);
      golden::expect_gradient({values.begin(), values.end()}, gradient, {.relative = 1e-4});
    }
  }
}

TEST_F(StoredModelTest, ForwardWritesWhatIsAskedFor) {
  write_model(folder_.path(), tiny_config());
  const auto names = [&] {
    std::vector<std::string> out;
    const SafetensorsFile file(real_files(), folder_ / "out.safetensors");
    for (const TensorEntry& entry : file.entries()) {
      out.push_back(entry.name);
    }
    std::sort(out.begin(), out.end());
    return out;
  };
  write_input({"input_ids"});
  run_forward(false);
  EXPECT_THAT(names(), testing::ElementsAre("logits"));
  write_input({"input_ids", "labels"});
  run_forward(false);
  EXPECT_THAT(names(), testing::ElementsAre("logits", "loss"));
  run_forward(true);
  EXPECT_EQ(names().size(), 2 + open_model(real_files(), folder_.path()).network->specs().size());
}

TEST_F(StoredModelTest, ForwardNamesTheInputThatDoesNotFit) {
  write_model(folder_.path(), tiny_config());
  const std::string in = folder_ / "in.safetensors";
  const auto error = [&](const char* name, const Shape& shape, const std::vector<int64_t>& values,
                         bool gradients = false) {
    std::map<std::string, std::pair<Shape, std::string>> tensors;
    tensors["input_ids"] = {{1, 2}, bytes_of(std::vector<int64_t>{1, 2})};
    tensors[name] = {shape, bytes_of(values)};
    write_safetensors(in, tensors, Dtype::kI64);
    return message_of<Error>([&] { run_forward(gradients); });
  };
  EXPECT_EQ(error("input_ids", {1, 2}, {3, 11}),
            in + ": input_ids holds 11 at [0, 1], expected 0 … 10");
  EXPECT_EQ(error("input_ids", {2}, {3, 1}),
            in + ": input_ids is I64 [2], expected integers [batch, time]");
  EXPECT_EQ(error("labels", {1, 2}, {-1, 1}),
            in + ": labels holds -1 at [0, 0], expected 0 … 10 or -100");
  EXPECT_EQ(error("labels", {2, 1}, {1, 1}),
            in + ": labels is I64 [2, 1], expected integers [1, 2]");
  EXPECT_EQ(error("attention_mask", {1, 2}, {1, 2}),
            in + ": attention_mask holds 2 at [0, 1], expected 0 … 1");
  EXPECT_EQ(error("position_ids", {1, 2}, {1, 8}),
            in + ": position_ids holds 8 at [0, 1], expected 0 … 7");
  EXPECT_THAT(error("label", {1, 2}, {1, 1}),
              StartsWith(in + ": the model takes no tensor label; did you mean labels?"));
  EXPECT_THAT(error("input_ids", {1, 9}, {1, 1, 1, 1, 1, 1, 1, 1, 1}),
              HasSubstr("input_ids has a time of 9, the model at most 8"));
  EXPECT_THAT(error("input_ids", {0, 2}, {}), HasSubstr("input_ids is empty"));
  EXPECT_THAT(error("input_ids", {1, 1}, {1}, true),
              HasSubstr("has no labels, which --grads needs"));
  const std::string numbers(2 * sizeof(float), '\0');
  write_safetensors(in, {{"input_ids", {{1, 2}, numbers}}}, Dtype::kF32);
  EXPECT_EQ(message_of<Error>([&] { run_forward(false); }),
            in + ": input_ids is F32 [1, 2], expected integers [batch, time]");
  EXPECT_FALSE(real_files().exists(folder_ / "out.safetensors"));
}

TEST_F(StoredModelTest, ForwardTakesPositionsOfOneTextForAll) {
  write_model(folder_.path(), tiny_config());
  const auto logits = [&](const Shape& shape, const std::vector<int64_t>& positions) {
    write_safetensors(folder_ / "in.safetensors",
                      {{"input_ids", {{2, 2}, bytes_of(std::vector<int64_t>{1, 2, 3, 4})}},
                       {"position_ids", {shape, bytes_of(positions)}}},
                      Dtype::kI64);
    run_forward(false);
    return real_files().read(folder_ / "out.safetensors");
  };
  EXPECT_EQ(logits({1, 2}, {5, 3}), logits({2, 2}, {5, 3, 5, 3}));
  EXPECT_NE(logits({1, 2}, {5, 3}), logits({2, 2}, {5, 3, 3, 5}));
}

TEST_F(StoredModelTest, NamesTheFamilyThatIsMeant) {
  write_model(folder_.path(), tiny_config());
  write_file_atomic(real_files(), folder_ / "config.json",
                    tiny_config({{"model_type", "lama"}}).dump());
  EXPECT_THAT(message_of<Error>([&] { open_model(real_files(), folder_.path()); }),
              testing::AllOf(HasSubstr("model_type is \"lama\"; known are"),
                             HasSubstr("did you mean llama?")));
}

TEST_F(StoredModelTest, NamesWhatTheWeightsLack) {
  write_model(folder_.path(), tiny_config());
  const auto error_with = [&](const Json& options) {
    write_file_atomic(real_files(), folder_ / "config.json", tiny_config(options).dump());
    return message_of<Error>(
        [&] { load_params(real_files(), open_model(real_files(), folder_.path())); });
  };
  EXPECT_THAT(error_with({{"n_layer", 1}}),
              HasSubstr("tensors that belong to no parameter: transformer.h.1.attn.c_attn.bias, "));
  EXPECT_THAT(error_with({{"n_layer", 3}}),
              HasSubstr("parameters that the weights lack: transformer.h.2.attn.c_attn.bias, "));
  EXPECT_THAT(error_with({{"n_inner", 20}}),
              HasSubstr("transformer.h.0.mlp.c_fc.bias is F32 [48], expected [20]"));
  EXPECT_THAT(error_with({{"tie_word_embeddings", false}}),
              HasSubstr("parameters that the weights lack: lm_head.weight"));
  // Nothing of this size may be tried.
  EXPECT_THAT(error_with({{"n_layer", 200000000}}), HasSubstr("tells of 200000000 layers"));
  EXPECT_THAT(
      error_with({{"vocab_size", 200000000}, {"n_embd", 180000000}, {"n_positions", 100000000}}),
      HasSubstr("expected [180000000, 540000000]"));
}

// safetensors' own save_model() keeps the first of two names for one tensor.
TEST_F(StoredModelTest, ATiedModelMayBeStoredByItsHead) {
  write_model(folder_.path(), tiny_config());
  write_input({"input_ids", "labels"});
  run_forward();
  const std::vector<float> logits = read("logits");
  const std::vector<float> gradient = read("grad.transformer.wte.weight");
  std::map<std::string, std::pair<Shape, std::string>> tensors;
  {
    const SafetensorsFolder weights(real_files(), folder_.path());
    for (const SafetensorsFolder::Item& item : weights.items()) {
      const std::string& name = item.entry->name;
      tensors[name == "transformer.wte.weight" ? "lm_head.weight" : name] = {
          Shape(item.entry->shape), std::string(as_text(weights.data(item)))};
    }
  }
  write_safetensors(folder_ / kWeightsFile, tensors, Dtype::kF32);
  run_forward();
  EXPECT_EQ(read("logits"), logits);
  EXPECT_EQ(read("grad.lm_head.weight"), gradient);
  export_model(real_files(), folder_.path(), folder_ / "out");
  const SafetensorsFolder out(real_files(), folder_ / "out");
  EXPECT_TRUE(out.items()[0].file->contains("transformer.wte.weight"));
  EXPECT_FALSE(out.items()[0].file->contains("lm_head.weight"));
}

TEST_F(StoredModelTest, ExportKeepsBytesAndNeverReplacesWhatExists) {
  write_model(folder_.path(), tiny_config({{"bos_token_id", 4}}));
  const std::map<std::string, std::string> companions{{"generation_config.json", "{}"},
                                                      {"vocab.json", R"({"a": 0, "b": 1})"},
                                                      {"merges.txt", "#version: 0.2\n"},
                                                      {"added_tokens.json", R"({"<x>": 2})"},
                                                      {"tokenizer_config.json", R"({"b": 1})"}};
  for (const auto& [name, text] : companions) {
    write_file_atomic(real_files(), folder_ / name, text);
  }
  const std::string out = folder_ / "out";
  export_model(real_files(), folder_.path(), out);
  for (const auto& [name, text] : companions) {
    EXPECT_EQ(real_files().read(join_path(out, name)), text);
  }
  const SafetensorsFolder before(real_files(), folder_.path());
  const SafetensorsFolder after(real_files(), out);
  ASSERT_EQ(before.items().size(), after.items().size());
  for (size_t i = 0; i < before.items().size(); ++i) {
    EXPECT_EQ(before.items()[i].entry->name, after.items()[i].entry->name);
    EXPECT_TRUE(std::ranges::equal(before.data(before.items()[i]), after.data(after.items()[i])));
  }
  EXPECT_EQ(open_model(real_files(), out).description["bos_token_id"], 4);
  EXPECT_EQ(message_of<Error>([&] { export_model(real_files(), folder_.path(), out); }),
            out + ": exists already; name a new directory");
  EXPECT_EQ(message_of<Error>([&] { export_model(real_files(), out, out + "/config.json"); }),
            out + "/config.json: exists already; name a new directory");
}

TEST_F(StoredModelTest, ExportWithoutSpaceLeavesNothing) {
  write_model(folder_.path(), tiny_config());
  for (int64_t limit = 0; limit < 12000; limit += 1500) {
    FaultyFiles files(real_files(), {.enospc_after_bytes = limit});
    EXPECT_THROW(export_model(files, folder_.path(), folder_ / "out"), IoError);
    EXPECT_THAT(real_files().list(folder_.path()),
                testing::ElementsAre("config.json", kWeightsFile));
  }
}

}  // namespace
}  // namespace mstrain::gpt
