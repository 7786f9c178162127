// The files that tokenizers come in. Each function throws IoError naming the file and the offset,
// line or key where it is damaged or asks for what is not supported; nothing allocates more than
// a fixed multiple of the bytes given.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/tokenizer.h"

namespace mstrain {

// A file as read, with the name that errors give it.
struct NamedText {
  std::string path;
  std::string_view text;
};

// Our own (kTokenizerFile): char and byte.
std::shared_ptr<const Tokenizer> tokenizer_from_json(std::string_view json, std::string_view path);

// GPT-2's pair: token to id, and one merge a line below a line "#version". They are
// encoder.json and vocab.bpe, or vocab.json and merges.txt. `added` is an added_tokens.json,
// `config` a tokenizer_config.json, of which `tokenizer_class` (GPT-2's or Qwen2's), `add_prefix_space`, `added_tokens_decoder` and
// the tokens that it names count; empty where there is none.
std::shared_ptr<const Tokenizer> tokenizer_from_pair(const NamedText& vocab,
                                                     const NamedText& merges,
                                                     const NamedText& added = {},
                                                     const NamedText& config = {});

// Hugging Face's tokenizer.json, version 1.0: byte-level BPE and Unigram. Fields that are not
// implemented are refused by name. `beside`: files that belong to it, passed on by files().
std::shared_ptr<const Tokenizer> tokenizer_from_hf(const NamedText& json,
                                                   std::vector<TokenizerFile> beside = {});

// SentencePiece's .model with a unigram model. `config` is a tokenizer_config.json that lies beside
// it, empty where there is none: of it `extra_ids` counts, T5's sentinels <extra_id_0>,
// <extra_id_1>, …, which take the last ids downwards.
std::shared_ptr<const Tokenizer> tokenizer_from_sentencepiece(const NamedText& model,
                                                              const NamedText& config = {});

}  // namespace mstrain
