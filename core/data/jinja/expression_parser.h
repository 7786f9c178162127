// Reads the expressions of a template from its tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/data/jinja/lexer.h"
#include "core/data/jinja/syntax.h"

namespace mstrain::jinja {

class ExpressionParser {
 public:
  // `name` is that of the template, for errors.
  ExpressionParser(std::vector<Token> tokens, std::string_view name)
      : tokens_(std::move(tokens)), name_(name) {}

  ExpressionPtr expression();
  // Without `a if b else c`, as the list of a `for` is read.
  ExpressionPtr tuple(bool with_conditional = true);
  Target target(bool may_be_attribute);
  // Filters of what is not there yet: name(…) | name.
  ExpressionPtr filters_alone();
  // (a, b=1), where they are declared.
  Named parameters();

  std::string_view name() const { return name_; }
  const Token& token() const { return tokens_[at_]; }
  bool at(Token::Kind kind, std::string_view text = "") const;
  bool take(Token::Kind kind, std::string_view text = "");
  bool take_word(std::string_view word) { return take(Token::Kind::kName, word); }
  bool take_operator(std::string_view text) { return take(Token::Kind::kOperator, text); }
  Token expect(Token::Kind kind, std::string_view text = "");
  std::string expect_name() { return expect(Token::Kind::kName).text; }
  [[noreturn]] void fail(std::string_view why) const { fail_at(name_, token().line, why); }
  // Counts how deep statements and expressions lie in each other.
  class Nested {
   public:
    explicit Nested(ExpressionParser& parser);
    ~Nested() { --parser_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    ExpressionParser& parser_;
  };

 private:
  using Kind = Expression::Kind;
  using Rule = ExpressionPtr (ExpressionParser::*)();

  ExpressionPtr made(Expression expression);
  ExpressionPtr with(Kind kind, int line, std::string name, ExpressionPtr a,
                     ExpressionPtr b = nullptr);
  ExpressionPtr operations(Rule part, std::initializer_list<std::string_view> operators);
  ExpressionPtr either();
  ExpressionPtr both();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary() { return signed_value(/*with_filters=*/true); }
  ExpressionPtr signed_value(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr constant(const Token& token);
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr parenthesised();
  ExpressionPtr postfix(ExpressionPtr of);
  ExpressionPtr subscript(ExpressionPtr of);
  ExpressionPtr filtered(ExpressionPtr of);
  ExpressionPtr filter(ExpressionPtr of);
  ExpressionPtr test(ExpressionPtr of);
  void arguments(Expression& call);
  bool ends_tuple() const;

  std::vector<Token> tokens_;
  std::string_view name_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace mstrain::jinja
