#include "core/train/pretrained.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/tensor/host.h"
#include "tests/core/base/temporary_folder.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Given {
  std::string name;
  Dtype dtype;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

std::string bytes_of(const Given& tensor) {
  std::string bytes;
  for (const float value : tensor.values) {
    const auto append = [&](const auto& element) {
      bytes.append(reinterpret_cast<const char*>(&element), sizeof(element));
    };
    switch (tensor.dtype) {
      case Dtype::kF64: append(static_cast<double>(value)); break;
      case Dtype::kF32: append(value); break;
      case Dtype::kBF16: append(BFloat16(value)); break;
      case Dtype::kF16: append(Float16(value)); break;
      default: append(static_cast<int32_t>(value)); break;
    }
  }
  return bytes;
}

class PretrainedTest : public testing::Test {
 protected:
  void write(const std::vector<Given>& tensors) {
    std::vector<SafetensorsWriter::Tensor> entries;
    for (const Given& tensor : tensors) {
      entries.push_back({tensor.name, tensor.dtype, tensor.shape});
    }
    SafetensorsWriter writer(real_files(), folder_ / kWeightsFile, entries);
    for (const TensorEntry& entry : writer.entries()) {
      for (const Given& tensor : tensors) {
        if (tensor.name == entry.name) {
          writer.append(entry.name, as_bytes(bytes_of(tensor)));
        }
      }
    }
    writer.finish();
  }
  // Names are kept; "mask" is a buffer, "twin" a copy of a, "old.x" stands for x.
  static StoredMeaning meaning(const std::string& stored) {
    using Kind = StoredMeaning::Kind;
    if (stored == "mask") {
      return {Kind::kBuffer};
    }
    if (stored == "twin") {
      return {Kind::kCopy, "a"};
    }
    return {Kind::kParameter, stored.starts_with("old.") ? stored.substr(4) : stored};
  }
  Params load() {
    const ParamSpec specs[] = {{"a", {Dtype::kF32, {2, 2}}, {}}, {"b", {Dtype::kF32, {3}}, {}}};
    const Shape shapes[] = {{4}, {3}};
    return load_pretrained(SafetensorsFolder(real_files(), folder_.path()), "dir", specs, shapes,
                           meaning);
  }
  std::string error() {
    try {
      load();
    } catch (const IoError& error) {
      return error.what();
    }
    return "no error";
  }
  TemporaryFolder folder_;
};

TEST_F(PretrainedTest, ConvertsEveryFloatAndKeepsTheOrderOfElements) {
  for (const Dtype dtype : {Dtype::kF64, Dtype::kF32, Dtype::kBF16, Dtype::kF16}) {
    write({{"old.b", dtype, {3}, {0.5F, -3, 0}}, {"a", dtype, {4}, {1, 2, -1.5F, 8}}});
    const Params params = load();
    EXPECT_EQ(params.find("a")->shape(), (Shape{2, 2}));
    EXPECT_THAT(to_vector<float>(*params.find("a")), ElementsAre(1, 2, -1.5F, 8)) << name_of(dtype);
    EXPECT_THAT(to_vector<float>(*params.find("b")), ElementsAre(0.5F, -3, 0)) << name_of(dtype);
  }
}

TEST_F(PretrainedTest, LongTensorsOfHalvesArriveWhole) {
  std::vector<float> values;
  for (int i = 0; i < 5003; ++i) {
    values.push_back(static_cast<float>(i % 257) / 8);
  }
  write({{"x", Dtype::kBF16, {5003}, values}});
  const ParamSpec spec{"x", {Dtype::kF32, {5003}}, {}};
  const Shape shape{5003};
  const Params params = load_pretrained(SafetensorsFolder(real_files(), folder_.path()), "dir",
                                        std::span(&spec, 1), std::span(&shape, 1), meaning);
  const std::vector<float> read = to_vector<float>(*params.find("x"));
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(read[i], static_cast<float>(BFloat16(values[i]))) << i;
  }
}

TEST_F(PretrainedTest, LeavesBuffersOutAndComparesCopies) {
  const Given a{"a", Dtype::kF32, {4}, {1, 2, 3, 4}};
  const Given b{"b", Dtype::kF32, {3}, {1, 2, 3}};
  const Given mask{"mask", Dtype::kI32, {1}, {1}};
  write({a, b, mask, {"twin", Dtype::kF32, {4}, {1, 2, 3, 4}}});
  EXPECT_EQ(error(), "no error");
  write({a, b, {"twin", Dtype::kF32, {4}, {1, 2, 3, 5}}});
  EXPECT_EQ(error(), "dir: tensors that differ from the weight they stand for: twin");
}

TEST_F(PretrainedTest, NamesWhatDoesNotFit) {
  write({{"c", Dtype::kF32, {1}, {1}}, {"d", Dtype::kF32, {1}, {1}}});
  EXPECT_EQ(
      error(),
      "dir: parameters that the weights lack: a, b; tensors that belong to no parameter: c, d");
  write({{"a", Dtype::kF32, {2, 2}, {1, 2, 3, 4}}, {"b", Dtype::kI32, {3}, {1, 2, 3}}});
  EXPECT_EQ(error(),
            "dir: tensors that do not fit: a is F32 [2, 2], expected [4], b is I32 [3], expected "
            "F32, BF16 or F16 [3]");
  write({{"a", Dtype::kF32, {4}, {1, 2, 3, 4}},
         {"b", Dtype::kF32, {3}, {1, 2, 3}},
         {"old.b", Dtype::kF32, {3}, {1, 2, 3}}});
  EXPECT_EQ(error(), "dir: parameters that are stored twice: b and old.b");
  std::vector<Given> many;
  for (int i = 0; i < 9; ++i) {
    many.push_back({"x" + std::to_string(i), Dtype::kF32, {1}, {1}});
  }
  write(many);
  EXPECT_THAT(error(), HasSubstr("belong to no parameter: x0, x1, x2, x3 and 5 more"));
}

}  // namespace
}  // namespace mstrain
