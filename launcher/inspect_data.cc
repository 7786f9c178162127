#include "launcher/inspect_data.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/data/documents.h"
#include "core/data/token_files.h"
#include "core/data/token_format.h"
#include "core/data/tokenizer.h"
#include "core/data/utf8.h"
#include "core/train/numbers.h"

namespace mstrain::launcher {

void print_text(FileSystem& files, const std::string& path, std::FILE* out) {
  const std::unique_ptr<MappedFile> mapped = files.map(path);
  const std::string_view text = as_text(mapped->bytes());
  std::map<char32_t, uint64_t> counts;
  int64_t characters = 0;
  int64_t lines = 0;
  for (size_t at = 0; at < text.size(); ++characters) {
    const Utf8Character character = decode_utf8(text, at);
    if (character.length == 0 || character.code == 0) {
      throw IoError(fmt::format(
          "{}: is no UTF-8 text from byte {} on; what other files hold is told by their names: "
          "*.safetensors, *.npy, *-ubyte, *.bin and *.idx of token ids, *.png, *.jpg, events.out.*",
          path, at));
    }
    ++counts[character.code];
    lines += character.code == U'\n' ? 1 : 0;
    at += static_cast<size_t>(character.length);
  }
  fmt::print(out, "{}: UTF-8 text, {} bytes, {} characters, {} distinct, {} lines\n", path,
             grouped(static_cast<int64_t>(text.size())), grouped(characters), counts.size(),
             grouped(lines));
}

bool holds_documents(const std::string& path) {
  if (!is_json_lines(path)) {
    return false;
  }
  try {
    std::string text;
    return JsonLines(path).next(text);
  } catch (const IoError&) {  // JSON of another kind, such as metrics
    return false;
  }
}

void print_json_lines(const std::string& path, std::FILE* out) {
  JsonLines lines(path);
  int64_t documents = 0;
  int64_t bytes = 0;
  for (std::string text; lines.next(text); ++documents) {
    bytes += static_cast<int64_t>(text.size());
  }
  fmt::print(out, "{}: JSON lines, {} documents, {} bytes of text\n", path, grouped(documents),
             grouped(bytes));
}

bool is_megatron_index(FileSystem& files, const std::string& path) {
  return path.ends_with(".idx") &&
         as_text(files.map(path)->bytes()).starts_with(kMegatronMagic.substr(0, 7));
}

void print_token_file(FileSystem& files, const std::string& path, std::FILE* out) {
  const std::string ids = path.ends_with(".idx") ? path.substr(0, path.size() - 4) + ".bin" : path;
  if (!files.exists(ids)) {
    throw IoError(fmt::format("{}: is the index of {}, which does not exist", path, ids));
  }
  const TokenFileInfo info = read_token_file_info(files, ids);
  fmt::print(out, "{}: ids as {} writes them, {} tokens of {} bits{}\n", ids,
             info.kind == "llmc"       ? "llm.c"
             : info.kind == "megatron" ? "Megatron"
                                       : "nanoGPT",
             grouped(info.tokens), 8 * info.width,
             info.documents < 0 ? "" : fmt::format(", {} documents", grouped(info.documents)));
}

bool is_tokenizer_file(std::string_view name) {
  constexpr std::string_view kNames[] = {kTokenizerFile, "tokenizer.json", "vocab.json",
                                         "encoder.json", "merges.txt",     "vocab.bpe"};
  return name.ends_with(".model") || name.ends_with(".tokenizer.json") ||
         std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

void print_tokenizer(FileSystem& files, const std::string& path, std::FILE* out) {
  const auto tokenizer = load_tokenizer(files, path);
  const auto end = tokenizer->end_of_text();
  fmt::print(out, "{}: tokenizer {}, {} tokens{}\n", path, tokenizer->name(),
             grouped(tokenizer->vocab_size()),
             end ? fmt::format(", {} ends a text", *end) : std::string());
}

}  // namespace mstrain::launcher
