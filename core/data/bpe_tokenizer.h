// Byte-level byte-pair encoding, as GPT-2 does it: text is cut into pieces, the bytes of a piece are
// merged into tokens. Every byte string has ids, valid UTF-8 or not.
//
// Sources: the GPT-2 paper (Radford et al., 2019), section 2.2; github.com/huggingface/tokenizers
// for what the fields of tokenizer.json mean.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "core/data/added_tokens.h"
#include "core/data/bpe_merges.h"
#include "core/data/gpt2_split.h"
#include "core/data/llama_split.h"
#include "core/data/tokenizer.h"
#include "core/data/word_cache.h"
#include "core/data/work_pool.h"

namespace mstrain {

// The pattern that cuts a segment into pieces; kNone: it is one piece.
enum class SplitPattern { kNone, kGpt2, kLlama3, kQwen2 };

// What the files of a byte-level BPE say.
struct BpeSpec {
  std::string source;                                       // names the files in errors
  std::string merges_source;                                // of the merges; empty: the same
  std::vector<std::pair<std::string, int32_t>> vocab;       // spelled in the byte alphabet
  std::vector<std::pair<std::string, std::string>> merges;  // spelled alike, first ones first
  std::vector<AddedToken> added;
  bool add_prefix_space = false;  // a segment that does not begin with a space gets one
  SplitPattern split = SplitPattern::kGpt2;
  bool nfc = false;            // text is composed (Unicode's NFC) before it is cut
  bool ignore_merges = false;  // a piece that is a token is that token, whatever the merges say
  std::optional<std::string> unk_token;  // for bytes that are no token
  bool fuse_unk = false;                 // one for several bytes in a row
  std::optional<SpecialIds> special;
  NamedTokens named;
  std::vector<TokenizerFile> files;
};

class BpeTokenizer final : public Tokenizer {
 public:
  // Throws IoError beginning with `spec.source` where ids repeat or exceed what the number of
  // tokens explains, and where a merge or an added token does not agree with the vocabulary.
  explicit BpeTokenizer(BpeSpec spec);

  std::string_view name() const override { return "bpe"; }
  int64_t vocab_size() const override { return static_cast<int64_t>(begin_of_.size()) - 1; }
  size_t encode_some(std::string_view text, bool last, EncodeState& state,
                     std::vector<int32_t>& ids) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  SpecialIds special() const override { return special_; }
  std::optional<int32_t> end_of_text() const override { return end_of_text_; }
  std::optional<int32_t> pad() const override { return pad_; }
  std::vector<TokenizerFile> files() const override { return files_; }

 private:
  // Of one call: taken from a pool, so that later calls find the words of earlier ones.
  struct Work {
    WordCache cache;
    BpeMerges::Work merge;
    std::vector<int32_t> word;
  };
  struct Call;

  void index_vocab(const BpeSpec& spec);
  void index_merges(const BpeSpec& spec);
  void index_added(const BpeSpec& spec);
  size_t encode_segment(Call& call, std::string_view text, bool last) const;
  size_t encode_composed(Call& call, std::string_view text, int64_t offset, bool last) const;
  size_t encode_pieces(Call& call, std::string_view text, int64_t offset, bool last) const;
  void encode_piece(Call& call, std::string_view piece, int64_t offset) const;
  void merge_piece(Work& work, std::string_view piece, int64_t offset) const;

  std::string source_;
  bool add_prefix_space_;
  bool nfc_;
  bool ignore_merges_;
  bool fuse_unk_;
  std::array<int32_t, 256> byte_ids_{};  // -1: none
  int32_t unk_id_ = -1;
  std::optional<BpeMerges> merges_;
  std::unordered_map<std::string, int32_t> whole_;  // by bytes; where merges may be ignored
  AddedTokenLevels added_;
  size_t margin_ = 0;               // what must follow a piece before it is final
  std::string bytes_;               // of all tokens, in the order of ids
  std::vector<uint64_t> begin_of_;  // by id, in bytes_; one more at the end
  SpecialIds special_;
  std::optional<int32_t> end_of_text_, pad_;
  std::vector<TokenizerFile> files_;
  std::variant<std::monostate, Gpt2Split, LlamaSplit> split_;
  mutable WorkPool<Work> works_;
};

}  // namespace mstrain
