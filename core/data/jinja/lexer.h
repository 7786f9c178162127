// Cuts a template into tokens, with trim_blocks and lstrip_blocks, as transformers reads chat templates.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mstrain::jinja {

struct Token {
  enum class Kind {
    kData,  // text between tags, as it will be printed
    kPrintBegin,
    kPrintEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,  // its value
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string text;
  int line = 0;
};

// The last token is kEnd. `source` is UTF-8. Throws IoError "<name>:<line>: ..." where a tag does not end, or holds what no
// expression does.
std::vector<Token> tokenize(std::string_view source, std::string_view name);

// Throws IoError "<name>:<line>: <why>".
[[noreturn]] void fail_at(std::string_view name, int line, std::string_view why);

// As errors call it.
std::string described(const Token& token);

}  // namespace mstrain::jinja
