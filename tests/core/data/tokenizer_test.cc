#include "core/data/tokenizer.h"
#include "core/data/hf_simple.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/data/simple_tokenizers.h"
#include "core/data/tokenizer_files.h"
#include "core/data/utf8.h"
#include "tests/core/data/scratch.h"
#include "tests/core/data/small_tokenizers.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Utf8, EveryCharacterRoundTrips) {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) {
      continue;
    }
    std::string text;
    append_utf8(code, text);
    const Utf8Character back = decode_utf8(text, 0);
    ASSERT_EQ(back.code, code);
    ASSERT_EQ(back.length, static_cast<int>(text.size()));
  }
}

TEST(Utf8, WhatIsNoCharacterHasLengthZero) {
  for (const char* bytes :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC3", "\xE2\x82",
        "\xF0\x9F\x98", "\xC3(", "\xE2\x82("}) {
    EXPECT_EQ(decode_utf8(bytes, 0).length, 0) << testing::PrintToString(bytes);
  }
}

TEST(Utf8, DecodingRandomBytesIsTheInverseOfEncodingOrRefuses) {
  Rng rng(7);
  for (int round = 0; round < 20000; ++round) {
    const std::string bytes = random_bytes(rng, 1 + rng.below(5));
    const Utf8Character character = decode_utf8(bytes, 0);
    if (character.length > 0) {
      std::string again;
      append_utf8(character.code, again);
      ASSERT_EQ(again, bytes.substr(0, character.length));
    }
  }
}

TEST(Utf8, WhatIsNoCharacterIsReplacedByMaximalSubparts) {
  const std::string sign = "\xEF\xBF\xBD";
  EXPECT_EQ(replace_invalid_utf8("aé世🙂"), "aé世🙂");
  EXPECT_EQ(replace_invalid_utf8("a\xff\xfe"), "a" + sign + sign);
  EXPECT_EQ(replace_invalid_utf8("\xe2\x82z"), sign + "z");
  EXPECT_EQ(replace_invalid_utf8("\xf0\x9f\x98"), sign);
  EXPECT_EQ(replace_invalid_utf8("\xed\xa0\x80"), sign + sign + sign);  // a surrogate
  // Unicode 15, table 3-8.
  EXPECT_EQ(replace_invalid_utf8("a\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a" + sign + sign + sign + "b" + sign + "c" + sign + sign + "d");
  EXPECT_EQ(find_invalid_utf8("aé\xff"), 3u);
  EXPECT_EQ(find_invalid_utf8("aé"), std::string::npos);
}

TEST(ByteTokenizer, EveryByteStringRoundTrips) {
  Rng rng(1);
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.vocab_size(), 256);
  for (int round = 0; round < 100; ++round) {
    const std::string text = random_bytes(rng, rng.below(200));
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
  EXPECT_THAT(tokenizer.encode(std::string_view("\0a\xff", 3)), ElementsAre(0, 97, 255));
}

TEST(CharTokenizer, IdsFollowCodePoints) {
  const CharTokenizer tokenizer = CharTokenizer::of_text("b€a\nb😀é");
  EXPECT_EQ(tokenizer.vocab_size(), 6);
  EXPECT_THAT(tokenizer.encode("\nabé€😀"), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("é😀a")), "é😀a");
}

TEST(CharTokenizer, UnknownCharacterIsNamedWithItsOffset) {
  const CharTokenizer tokenizer = CharTokenizer::of_text("abé");
  EXPECT_THAT(message_of<Error>([&] { tokenizer.encode("aéz"); }),
              HasSubstr("'z' (U+007A) at byte 3 is not among the tokenizer's 3 characters"));
  EXPECT_THAT(message_of<Error>([&] { tokenizer.encode("a\x07"); }), HasSubstr("encode: U+0007"));
  EXPECT_THAT(message_of<Error>([&] { tokenizer.encode("ab\xff"); }),
              HasSubstr("not valid UTF-8 at byte 2"));
  EXPECT_THAT(message_of<Error>([] { CharTokenizer::of_text("a\xC3"); }),
              HasSubstr("not valid UTF-8 at byte 1"));
}

