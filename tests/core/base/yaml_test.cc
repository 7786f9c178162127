#include "core/base/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

std::string yaml_error(std::string_view text) {
  try {
    parse_yaml(text, "a.yaml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Yaml, KeepsOrderQuotesAndPlaces) {
  const YamlNode tree = parse_yaml(
      "# comment\n"
      "model: {type: gpt, sizes: [1, 2.5, \"3\"]}\n"
      "data:\n"
      "  train:\n"
      "    - {path: a b/c.txt, weight: 2}\n"
      "    - 'x: y'\n"
      "  valid: null\n"
      "  empty:\n",
      "a.yaml");
  ASSERT_EQ(tree.children.size(), 2U);
  EXPECT_EQ(tree.children[0].key, "model");
  const YamlNode& sizes = *tree.find("model")->find("sizes");
  EXPECT_EQ(sizes.children.size(), 3U);
  EXPECT_FALSE(sizes.children[0].quoted);
  EXPECT_TRUE(sizes.children[2].quoted);
  EXPECT_EQ(sizes.where(), "a.yaml:2");
  const YamlNode& train = *tree.find("data")->find("train");
  EXPECT_EQ(train.where(), "a.yaml:4");  // of the key, not of the list below it
  EXPECT_EQ(train.children[1].where(), "a.yaml:6");
  EXPECT_EQ(train.children[1].text, "x: y");
  EXPECT_EQ(train.children[0].find("path")->text, "a b/c.txt");
  EXPECT_TRUE(tree.find("data")->find("valid")->is_null());
  EXPECT_TRUE(tree.find("data")->find("empty")->is_null());
  EXPECT_EQ(tree.find("nothing"), nullptr);
}

TEST(Yaml, EmptyTextIsNull) {
  EXPECT_TRUE(parse_yaml("", "a").is_null());
  EXPECT_TRUE(parse_yaml("# only a comment\n", "a").is_null());
}

TEST(Yaml, ScalarsAreTyped) {
  const auto scalar = [](const char* text) { return parse_yaml(text, "a.yaml"); };
  EXPECT_EQ(as_int(scalar("-12"), "k"), -12);
  EXPECT_EQ(as_int(scalar("+7"), "k"), 7);
  EXPECT_EQ(as_double(scalar("1.0e-3"), "k"), 1e-3);
  EXPECT_EQ(as_double(scalar("3"), "k"), 3.0);
  EXPECT_EQ(as_double(scalar("-.inf"), "k"), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(as_double(scalar(".nan"), "k")));
  EXPECT_TRUE(as_bool(scalar("true"), "k"));
  EXPECT_FALSE(as_bool(scalar("False"), "k"));
  EXPECT_EQ(as_string(scalar("12"), "k"), "12");
  for (const char* text :
       {"abc", "1.5", "0x10", "1e3", "\"12\"", "99999999999999999999", "1 2", "+-1"}) {
    EXPECT_THROW(as_int(scalar(text), "k"), ConfigError) << text;
  }
  for (const char* text : {"inf", "nan", "1.0.0", "0x1p3", "'1.0'", "1e999", "--1", "e5"}) {
    EXPECT_THROW(as_double(scalar(text), "k"), ConfigError) << text;
  }
  for (const char* text : {"yes", "on", "1", "'true'"}) {
    EXPECT_THROW(as_bool(scalar(text), "k"), ConfigError) << text;
  }
}

TEST(Yaml, ErrorsNameFileLineKeyAndWhatWasFound) {
  const YamlNode tree = parse_yaml("a: 1\nb: abc\nc: [1]\n", "x/my.yaml");
  try {
    as_int(*tree.find("b"), "model.b");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "x/my.yaml:2: model.b: expected an integer, found \"abc\"");
  }
  try {
    as_bool(*tree.find("c"), "c");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "x/my.yaml:3: c: expected true or false, found a list");
  }
}

TEST(Yaml, RejectsWhatAConfigurationShouldNotHold) {
  EXPECT_THAT(yaml_error("a: 1\nb: 2\na: 3\n"),
              HasSubstr("a.yaml:3: a: duplicate key; the first is in line 1"));
  EXPECT_THAT(yaml_error("a: *x\n"), HasSubstr("a.yaml:1: "));
  EXPECT_THAT(yaml_error("a: !!python/object x\n"), HasSubstr("tags are not supported"));
  EXPECT_THAT(yaml_error("a: 1\n---\nb: 2\n"), HasSubstr("second document"));
  EXPECT_THAT(yaml_error("a: [1, 2\n"), HasSubstr("a.yaml:1: this '[' is never"));
  EXPECT_THAT(yaml_error("? [1]\n: 2\n"), HasSubstr("expected a key, found a list"));
  EXPECT_THAT(yaml_error("~: 2\n"), HasSubstr("expected a key, found null"));
  EXPECT_THAT(yaml_error(std::string_view("a\0b", 3)), HasSubstr("zero byte"));
  EXPECT_THAT(yaml_error(std::string(2 << 20, 'a')), HasSubstr("larger than"));
}

