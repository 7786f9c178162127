#include "core/data/bpe_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/data/tokenizer_files.h"
#include "core/data/utf8.h"
#include "tests/core/data/scratch.h"
#include "tests/core/data/small_tokenizers.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Ids = std::vector<int32_t>;

std::vector<std::string> pieces_of(std::string_view text) {
  const Gpt2Split split;
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = split.end_of_piece(text, at);
    out.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

TEST(Gpt2Split, CutsAsThePatternDoes) {
  EXPECT_THAT(pieces_of("Hello, I'm here!!"), ElementsAre("Hello", ",", " I", "'m", " here", "!!"));
  EXPECT_THAT(pieces_of("  two  spaces\n\n\tand tabs "),
              ElementsAre(" ", " two", " ", " spaces", "\n\n", "\t", "and", " tabs", " "));
  EXPECT_THAT(pieces_of("we'll'LL're'r 've"),
              ElementsAre("we", "'ll", "'", "LL", "'re", "'", "r", " '", "ve"));
  EXPECT_THAT(pieces_of("a1½٣ 4x"), ElementsAre("a", "1½٣", " 4", "x"));
  EXPECT_THAT(pieces_of("мир 世界🙂é"), ElementsAre("мир", " 世界", "🙂", "é"));
  EXPECT_THAT(pieces_of("e\u0301x"), ElementsAre("e", "\u0301", "x"));
  EXPECT_THAT(pieces_of("a\u00a0\u3000b"), ElementsAre("a", "\u00a0", "\u3000", "b"));
  EXPECT_THAT(pieces_of(" "), ElementsAre(" "));
  EXPECT_THAT(pieces_of("   "), ElementsAre("   "));
  EXPECT_THAT(pieces_of("a\x1c z"), ElementsAre("a", "\x1c", " z"));  // no white space
  EXPECT_THAT(pieces_of("a\xff\xe2\x82z"), ElementsAre("a", "\xff\xe2\x82", "z"));
}

TEST(UnicodeClass, KnowsCategoriesOfUnicode15) {
  EXPECT_EQ(char_class(U'a'), CharClass::kLetter);
  EXPECT_EQ(char_class(U'ª'), CharClass::kLetter);
  EXPECT_EQ(char_class(0x31350), CharClass::kLetter);  // CJK extension H, new in 15.0
  EXPECT_EQ(char_class(0x1E4F0), CharClass::kNumber);  // Nag Mundari digit, new in 15.0
  EXPECT_EQ(char_class(0x2EBF0), CharClass::kOther);   // extension I came in 15.1
  EXPECT_EQ(char_class(0x10FFFF), CharClass::kOther);
  EXPECT_EQ(char_class(0xAC01), CharClass::kLetter);
  int spaces = 0;
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    spaces += char_class(code) == CharClass::kSpace ? 1 : 0;
  }
  EXPECT_EQ(spaces, 25);
}

// Merges as the definition says, one after the other.
void merge_slowly(Ids& ids, const std::vector<BpeMerges::Merge>& merges) {
  for (;;) {
    size_t best = merges.size();
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      for (size_t rank = 0; rank < best; ++rank) {
        if (merges[rank].left == ids[i] && merges[rank].right == ids[i + 1]) {
          best = rank;
          at = i;
        }
      }
    }
    if (best == merges.size()) {
      return;
    }
    ids[at] = merges[best].result;
    ids.erase(ids.begin() + static_cast<int64_t>(at) + 1);
  }
}

TEST(BpeMerges, ShortAndLongWordsMergeAsTheDefinitionSays) {
  Rng rng(11);
  for (int round = 0; round < 400; ++round) {
    std::vector<BpeMerges::Merge> merges;
    std::vector<std::pair<int32_t, int32_t>> seen;
    const auto letters = static_cast<int32_t>(1 + rng.below(4));
    int32_t next = letters;
    for (uint64_t i = rng.below(30); i > 0; --i) {
      const auto left = static_cast<int32_t>(rng.below(next));
      const auto right = static_cast<int32_t>(rng.below(next));
      if (std::find(seen.begin(), seen.end(), std::pair(left, right)) == seen.end()) {
        seen.emplace_back(left, right);
        merges.push_back({left, right, next++});
      }
    }
    const BpeMerges fast(merges);
    BpeMerges::Work work;
    for (const size_t size : {rng.below(8), rng.below(BpeMerges::kShort), 40 + rng.below(60)}) {
      Ids ids(size);
      for (int32_t& id : ids) {
        id = static_cast<int32_t>(rng.below(letters));
      }
      Ids expected = ids;
      merge_slowly(expected, merges);
      fast.apply(ids, work);
      ASSERT_EQ(ids, expected) << "round " << round << ", size " << size;
    }
  }
}

