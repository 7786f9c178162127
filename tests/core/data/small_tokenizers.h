// Tokenizers of the tests' own making, and damage to do to their files.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/base/rng.h"
#include "core/data/byte_alphabet.h"
#include "core/data/tokenizer_files.h"

namespace mstrain {

// A GPT-2-like tokenizer.json: the 256 bytes as ids 0 … 255, then one token for each merge, then
// <|endoftext|>.
inline Json small_bpe(const std::vector<std::pair<std::string, std::string>>& merges) {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    vocab[spell_bytes(std::string(1, static_cast<char>(byte)))] = byte;
  }
  Json list = Json::array();
  for (const auto& [left, right] : merges) {
    const std::string a = spell_bytes(left);
    const std::string b = spell_bytes(right);
    if (!vocab.contains(a + b)) {
      const auto id = vocab.size();
      vocab[a + b] = id;
    }
    list.push_back(a + " " + b);
  }
  const Json end{
      {"id", vocab.size()}, {"content", "<|endoftext|>"}, {"single_word", false}, {"lstrip", false},
      {"rstrip", false},    {"normalized", false},        {"special", true}};
  const Json level{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array({end})},
          {"normalizer", nullptr},
          {"pre_tokenizer", level},
          {"post_processor", level},
          {"decoder", level},
          {"model", Json{{"type", "BPE"},
                         {"dropout", nullptr},
                         {"unk_token", nullptr},
                         {"continuing_subword_prefix", ""},
                         {"end_of_word_suffix", ""},
                         {"fuse_unk", false},
                         {"vocab", vocab},
                         {"merges", list}}}};
}

// Of a few words, with 268 ids.
inline Json words() {
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

// The same with a template that puts the token of the byte B before a text, as Llama's does with <s>.
inline Json beginning_words() {
  Json json = words();
  json["post_processor"] = Json::parse(R"({"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "B", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "pair": [], "special_tokens": {"B": {"id": "B", "ids": [66], "tokens": ["B"]}}})");
  return json;
}

inline std::shared_ptr<const Tokenizer> read_tokenizer(const Json& json) {
  return tokenizer_from_hf({"t.json", json.dump()});
}

inline std::string random_bytes(Rng& rng, size_t size) {
  std::string text(size, '\0');
  for (char& c : text) {
    c = static_cast<char>(rng.below(256));
  }
  return text;
}

// Words, numbers, signs, white space of several kinds, other scripts, and now and then a byte that
// is no character.
inline std::string random_text(Rng& rng, size_t parts) {
  static const std::vector<std::string> kParts{
      "the", " cat", "a",      "ab",   " ",        "  ",     "\n",
      "\t",  "'s",   "'re",    "'",    "12",       "é",      "ß",
      "мир", "世界", "🙂",   "½",    "٣",        "\u00a0", "\u3000",
      "...", " (",   "\u0301", "\xff", "\xe2\x82", "\r\n",   "<|endoftext|>",
      "<",   "A",    "zz",     " 7"};
  std::string text;
  for (size_t i = 0; i < parts; ++i) {
    text += kParts[rng.below(kParts.size())];
  }
  return text;
}

// Encodes `text` in parts whose sizes `rng` draws.
inline std::vector<int32_t> encode_in_parts(const Tokenizer& tokenizer, std::string_view text,
                                            Rng& rng) {
  std::vector<int32_t> ids;
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

// One to three edits: a byte changed, bytes cut out, a part of the file copied in, or its end lost.
inline std::string damaged(Rng& rng, const std::string& good) {
  std::string bad = good;
  for (uint64_t edits = 1 + rng.below(3); edits > 0 && !bad.empty(); --edits) {
    const size_t at = rng.below(bad.size());
    switch (rng.below(4)) {
      case 0: bad[at] = static_cast<char>(rng.below(256)); break;
      case 1: bad.erase(at, 1 + rng.below(8)); break;
      case 2: bad.insert(at, good.substr(rng.below(good.size()), rng.below(16))); break;
      default: bad.resize(at); break;
    }
  }
  return bad;
}

}  // namespace mstrain
