#include "core/data/bpe_tokenizer.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/data/byte_alphabet.h"
#include "core/data/utf8.h"

namespace mstrain {
namespace {

constexpr size_t kLongestPiece = size_t{1} << 30;  // what indices of 32 bits reach, with room

// Whether what lies below U+0300, where nothing composes, is all of the text.
bool is_surely_composed(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0xCC; });
}

// Where the last line begins that begins with a visible ASCII character: nothing composes over that place, and LlamaSplit
// cuts there whatever comes before. 0: nowhere.
size_t start_of_last_line(std::string_view text) {
  for (size_t at = text.size(); at-- > 1;) {
    if (text[at - 1] == '\n' && text[at] > ' ' && text[at] < '\x7f') {
      return at;
    }
  }
  return 0;
}

}  // namespace

struct BpeTokenizer::Call {
  Work& work;
  EncodeState& state;
  std::vector<int32_t>& ids;
  const char* begin;  // of the text given
};

BpeTokenizer::BpeTokenizer(BpeSpec spec)
    : source_(spec.source),
      add_prefix_space_(spec.add_prefix_space),
      nfc_(spec.nfc),
      ignore_merges_(spec.ignore_merges),
      fuse_unk_(spec.fuse_unk),
      files_(std::move(spec.files)) {
  switch (spec.split) {
    case SplitPattern::kNone: break;
    case SplitPattern::kGpt2: split_.emplace<Gpt2Split>(); break;
    case SplitPattern::kLlama3: split_.emplace<LlamaSplit>(3); break;
    case SplitPattern::kQwen2: split_.emplace<LlamaSplit>(1); break;
  }
  index_vocab(spec);
  index_merges(spec);
  index_added(spec);
  if (spec.special) {
    special_ = *spec.special;
  } else if (end_of_text_) {
    special_.after = {*end_of_text_};
  }
}

void BpeTokenizer::index_vocab(const BpeSpec& spec) {
  // Ids may have gaps, but not so many that a table over them exceeds the file by far.
  const size_t most = 16 * (spec.vocab.size() + spec.added.size()) + 1024;
  std::vector<const std::string*> by_id;
  const auto place = [&](const std::string& token, int32_t id) {
    if (id < 0 || static_cast<size_t>(id) >= most) {
      throw IoError(fmt::format("{}: token \"{}\" has id {}, far outside a vocabulary of {} tokens",
                                source_, token, id, spec.vocab.size() + spec.added.size()));
    }
    if (by_id.size() <= static_cast<size_t>(id)) {
      by_id.resize(id + 1);
    }
    const std::string*& at = by_id[id];
    if (at != nullptr && *at != token) {
      throw IoError(
          fmt::format("{}: id {} belongs to both \"{}\" and \"{}\"", source_, id, *at, token));
    }
    at = &token;
  };
  for (const auto& [token, id] : spec.vocab) {
    place(token, id);
  }
  std::vector<bool> as_it_is(by_id.size());
  for (const AddedToken& token : spec.added) {
    place(token.content, token.id);
    as_it_is.resize(by_id.size());
    as_it_is[token.id] = true;
  }
  byte_ids_.fill(-1);
  begin_of_.push_back(0);
  for (size_t id = 0; id < by_id.size(); ++id) {
    if (by_id[id] != nullptr) {
      const auto bytes = as_it_is[id] ? std::nullopt : unspell_bytes(*by_id[id]);
      const std::string& token = bytes ? *bytes : *by_id[id];
      bytes_ += token;
      if (bytes && token.size() == 1) {
        byte_ids_[static_cast<unsigned char>(token[0])] = static_cast<int32_t>(id);
      }
      if (bytes && ignore_merges_) {
        whole_.emplace(token, static_cast<int32_t>(id));
      }
    }
    begin_of_.push_back(bytes_.size());
  }
  if (by_id.empty()) {
    throw IoError(fmt::format("{}: the vocabulary is empty", source_));
  }
}

void BpeTokenizer::index_merges(const BpeSpec& spec) {
  std::unordered_map<std::string_view, int32_t> ids;
  for (const auto& [token, id] : spec.vocab) {
    ids.emplace(token, id);
  }
  if (spec.unk_token) {
    const auto found = ids.find(*spec.unk_token);
    if (found == ids.end()) {
      throw IoError(
          fmt::format("{}: unk_token \"{}\" is not in the vocabulary", source_, *spec.unk_token));
    }
    unk_id_ = found->second;
  }
  std::vector<BpeMerges::Merge> merges;
  merges.reserve(spec.merges.size());
  const auto id_of = [&](const std::string& token) {
    const auto found = ids.find(token);
    if (found == ids.end()) {
      throw IoError(fmt::format("{}: merges[{}] names \"{}\", which is not in the vocabulary",
                                spec.merges_source.empty() ? source_ : spec.merges_source,
                                merges.size(), token));
    }
    return found->second;
  };
  for (const auto& [left, right] : spec.merges) {
    merges.push_back({id_of(left), id_of(right), id_of(left + right)});
  }
  merges_.emplace(merges);
}

