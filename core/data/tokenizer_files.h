// The files that tokenizers come in. Each function throws IoError naming the file and the offset,
// line or key where it is damaged or asks for what is not implemented; nothing allocates more than
// a fixed multiple of the bytes given.
#pragma once

#include <memory>
#include <string>
#include <string_view>

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
// encoder.json and vocab.bpe, or vocab.json and merges.txt. `added` is an added_tokens.json, empty
// where there is none.
std::shared_ptr<const Tokenizer> tokenizer_from_pair(const NamedText& vocab,
                                                     const NamedText& merges,
                                                     const NamedText& added = {});

// Hugging Face's tokenizer.json, version 1.0: byte-level BPE. Fields that are not
// implemented are refused by name.
std::shared_ptr<const Tokenizer> tokenizer_from_hf(const NamedText& json);

}  // namespace mstrain