std::shared_ptr<const Tokenizer> make(const Json& json) {
  return tokenizer_from_hf({"t.json", json.dump()});
}

Json words() {
  return small_bpe({{"t", "h"},
                    {"th", "e"},
                    {" ", "c"},
                    {" c", "a"},
                    {"a", "b"},
                    {"z", "z"},
                    {"\xd0", "\xbc"},
                    {" ", " "},
                    {"1", "2"},
                    {"a", "t"},
                    {" ca", "t"}});
}

TEST(BpeTokenizer, EncodesAndDecodes) {
  const auto tokenizer = make(words());
  EXPECT_EQ(tokenizer->name(), "bpe");
  EXPECT_EQ(tokenizer->vocab_size(), 268);
  EXPECT_THAT(tokenizer->encode("the cat"), ElementsAre(257, 266));
  EXPECT_THAT(tokenizer->encode(""), IsEmpty());
  EXPECT_THAT(tokenizer->encode("the<|endoftext|>ab"), ElementsAre(257, 267, 260));
  EXPECT_EQ(tokenizer->decode(Ids{257, 267, 260}), "the<|endoftext|>ab");
  EXPECT_EQ(tokenizer->end_of_text(), 267);
  EXPECT_THAT(tokenizer->special().after, ElementsAre(267));
  EXPECT_THROW(tokenizer->decode(Ids{268}), Error);
  EXPECT_THROW(tokenizer->decode(Ids{-1}), Error);
}

TEST(BpeTokenizer, EveryByteStringRoundTrips) {
  const auto tokenizer = make(words());
  Rng rng(3);
  for (int round = 0; round < 300; ++round) {
    const std::string text =
        round % 2 == 0 ? random_bytes(rng, rng.below(200)) : random_text(rng, rng.below(40));
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << "round " << round;
  }
}

// Encodes `text` in parts whose sizes `rng` draws.
Ids encode_in_parts(const Tokenizer& tokenizer, std::string_view text, Rng& rng) {
  Ids ids;
  EncodeState state;
  size_t begin = 0;
  size_t end = 0;
  while (end < text.size()) {
    end = std::min(text.size(), end + 1 + rng.below(50));
    begin += tokenizer.encode_some(text.substr(begin, end - begin), end == text.size(), state, ids);
    EXPECT_EQ(state.offset, static_cast<int64_t>(begin));
  }
  EXPECT_EQ(begin, text.size());
  return ids;
}

TEST(BpeTokenizer, PartsOfATextGiveTheIdsOfTheWhole) {
  Json json = words();
  const auto add = [&](const char* content, bool lstrip, bool rstrip, bool normalized) {
    Json token = json["added_tokens"][0];
    token["id"] = 267 + json["added_tokens"].size();
    token["content"] = content;
    token["lstrip"] = lstrip;
    token["rstrip"] = rstrip;
    token["normalized"] = normalized;
    json["added_tokens"].push_back(token);
  };
  add("<|end", false, false, false);  // the longest match wins
  add("AA", true, false, true);
  add("мир", false, true, true);
  add("...", true, true, false);
  for (const bool prefix : {false, true}) {
    json["pre_tokenizer"]["add_prefix_space"] = prefix;
    const auto tokenizer = make(json);
    Rng rng(5);
    for (int round = 0; round < 400; ++round) {
      const std::string text = random_text(rng, rng.below(60));
      ASSERT_EQ(encode_in_parts(*tokenizer, text, rng), tokenizer->encode(text))
          << "round " << round << ": " << testing::PrintToString(text);
    }
  }
}

TEST(BpeTokenizer, AddedTokensAreFoundFirst) {
  Json json = words();
  Json& list = json["added_tokens"];
  const auto add = [&](int id, const char* content, const char* flag) {
    Json token = list[0];
    token["id"] = id;
    token["content"] = content;
    token[flag] = true;
    list.push_back(token);
  };
  add(268, "LL", "lstrip");
  add(269, "RR", "rstrip");
  add(270, "<|endoftext|>R", "special");
  const auto tokenizer = make(json);
  EXPECT_THAT(tokenizer->encode("a \n\u00a0LL b"), ElementsAre('a', 268, ' ', 'b'));
  EXPECT_THAT(tokenizer->encode("aRR \t\u3000b"), ElementsAre('a', 269, 'b'));
  EXPECT_THAT(tokenizer->encode("<|endoftext|>RR"), ElementsAre(270, 'R'));  // the longest first
  EXPECT_EQ(tokenizer->decode(Ids{268, 269}), "LLRR");
}

