#include "core/data/hf_simple.h"

#include <algorithm>
#include <utility>

#include "core/base/json.h"
#include "core/data/byte_alphabet.h"
#include "core/data/simple_tokenizers.h"
#include "core/data/utf8.h"

namespace mstrain {
namespace {

// One token a character, put together again without anything between.
OrderedJson parts_of(const CharTokenizer& tokenizer) {
  OrderedJson vocab = OrderedJson::object();
  for (size_t id = 0; id < tokenizer.characters().size(); ++id) {
    std::string character;
    append_utf8(tokenizer.characters()[id], character);
    vocab[character] = id;
  }
  return {{"pre_tokenizer",
           {{"type", "Split"},
            {"pattern", {{"Regex", "[\\s\\S]"}}},
            {"behavior", "Isolated"},
            {"invert", false}}},
          {"decoder", {{"type", "Fuse"}}},
          {"model", {{"type", "WordLevel"}, {"vocab", vocab}, {"unk_token", "<unk>"}}}};
}

// A byte-pair encoding that joins no pairs.
OrderedJson parts_of_bytes() {
  OrderedJson vocab = OrderedJson::object();
  for (int byte = 0; byte < 256; ++byte) {
    vocab[spell_bytes(std::string(1, static_cast<char>(byte)))] = byte;
  }
  const OrderedJson bytes{{"type", "ByteLevel"},
                          {"add_prefix_space", false},
                          {"trim_offsets", true},
                          {"use_regex", false}};
  return {{"pre_tokenizer", bytes},
          {"decoder", bytes},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"vocab", vocab},
            {"merges", OrderedJson::array()}}}};
}

// What `added_tokens` says of them, from id `first` on.
OrderedJson added_tokens(const std::vector<std::string>& added, int64_t first) {
  OrderedJson out = OrderedJson::array();
  for (const std::string& content : added) {
    out.push_back({{"id", first++},
                   {"content", content},
                   {"single_word", false},
                   {"lstrip", false},
                   {"rstrip", false},
                   {"normalized", false},
                   {"special", true}});
  }
  return out;
}

// Puts the token `end` behind every text.
OrderedJson with_end(int32_t end) {
  const auto text = [](const char* name) {
    return OrderedJson{{"Sequence", {{"id", name}, {"type_id", 0}}}};
  };
  const OrderedJson token{{"SpecialToken", {{"id", kTextEnd}, {"type_id", 0}}}};
  return {
      {"type", "TemplateProcessing"},
      {"single", {text("A"), token}},
      {"pair", {text("A"), token, text("B"), token}},
      {"special_tokens", {{kTextEnd, {{"id", kTextEnd}, {"ids", {end}}, {"tokens", {kTextEnd}}}}}}};
}

}  // namespace

std::vector<TokenizerFile> hugging_face_files(const Tokenizer& tokenizer,
                                              const TokensBeside& beside) {
  const auto* chars = dynamic_cast<const CharTokenizer*>(&tokenizer);
  if (chars == nullptr && tokenizer.name() != "byte") {
    return {};
  }
  OrderedJson json{{"version", "1.0"},
                   {"truncation", nullptr},
                   {"padding", nullptr},
                   {"added_tokens", added_tokens(beside.added, tokenizer.vocab_size())},
                   {"normalizer", nullptr},
                   {"post_processor", beside.end ? with_end(*beside.end) : OrderedJson()}};
  json.update(chars != nullptr ? parts_of(*chars) : parts_of_bytes());
  OrderedJson config{{"tokenizer_class", "PreTrainedTokenizerFast"},
                     {"clean_up_tokenization_spaces", false}};
  for (const auto& [key, token] : {std::pair("pad_token", kFill), {"eos_token", kTextEnd}}) {
    if (std::ranges::count(beside.added, token) > 0) {
      config[key] = token;
    }
  }
  return {{"tokenizer.json", json.dump(1) + "\n"},
          {"tokenizer_config.json", config.dump(1) + "\n"}};
}

}  // namespace mstrain