void BpeTokenizer::index_added(const BpeSpec& spec) {
  std::unordered_map<std::string_view, int32_t> ids;
  for (const auto& [token, id] : spec.vocab) {
    ids.emplace(token, id);
  }
  for (const AddedToken& token : spec.added) {
    const auto found = ids.find(token.content);
    if (found != ids.end() && found->second != token.id) {
      throw IoError(fmt::format("{}: the added token \"{}\" has id {}, but {} in the vocabulary",
                                source_, token.content, token.id, found->second));
    }
    if (spec.named.end ? token.content == *spec.named.end
                       : token.content == "<|endoftext|>" || token.content == "<|end_of_text|>") {
      end_of_text_ = token.id;
    }
    if (token.content == spec.named.pad) {
      pad_ = token.id;
    }
    const auto beyond_ascii = [](char c) { return static_cast<unsigned char>(c) >= 0x80; };
    if (nfc_ && token.normalized &&
        std::any_of(token.content.begin(), token.content.end(), beyond_ascii)) {
      throw IoError(fmt::format(
          "{}: the added token \"{}\" is looked for in composed text, which is not supported",
          source_, token.content));
    }
  }
  try {
    added_ = AddedTokenLevels(spec.added);
  } catch (const Error& error) {
    throw IoError(fmt::format("{}: {}", source_, error.what()));
  }
  margin_ = std::max(Gpt2Split::kLookahead, LlamaSplit::kLookahead) + added_.longest();
}

size_t BpeTokenizer::encode_some(std::string_view text, bool last, EncodeState& state,
                                 std::vector<int32_t>& ids) const {
  return works_.run([&](Work& work) {
    Call call{work, state, ids, text.data()};
    return added_.encode_some(text, last, state, ids, [&](std::string_view part, bool ends) {
      return encode_segment(call, part, ends);
    });
  });
}

// `text` holds no added tokens; `last`: the segment ends with it.
size_t BpeTokenizer::encode_segment(Call& call, std::string_view text, bool last) const {
  if (text.empty()) {
    return 0;
  }
  const int64_t offset = call.state.offset + (text.data() - call.begin);
  size_t taken = 0;
  bool began = call.state.in_segment;
  if (add_prefix_space_ && !began && text[0] != ' ') {
    // The space may be a piece by itself.
    const std::string prefixed = " " + std::string(text);
    const size_t with_space = encode_composed(call, prefixed, offset - 1, last);
    began = with_space > 0;
    taken = began ? with_space - 1 : 0;
  } else {
    taken = encode_composed(call, text, offset, last);
    began = began || taken > 0;
  }
  call.state.in_segment = !last && began;
  return taken;
}

// Text that may change when it is composed is composed up to a place where that cannot reach further, or as a whole.
size_t BpeTokenizer::encode_composed(Call& call, std::string_view text, int64_t offset,
                                     bool last) const {
  if (!nfc_ || is_surely_composed(text)) {
    return encode_pieces(call, text, offset, last);
  }
  size_t taken = last ? text.size() : 0;
  if (!last && text.size() > margin_ && std::holds_alternative<LlamaSplit>(split_)) {
    taken = start_of_last_line(text.substr(0, text.size() - margin_));
  }
  encode_pieces(call, to_nfc(text.substr(0, taken)), offset, true);
  return taken;
}

// `offset`: of text[0] in the whole text.
size_t BpeTokenizer::encode_pieces(Call& call, std::string_view text, int64_t offset,
                                   bool last) const {
  const size_t limit = last ? text.size() : text.size() < margin_ ? 0 : text.size() - margin_;
  return std::visit(
      [&]<class Split>(const Split& split) -> size_t {
        size_t at = 0;
        if constexpr (std::is_same_v<Split, std::monostate>) {
          if (last && !text.empty()) {
            encode_piece(call, text, offset);
            at = text.size();
          }
        } else {
          while (at < limit) {
            const SplitPiece piece = split.piece_at(text, at);
            if (piece.seen > limit) {
              break;
            }
            encode_piece(call, text.substr(at, piece.end - at), offset + static_cast<int64_t>(at));
            at = piece.end;
          }
        }
        return at;
      },
      split_);
}

void BpeTokenizer::encode_piece(Call& call, std::string_view piece, int64_t offset) const {
  Work& work = call.work;
  work.cache.append_ids(piece, call.ids, [&]() -> const std::vector<int32_t>& {
    merge_piece(work, piece, offset);
    return work.word;
  });
}

// Leaves the ids of `piece` in work.word.
void BpeTokenizer::merge_piece(Work& work, std::string_view piece, int64_t offset) const {
  std::vector<int32_t>& word = work.word;
  word.clear();
  if (ignore_merges_) {
    if (const auto found = whole_.find(std::string(piece)); found != whole_.end()) {
      word.push_back(found->second);
      return;
    }
  }
  check(piece.size() <= kLongestPiece, "encode: a piece of {} bytes without a break, from byte {}",
        piece.size(), offset);
  bool after_unknown = false;
  for (size_t i = 0; i < piece.size(); ++i) {
    const auto byte = static_cast<unsigned char>(piece[i]);
    const bool unknown = byte_ids_[byte] < 0;
    if (!unknown) {
      word.push_back(byte_ids_[byte]);
    } else if (!(after_unknown && fuse_unk_)) {
      check(unk_id_ >= 0, "encode: {} has no token for the byte 0x{:02X}, at byte {}", source_,
            byte, offset + static_cast<int64_t>(i));
      word.push_back(unk_id_);
    }
    after_unknown = unknown;
  }
  merges_->apply(word, work.merge);
}

std::string BpeTokenizer::decode(std::span<const int32_t> ids) const {
  std::string out;
  for (const int32_t id : ids) {
    check(id >= 0 && id < vocab_size(), "decode: id {} is not below the vocabulary's size {}", id,
          vocab_size());
    out.append(bytes_, begin_of_[id], begin_of_[id + 1] - begin_of_[id]);
  }
  return out;
}

}  // namespace mstrain