TEST(BpeTokenizer, OptionsOfTheFileAreHonoured) {
  const std::string text = "the cat\nab";
  Json json = words();
  const Ids plain = make(json)->encode(text);

  Json prefixed = json;
  prefixed["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(make(prefixed)->encode(text), make(json)->encode(" " + text));
  EXPECT_EQ(make(prefixed)->encode(" a"), make(json)->encode(" a"));

  Json pairs = json;
  for (Json& merge : pairs["model"]["merges"]) {
    const std::string both = merge;
    const size_t space = both.find(' ');
    merge = Json::array({both.substr(0, space), both.substr(space + 1)});
  }
  EXPECT_EQ(make(pairs)->encode(text), plain);

  Json sequence = json;
  sequence["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers", Json::array({Json{{"type", "Split"},
                                          {"pattern", {{"Regex", std::string(kGpt2Pattern)}}},
                                          {"behavior", "Isolated"},
                                          {"invert", false}},
                                     Json{{"type", "ByteLevel"},
                                          {"add_prefix_space", false},
                                          {"trim_offsets", true},
                                          {"use_regex", false}}})}};
  EXPECT_EQ(make(sequence)->encode(text), plain);

  Json whole = json;
  whole["pre_tokenizer"]["use_regex"] = false;
  whole["model"]["vocab"]["e Ġ"] = 268;  // no byte is spelled " ": kept as it is
  whole["model"]["vocab"][spell_bytes("e c")] = 269;
  whole["model"]["vocab"][spell_bytes("e ")] = 270;
  whole["model"]["merges"].insert(whole["model"]["merges"].begin(), {spell_bytes("e ") + " c"});
  whole["model"]["merges"].insert(whole["model"]["merges"].begin(), "e " + spell_bytes(" "));
  EXPECT_THAT(make(whole)->encode("the cab"), ElementsAre(256, 269, 260));

  // A token that no merge leads to.
  Json ignoring = json;
  ignoring["model"]["vocab"]["cab"] = 268;
  EXPECT_THAT(make(ignoring)->encode("cab"), ElementsAre('c', 260));
  ignoring["model"]["ignore_merges"] = true;
  EXPECT_THAT(make(ignoring)->encode("cab"), ElementsAre(268));

  Json unknown = json;
  unknown["model"]["vocab"].erase("x");
  EXPECT_THAT(message_of<Error>([&] { make(unknown)->encode("abx"); }),
              HasSubstr("no token for the byte 0x78, at byte 2"));
  unknown["model"]["unk_token"] = "the";
  EXPECT_THAT(make(unknown)->encode("axxb"), ElementsAre('a', 257, 257, 'b'));
  unknown["model"]["fuse_unk"] = true;
  EXPECT_THAT(make(unknown)->encode("axxb"), ElementsAre('a', 257, 'b'));

  Json templated = json;
  templated["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", Json::parse(R"([{"SpecialToken":{"id":"<|endoftext|>","type_id":0}},
                                 {"Sequence":{"id":"A","type_id":0}}])")},
      {"pair", Json::array()},
      {"special_tokens",
       {{"<|endoftext|>",
         {{"id", "<|endoftext|>"}, {"ids", {267}}, {"tokens", {"<|endoftext|>"}}}}}}};
  EXPECT_THAT(make(templated)->special().before, ElementsAre(267));
  EXPECT_THAT(make(templated)->special().after, IsEmpty());
}

