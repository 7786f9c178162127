#include "core/data/jinja/lexer.h"

#include <algorithm>
#include <iterator>

#include "core/base/error.h"
#include "core/data/jinja/literal.h"
#include "core/data/jinja/text.h"

namespace mstrain::jinja {
namespace {

using Kind = Token::Kind;

// Line ends as \n; the last one of a template is not part of it.
std::string with_plain_lines(std::string_view source) {
  std::string out;
  for (size_t at = 0; at < source.size(); ++at) {
    if (source[at] == '\r') {
      at += source.substr(at).starts_with("\r\n") ? 1 : 0;
      out += '\n';
    } else {
      out += source[at];
    }
  }
  if (out.ends_with('\n')) {
    out.pop_back();
  }
  return out;
}

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The longest first.
constexpr std::string_view kOperators[] = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "/",
                                           "*",  "%",  "~",  "<",  ">",  "=",  ".", ":", "|",
                                           ",",  ";",  "(",  ")",  "[",  "]",  "{", "}"};

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view name)
      : text_(with_plain_lines(source)), name_(name) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) {
      data();
    }
    add(Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(text_).substr(at_); }
  void add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void move_to(size_t end) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<ptrdiff_t>(at_),
                                         text_.begin() + static_cast<ptrdiff_t>(end), '\n'));
    at_ = end;
  }
  [[noreturn]] void fail(std::string_view why) const { fail_at(name_, line_, why); }

  size_t next_tag() const {
    size_t begin = text_.find('{', at_);
    while (begin != std::string::npos) {
      if (begin + 1 < text_.size() &&
          std::string_view("{%#").find(text_[begin + 1]) != std::string::npos) {
        return begin;
      }
      begin = text_.find('{', begin + 1);
    }
    return begin;
  }
  // Text up to the next tag, and that tag.
  void data() {
    const size_t begin = next_tag();
    if (begin == std::string::npos) {
      print(rest());
      move_to(text_.size());
      return;
    }
    const char type = text_[begin + 1];
    const char sign = begin + 2 < text_.size() ? text_[begin + 2] : '\0';
    print(before_tag(rest().substr(0, begin - at_), type, sign));
    move_to(begin + 2 + (sign == '-' || sign == '+' ? 1 : 0));
    if (type == '#') {
      comment();
    } else if (type == '%' && begins_raw()) {
      raw();
    } else {
      tag(type);
    }
  }

  // What of the text in front of a tag is printed.
  std::string_view before_tag(std::string_view text, char type, char sign) const {
    if (sign == '-') {
      return without_trailing_space(text);
    }
    if (sign == '+' || type == '{') {
      return text;
    }
    const size_t line = text.rfind('\n') + 1;  // 0 where there is none
    const bool begins_line = line > 0 || at_ == 0 || text_[at_ - 1] == '\n';
    return begins_line && without_leading_space(text.substr(line)).empty() ? text.substr(0, line)
                                                                           : text;
  }
  void print(std::string_view text) {
    if (!text.empty()) {
      add(Kind::kData, std::string(text));
    }
  }

  // Where the tag that ends with `mark` at `end` is over: with the spaces, or the one line's end, that it takes with it.
  size_t after(size_t end, std::string_view mark, bool is_block) const {
    const char sign = end > at_ ? text_[end - 1] : '\0';
    end += mark.size();
    if (sign == '-') {
      return text_.size() - without_leading_space(std::string_view(text_).substr(end)).size();
    }
    return end + (is_block && sign != '+' && end < text_.size() && text_[end] == '\n' ? 1 : 0);
  }

  void comment() {
    const size_t end = text_.find("#}", at_);
    if (end == std::string::npos) {
      fail("the comment that begins here does not end; expected #}");
    }
    move_to(after(end, "#}", true));
  }

  size_t skip_space(size_t at) const {
    return text_.size() - without_leading_space(std::string_view(text_).substr(at)).size();
  }
  // Where `{% word %}` ends whose inside begins at `at`; npos where there is something else.
  size_t end_of_word_tag(size_t at, std::string_view word, bool trims) const {
    at = skip_space(at);
    if (text_.compare(at, word.size(), word) != 0) {
      return std::string::npos;
    }
    at = skip_space(at + word.size());
    const bool is_signed = at < text_.size() && (text_[at] == '-' || (trims && text_[at] == '+'));
    at += is_signed ? 1 : 0;
    return text_.compare(at, 2, "%}") == 0 ? after(at, "%}", trims) : std::string::npos;
  }
  bool begins_raw() const { return end_of_word_tag(at_, "raw", false) != std::string::npos; }
  void raw() {
    move_to(end_of_word_tag(at_, "raw", false));
    for (size_t begin = at_;; begin += 2) {
      begin = text_.find("{%", begin);
      if (begin == std::string::npos) {
        fail("{% raw %} does not end; expected {% endraw %}");
      }
      const char sign = begin + 2 < text_.size() ? text_[begin + 2] : '\0';
      const size_t inside = begin + 2 + (sign == '-' || sign == '+' ? 1 : 0);
      if (const size_t end = end_of_word_tag(inside, "endraw", true); end != std::string::npos) {
        print(before_tag(rest().substr(0, begin - at_), '%', sign));
        move_to(end);
        return;
      }
    }
  }

  void tag(char type) {
    const bool is_block = type == '%';
    const std::string_view mark = is_block ? "%}" : "}}";
    add(is_block ? Kind::kBlockBegin : Kind::kPrintBegin, "");
    open_.clear();
    while (true) {
      move_to(skip_space(at_));
      if (at_ == text_.size()) {
        fail(fmt::format("a tag does not end; expected {}", mark));
      }
      if (open_.empty()) {
        const bool is_signed = text_[at_] == '-' || (is_block && text_[at_] == '+');
        if (rest().substr(is_signed ? 1 : 0).starts_with(mark)) {
          add(is_block ? Kind::kBlockEnd : Kind::kPrintEnd, "");
          move_to(after(at_ + (is_signed ? 1 : 0), mark, is_block));
          return;
        }
      }
      expression_token();
    }
  }

  void expression_token() {
    const char first = text_[at_];
    if (is_name_start(first)) {
      size_t end = at_ + 1;
      while (end < text_.size() && (is_name_start(text_[end]) || is_digit(text_[end]))) {
        ++end;
      }
      add(Kind::kName, text_.substr(at_, end - at_));
      move_to(end);
    } else if (is_digit(first)) {
      number();
    } else if (first == '"' || first == '\'') {
      string();
    } else {
      operation();
    }
  }

  void number() {
    const auto digits = [&](size_t at) {
      while (at < text_.size() && is_digit(text_[at])) {
        ++at;
      }
      return at;
    };
    size_t end = digits(at_);
    bool is_float = false;
    if (end + 1 < text_.size() && text_[end] == '.' && is_digit(text_[end + 1]) &&
        (at_ == 0 || text_[at_ - 1] != '.')) {
      end = digits(end + 1);
      is_float = true;
    }
    if (end < text_.size() &&
        (is_name_start(text_[end]) || (text_[at_] == '0' && end > at_ + 1 && !is_float))) {
      fail(fmt::format("{}: expected a decimal number", text_.substr(at_, end + 1 - at_)));
    }
    add(is_float ? Kind::kFloat : Kind::kInteger, text_.substr(at_, end - at_));
    move_to(end);
  }

  void string() {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != text_[at_]) {
      end += text_[end] == '\\' ? 2 : 1;
    }
    if (end >= text_.size()) {
      fail(fmt::format("a string does not end; expected {}", text_[at_]));
    }
    try {
      add(Kind::kString, unescaped(std::string_view(text_).substr(at_ + 1, end - at_ - 1)));
    } catch (const Error& error) {
      fail(error.what());
    }
    move_to(end + 1);
  }

  void operation() {
    const auto found =
        std::find_if(std::begin(kOperators), std::end(kOperators),
                     [&](std::string_view each) { return rest().starts_with(each); });
    if (found == std::end(kOperators)) {
      fail(fmt::format("unexpected character {}", rest().substr(0, character_size(text_, at_))));
    }
    const char first = found->front();
    if (const size_t opens = std::string_view("([{").find(first); opens != std::string::npos) {
      open_ += ")]}"[opens];
    } else if (std::string_view(")]}").find(first) != std::string::npos) {
      if (!open_.ends_with(first)) {
        fail(open_.empty() ? fmt::format("unexpected {}", first)
                           : fmt::format("unexpected {}; expected {}", first, open_.back()));
      }
      open_.pop_back();
    }
    add(Kind::kOperator, std::string(*found));
    move_to(at_ + found->size());
  }

  std::string text_;
  std::string_view name_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int line_ = 1;
  std::string open_;  // the brackets that close those that are open in this tag
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, std::string_view name) {
  return Lexer(source, name).run();
}

void fail_at(std::string_view name, int line, std::string_view why) {
  throw IoError(fmt::format("{}:{}: {}", name, line, why));
}

std::string described(const Token& token) {
  switch (token.kind) {
    case Token::Kind::kEnd: return "the end of the template";
    case Token::Kind::kData: return "text";
    case Token::Kind::kPrintBegin: return "{{";
    case Token::Kind::kPrintEnd: return "}}";
    case Token::Kind::kBlockBegin: return "{%";
    case Token::Kind::kBlockEnd: return "%}";
    case Token::Kind::kString: return "a string";
    default: return token.text;
  }
}

}  // namespace mstrain::jinja
