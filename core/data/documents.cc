#include "core/data/documents.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/json.h"

namespace mstrain {
namespace {

constexpr size_t kLongestLine = size_t{1} << 30;

}  // namespace

bool is_json_lines(std::string_view path) {
  return path.ends_with(".jsonl") || path.ends_with(".ndjson");
}

std::string text_of_line(std::string_view line, std::string_view path, int64_t number,
                         int64_t offset) {
  const std::string where = fmt::format("{}:{}: from byte {}", path, number, offset);
  Json json = parse_json(line, where);
  if (!json.is_object() || !json.contains("text")) {
    throw IoError(fmt::format("{}: expected a JSON object with `text`", where));
  }
  auto* text = json["text"].get_ptr<std::string*>();
  if (text == nullptr) {
    throw IoError(fmt::format("{}: `text` is no string", where));
  }
  return std::move(*text);
}

JsonLines::JsonLines(std::string path, int64_t offset, int64_t line)
    : path_(path), reader_(std::move(path), offset), line_(line) {}

bool JsonLines::next(std::string& text) {
  size_t searched = 0;
  for (;;) {
    const std::string_view rest = reader_.text();
    const size_t end = rest.find('\n', searched);
    if (end == rest.npos && !reader_.at_end()) {
      if (rest.size() > kLongestLine) {
        throw IoError(fmt::format("{}:{}: from byte {}: a line exceeds {} bytes", path_, line_ + 1,
                                  reader_.offset(), kLongestLine));
      }
      searched = rest.size();
      reader_.more();
      continue;
    }
    if (rest.empty()) {
      return false;
    }
    const std::string_view line = rest.substr(0, std::min(end, rest.size()));
    const bool blank = line.find_first_not_of(" \t\r") == line.npos;
    if (!blank) {
      text = text_of_line(line, path_, line_ + 1, reader_.offset());
    }
    ++line_;
    reader_.take(std::min(end, rest.size() - 1) + 1);
    if (!blank) {
      return true;
    }
    searched = 0;
  }
}

}  // namespace mstrain
