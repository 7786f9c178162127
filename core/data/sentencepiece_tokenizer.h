// SentencePiece's tokenizers: text is normalised, and each word is cut into its most probable pieces (unigram, as T5 uses
// it), or grown from its characters by merges (byte-pair encoding, as Llama 2 and Mistral use it).
//
// Sources: SentencePiece (Kudo and Richardson, 2018; github.com/google/sentencepiece) for .model
// files, github.com/huggingface/tokenizers for tokenizer.json.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/data/added_tokens.h"
#include "core/data/bpe_merges.h"
#include "core/data/tokenizer.h"
#include "core/data/unigram_model.h"
#include "core/data/unigram_normaliser.h"
#include "core/data/word_cache.h"
#include "core/data/work_pool.h"

namespace mstrain {

struct SentencePieceSpec {
  enum class Kind { kNormal, kUnknown, kControl, kUser, kUnused, kByte };
  struct Piece {
    std::string text;
    double score = 0;
    Kind kind = Kind::kNormal;
  };

  std::string source;         // names the file in errors
  std::vector<Piece> pieces;  // by id
  // Of two pieces each, by id; with the rank of BpeMerges::Merge. Given: pieces grow by these, whatever their scores.
  std::optional<std::vector<BpeMerges::Merge>> merges;
  std::optional<int32_t> unknown;
  bool byte_fallback = false;  // unknown characters become their bytes, where all are pieces
  NormaliserSpec normal;
  bool decode_strips_prefix = true;
  std::string shown_unknown;  // what the unknown piece decodes to
  std::vector<AddedToken> added;
  SpecialIds special;
  std::optional<int32_t> end_of_text, pad;
  std::vector<TokenizerFile> files;
};

// Ids of the tokens that files name, where they are pieces or added.
void find_named(const NamedTokens& named, SentencePieceSpec& spec);

// Throws Error where piece number `id` is empty or no UTF-8, or its score is not finite.
void check_piece(const SentencePieceSpec::Piece& piece, size_t id);

class SentencePieceTokenizer final : public Tokenizer {
 public:
  // Throws IoError beginning with `spec.source` where pieces repeat, are empty or no UTF-8, a score
  // is not finite, or added tokens do not agree with the pieces.
  explicit SentencePieceTokenizer(SentencePieceSpec spec);

  std::string_view name() const override { return merges_ ? "bpe" : "unigram"; }
  int64_t vocab_size() const override { return static_cast<int64_t>(decoded_.size()); }
  size_t encode_some(std::string_view text, bool last, EncodeState& state,
                     std::vector<int32_t>& ids) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  std::string decode_further(std::span<const int32_t> ids) const override;
  SpecialIds special() const override { return spec_.special; }
  std::optional<int32_t> end_of_text() const override { return spec_.end_of_text; }
  std::optional<int32_t> pad() const override { return spec_.pad; }
  std::vector<TokenizerFile> files() const override { return spec_.files; }

 private:
  struct Work {
    WordCache cache;
    UnigramModel::Work model;
    BpeMerges::Work merge;
    std::vector<int32_t> word;
    std::string normal;
  };
  struct Call;

  void index_pieces();
  void index_added();
  size_t encode_segment(Call& call, std::string_view text, bool last) const;
  void encode_normal(Call& call, std::string_view normal) const;
  size_t end_of_word(std::string_view normal, size_t at) const;
  void cut_word(Work& work, std::string_view word) const;
  void merge_word(Work& work, std::string_view word) const;
  void append_unknown(Work& work, std::string_view character, bool& after_unknown) const;

  SentencePieceSpec spec_;
  std::optional<UnigramNormaliser> normaliser_;
  AddedTokenLevels added_;
  std::optional<UnigramModel> model_;                    // by probability
  std::optional<BpeMerges> merges_;                      // by merges
  std::unordered_map<std::string, int32_t> characters_;  // pieces that merges begin with
  std::vector<int32_t> byte_ids_;                        // 256, or none
  std::vector<std::string> decoded_;                     // by id
  bool by_words_ = true;  // no piece reaches over the start of a word
  mutable WorkPool<Work> works_;
};

}  // namespace mstrain
