// Text files and JSON lines as token streams under any tokenizer: encoded once, kept in memory at
// two bytes a token where the vocabulary allows. For text that is larger than memory there are
// files of ids, see core/data/tokenize_files.h.
#pragma once

#include <vector>

#include "core/base/files.h"
#include "core/data/source_files.h"
#include "core/data/token_stream.h"
#include "core/data/tokenizer.h"

namespace mstrain {

// The documents of `sources` one after the other: text files and lines of JSON lines. Where the
// tokenizer has a token that ends a text, it stands between two of them. Throws IoError naming the
// file and offset of what cannot be encoded.
TokenStreamPtr encoded_text(const std::vector<SourceFile>& sources, const Tokenizer& tokenizer);

}  // namespace mstrain