TEST(CharTokenizer, CharactersMustAscendAndExist) {
  EXPECT_THROW(CharTokenizer({}), Error);
  EXPECT_THROW(CharTokenizer({'b', 'a'}), Error);
  EXPECT_THROW(CharTokenizer({'a', 'a'}), Error);
  EXPECT_THROW(CharTokenizer({0xD800}), Error);
  EXPECT_THROW(CharTokenizer({0x110000}), Error);
  EXPECT_EQ(CharTokenizer({0}).vocab_size(), 1);
}

TEST(Tokenizer, IdsOutsideTheVocabularyAreErrors) {
  const std::vector<int32_t> ids[] = {{-1}, {256}, {1 << 30}};
  for (const auto& bad : ids) {
    EXPECT_THROW(ByteTokenizer().decode(bad), Error);
    EXPECT_THROW(CharTokenizer({'a', 'b'}).decode(bad), Error);
  }
}

TEST(Tokenizer, ACheckpointFolderGivesItBack) {
  const Scratch scratch;
  const CharTokenizer chars = CharTokenizer::of_text(std::string("\0\"\\\n\x7fé😀", 11));
  const ByteTokenizer bytes;
  for (const Tokenizer* tokenizer : std::initializer_list<const Tokenizer*>{&chars, &bytes}) {
    scratch.write(std::string(kTokenizerFile), tokenizer->to_json());
    const auto loaded = load_tokenizer(real_files(), scratch.root());
    EXPECT_EQ(loaded->name(), tokenizer->name());
    EXPECT_EQ(loaded->vocab_size(), tokenizer->vocab_size());
    EXPECT_EQ(loaded->to_json(), tokenizer->to_json());
  }
  EXPECT_THROW(load_tokenizer(real_files(), scratch.path("none")), IoError);
}

// GPT-2's vocabulary has both words.
TEST(Tokenizer, AVocabularyMayHoldTheNamesOfAFormatsFields) {
  const Scratch scratch;
  Json vocab = small_bpe({{"t", "h"}})["model"]["vocab"];
  const size_t size = vocab.size();
  vocab["format"] = size;
  vocab["model"] = size + 1;
  scratch.write("gpt2/vocab.json", vocab.dump());
  scratch.write("gpt2/merges.txt", "#version: 0.2\nt h\n");
  EXPECT_THAT(load_tokenizer(real_files(), scratch.path("gpt2/vocab.json"))->encode("th"),
              ElementsAre(256));
}

TEST(Tokenizer, CharAndByteComeInHuggingFacesFormatToo) {
  const auto model_of = [](const Tokenizer& tokenizer) {
    const std::vector<TokenizerFile> files = hugging_face_files(tokenizer);
    EXPECT_EQ(files.at(0).name, "tokenizer.json");
    EXPECT_EQ(files.at(1).name, "tokenizer_config.json");
    return parse_json(files.at(0).bytes, "tokenizer.json").at("model");
  };
  const CharTokenizer chars = CharTokenizer::of_text("a\n\u00fcb\"");
  const Json vocab = model_of(chars).at("vocab");
  EXPECT_EQ(vocab.size(), 5U);
  for (const auto& [character, id] : vocab.items()) {
    EXPECT_THAT(chars.encode(character), ElementsAre(id.get<int32_t>()));
  }
  const Json bytes = model_of(ByteTokenizer()).at("vocab");
  EXPECT_EQ(bytes.size(), 256U);
  EXPECT_EQ(bytes.at("a"), 'a');
  EXPECT_EQ(bytes.at("\u0120"), ' ');
  EXPECT_TRUE(
      hugging_face_files(*tokenizer_from_hf({"t", small_bpe({{"t", "h"}}).dump()})).empty());
}

