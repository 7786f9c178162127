// Whether files hold text at all: a byte tokenizer would train on pictures without a word.
#pragma once

#include <span>
#include <string_view>

#include "core/base/files.h"
#include "core/data/source_files.h"

namespace mstrain {

// Looks at the beginning of each file, or of some hundred of many. What holds a zero byte there is no text, as git and grep see
// it. Where the files that hold text have less than half of the bytes it throws IoError, otherwise it warns of the others. `choice`
// says how files are chosen, and `otherwise` what else can be done with such ones.
void check_is_text(FileSystem& files, std::span<const SourceFile> sources, std::string_view choice,
                   std::string_view otherwise);

}  // namespace mstrain
