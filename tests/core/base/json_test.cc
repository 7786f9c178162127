#include "core/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace mstrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string json_error(std::string_view text) {
  try {
    parse_json(text, "m.json");
  } catch (const IoError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Json, KeepsKindsOfNumbers) {
  const Json json = parse_json(R"({"a": 1, "b": -1, "c": 1.0, "d": [true, null, "x\u00e9"]})", "n");
  EXPECT_TRUE(json["a"].is_number_unsigned());
  EXPECT_FALSE(json["b"].is_number_unsigned());
  EXPECT_TRUE(json["c"].is_number_float());
  EXPECT_EQ(json["d"][2], "x\xc3\xa9");
  EXPECT_EQ(parse_json(" 18446744073709551615 ", "n").get<uint64_t>(), UINT64_MAX);
  EXPECT_TRUE(parse_json("18446744073709551616", "n").is_number_float());
}

TEST(Json, ErrorsNameFileAndOffset) {
  EXPECT_THAT(json_error("{\"a\": x}"),
              AllOf(StartsWith("m.json: offset 7: "), HasSubstr("invalid literal")));
  EXPECT_THAT(json_error(""), HasSubstr("m.json: offset 1: "));
  EXPECT_THAT(json_error("{} {}"), StartsWith("m.json: offset 4: "));
  EXPECT_THAT(json_error("{\"a\":1,\"a\":2}"),
              StartsWith("m.json: offset 10: JSON: duplicate key \"a\""));
  EXPECT_THAT(json_error("{\"a\":{\"b\":[{\"c\":1,\"d\":2,\"c\":3}]}}"),
              HasSubstr("duplicate key \"c\""));
  EXPECT_THAT(json_error("\"\xff\""), HasSubstr("UTF-8"));
  EXPECT_THAT(json_error("\"\\ud800\""), StartsWith("m.json: offset "));
  EXPECT_THAT(json_error("1e999"), StartsWith("m.json: offset "));
  EXPECT_THAT(json_error("[1,]"), StartsWith("m.json: offset "));
  EXPECT_THAT(json_error("NaN"), StartsWith("m.json: offset "));
}

TEST(Json, NestingBombsAreRefused) {
  EXPECT_THAT(json_error(std::string(1000000, '[')), HasSubstr("nested deeper than 64 levels"));
  std::string text;
  for (int i = 0; i < 100000; ++i) {
    text += "{\"a\":";
  }
  EXPECT_THAT(json_error(text), HasSubstr("nested deeper"));
  EXPECT_EQ(json_error(std::string(64, '[') + std::string(64, ']')), "no error");
  EXPECT_THROW(parse_json("[[1]]", "n", 1), IoError);
}

TEST(Json, LargeObjectsTakeLinearTime) {
  std::string text = "{\"k\":0";
  for (int i = 0; i < 100000; ++i) {
    text += ",\"" + std::to_string(i) + "\":" + std::to_string(i);
  }
  EXPECT_EQ(parse_json(text + "}", "n").size(), 100001U);
}

TEST(Json, FuzzedTextsNeverCrash) {
  Rng rng(30);
  const std::string seed =
      R"({"a": [1, -2.5e3, "x\u0041\n", {"b": null}], "c": {"d": true, "e": []}})";
  int parsed = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string text = seed;
    for (uint64_t edits = rng.below(4); edits > 0; --edits) {
      const size_t at = rng.below(text.size());
      switch (rng.below(3)) {
        case 0: text[at] = static_cast<char>(rng.below(256)); break;
        case 1: text.erase(at, 1 + rng.below(5)); break;
        default: text.insert(at, text.substr(rng.below(text.size()), rng.below(8))); break;
      }
      text += text.empty() ? " " : "";
    }
    try {
      const Json json = parse_json(text, "fuzz");
      ++parsed;
      ASSERT_EQ(parse_json(json.dump(), "again"), json);
    } catch (const IoError&) {
    }
  }
  EXPECT_GT(parsed, 500);
}

}  // namespace
}  // namespace mstrain
