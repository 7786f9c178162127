#include "core/data/bpe_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/data/tokenizer_files.h"
#include "core/data/utf8.h"
#include "core/io/atomic_file.h"
#include "tests/core/base/message_of.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/data/scratch.h"
#include "tests/core/data/small_tokenizers.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Ids = std::vector<int32_t>;

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

TEST(BpeTokenizer, EncodesAndDecodes) {
  const auto tokenizer = read_tokenizer(words());
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

TEST(BpeTokenizer, EndsTextsAsTheFilesBesideItSay) {
  const TemporaryFolder folder;
  Json json = words();
  json["added_tokens"].push_back({{"id", 268},
                                  {"content", "<|im_end|>"},
                                  {"single_word", false},
                                  {"lstrip", false},
                                  {"rstrip", false},
                                  {"normalized", false},
                                  {"special", true}});
  write_file_atomic(real_files(), folder / "tokenizer.json", json.dump());
  const auto read = [&](const char* config) {
    write_file_atomic(real_files(), folder / "tokenizer_config.json", config);
    return load_tokenizer(real_files(), folder.path());
  };
  EXPECT_EQ(read("{}")->end_of_text(), 267);
  EXPECT_EQ(read(R"({"eos_token": "<|im_end|>"})")->end_of_text(), 268);
  const auto both =
      read(R"({"eos_token": {"content": "<|im_end|>"}, "pad_token": "<|endoftext|>"})");
  EXPECT_EQ(both->end_of_text(), 268);
  EXPECT_EQ(both->pad(), 267);
  EXPECT_EQ(read(R"({"eos_token": null, "pad_token": "none"})")->pad(), std::nullopt);
  write_file_atomic(real_files(), folder / "special_tokens_map.json",
                    R"({"eos_token": "<|im_end|>"})");
  EXPECT_EQ(read("{}")->end_of_text(), 268);
  EXPECT_EQ(read(R"({"eos_token": "<|endoftext|>"})")->end_of_text(), 267);
  EXPECT_THAT(message_of<IoError>([&] { read(R"({"eos_token": 3})"); }),
              HasSubstr("tokenizer_config.json.eos_token: expected a token's text, found 3"));
}

TEST(BpeTokenizer, EveryByteStringRoundTrips) {
  const auto tokenizer = read_tokenizer(words());
  Rng rng(3);
  for (int round = 0; round < 300; ++round) {
    const std::string text =
        round % 2 == 0 ? random_bytes(rng, rng.below(200)) : random_text(rng, rng.below(40));
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << "round " << round;
  }
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
    const auto tokenizer = read_tokenizer(json);
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
  const auto tokenizer = read_tokenizer(json);
  EXPECT_THAT(tokenizer->encode("a \n\u00a0LL b"), ElementsAre('a', 268, ' ', 'b'));
  EXPECT_THAT(tokenizer->encode("aRR \t\u3000b"), ElementsAre('a', 269, 'b'));
  EXPECT_THAT(tokenizer->encode("<|endoftext|>RR"), ElementsAre(270, 'R'));  // the longest first
  EXPECT_EQ(tokenizer->decode(Ids{268, 269}), "LLRR");
}

TEST(BpeTokenizer, OptionsOfTheFileAreHonoured) {
  const std::string text = "the cat\nab";
  Json json = words();
  const Ids plain = read_tokenizer(json)->encode(text);

  Json prefixed = json;
  prefixed["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(read_tokenizer(prefixed)->encode(text), read_tokenizer(json)->encode(" " + text));
  EXPECT_EQ(read_tokenizer(prefixed)->encode(" a"), read_tokenizer(json)->encode(" a"));

  Json pairs = json;
  for (Json& merge : pairs["model"]["merges"]) {
    const std::string both = merge;
    const size_t space = both.find(' ');
    merge = Json::array({both.substr(0, space), both.substr(space + 1)});
  }
  EXPECT_EQ(read_tokenizer(pairs)->encode(text), plain);

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
  EXPECT_EQ(read_tokenizer(sequence)->encode(text), plain);

  Json whole = json;
  whole["pre_tokenizer"]["use_regex"] = false;
  whole["model"]["vocab"]["e Ġ"] = 268;  // no byte is spelled " ": kept as it is
  whole["model"]["vocab"][spell_bytes("e c")] = 269;
  whole["model"]["vocab"][spell_bytes("e ")] = 270;
  whole["model"]["merges"].insert(whole["model"]["merges"].begin(), {spell_bytes("e ") + " c"});
  whole["model"]["merges"].insert(whole["model"]["merges"].begin(), "e " + spell_bytes(" "));
  EXPECT_THAT(read_tokenizer(whole)->encode("the cab"), ElementsAre(256, 269, 260));

  // A token that no merge leads to.
  Json ignoring = json;
  ignoring["model"]["vocab"]["cab"] = 268;
  EXPECT_THAT(read_tokenizer(ignoring)->encode("cab"), ElementsAre('c', 260));
  ignoring["model"]["ignore_merges"] = true;
  EXPECT_THAT(read_tokenizer(ignoring)->encode("cab"), ElementsAre(268));

  Json unknown = json;
  unknown["model"]["vocab"].erase("x");
  EXPECT_THAT(message_of<Error>([&] { read_tokenizer(unknown)->encode("abx"); }),
              HasSubstr("no token for the byte 0x78, at byte 2"));
  unknown["model"]["unk_token"] = "the";
  EXPECT_THAT(read_tokenizer(unknown)->encode("axxb"), ElementsAre('a', 257, 257, 'b'));
  unknown["model"]["fuse_unk"] = true;
  EXPECT_THAT(read_tokenizer(unknown)->encode("axxb"), ElementsAre('a', 257, 'b'));

  Json templated = json;
  templated["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", Json::parse(R"([{"SpecialToken":{"id":"<|endoftext|>","type_id":0}},
                                 {"Sequence":{"id":"A","type_id":0}}])")},
      {"pair", Json::array()},
      {"special_tokens",
       {{"<|endoftext|>",
         {{"id", "<|endoftext|>"}, {"ids", {267}}, {"tokens", {"<|endoftext|>"}}}}}}};
  EXPECT_THAT(read_tokenizer(templated)->special().before, ElementsAre(267));
  EXPECT_THAT(read_tokenizer(templated)->special().after, IsEmpty());
}

TEST(BpeTokenizer, IdsMayHaveGaps) {
  Json json = words();
  json["added_tokens"][0]["id"] = 300;
  const auto tokenizer = read_tokenizer(json);
  EXPECT_EQ(tokenizer->vocab_size(), 301);
  EXPECT_EQ(tokenizer->decode(Ids{257, 280, 260}), "theab");
}

TEST(BpeTokenizer, ALongRunOfLettersIsNotQuadratic) {
  const auto tokenizer = read_tokenizer(words());
  std::string text;
  while (text.size() < (1 << 20)) {
    text += "abatthezz";
  }
  const Ids ids = tokenizer->encode(text);  // would take hours
  EXPECT_EQ(tokenizer->decode(ids), text);
}

TEST(BpeTokenizer, TheCacheForgetsAndGoesOn) {
  const auto tokenizer = read_tokenizer(words());
  std::string text;
  for (int i = 0; i < 100000; ++i) {
    text += fmt::format("the{}ab ", i);
  }
  const Ids ids = tokenizer->encode(text);
  EXPECT_EQ(tokenizer->decode(ids), text);
  EXPECT_EQ(tokenizer->encode(text), ids);
}

}  // namespace
}  // namespace mstrain
