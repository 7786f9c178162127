// What is wrong with a text that is no YAML, said so that its author finds it: parsers name the place where they gave up,
// which may be the end of the file.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mstrain {

struct YamlMistake {
  int line = 0;  // from 1
  std::string what;
};

// The first of: a tab that indents, a quote, brace or bracket that is not closed, one that closes what is not open. For texts
// that a parser refused; in a sound one it may find fault with what is none.
std::optional<YamlMistake> yaml_mistake(std::string_view text);

}  // namespace mstrain
