// Text as documents: a text file is one, a line of a JSON-lines file is one.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "core/data/chunk_reader.h"

namespace mstrain {

bool is_json_lines(std::string_view path);  // by its ending: .jsonl or .ndjson

// The `text` of a line of a JSON-lines file. Throws IoError naming path, line and offset where the
// line is no JSON object with a string `text`.
std::string text_of_line(std::string_view line, std::string_view path, int64_t number,
                         int64_t offset);
// Its `input` and `target`; likewise.
std::pair<std::string, std::string> pair_of_line(std::string_view line, std::string_view path,
                                                 int64_t number, int64_t offset);

// Goes through the lines of a JSON-lines file; lines of white space alone are passed over.
class JsonLines {
 public:
  // `line`: how many lines lie before `offset`.
  explicit JsonLines(std::string path, int64_t offset = 0, int64_t line = 0);

  struct Line {
    std::string text;
    int64_t number = 0;  // from 1
    int64_t offset = 0;  // of its first byte
  };
  // The next line, false at the end.
  bool next(Line& line);
  // Its document.
  bool next(std::string& text);

  int64_t offset() const { return reader_.offset(); }  // of the next line
  int64_t line() const { return line_; }

 private:
  std::string path_;
  ChunkReader reader_;
  int64_t line_;
};

}  // namespace mstrain
