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
    EXPECT_EQ(from_base64(text), bytes);
  }
  std::string all;
  for (int i = 0; i < 256 * 3; ++i) {
    all.push_back(static_cast<char>(i * 7 / 3));
    EXPECT_EQ(from_base64(to_base64(all)), all);
  }
}

TEST(Base64, WhatNobodyWritesIsNone) {
  for (const char* text : {"Z", "Zg", "Zg=", "Zg=v", "Zh==", "Zm9=", "====", "=m9v",
                           "Zg==Zg==", "Zm-v", "Zm9v\n", "Zm9 ",
                           "Zm\xff"
                           "v"}) {
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace mstrain
