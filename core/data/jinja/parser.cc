#include "core/data/jinja/parser.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/data/jinja/expression_parser.h"

namespace mstrain::jinja {
namespace {

using Kind = Statement::Kind;

class Parser {
 public:
  Parser(std::string_view source, std::string_view name) : in_(tokenize(source, name), name) {}

  Body run() { return body({}); }

 private:
  // Statements up to a block that begins with one of `ends`, whose word is left to the caller; without any, all of them.
  Body body(const std::vector<std::string>& ends) {
    const ExpressionParser::Nested nested(in_);
    Body out;
    const int begin = in_.token().line;
    while (!in_.at(Token::Kind::kEnd)) {
      const int line = in_.token().line;
      if (in_.at(Token::Kind::kData)) {
        const Token data = in_.expect(Token::Kind::kData);
        out.push_back({.kind = Kind::kText, .line = line, .text = Text(data.text)});
      } else if (in_.take(Token::Kind::kPrintBegin)) {
        out.push_back({.kind = Kind::kPrint, .line = line, .value = in_.tuple()});
        in_.expect(Token::Kind::kPrintEnd);
      } else {
        in_.expect(Token::Kind::kBlockBegin);
        if (in_.at(Token::Kind::kName) &&
            std::find(ends.begin(), ends.end(), in_.token().text) != ends.end()) {
          return out;
        }
        out.push_back(statement());
      }
    }
    if (!ends.empty()) {
      in_.fail(fmt::format("the block of line {} does not end; expected {{% {} %}}", begin,
                           ends.back()));
    }
    return out;
  }
  void end_of_tag() { in_.expect(Token::Kind::kBlockEnd); }
  // Statements up to {% word %}.
  Body body_until(const std::string& word) {
    end_of_tag();
    Body out = body({word});
    in_.take_word(word);
    end_of_tag();
    return out;
  }

  // The same, of what Jinja makes a function of.
  Body body_outside_loops(const std::string& word) {
    const int outer_loops = std::exchange(loops_, 0);
    Body out = body_until(word);
    loops_ = outer_loops;
    return out;
  }

  Statement statement() {
    const Token word = in_.expect(Token::Kind::kName);
    Statement out{.kind = Kind::kText, .line = word.line};
    if (word.text == "if") {
      return if_statement(std::move(out));
    }
    if (word.text == "for") {
      return for_statement(std::move(out));
    }
    if (word.text == "set") {
      return set_statement(std::move(out));
    }
    if (word.text == "macro") {
      out.kind = Kind::kMacro;
      out.name = in_.expect_name();
      out.parameters = in_.parameters();
      out.body = body_outside_loops("endmacro");
      return out;
    }
    if (word.text == "with") {
      return with_statement(std::move(out));
    }
    if (word.text == "generation") {  // marks answers for training; prints what it holds
      out.kind = Kind::kScope;
      out.body = body_outside_loops("endgeneration");
      return out;
    }
    if (word.text == "filter") {
      out.kind = Kind::kFilter;
      out.value = in_.filters_alone();
      out.body = body_until("endfilter");
      return out;
    }
    if (word.text == "break" || word.text == "continue") {
      if (loops_ == 0) {
        fail_here(word, fmt::format("{{% {} %}} stands in no for", word.text));
      }
      out.kind = word.text == "break" ? Kind::kBreak : Kind::kContinue;
      end_of_tag();
      return out;
    }
    static const std::vector<std::string> kKnown{
        "if",    "elif",     "else", "endif",  "for",        "endfor", "set",      "endset",
        "macro", "endmacro", "with", "filter", "generation", "break",  "continue", "raw"};
    fail_here(word, fmt::format("{{% {} %}} is not supported here{}", word.text,
                                std::find(kKnown.begin(), kKnown.end(), word.text) == kKnown.end()
                                    ? did_you_mean(word.text, kKnown)
                                    : ""));
  }
  [[noreturn]] void fail_here(const Token& token, const std::string& why) {
    fail_at(in_.name(), token.line, why);
  }

  Statement if_statement(Statement out) {
    const ExpressionParser::Nested nested(in_);  // of a chain of elif each lies in the one before
    out.kind = Kind::kIf;
    out.value = in_.tuple(/*with_conditional=*/false);
    end_of_tag();
    out.body = body({"elif", "else", "endif"});
    if (in_.at(Token::Kind::kName, "elif")) {
      Statement next{.kind = Kind::kIf, .line = in_.expect(Token::Kind::kName).line};
      out.otherwise.push_back(if_statement(std::move(next)));
      return out;
    }
    if (in_.take_word("else")) {
      end_of_tag();
      out.otherwise = body({"endif"});
    }
    in_.expect(Token::Kind::kName, "endif");
    end_of_tag();
    return out;
  }

  Statement for_statement(Statement out) {
    out.kind = Kind::kFor;
    out.target = in_.target(/*may_be_attribute=*/false);
    in_.expect(Token::Kind::kName, "in");
    out.value = in_.tuple(/*with_conditional=*/false);
    if (in_.take_word("if")) {
      out.condition = in_.expression();
    }
    if (in_.at(Token::Kind::kName, "recursive")) {
      in_.fail("recursive loops are not supported");
    }
    end_of_tag();
    ++loops_;
    out.body = body({"else", "endfor"});
    --loops_;
    if (in_.take_word("else")) {
      end_of_tag();
      out.otherwise = body({"endfor"});
    }
    in_.expect(Token::Kind::kName, "endfor");
    end_of_tag();
    return out;
  }

  Statement set_statement(Statement out) {
    out.target = in_.target(/*may_be_attribute=*/true);
    if (in_.take_operator("=")) {
      out.kind = Kind::kSet;
      out.value = in_.tuple();
      end_of_tag();
      return out;
    }
    out.kind = Kind::kSetBlock;
    if (out.target.is_tuple) {
      in_.fail("a block is the value of one name");
    }
    if (in_.take_operator("|")) {
      out.value = in_.filters_alone();
    }
    out.body = body_until("endset");
    return out;
  }

  Statement with_statement(Statement out) {
    out.kind = Kind::kScope;
    while (!in_.at(Token::Kind::kBlockEnd)) {
      const std::string name = in_.expect_name();
      in_.expect(Token::Kind::kOperator, "=");
      out.parameters.emplace_back(name, in_.expression());
      if (!in_.take_operator(",")) {
        break;
      }
    }
    out.body = body_until("endwith");
    return out;
  }

  ExpressionParser in_;
  int loops_ = 0;  // around the statement that is read
};

}  // namespace

Body parse(std::string_view source, std::string_view name) { return Parser(source, name).run(); }

}  // namespace mstrain::jinja
