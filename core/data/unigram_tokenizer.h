// Unigram tokenizers, as T5 uses them: text is normalised, white space becomes U+2581, and each
// word is cut into its most probable pieces.
//
// Sources: SentencePiece (Kudo and Richardson, 2018; github.com/google/sentencepiece) for .model
// files, github.com/huggingface/tokenizers for tokenizer.json. Where both read a character map
// differently (keys of several characters), this follows SentencePiece: the longest key counts.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/data/added_tokens.h"
#include "core/data/charsmap.h"
#include "core/data/tokenizer.h"
#include "core/data/unigram_model.h"
#include "core/data/word_cache.h"

namespace mstrain {

struct UnigramSpec {
  enum class Kind { kNormal, kUnknown, kControl, kUser, kUnused, kByte };
  struct Piece {
    std::string text;
    double score = 0;
    Kind kind = Kind::kNormal;
  };
  enum class Prefix {
    kNone,
    kAlways,
    kIfMissing,
    kFirst
  };  // kFirst: if missing, at the text's start

  std::string source;         // names the file in errors
  std::vector<Piece> pieces;  // by id
  std::optional<int32_t> unknown;
  bool byte_fallback = false;       // unknown characters become their bytes, where all are pieces
  std::string charsmap;             // see core/data/charsmap.h
  bool collapse_spaces = false;     // several in a row count as one
  bool strip_left = false;          // white space at the start of a segment does not count
  bool strip_right = false;         // nor at its end
  bool any_white_space = false;     // every character with White_Space counts as a space
  Prefix prefix = Prefix::kAlways;  // a space before a segment
  bool decode_strips_prefix = true;
  std::string shown_unknown;  // what the unknown piece decodes to
  std::vector<AddedToken> added;
  SpecialIds special;
  std::optional<int32_t> end_of_text;
  std::vector<TokenizerFile> files;
};

class UnigramTokenizer final : public Tokenizer {
 public:
  // Throws IoError beginning with `spec.source` where pieces repeat, are empty or no UTF-8, a score
  // is not finite, or added tokens do not agree with the pieces.
  explicit UnigramTokenizer(UnigramSpec spec);

  std::string_view name() const override { return "unigram"; }
  int64_t vocab_size() const override { return static_cast<int64_t>(decoded_.size()); }
  // Bytes that are no UTF-8 count as U+FFFD, one each.
  size_t encode_some(std::string_view text, bool last, EncodeState& state,
                     std::vector<int32_t>& ids) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  SpecialIds special() const override { return spec_.special; }
  std::optional<int32_t> end_of_text() const override { return spec_.end_of_text; }
  std::vector<TokenizerFile> files() const override { return spec_.files; }

 private:
  struct Work {
    WordCache cache;
    UnigramModel::Work model;
    std::vector<int32_t> word;
    std::string normal;
  };
  struct Call;

  void index_pieces();
  void index_added();
  size_t encode_level(Call& call, int level, std::string_view text, bool last) const;
  size_t encode_segment(Call& call, std::string_view text, bool last) const;
  size_t normalise(Call& call, std::string_view text, bool last) const;
  void encode_normal(Call& call, std::string_view normal) const;
  void cut_word(Work& work, std::string_view word) const;
  void append_unknown(Work& work, std::string_view character, bool& after_unknown) const;

  UnigramSpec spec_;
  Charsmap charsmap_;
  AddedTokens users_;      // pieces that the normaliser leaves alone
  AddedTokens levels_[2];  // found in the text before others; found in what those leave
  std::optional<UnigramModel> model_;
  std::vector<int32_t> byte_ids_;     // 256, or none
  std::vector<std::string> decoded_;  // by id
  bool by_words_ = true;              // no piece reaches over the start of a word
  size_t margin_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Work>> pool_;
};

}  // namespace mstrain
