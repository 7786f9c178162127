#include "core/base/yaml_mistake.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

namespace mstrain {
namespace {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::optional<YamlMistake> scan() {
    while (at_ < text_.size() && !mistake_) {
      take();
    }
    if (!mistake_ && !open_.empty()) {
      say(open_.back().line, fmt::format("this '{}' is never closed", open_.back().sign));
    }
    return mistake_;
  }

 private:
  struct Open {
    char sign;
    int line;
  };

  void say(int line, std::string what) { mistake_ = {line, std::move(what)}; }

  void take() {
    const char c = text_[at_];
    if (c == '\n') {
      next_line();
    } else if (c == '\t' && indenting_ && open_.empty() && !is_blank_from(at_)) {
      say(line_, "a tab indents this line; YAML indents with spaces");
    } else if (c == '#' && (at_ == 0 || is_space(text_[at_ - 1]))) {
      at_ = std::min(text_.find('\n', at_), text_.size()) - 1;  // a comment
    } else if (!is_space(c)) {
      if (indenting_) {
        indent_ = at_ - line_begin_;
        indenting_ = false;
      }
      take_sign(c);
    }
    ++at_;
  }

  void next_line() {
    ++line_;
    line_begin_ = at_ + 1;
    indenting_ = true;
    starts_value_ = true;
  }

  // Quotes and what opens a list count where a value may begin; what closes one, wherever one is open.
  void take_sign(char c) {
    const bool begins = starts_value_;
    const bool spaced = at_ + 1 == text_.size() || is_space(text_[at_ + 1]);
    starts_value_ = ((c == ':' || c == '-' || c == '?') && (spaced || !open_.empty())) ||
                    (c == ',' && !open_.empty());
    if (begins && (c == '"' || c == '\'')) {
      skip_quoted(c);
    } else if (begins && (c == '{' || c == '[')) {
      open_.push_back({c, line_});
      starts_value_ = true;
    } else if ((begins || !open_.empty()) && (c == '}' || c == ']')) {
      close(c);
    } else if (begins && open_.empty() && (c == '|' || c == '>')) {
      skip_block();
    }
  }

  void close(char c) {
    const char wanted = c == '}' ? '{' : '[';
    if (open_.empty()) {
      say(line_, fmt::format("this '{}' closes nothing that is open", c));
    } else if (open_.back().sign != wanted) {
      say(line_, fmt::format("this '{}' comes before the '{}' of line {} is closed", c,
                             open_.back().sign, open_.back().line));
    } else {
      open_.pop_back();
    }
  }

  void skip_quoted(char quote) {
    const int first = line_;
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        next_line();
      } else if (c == '\\' && quote == '"') {
        ++at_;
      } else if (c == quote) {
        indenting_ = false;
        starts_value_ = false;
        return;
      }
    }
    at_ = text_.size() - 1;
    say(first, fmt::format("the quote {} that begins here is never closed", quote));
  }

  // Lines of literal text: all that are indented further, or blank.
  void skip_block() {
    const size_t indent = indent_;
    while ((at_ = text_.find('\n', at_)) != std::string_view::npos) {
      const size_t first = text_.find_first_not_of(' ', at_ + 1);
      if (first != std::string_view::npos && text_[first] != '\n' && first - at_ - 1 <= indent) {
        --at_;  // the line's end is taken as such
        return;
      }
      next_line();
      ++at_;
    }
    at_ = text_.size();
  }

  static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
  bool is_blank_from(size_t at) const {
    const size_t first = text_.find_first_not_of(" \t\r", at);
    return first == std::string_view::npos || text_[first] == '\n' || text_[first] == '#';
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t line_begin_ = 0;
  size_t indent_ = 0;  // of the line
  int line_ = 1;
  bool indenting_ = true;
  bool starts_value_ = true;
  std::vector<Open> open_;
  std::optional<YamlMistake> mistake_;
};

}  // namespace

std::optional<YamlMistake> yaml_mistake(std::string_view text) { return Scanner(text).scan(); }

}  // namespace mstrain
