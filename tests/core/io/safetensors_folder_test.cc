#include "core/io/safetensors_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "tests/core/base/temporary_folder.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

void write_shard(const std::string& path, const std::vector<std::string>& names) {
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (const std::string& name : names) {
    tensors.push_back({name, Dtype::kU8, {static_cast<int64_t>(name.size())}});
  }
  SafetensorsWriter writer(real_files(), path, tensors);
  for (const TensorEntry& entry : writer.entries()) {
    writer.append(entry.name, as_bytes(entry.name));
  }
  writer.finish();
}

class SafetensorsFolderTest : public testing::Test {
 protected:
  SafetensorsFolderTest() {
    write_shard(folder_ / "model-00001-of-00002.safetensors", {"b", "aa"});
    write_shard(folder_ / "model-00002-of-00002.safetensors", {"ccc"});
    write_index(kGood);
  }
  void write_index(std::string_view text) {
    write_file_atomic(real_files(), folder_ / kWeightsIndexFile, text);
  }
  std::string error() {
    try {
      const SafetensorsFolder weights(real_files(), folder_.path());
    } catch (const IoError& error) {
      EXPECT_THAT(error.what(), testing::StartsWith(folder_.path()));
      return error.what();
    }
    return "no error";
  }

  static constexpr std::string_view kGood =
      R"({"metadata": {"total_size": 6}, "weight_map": {
        "aa": "model-00001-of-00002.safetensors", "b": "model-00001-of-00002.safetensors",
        "ccc": "model-00002-of-00002.safetensors"}})";
  TemporaryFolder folder_;
};

std::vector<std::string> names_of(const SafetensorsFolder& weights) {
  std::vector<std::string> names;
  for (const SafetensorsFolder::Item& item : weights.items()) {
    names.push_back(item.entry->name);
    EXPECT_EQ(as_text(weights.data(item)), item.entry->name);
  }
  return names;
}

TEST_F(SafetensorsFolderTest, JoinsShardsByTheirIndex) {
  EXPECT_TRUE(has_safetensors(real_files(), folder_.path()));
  EXPECT_THAT(names_of(SafetensorsFolder(real_files(), folder_.path())),
              ElementsAre("aa", "b", "ccc"));
}

TEST_F(SafetensorsFolderTest, TakesTheSingleFileFirst) {
  write_shard(folder_ / kWeightsFile, {"whole"});
  EXPECT_THAT(names_of(SafetensorsFolder(real_files(), folder_.path())), ElementsAre("whole"));
}

TEST_F(SafetensorsFolderTest, IndexAndShardsMustAgree) {
  const std::string one = "\"model-00001-of-00002.safetensors\"";
  const std::string two = "\"model-00002-of-00002.safetensors\"";
  write_index(R"({"weight_map": {"aa": )" + one + R"(, "b": )" + one + R"(, "d": )" + two + "}}");
  EXPECT_THAT(error(), HasSubstr("has no tensor \"d\", which"));
  write_index(R"({"weight_map": {"aa": )" + one + R"(, "ccc": )" + two + "}}");
  EXPECT_THAT(error(), HasSubstr("tensor \"b\" is not in"));
  write_index(R"({"weight_map": {"aa": "gone.safetensors"}})");
  EXPECT_THAT(error(), HasSubstr("gone.safetensors, which does not exist"));
}

TEST_F(SafetensorsFolderTest, ShardsLieInTheDirectory) {
  for (const char* name : {"../m.safetensors", "/etc/passwd", "a/b.safetensors", "", ".", ".."}) {
    write_index(R"({"weight_map": {"aa": ")" + std::string(name) + "\"}}");
    EXPECT_THAT(error(), HasSubstr("not a name in this directory")) << name;
  }
}

TEST_F(SafetensorsFolderTest, RefusesWhatIsNoIndex) {
  for (const char* text : {"[]", "1", "{}", R"({"weight_map": []})"}) {
    write_index(text);
    EXPECT_THAT(error(), HasSubstr("no map weight_map")) << text;
  }
  write_index(R"({"weight_map": {}, "wieght": {}})");
  EXPECT_THAT(error(), HasSubstr("unknown key \"wieght\""));
  write_index(R"({"weight_map": {"aa": 1}})");
  EXPECT_THAT(error(), HasSubstr("the file of \"aa\" is 1"));
  write_index(R"({"weight_map": {"aa": "x", "aa": "y"}})");
  EXPECT_THAT(error(), HasSubstr("duplicate key"));
  write_index(R"({"metadata": )" + std::string(100000, '['));
  EXPECT_THAT(error(), HasSubstr("nested deeper"));
  write_index(kGood.substr(0, kGood.size() - 1));
  EXPECT_THAT(error(), HasSubstr("offset"));
  write_index("");
  EXPECT_THAT(error(), HasSubstr("offset"));
}

TEST_F(SafetensorsFolderTest, SaysWhatIsMissing) {
  real_files().remove(folder_ / kWeightsIndexFile);
  EXPECT_FALSE(has_safetensors(real_files(), folder_.path()));
  EXPECT_THAT(error(), HasSubstr("holds neither model.safetensors nor model.safetensors.index"));
  write_file_atomic(real_files(), folder_ / "pytorch_model.bin", "x");
  EXPECT_THAT(error(), HasSubstr("pytorch_model.bin can hold programs and is not read"));
}

TEST_F(SafetensorsFolderTest, FuzzedIndexesNeverCrash) {
  Rng rng(61);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text(kGood);
    for (uint64_t edits = rng.below(4); edits > 0 && !text.empty(); --edits) {
      const size_t at = rng.below(text.size());
      switch (rng.below(5)) {
        case 0: text[at] = static_cast<char>(rng.below(256)); break;
        case 1: text[at] = "0123456789[]{},:\"\\/."[rng.below(20)]; break;
        case 2: text.erase(at, 1 + rng.below(8)); break;
        case 3: text.resize(at); break;
        default: text.insert(at, text.substr(rng.below(text.size()), rng.below(30))); break;
      }
    }
    try {
      for (const auto& [file, tensors] : parse_safetensors_index(text, "index")) {
        ASSERT_TRUE(is_plain_name(file));
        ASSERT_FALSE(tensors.empty());
      }
      ++accepted;
    } catch (const IoError& error) {
      ASSERT_THAT(error.what(), testing::StartsWith("index: "));
      ASSERT_THAT(error.what(), testing::AnyOf(HasSubstr("offset "), HasSubstr("JSON: ")));
    }
  }
  EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace mstrain