TEST(Yaml, WhatTheGrammarForbidsIsMostlyIndentation) {
  EXPECT_THAT(yaml_error("a: 1\n  b: 2\n"),
              HasSubstr("a.yaml:2: illegal map value; is this line, or the one before it, "
                        "indented as those beside it?"));
  EXPECT_THAT(yaml_error("a:\n    b: 1\n  c: 2\n"), HasSubstr("a.yaml:3: "));
  EXPECT_THAT(yaml_error("a:\n    b: 1\n  c: 2\n"), HasSubstr("indented as those"));
}

TEST(Yaml, MistakesOfFormAreNamedWhereTheyWereMade) {
  EXPECT_EQ(yaml_error("a:\n\tb: 1\n"),
            "a.yaml:2: a tab indents this line; YAML indents with spaces");
  EXPECT_EQ(yaml_error("a: 1\nb: {c: 1,\n    d: [2, 3]\ne: 4\n"),
            "a.yaml:2: this '{' is never closed");
  EXPECT_EQ(yaml_error("a: {b: 1\nc: }x: {\n"), "a.yaml:2: this '{' is never closed");
  EXPECT_EQ(yaml_error("a: {b: [1, 2}\n"),
            "a.yaml:1: this '}' comes before the '[' of line 1 is closed");
  EXPECT_EQ(yaml_error("a: 1\nb: ]\n"), "a.yaml:2: this ']' closes nothing that is open");
  EXPECT_EQ(yaml_error("a: 1\nb: [\"text]\nc: 2\n"),
            "a.yaml:2: the quote \" that begins here is never closed");
  // Signs in texts, comments and literal blocks open nothing.
  EXPECT_EQ(yaml_error("a: it's {x # [\nb: |\n  {\n  \"\nc:\n \td: 1\n"),
            "a.yaml:6: a tab indents this line; YAML indents with spaces");
}

TEST(Yaml, AnchorsStandForCopies) {
  const YamlNode tree = parse_yaml(
      "a: &base {x: 1, y: [1, 2]}\n"
      "b: *base\n"
      "c: {<<: *base, x: 3}\n"
      "d: &n null\n"
      "e: [*n, &s text, *s]\n"
      "f: {<<: [{z: 1}, *base, {x: 9}], w: 0}\n",
      "a.yaml");
  EXPECT_EQ(to_flow(*tree.find("b")), "{x: 1, y: [1, 2]}");
  EXPECT_EQ(to_flow(*tree.find("c")), "{x: 3, y: [1, 2]}");
  EXPECT_EQ(to_flow(*tree.find("e")), "[null, text, text]");
  EXPECT_EQ(to_flow(*tree.find("f")), "{w: 0, z: 1, x: 1, y: [1, 2]}");
  EXPECT_EQ(tree.find("b")->find("x")->line, 1);  // where the value is written
  EXPECT_EQ(tree.find("b")->line, 2);
  EXPECT_THAT(yaml_error("a: {<<: 3}\n"), HasSubstr("a.yaml:1: <<: expected a map"));
  EXPECT_THAT(yaml_error("a: &x [*x]\n"), HasSubstr("a.yaml:1: an alias inside of what it"));
}

TEST(Yaml, BombsAreRefused) {
  std::string laughs = "a0: &a0 [1, 1, 1, 1]\n";
  std::string tower = "t0: &t0 [1]\n";
  for (int i = 1; i < 100; ++i) {
    laughs += fmt::format("a{}: &a{} [*a{}, *a{}]\n", i, i, i - 1, i - 1);
    tower += fmt::format("t{}: &t{} [*t{}]\n", i, i, i - 1);
  }
  EXPECT_THAT(yaml_error(laughs), HasSubstr("more than 20000 values"));
  EXPECT_THAT(yaml_error(tower), HasSubstr("nested deeper"));

  EXPECT_THAT(yaml_error(std::string(100, '[') + std::string(100, ']')),
              HasSubstr("nested deeper"));
  EXPECT_NE(yaml_error(std::string(100000, '[')), "no error");
  EXPECT_NE(yaml_error(std::string(100000, '{')), "no error");
  std::string deep;
  for (int i = 0; i < 400; ++i) {
    deep += std::string(static_cast<size_t>(i), ' ') + "a:\n";
  }
  EXPECT_THAT(yaml_error(deep), HasSubstr("nested deeper"));
  std::string many = "[";
  for (int i = 0; i < 30000; ++i) {
    many += "1,";
  }
  EXPECT_THAT(yaml_error(many + "]"), HasSubstr("more than"));
  std::string copies = "a: &a " + std::string(1000, 'x') + "\nb: [";
  for (int i = 0; i < 2000; ++i) {
    copies += "*a,";
  }
  EXPECT_THAT(yaml_error(copies + "]"), HasSubstr("aliases stand for more than 1048576 bytes"));
}

