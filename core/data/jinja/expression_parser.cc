// Tokens one by one, and operators by how strongly they bind; what they bind is in operands.cc.
#include "core/data/jinja/expression_parser.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/data/jinja/parser.h"

namespace mstrain::jinja {

ExpressionParser::Nested::Nested(ExpressionParser& parser) : parser_(parser) {
  if (++parser_.depth_ > kMaxDepth) {
    --parser_.depth_;
    parser_.fail(fmt::format("is nested more than {} levels deep", kMaxDepth));
  }
}

bool ExpressionParser::at(Token::Kind kind, std::string_view text) const {
  return token().kind == kind && (text.empty() || token().text == text);
}

bool ExpressionParser::take(Token::Kind kind, std::string_view text) {
  const bool is = at(kind, text);
  at_ += is ? 1 : 0;
  return is;
}

Token ExpressionParser::expect(Token::Kind kind, std::string_view text) {
  if (!at(kind, text)) {
    const std::string wanted = !text.empty()                ? std::string(text)
                               : kind == Token::Kind::kName ? "a name"
                                                            : described({kind, "", 0});
    fail(fmt::format("expected {}, found {}", wanted, described(token())));
  }
  return tokens_[at_++];
}

ExpressionPtr ExpressionParser::made(Expression expression) {
  const auto deepen = [&](const ExpressionPtr& part) {
    expression.depth = std::max(expression.depth, part == nullptr ? 0 : part->depth + 1);
  };
  std::for_each(expression.parts.begin(), expression.parts.end(), deepen);
  for (const auto& [name, part] : expression.named) {
    deepen(part);
  }
  if (expression.depth > kMaxDepth) {
    fail_at(name_, expression.line,
            fmt::format("the expression is more than {} operations deep", kMaxDepth));
  }
  return std::make_unique<const Expression>(std::move(expression));
}

ExpressionPtr ExpressionParser::with(Kind kind, int line, std::string name, ExpressionPtr a,
                                     ExpressionPtr b) {
  Expression out{.kind = kind, .line = line, .name = std::move(name)};
  out.parts.push_back(std::move(a));
  if (b != nullptr) {
    out.parts.push_back(std::move(b));
  }
  return made(std::move(out));
}

ExpressionPtr ExpressionParser::expression() {
  const Nested nested(*this);
  ExpressionPtr value = either();
  while (at(Token::Kind::kName, "if")) {
    Expression out{.kind = Kind::kConditional, .line = token().line};
    take_word("if");
    out.parts.push_back(either());
    out.parts.push_back(std::move(value));
    out.parts.push_back(take_word("else") ? expression() : nullptr);
    value = made(std::move(out));
  }
  return value;
}

ExpressionPtr ExpressionParser::either() {
  ExpressionPtr left = both();
  while (at(Token::Kind::kName, "or")) {
    const int line = tokens_[at_++].line;
    left = with(Kind::kOr, line, "", std::move(left), both());
  }
  return left;
}

ExpressionPtr ExpressionParser::both() {
  ExpressionPtr left = negation();
  while (at(Token::Kind::kName, "and")) {
    const int line = tokens_[at_++].line;
    left = with(Kind::kAnd, line, "", std::move(left), negation());
  }
  return left;
}

ExpressionPtr ExpressionParser::negation() {
  if (!at(Token::Kind::kName, "not")) {
    return comparison();
  }
  const Nested nested(*this);
  const int line = tokens_[at_++].line;
  return with(Kind::kNot, line, "", negation());
}

ExpressionPtr ExpressionParser::comparison() {
  Expression out{.kind = Kind::kComparison, .line = token().line};
  out.parts.push_back(sum());
  while (true) {
    const bool not_in = at(Token::Kind::kName, "not") &&
                        tokens_[at_ + 1].kind == Token::Kind::kName &&
                        tokens_[at_ + 1].text == "in";
    if (not_in) {
      at_ += 2;
      out.operators.emplace_back("not in");
    } else if (take_word("in")) {
      out.operators.emplace_back("in");
    } else if (token().kind == Token::Kind::kOperator &&
               std::string_view(" == != < <= > >= ").find(" " + token().text + " ") !=
                   std::string_view::npos) {
      out.operators.push_back(tokens_[at_++].text);
    } else {
      break;
    }
    out.parts.push_back(sum());
  }
  return out.operators.empty() ? std::move(out.parts[0]) : made(std::move(out));
}

// part, or part operator part operator …, from the left.
ExpressionPtr ExpressionParser::operations(Rule part,
                                           std::initializer_list<std::string_view> operators) {
  ExpressionPtr left = (this->*part)();
  while (token().kind == Token::Kind::kOperator &&
         std::find(operators.begin(), operators.end(), token().text) != operators.end()) {
    const Token operation = tokens_[at_++];
    left = with(Kind::kOperation, operation.line, operation.text, std::move(left), (this->*part)());
  }
  return left;
}

ExpressionPtr ExpressionParser::sum() {
  return operations(&ExpressionParser::concatenation, {"+", "-"});
}
ExpressionPtr ExpressionParser::concatenation() {
  return operations(&ExpressionParser::product, {"~"});
}
ExpressionPtr ExpressionParser::product() {
  return operations(&ExpressionParser::power, {"*", "/", "//", "%"});
}
ExpressionPtr ExpressionParser::power() {
  ExpressionPtr base = unary();
  if (at(Token::Kind::kOperator, "**")) {
    fail("powers (**) are not supported");
  }
  return base;
}

ExpressionPtr ExpressionParser::signed_value(bool with_filters) {
  ExpressionPtr value;
  if (at(Token::Kind::kOperator, "-") || at(Token::Kind::kOperator, "+")) {
    const Nested nested(*this);
    const Token sign = tokens_[at_++];
    value = with(Kind::kSign, sign.line, sign.text, signed_value(/*with_filters=*/false));
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filters ? filtered(std::move(value)) : std::move(value);
}

}  // namespace mstrain::jinja
