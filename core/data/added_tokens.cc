#include "core/data/added_tokens.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/data/unicode_class.h"
#include "core/data/utf8.h"

namespace mstrain {
namespace {

// Length of the white space character at text[at]; 0: there is none.
size_t space_at(std::string_view text, size_t at) {
  const Utf8Character character = decode_utf8(text, at);
  return character.length > 0 && char_class(character.code) == CharClass::kSpace
             ? static_cast<size_t>(character.length)
             : 0;
}

size_t skip_spaces(std::string_view text, size_t at) {
  while (at < text.size()) {
    const size_t length = space_at(text, at);
    if (length == 0) {
      break;
    }
    at += length;
  }
  return at;
}

size_t skip_spaces_back(std::string_view text, size_t from, size_t at) {
  while (at > from) {
    size_t begin = at - 1;
    while (begin > from && at - begin < 4 && (static_cast<unsigned char>(text[begin]) >> 6) == 2) {
      --begin;
    }
    if (space_at(text.substr(0, at), begin) != at - begin) {
      break;
    }
    at = begin;
  }
  return at;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
  first_.assign(257, 0);
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& content = tokens_[i].content;
    check(!content.empty(), "the added token with id {} is empty", tokens_[i].id);
    check(i == 0 || content != tokens_[i - 1].content, "two added tokens have the content \"{}\"",
          content);
    ++first_[static_cast<unsigned char>(content[0]) + 1];
    longest_ = std::max(longest_, content.size());
    starts_[static_cast<unsigned char>(content[0])] = true;
  }
  for (size_t byte = 1; byte < first_.size(); ++byte) {
    first_[byte] += first_[byte - 1];
  }
  if (!tokens_.empty() && tokens_.front().content[0] == tokens_.back().content[0]) {
    only_start_ = tokens_.front().content[0];
  }
}

const AddedToken* AddedTokens::match_at(std::string_view text, size_t at,
                                        std::string_view plain) const {
  const auto may_be = [&](const AddedToken& token) {
    return plain.empty() || !token.special ||
           plain.substr(at, token.content.size()).find_first_not_of('\0') == std::string_view::npos;
  };
  const auto byte = static_cast<unsigned char>(text[at]);
  auto low = tokens_.begin() + first_[byte];
  auto high = tokens_.begin() + first_[byte + 1];
  const AddedToken* best = nullptr;
  for (size_t depth = 1; low != high; ++depth) {
    if (low->content.size() == depth) {
      best = may_be(*low) ? &*low : best;
      ++low;
    }
    if (at + depth >= text.size()) {
      break;
    }
    // All of [low, high) are longer than `depth` and agree on that many bytes.
    const auto wanted = static_cast<unsigned char>(text[at + depth]);
    const auto byte_of = [depth](const AddedToken& token) {
      return static_cast<unsigned char>(token.content[depth]);
    };
    low = std::partition_point(low, high, [&](const AddedToken& t) { return byte_of(t) < wanted; });
    high =
        std::partition_point(low, high, [&](const AddedToken& t) { return byte_of(t) == wanted; });
  }
  return best;
}

std::optional<AddedTokens::Match> AddedTokens::at(std::string_view text, size_t at) const {
  const AddedToken* token = at < text.size() ? match_at(text, at) : nullptr;
  return token == nullptr ? std::nullopt
                          : std::optional(Match{at, at + token->content.size(), at, token->id});
}

std::optional<AddedTokens::Match> AddedTokens::find(std::string_view text, size_t from,
                                                    std::string_view plain) const {
  if (tokens_.empty()) {
    return std::nullopt;
  }
  for (size_t at = from;; ++at) {
    if (only_start_) {
      at = std::min(text.find(*only_start_, at), text.size());
    } else {
      while (at < text.size() && !starts_[static_cast<unsigned char>(text[at])]) {
        ++at;
      }
    }
    if (at == text.size()) {
      return std::nullopt;
    }
    if (const AddedToken* token = match_at(text, at, plain); token != nullptr) {
      Match match{at, at + token->content.size(), at, token->id};
      if (token->lstrip) {
        match.begin = skip_spaces_back(text, from, at);
      }
      if (token->rstrip) {
        match.end = skip_spaces(text, match.end);
      }
      return match;
    }
  }
}

AddedTokenLevels::AddedTokenLevels(const std::vector<AddedToken>& tokens) {
  std::array<std::vector<AddedToken>, 2> levels;
  for (const AddedToken& token : tokens) {
    levels[token.normalized ? 1 : 0].push_back(token);
  }
  for (size_t i = 0; i < levels.size(); ++i) {
    levels_[i] = AddedTokens(std::move(levels[i]));
  }
}

struct AddedTokenLevels::Call {
  const char* begin;  // of the text, which stands at state.offset
  EncodeState& state;
  std::vector<int32_t>& ids;
  const EncodeSegment& encode_segment;
};

size_t AddedTokenLevels::encode_some(std::string_view text, bool last, EncodeState& state,
                                     std::vector<int32_t>& ids,
                                     const EncodeSegment& encode_segment) const {
  Call call{text.data(), state, ids, encode_segment};
  const size_t taken = encode_level(call, 0, text, last);
  state.offset += static_cast<int64_t>(taken);
  return taken;
}

// The marks of `text`, a part of what the call encodes.
std::string_view AddedTokenLevels::plain_of(const Call& call, std::string_view text) {
  const auto offset = static_cast<size_t>(call.state.offset + (text.data() - call.begin));
  return call.state.plain.empty() ? "" : call.state.plain.substr(offset, text.size());
}

// Cuts the text at the tokens of `level`; what lies between goes to the next level.
size_t AddedTokenLevels::encode_level(Call& call, size_t level, std::string_view text,
                                      bool last) const {
  if (level == levels_.size()) {
    return call.encode_segment(text, last);
  }
  const AddedTokens& tokens = levels_[level];
  const std::string_view plain = plain_of(call, text);
  size_t at = 0;
  while (at < text.size()) {
    const auto match = tokens.find(text, at, plain);
    if (!match) {
      return at + encode_level(call, level + 1, text.substr(at), last);
    }
    // A longer token, or more white space that belongs to this one, may follow.
    const bool decided =
        last || (match->content + tokens.longest() <= text.size() && match->end + 4 <= text.size());
    const std::string_view before = text.substr(at, match->begin - at);
    if (!decided) {
      return at + encode_level(call, level + 1, before, false);
    }
    encode_level(call, level + 1, before, true);
    call.ids.push_back(match->id);
    call.state.in_segment = false;
    at = match->end;
  }
  return at;
}

}  // namespace mstrain
