#include "core/data/sentencepiece_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/data/utf8.h"

namespace mstrain {
namespace {

using Kind = SentencePieceSpec::Kind;

constexpr double kUnknownPenalty = 10;

std::string with_spaces(std::string_view piece) {
  std::string out;
  for (size_t at = 0; at < piece.size();) {
    if (piece.substr(at).starts_with(kSpaceSign)) {
      out.push_back(' ');
      at += kSpaceSign.size();
    } else {
      out.push_back(piece[at++]);
    }
  }
  return out;
}

// Whether a piece may hold the end of a word and the start of the next one. `runs`: all the space before a word is part
// of it.
bool reaches_over_word(std::string_view piece, bool runs) {
  size_t at = 0;
  while (runs && piece.substr(at).starts_with(kSpaceSign)) {
    at += kSpaceSign.size();
  }
  return piece.find(kSpaceSign, std::max<size_t>(at, 1)) != piece.npos;
}

}  // namespace

void find_named(const NamedTokens& named, SentencePieceSpec& spec) {
  for (const auto& [text, id] :
       {std::pair(named.end, &spec.end_of_text), std::pair(named.pad, &spec.pad)}) {
    const auto added = std::find_if(spec.added.begin(), spec.added.end(),
                                    [&](const AddedToken& token) { return token.content == text; });
    const auto piece =
        std::find_if(spec.pieces.begin(), spec.pieces.end(),
                     [&](const SentencePieceSpec::Piece& each) { return each.text == text; });
    if (added != spec.added.end()) {
      *id = added->id;
    } else if (piece != spec.pieces.end()) {
      *id = static_cast<int32_t>(piece - spec.pieces.begin());
    }
  }
}

void check_piece(const SentencePieceSpec::Piece& piece, size_t id) {
  check(!piece.text.empty(), "piece {} is empty", id);
  check(find_invalid_utf8(piece.text) == piece.text.npos, "piece {} is not valid UTF-8", id);
  check(std::isfinite(piece.score), "piece {} \"{}\" has the score {}", id, piece.text,
        piece.score);
}

struct SentencePieceTokenizer::Call {
  Work& work;
  EncodeState& state;
  std::vector<int32_t>& ids;
  const char* begin;  // of the text given
};

SentencePieceTokenizer::SentencePieceTokenizer(SentencePieceSpec spec) : spec_(std::move(spec)) {
  try {
    index_pieces();
    index_added();
  } catch (const IoError&) {
    throw;
  } catch (const Error& error) {
    throw IoError(fmt::format("{}: {}", spec_.source, error.what()));
  }
}

void SentencePieceTokenizer::index_pieces() {
  check(!spec_.pieces.empty(), "the vocabulary is empty");
  const bool grows = spec_.merges.has_value();
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  for (const SentencePieceSpec::Piece& piece : spec_.pieces) {
    check_piece(piece, static_cast<size_t>(&piece - spec_.pieces.data()));
    if (piece.kind == Kind::kNormal) {
      least = std::min(least, piece.score);
      most = std::max(most, piece.score);
    }
  }
  check(least <= most, "no piece is a normal one");
  std::vector<UnigramModel::Piece> pieces;
  std::vector<AddedToken> users;
  std::vector<int32_t> byte_ids(256, -1);
  bool has_space = false;
  for (size_t i = 0; i < spec_.pieces.size(); ++i) {
    const auto& [text, score, kind] = spec_.pieces[i];
    const auto id = static_cast<int32_t>(i);
    decoded_.push_back(kind == Kind::kControl   ? ""
                       : kind == Kind::kUnknown ? spec_.shown_unknown
                                                : with_spaces(text));
    if (kind == Kind::kNormal || kind == Kind::kUser) {
      // A user's piece wins over every other way to cut its text.
      const double bonus = static_cast<double>(text.size()) * most - 0.1;
      pieces.push_back({text, kind == Kind::kUser ? bonus : score, id});
      by_words_ = by_words_ && !reaches_over_word(text, grows);
      has_space = has_space || text == kSpaceSign;
    }
    if (grows && decode_utf8(text, 0).length == static_cast<int>(text.size())) {
      check(characters_.emplace(text, id).second, "piece {} \"{}\" stands there twice", i, text);
    }
    if (kind == Kind::kUser) {
      check(!grows, "piece {} \"{}\" is user-defined, which is not supported with merges", i, text);
      users.push_back({.content = with_spaces(text), .id = id});
    }
    unsigned byte = 0;
    if (text.size() == 6 && text.starts_with("<0x") && text[5] == '>' &&
        std::sscanf(text.c_str(), "<0x%2X>", &byte) == 1) {
      byte_ids[byte] = id;
      if (spec_.byte_fallback) {
        decoded_.back() = std::string(1, static_cast<char>(byte));
      }
    }
  }
  by_words_ = by_words_ && has_space;  // else unknown characters may fuse over the start of a word
  if (spec_.byte_fallback) {
    const auto missing = std::find(byte_ids.begin(), byte_ids.end(), -1) - byte_ids.begin();
    check(missing == 256, "byte_fallback needs all bytes, but there is no piece <0x{:02X}>",
          missing);
    byte_ids_ = std::move(byte_ids);
  }
  normaliser_.emplace(spec_.normal, spec_.source, std::move(users));
  if (grows) {
    merges_.emplace(*spec_.merges);
  } else {
    model_.emplace(pieces, least - kUnknownPenalty);
  }
}

void SentencePieceTokenizer::index_added() {
  const size_t most = 16 * (spec_.pieces.size() + spec_.added.size()) + 1024;
  for (const AddedToken& token : spec_.added) {
    const auto id = static_cast<size_t>(token.id);
    check(id < most, "the added token \"{}\" has id {}, far outside a vocabulary of {} tokens",
          token.content, id, spec_.pieces.size());
    check(id >= spec_.pieces.size() || spec_.pieces[id].text == token.content,
          "id {} belongs to both \"{}\" and \"{}\"", id,
          id < spec_.pieces.size() ? spec_.pieces[id].text : "", token.content);
    if (decoded_.size() <= id) {
      decoded_.resize(id + 1);
    }
    decoded_[id] = token.content;
  }
  added_ = AddedTokenLevels(spec_.added);
  normaliser_->widen_margin(added_.longest());
}

size_t SentencePieceTokenizer::encode_some(std::string_view text, bool last, EncodeState& state,
                                           std::vector<int32_t>& ids) const {
  return works_.run([&](Work& work) {
    Call call{work, state, ids, text.data()};
    return added_.encode_some(text, last, state, ids, [&](std::string_view part, bool ends) {
      return encode_segment(call, part, ends);
    });
  });
}

size_t SentencePieceTokenizer::encode_segment(Call& call, std::string_view text, bool last) const {
  if (text.empty() || (!last && !by_words_)) {
    return 0;
  }
  const bool begins_segment = !call.state.in_segment;
  const bool begins_text = begins_segment && call.state.offset == 0 && text.data() == call.begin;
  const size_t taken = (*normaliser_)(text, {begins_segment, begins_text, last}, call.work.normal);
  encode_normal(call, call.work.normal);
  call.state.in_segment = !last && (call.state.in_segment || taken > 0);
  return taken;
}

void SentencePieceTokenizer::encode_normal(Call& call, std::string_view normal) const {
  Work& work = call.work;
  for (size_t at = 0; at < normal.size();) {
    const size_t end = by_words_ ? end_of_word(normal, at) : normal.size();
    const std::string_view word = normal.substr(at, end - at);
    at = end;
    work.cache.append_ids(word, call.ids, [&]() -> const std::vector<int32_t>& {
      if (merges_) {
        merge_word(work, word);
      } else {
        cut_word(work, word);
      }
      return work.word;
    });
  }
}

size_t SentencePieceTokenizer::end_of_word(std::string_view normal, size_t at) const {
  size_t from = at;
  while (merges_ && normal.substr(from).starts_with(kSpaceSign)) {
    from += kSpaceSign.size();
  }
  return std::min(normal.find(kSpaceSign, std::max(from, at + 1)), normal.size());
}

// Each character becomes its piece, or what stands for it, and neighbours are merged. Leaves the ids in work.word.
void SentencePieceTokenizer::merge_word(Work& work, std::string_view word) const {
  work.word.clear();
  bool after_unknown = false;
  for (size_t at = 0; at < word.size();) {
    const auto size = static_cast<size_t>(std::max(1, decode_utf8(word, at).length));
    const std::string_view character = word.substr(at, size);
    if (const auto found = characters_.find(std::string(character)); found != characters_.end()) {
      work.word.push_back(found->second);
      after_unknown = false;
    } else {
      append_unknown(work, character, after_unknown);
    }
    at += size;
  }
  merges_->apply(work.word, work.merge);
}

// Leaves the ids of `word` in work.word.
void SentencePieceTokenizer::cut_word(Work& work, std::string_view word) const {
  model_->cut(word, work.model);
  work.word.clear();
  bool after_unknown = false;
  size_t at = 0;
  for (const UnigramModel::Part& part : work.model.parts) {
    if (part.id != UnigramModel::kUnknown) {
      work.word.push_back(part.id);
      after_unknown = false;
    } else {
      append_unknown(work, word.substr(at, part.size), after_unknown);
    }
    at += part.size;
  }
}

void SentencePieceTokenizer::append_unknown(Work& work, std::string_view character,
                                            bool& after_unknown) const {
  if (!byte_ids_.empty()) {
    for (const char c : character) {
      work.word.push_back(byte_ids_[static_cast<unsigned char>(c)]);
    }
    return;
  }
  if (!after_unknown) {  // several in a row are one
    check(spec_.unknown.has_value(), "encode: {} has no piece for {} and none for the unknown",
          spec_.source, describe_character(decode_utf8(character, 0).code));
    work.word.push_back(*spec_.unknown);
  }
  after_unknown = true;
}

std::string SentencePieceTokenizer::decode(std::span<const int32_t> ids) const {
  std::string out = decode_further(ids);
  if (spec_.decode_strips_prefix && out.starts_with(' ')) {
    out.erase(0, 1);
  }
  return out;
}

std::string SentencePieceTokenizer::decode_further(std::span<const int32_t> ids) const {
  std::string out;
  for (const int32_t id : ids) {
    check(id >= 0 && id < vocab_size(), "decode: id {} is not below the vocabulary's size {}", id,
          vocab_size());
    out += decoded_[id];
  }
  return out;
}

}  // namespace mstrain
