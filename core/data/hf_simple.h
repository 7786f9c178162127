// The char and byte tokenizers in Hugging Face's format, so that a folder with them opens in transformers.
#pragma once

#include <vector>

#include "core/data/tokenizer.h"

namespace mstrain {

// tokenizer.json (version 1.0) with the same ids, and tokenizer_config.json; none for tokenizers whose own files are of
// that kind. A character that a char tokenizer does not know is an error there, too.
std::vector<TokenizerFile> hugging_face_files(const Tokenizer& tokenizer);

}  // namespace mstrain
