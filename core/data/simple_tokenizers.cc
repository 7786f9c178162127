#include "core/data/simple_tokenizers.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/data/utf8.h"

namespace mstrain {
namespace {

void check_id(int32_t id, int64_t vocab_size) {
  check(id >= 0 && id < vocab_size, "decode: id {} is not below the vocabulary's size {}", id,
        vocab_size);
}

std::string to_text(const OrderedJson& json) { return json.dump(1) + "\n"; }

OrderedJson header(std::string_view type) {
  return {{"format", "mstrain-tokenizer"}, {"version", 1}, {"type", type}};
}

}  // namespace

size_t ByteTokenizer::encode_some(std::string_view text, bool, EncodeState& state,
                                  std::vector<int32_t>& ids) const {
  ids.reserve(ids.size() + text.size());
  std::transform(text.begin(), text.end(), std::back_inserter(ids),
                 [](char c) { return static_cast<unsigned char>(c); });
  state.offset += static_cast<int64_t>(text.size());
  return text.size();
}

std::string ByteTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (const int32_t id : ids) {
    check_id(id, vocab_size());
    text.push_back(static_cast<char>(id));
  }
  return text;
}

std::vector<TokenizerFile> ByteTokenizer::files() const {
  return {{std::string(kTokenizerFile), to_text(header(name()))}};
}

CharTokenizer::CharTokenizer(std::vector<char32_t> characters)
    : characters_(std::move(characters)) {
  check(!characters_.empty(), "a char tokenizer needs at least one character");
  char32_t before = 0;
  for (size_t i = 0; i < characters_.size(); ++i) {
    const char32_t code = characters_[i];
    check(code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF),
          "a char tokenizer cannot hold U+{:04X}: it is no Unicode character",
          static_cast<uint32_t>(code));
    check(i == 0 || code > before, "a char tokenizer's characters must ascend: {} follows {}",
          describe_character(code), describe_character(before));
    before = code;
  }
  id_of_.assign(static_cast<size_t>(characters_.back()) + 1, -1);
  for (size_t i = 0; i < characters_.size(); ++i) {
    id_of_[characters_[i]] = static_cast<int32_t>(i);
  }
}

CharTokenizer CharTokenizer::of_text(std::string_view text) {
  std::set<char32_t> seen;
  for (size_t at = 0; at < text.size();) {
    const Utf8Character character = decode_utf8(text, at);
    check(character.length > 0, "the text is not valid UTF-8 at byte {}", at);
    seen.insert(character.code);
    at += character.length;
  }
  return CharTokenizer(std::vector<char32_t>(seen.begin(), seen.end()));
}

size_t CharTokenizer::encode_some(std::string_view text, bool last, EncodeState& state,
                                  std::vector<int32_t>& ids) const {
  size_t at = 0;
  while (at < text.size() && (last || text.size() - at >= 4)) {
    const Utf8Character character = decode_utf8(text, at);
    const int64_t offset = state.offset + static_cast<int64_t>(at);
    check(character.length > 0, "encode: the text is not valid UTF-8 at byte {}", offset);
    const int32_t id = id_of(character.code);
    check(id >= 0, "encode: {} at byte {} is not among the tokenizer's {} characters",
          describe_character(character.code), offset, vocab_size());
    ids.push_back(id);
    at += character.length;
  }
  state.offset += static_cast<int64_t>(at);
  return at;
}

std::string CharTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (const int32_t id : ids) {
    check_id(id, vocab_size());
    append_utf8(characters_[id], text);
  }
  return text;
}

std::vector<TokenizerFile> CharTokenizer::files() const {
  OrderedJson json = header(name());
  OrderedJson& list = json["characters"] = OrderedJson::array();
  for (const char32_t code : characters_) {
    std::string character;
    append_utf8(code, character);
    list.push_back(character);
  }
  return {{std::string(kTokenizerFile), to_text(json)}};
}

}  // namespace mstrain
