// What text, files of ids and tokenizers hold, for `mstrain inspect`. All throw IoError naming the file and the offset
// where it is damaged.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "core/base/files.h"

namespace mstrain::launcher {

void print_text(FileSystem& files, const std::string& path, std::FILE* out);
// Whether `path` is a JSON-lines file that begins with a document.
bool holds_documents(const std::string& path);
void print_json_lines(const std::string& path, std::FILE* out);

// Whether `path` is the .idx of one of Megatron's pairs, by its beginning.
bool is_megatron_index(FileSystem& files, const std::string& path);
// A .bin, or the .idx beside it.
void print_token_file(FileSystem& files, const std::string& path, std::FILE* out);

// Whether tokenizers are kept under this name.
bool is_tokenizer_file(std::string_view name);
// A file or a folder.
void print_tokenizer(FileSystem& files, const std::string& path, std::FILE* out);

}  // namespace mstrain::launcher