TEST(BpeTokenizer, WhatIsNotImplementedIsRefusedByName) {
  const auto refusal = [](const char* pointer, const char* value) {
    Json json = words();
    json[Json::json_pointer(pointer)] = Json::parse(value);
    return message_of<IoError>([&] { make(json); });
  };
  EXPECT_THAT(refusal("/version", R"("2.0")"), HasSubstr("t.json.version: \"2.0\" is unknown"));
  EXPECT_THAT(refusal("/truncation", R"({"max_length":5})"), HasSubstr("truncation: is not"));
  EXPECT_THAT(refusal("/padding", R"({})"), HasSubstr("padding: is not"));
  EXPECT_THAT(refusal("/normaliser", "null"), HasSubstr("did you mean normalizer?"));
  EXPECT_THAT(refusal("/normalizer", R"({"type":"NFD"})"), HasSubstr("\"NFD\" is not implemented"));
  EXPECT_THAT(refusal("/pre_tokenizer", "null"), HasSubstr("pre_tokenizer: null is not"));
  EXPECT_THAT(refusal("/pre_tokenizer/type", R"("Digits")"), HasSubstr("\"Digits\" is not"));
  EXPECT_THAT(refusal("/pre_tokenizer/x", "1"), HasSubstr("pre_tokenizer.x: unknown field"));
  EXPECT_THAT(refusal("/pre_tokenizer", R"({"type":"Sequence","pretokenizers":[{"type":"Split",
                      "pattern":{"Regex":"\\p{L}+"},"behavior":"Isolated"},{"type":"ByteLevel"}]})"),
              HasSubstr("\\p{L}+\" is not implemented; GPT-2's pattern"));
  EXPECT_THAT(refusal("/decoder/type", R"("WordPiece")"), HasSubstr("\"WordPiece\" is not"));
  EXPECT_THAT(refusal("/post_processor/type", R"("BertProcessing")"), HasSubstr("BertProcessing"));
  EXPECT_THAT(refusal("/model/type", R"("WordPiece")"), HasSubstr("\"WordPiece\" is not"));
  EXPECT_THAT(refusal("/model/dropout", "0.1"), HasSubstr("model.dropout: is not"));
  EXPECT_THAT(refusal("/model/byte_fallback", "true"), HasSubstr("model.byte_fallback"));
  EXPECT_THAT(refusal("/model/end_of_word_suffix", R"("</w>")"), HasSubstr("\"</w>\""));
  EXPECT_THAT(refusal("/model/extra", "1"), HasSubstr("model.extra: unknown field"));
  EXPECT_THAT(refusal("/added_tokens/0/single_word", "true"),
              HasSubstr("single_word: true is not"));
}

TEST(BpeTokenizer, ContradictionsAreRefused) {
  const auto refusal = [](const char* pointer, const char* value) {
    Json json = words();
    json[Json::json_pointer(pointer)] = Json::parse(value);
    return message_of<IoError>([&] { make(json); });
  };
  EXPECT_THAT(refusal("/model/vocab/the", "5"), HasSubstr("id 5 belongs to both"));
  EXPECT_THAT(refusal("/model/vocab/the", "2147483648"), HasSubstr("an id below 2^31"));
  EXPECT_THAT(refusal("/model/vocab/the", "-1"), HasSubstr("an id below 2^31"));
  EXPECT_THAT(refusal("/model/vocab/the", "1.5"), HasSubstr("an id below 2^31"));
  EXPECT_THAT(refusal("/model/vocab/the", "2000000000"), HasSubstr("far outside a vocabulary"));
  EXPECT_THAT(refusal("/model/vocab", "[]"), HasSubstr("model.vocab: expected an object"));
  EXPECT_THAT(refusal("/model/merges/0", R"("x y")"), HasSubstr("merges[0] names \"xy\""));
  EXPECT_THAT(refusal("/model/merges/1", R"("qq y")"), HasSubstr("merges[1] names \"qq\""));
  EXPECT_THAT(refusal("/model/merges/1", R"("a b c")"), HasSubstr("merges[1]: expected two"));
  EXPECT_THAT(refusal("/model/merges/1", "[1, 2]"), HasSubstr("merges[1]: expected two"));
  EXPECT_THAT(refusal("/model/unk_token", R"("no")"), HasSubstr("unk_token \"no\""));
  EXPECT_THAT(refusal("/added_tokens/0/id", "3"), HasSubstr("id 3 belongs to both"));
  EXPECT_THAT(refusal("/added_tokens/0/content", R"("the")"), HasSubstr("has id 267, but 257"));
  EXPECT_THAT(refusal("/added_tokens/0/content", R"("")"), HasSubstr("is empty"));
  EXPECT_THAT(refusal("/added_tokens/0/content", R"(7)"), HasSubstr("expected a string"));
}

TEST(BpeTokenizer, IdsMayHaveGaps) {
  Json json = words();
  json["added_tokens"][0]["id"] = 300;
  const auto tokenizer = make(json);
  EXPECT_EQ(tokenizer->vocab_size(), 301);
  EXPECT_EQ(tokenizer->decode(Ids{257, 280, 260}), "theab");
}

TEST(BpeTokenizer, ALongRunOfLettersIsNotQuadratic) {
  const auto tokenizer = make(words());
  std::string text;
  while (text.size() < (1 << 20)) {
    text += "abatthezz";
  }
  const Ids ids = tokenizer->encode(text);  // would take hours
  EXPECT_EQ(tokenizer->decode(ids), text);
}

