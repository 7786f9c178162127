#include "core/tensor/params_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/tensor/host.h"
#include "core/tensor/tree.h"
#include "tests/core/base/message_of.h"
#include "tests/core/base/temporary_folder.h"

namespace mstrain {
namespace {

using ::testing::HasSubstr;

std::vector<ParamSpec> specs_of(int64_t width, bool has_bias = true) {
  return declare_params([=](const Params& p) {
    (p / "head").get("weight", {3, width}, normal_init(0.5));
    if (has_bias) {
      (p / "head").get("bias", {width}, normal_init(0.5), false);
    }
  });
}

TEST(ParamsFile, KeepsEveryBitAndTheOrderOfDeclaration) {
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  const Params params = init_params(specs_of(2), 7);
  save_params(real_files(), path, params);
  const Params again = load_params(real_files(), path, specs_of(2));
  ASSERT_EQ(again.size(), params.size());
  for (size_t i = 0; i < params.size(); ++i) {
    EXPECT_EQ(again.name(i), params.name(i));
    EXPECT_EQ(to_doubles(again.tensor(i)), to_doubles(params.tensor(i)));
  }
}

TEST(ParamsFile, SaysWhichParameterIsOfAnotherModel) {
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  save_params(real_files(), path, init_params(specs_of(2), 7));
  const auto error_with = [&](const std::vector<ParamSpec>& specs) {
    return message_of<IoError>([&] { load_params(real_files(), path, specs); });
  };
  EXPECT_EQ(error_with(specs_of(4)), path + ": head.weight is F32[3, 2], expected f32[3, 4]");
  EXPECT_THAT(error_with(specs_of(2, false)), HasSubstr(path + ": head.bias: no parameter"));
  save_params(real_files(), path, init_params(specs_of(2, false), 7));
  EXPECT_THAT(error_with(specs_of(2)), HasSubstr("head.bias"));
}

}  // namespace
}  // namespace mstrain