TEST(Tokenizer, IsFoundByNameFileAndFolder) {
  const Scratch scratch;
  const Json bpe = small_bpe({{"t", "h"}});
  const std::string vocab = bpe["model"]["vocab"].dump();
  scratch.write("hf/tokenizer.json", bpe.dump());
  scratch.write("old/encoder.json", vocab);
  scratch.write("old/vocab.bpe", "#version: 0.2\nt h\n");
  scratch.write("new/vocab.json", vocab);
  scratch.write("new/merges.txt", "t h\n");
  scratch.write("new/added_tokens.json", R"({"<|endoftext|>": 257, "<|im|>": 258})");
  scratch.write("half/vocab.json", vocab);
  scratch.write("any.json", bpe.dump());
  scratch.write("chars.json", CharTokenizer::of_text("ab").to_json());
  scratch.write("empty/readme", "");
  const auto load = [&](const std::string& name) {
    return load_tokenizer(real_files(), scratch.path(name));
  };
  for (const char* name : {"hf", "hf/tokenizer.json", "any.json", "old", "old/encoder.json",
                           "old/vocab.bpe", "new", "new/vocab.json", "new/merges.txt"}) {
    EXPECT_THAT(load(name)->encode("th"), ElementsAre(256)) << name;
  }
  EXPECT_THAT(load("new")->encode("<|im|><|endoftext|>"), ElementsAre(258, 257));
  EXPECT_EQ(load("new")->files().size(), 3);
  scratch.write("new/tokenizer_config.json", R"({"add_prefix_space": true, "pad_token": null})");
  EXPECT_THAT(load("new")->encode("th"), ElementsAre(' ', 256));
  EXPECT_EQ(load("new")->files().size(), 4);
  EXPECT_EQ(load("chars.json")->name(), "char");
  EXPECT_EQ(load_tokenizer(real_files(), "byte")->name(), "byte");
  for (const char* name : {"hf", "old", "new"}) {
    EXPECT_TRUE(has_tokenizer(real_files(), scratch.path(name)));
  }
  for (const char* name : {"half", "empty", "none", "any.json"}) {
    EXPECT_FALSE(has_tokenizer(real_files(), scratch.path(name)));
  }
  const auto refusal = [&](const std::string& name) {
    return message_of<IoError>([&] { load(name); });
  };
  EXPECT_THAT(refusal("empty"), HasSubstr("the folder holds no tokenizer"));
  EXPECT_THAT(refusal("half/vocab.json"), HasSubstr("but merges.txt is not beside it"));
  EXPECT_THAT(refusal("odl"), HasSubstr("did you mean"));
  scratch.write("new/tokenizer_config.json", R"({"add_prefix_space": 1})");
  EXPECT_THAT(refusal("new"), HasSubstr("add_prefix_space: expected true or false, found 1"));
  EXPECT_THAT(refusal("empty/readme"), HasSubstr("is no tokenizer"));
  EXPECT_THAT(message_of<Error>([] { load_tokenizer(real_files(), "char"); }),
              HasSubstr("is made of a text"));
}

TEST(Tokenizer, BadFilesAreRefusedWithPathAndReason) {
  const auto refusal = [](const std::string& json) {
    return message_of<IoError>([&] { tokenizer_from_json(json, "dir/t.json"); });
  };
  const auto of = [](const std::string& rest) {
    return R"({"format":"mstrain-tokenizer","version":1,)" + rest + "}";
  };
  EXPECT_THAT(refusal("{"), testing::StartsWith("dir/t.json: offset "));
  EXPECT_THAT(refusal("{}"), testing::StartsWith("dir/t.json: not a tokenizer file: "));
  EXPECT_THAT(refusal("[1]"), HasSubstr("no JSON object"));
  EXPECT_THAT(refusal("{}"), HasSubstr("expected format"));
  EXPECT_THAT(refusal(of(R"("type":"bpe")")), HasSubstr("unknown type \"bpe\""));
  EXPECT_THAT(refusal(of(R"("type":3)")), HasSubstr("unknown type \"\""));
  EXPECT_THAT(refusal(of(R"("type":"char")")), HasSubstr("no list"));
  EXPECT_THAT(refusal(of(R"("type":"char","characters":[])")), HasSubstr("at least one"));
  EXPECT_THAT(refusal(of(R"("type":"char","characters":["a",1])")), HasSubstr("characters[1]"));
  EXPECT_THAT(refusal(of(R"("type":"char","characters":["ab"])")), HasSubstr("not one character"));
  EXPECT_THAT(refusal(of(R"("type":"char","characters":["b","a"])")), HasSubstr("must ascend"));
}

TEST(Tokenizer, DamagedFilesAreRefusedOrStillATokenizer) {
  Rng rng(20);
  const std::string good = CharTokenizer::of_text("abc\n é😀").to_json();
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::string bad = damaged(rng, good);
    try {
      const auto tokenizer = tokenizer_from_json(bad, "t");
      const auto again = tokenizer_from_json(tokenizer->to_json(), "t");
      ASSERT_EQ(again->to_json(), tokenizer->to_json());
    } catch (const IoError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 2000);
}

}  // namespace
}  // namespace mstrain
