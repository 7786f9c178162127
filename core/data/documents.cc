#include "core/data/documents.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/json.h"

namespace mstrain {
namespace {

constexpr size_t kLongestLine = size_t{1} << 30;

// Moves it out of `json`.
std::string take_string(Json& json, const char* key, const std::string& where) {
  if (!json.is_object() || !json.contains(key)) {
    throw IoError(fmt::format("{}: expected a JSON object with `{}`", where, key));
  }
  auto* text = json[key].get_ptr<std::string*>();
  if (text == nullptr) {
    throw IoError(fmt::format("{}: `{}` is no string", where, key));
  }
  return std::move(*text);
}

}  // namespace

bool is_json_lines(std::string_view path) {
  return path.ends_with(".jsonl") || path.ends_with(".ndjson");
}

std::string text_of_line(std::string_view line, std::string_view path, int64_t number,
                         int64_t offset) {
  const std::string where = fmt::format("{}:{}: from byte {}", path, number, offset);
  Json json = parse_json(line, where);
  return take_string(json, "text", where);
}

std::pair<std::string, std::string> pair_of_line(std::string_view line, std::string_view path,
                                                 int64_t number, int64_t offset) {
  const std::string where = fmt::format("{}:{}: from byte {}", path, number, offset);
  Json json = parse_json(line, where);
  std::string input = take_string(json, "input", where);
  return {std::move(input), take_string(json, "target", where)};
}

JsonLines::JsonLines(std::string path, int64_t offset, int64_t line)
    : path_(path), reader_(std::move(path), offset), line_(line) {}

bool JsonLines::next(Line& out) {
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
      out = {std::string(line), line_ + 1, reader_.offset()};
    }
    ++line_;
    reader_.take(std::min(end, rest.size() - 1) + 1);
    if (!blank) {
      return true;
    }
    searched = 0;
  }
}

bool JsonLines::next(std::string& text) {
  Line line;
  if (!next(line)) {
    return false;
  }
  text = text_of_line(line.text, path_, line.number, line.offset);
  return true;
}

}  // namespace mstrain