TEST(BpeTokenizer, TheCacheForgetsAndGoesOn) {
  const auto tokenizer = make(words());
  std::string text;
  for (int i = 0; i < 100000; ++i) {
    text += fmt::format("the{}ab ", i);
  }
  const Ids ids = tokenizer->encode(text);
  EXPECT_EQ(tokenizer->decode(ids), text);
  EXPECT_EQ(tokenizer->encode(text), ids);
}

TEST(BpeFiles, DamagedFilesAreRefusedOrStillATokenizer) {
  Rng rng(29);
  const Json whole = words();
  const std::string json = whole.dump();
  const std::string vocab = whole["model"]["vocab"].dump();
  std::string merges = "#version: 0.2\n";
  for (const std::string merge : whole["model"]["merges"]) {
    merges += merge + "\n";
  }
  int refused = 0;
  const auto attempt = [&](auto load) {
    try {
      const std::shared_ptr<const Tokenizer> tokenizer = load();
      tokenizer->encode("the cat мир");
      tokenizer->decode(Ids{0, 1});
    } catch (const Error& error) {
      ++refused;
      EXPECT_THAT(error.what(), testing::AnyOf(HasSubstr("t."), HasSubstr("no token for")));
    }
  };
  for (int round = 0; round < 1500; ++round) {
    attempt([&] { return tokenizer_from_hf({"t.json", damaged(rng, json)}); });
    attempt([&] {
      return tokenizer_from_pair({"t.vocab", damaged(rng, vocab)}, {"t.merges", merges});
    });
    attempt([&] {
      return tokenizer_from_pair({"t.vocab", vocab}, {"t.merges", damaged(rng, merges)});
    });
  }
  EXPECT_GT(refused, 2000);
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_THAT(message_of<IoError>([&] {
                tokenizer_from_hf({"t.json", deep});
              }),
              HasSubstr("nested deeper"));
  EXPECT_THROW(tokenizer_from_pair({"t.vocab", "{\"a\":0,\"a\":1}"}, {"t.merges", ""}), IoError);
  EXPECT_THAT(message_of<IoError>([&] {
                tokenizer_from_pair({"t.vocab", "{\"a\":0}"}, {"t.merges", "a\n"});
              }),
              HasSubstr("t.merges:1: offset 0: expected two tokens"));
  EXPECT_THROW(tokenizer_from_hf({"t.json", R"({"model":{"vocab":{"\ud800":0}}})"}), IoError);
}

// GPT-2's own tokenizer.
class Gpt2 : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = real_data("gpt2");
    if (folder_.empty()) {
      GTEST_SKIP() << "GPT-2's files are not in MSTRAIN_TEST_DATA";
    }
    tokenizer_ = load_tokenizer(real_files(), folder_);
  }
  std::string folder_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_F(Gpt2, GivesTheKnownIds) {
  EXPECT_EQ(tokenizer_->vocab_size(), 50257);
  EXPECT_THAT(tokenizer_->encode("Hello world"), ElementsAre(15496, 995));
  EXPECT_THAT(tokenizer_->encode("Hello, I'm a language model,"),
              ElementsAre(15496, 11, 314, 1101, 257, 3303, 2746, 11));
  EXPECT_THAT(tokenizer_->encode("  two  spaces\n\n\tand tabs "),
              ElementsAre(220, 734, 220, 9029, 628, 197, 392, 22524, 220));
  EXPECT_THAT(tokenizer_->encode("1234567890"), ElementsAre(10163, 2231, 30924, 3829));
  EXPECT_THAT(tokenizer_->encode("<|endoftext|>"), ElementsAre(50256));
}

TEST_F(Gpt2, GivesTheKnownIdsOfAWholeText) {
  const std::string path = real_data("tinyshakespeare.txt");
  if (path.empty()) {
    GTEST_SKIP() << "tinyshakespeare.txt is not in MSTRAIN_TEST_DATA";
  }
  const std::string text = real_files().read(path);
  const Ids ids = tokenizer_->encode(text);
  EXPECT_EQ(ids.size(), 338025);
  EXPECT_EQ(crc32_of_u16(ids), 0x44F1519Au);
  EXPECT_EQ(tokenizer_->decode(ids), text);
}

TEST_F(Gpt2, ItsFilesMakeItAgain) {
  const Scratch scratch;
  for (const TokenizerFile& file : tokenizer_->files()) {
    scratch.write(file.name, file.bytes);
  }
  const auto again = load_tokenizer(real_files(), scratch.root());
  EXPECT_EQ(again->vocab_size(), tokenizer_->vocab_size());
  EXPECT_EQ(again->encode("Hello мир"), tokenizer_->encode("Hello мир"));
  EXPECT_TRUE(has_tokenizer(real_files(), scratch.root()));
}

}  // namespace
}  // namespace mstrain
