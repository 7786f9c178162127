// The char and byte tokenizers in Hugging Face's format, so that a folder with them opens in transformers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/data/tokenizer.h"

namespace mstrain {

// Tokens as T5's files write them.
inline constexpr const char* kFill = "<pad>";
inline constexpr const char* kTextEnd = "</s>";

// What a model's texts have beside the tokenizer's ids.
struct TokensBeside {
  std::vector<std::string> added;  // their ids follow the tokenizer's
  std::optional<int32_t> end;      // that stands behind every text
};

// tokenizer.json (version 1.0) with the same ids, and tokenizer_config.json; none for tokenizers whose own files are of
// that kind. A character that a char tokenizer does not know is an error there, too.
std::vector<TokenizerFile> hugging_face_files(const Tokenizer& tokenizer,
                                              const TokensBeside& beside = {});

}  // namespace mstrain
