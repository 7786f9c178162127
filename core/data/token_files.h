// Files of token ids as streams: see core/data/token_format.h.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/files.h"
#include "core/data/source_files.h"
#include "core/data/token_stream.h"

namespace mstrain {

// By its ending: .bin.
bool is_token_file(std::string_view path);

struct TokenFileInfo {
  std::string kind;   // nanogpt, llmc or megatron
  int64_t begin = 0;  // of the first id, in bytes
  int width = 0;      // bytes of an id
  bool is_signed = false;
  int64_t tokens = 0;
  int64_t documents = -1;  // -1: the file does not say
};

// What `path` holds: Megatron's where NAME.idx lies beside it, llm.c's where it begins with one of
// its magic numbers, else nanoGPT's. Throws IoError naming the file and the offset where sizes,
// types or counts do not agree.
TokenFileInfo read_token_file_info(FileSystem& files, const std::string& path);

// Ids are read from the mapped file as they are asked for; one that is not below `vocab_size` is an
// IoError with file and offset. Documents are Megatron's.
TokenStreamPtr open_token_file(FileSystem& files, const SourceFile& file, int64_t vocab_size);

}  // namespace mstrain
