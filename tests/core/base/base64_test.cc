#include "core/base/base64.h"

#include <gtest/gtest.h>

namespace mstrain {
namespace {

TEST(Base64, TextsAreThoseOfTheStandard) {
  const std::pair<std::string_view, std::string_view> kCases[] = {
      {"", ""},
      {"f", "Zg=="},
      {"fo", "Zm8="},
      {"foo", "Zm9v"},
      {"foob", "Zm9vYg=="},
      {"fooba", "Zm9vYmE="},
      {"foobar", "Zm9vYmFy"},
      {"\xff\xef\xbe", "/+++"},
  };
  for (const auto& [bytes, text] : kCases) {
    EXPECT_EQ(to_base64(bytes), text);
  }
}

}  // namespace
}  // namespace mstrain