TEST(Yaml, PrinterIsReadable) {
  YamlNode tree = parse_yaml(
      "run: {name: gpt, seed: 1}\n"
      "betas: [0.9, 0.99]\n"
      "long: {aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: 1, bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb: [x, y],"
      " cccccccccccccccccccccccccc: {d: null}}\n",
      "a");
  tree.add("text", YamlNode::string("true"));
  EXPECT_EQ(to_yaml(tree),
            "run: {name: gpt, seed: 1}\n"
            "betas: [0.9, 0.99]\n"
            "long:\n"
            "  aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: 1\n"
            "  bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb: [x, y]\n"
            "  cccccccccccccccccccccccccc: {d: null}\n"
            "text: \"true\"\n");
  EXPECT_EQ(to_flow(YamlNode::number(1e-8)), "1.0e-8");
  EXPECT_EQ(to_flow(YamlNode::number(1e22)), "1.0e+22");
  EXPECT_EQ(to_flow(YamlNode::number(3)), "3.0");
  EXPECT_EQ(to_flow(YamlNode::number(0.1)), "0.1");
}

TEST(Yaml, StringsSurviveWhateverTheyHold) {
  for (const char* text :
       {"",    " a",  "a ",   "null", "~",     "true", "12",   "1e5",       ".inf", "a: b",
        "a:b", "#x",  "a #b", "a#b",  "- x",   "-",    "[1]",  "{",         "&a",   "*a",
        "!x",  "%",   "@",    "`",    "\"q\"", "it's", "a\nb", "tab\there", "a\\b", "caf\xc3\xa9",
        "---", "...", "?",    ": ",   "\x01",  "\r\n", "yes",  "off"}) {
    const YamlNode back = parse_yaml(to_yaml(YamlNode::string(text)), "a");
    EXPECT_EQ(as_string(back, "k"), text);
    YamlNode map = YamlNode::map();
    map.add(text, YamlNode::string(text));
    EXPECT_TRUE(parse_yaml(to_flow(map), "a").same_value(map)) << to_flow(map);
    EXPECT_TRUE(parse_yaml(to_yaml(map), "a").same_value(map)) << to_yaml(map);
  }
}

YamlNode random_tree(Rng& rng, int depth) {
  const uint64_t kind = rng.below(depth > 0 ? 7 : 5);
  if (kind == 0) {
    return {};
  }
  if (kind == 1) {
    return YamlNode::integer(static_cast<int64_t>(rng.next_u64()));
  }
  if (kind == 2) {
    return YamlNode::number(rng.normal() * std::pow(10, static_cast<double>(rng.between(-20, 20))));
  }
  const auto text = [&] {
    std::string out;
    for (uint64_t i = rng.below(6); i > 0; --i) {
      out += static_cast<char>(rng.between(32, 126));
    }
    return out;
  };
  if (kind <= 4) {
    return YamlNode::string(text());
  }
  YamlNode node = kind == 5 ? YamlNode::sequence() : YamlNode::map();
  for (uint64_t i = rng.below(12); i > 0; --i) {
    YamlNode child = random_tree(rng, depth - 1);
    if (kind == 5) {
      node.children.push_back(std::move(child));
    } else if (const std::string key = text(); node.find(key) == nullptr) {
      node.add(key, std::move(child));
    }
  }
  return node;
}

TEST(Yaml, RandomTreesRoundTrip) {
  Rng rng(20);
  for (int i = 0; i < 1000; ++i) {
    const YamlNode tree = random_tree(rng, 4);
    const std::string text = to_yaml(tree);
    SCOPED_TRACE(text);
    ASSERT_NO_THROW(ASSERT_TRUE(parse_yaml(text, "a").same_value(tree)));
    ASSERT_NO_THROW(ASSERT_TRUE(parse_yaml(to_flow(tree), "a").same_value(tree)));
  }
}

// Random and mutated texts: an error or a tree, and what parses prints and parses again.
TEST(Yaml, FuzzedTextsNeverCrash) {
  Rng rng(21);
  const std::string seed =
      "run: {name: gpt, seed: 1}\ndata:\n  - \"a\\x41\"\n  - 'b': [1, 2.5e3, null]\n  # c\n? x\n: "
      "|\n  t\n";
  constexpr std::string_view kAlphabet = "[]{}:,-?&*!|>'\"%@`#~ \n\tab01.\\\xc3\xff";
  int parsed = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = rng.below(2) == 0 ? seed : std::string(rng.below(40), ' ');
    for (uint64_t edits = rng.below(12); edits > 0 && !text.empty(); --edits) {
      text[rng.below(text.size())] = kAlphabet[rng.below(kAlphabet.size())];
    }
    YamlNode tree;
    try {
      tree = parse_yaml(text, "fuzz");
    } catch (const ConfigError&) {
      continue;
    }
    ++parsed;
    SCOPED_TRACE(text);
    ASSERT_NO_THROW(ASSERT_TRUE(parse_yaml(to_yaml(tree), "again").same_value(tree)));
    ASSERT_NO_THROW(ASSERT_TRUE(parse_yaml(to_flow(tree), "again").same_value(tree)));
  }
  EXPECT_GT(parsed, 100);
}

TEST(Yaml, JsonFormIsTyped) {
  EXPECT_EQ(to_json(parse_yaml("b: 1\na: [true, 2.5, x, \"3\", null, .inf]\n", "a")).dump(),
            R"({"b":1,"a":[true,2.5,"x","3",null,".inf"]})");
}

}  // namespace
}  // namespace mstrain
