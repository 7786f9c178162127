#include "core/data/jinja/expression_parser.h"

#include <algorithm>
#include <charconv>

#include "core/base/error.h"
#include "core/data/jinja/parser.h"

namespace mstrain::jinja {
namespace {

using TokenKind = Token::Kind;

std::string described(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd: return "the end of the template";
    case TokenKind::kData: return "text";
    case TokenKind::kPrintBegin: return "{{";
    case TokenKind::kPrintEnd: return "}}";
    case TokenKind::kBlockBegin: return "{%";
    case TokenKind::kBlockEnd: return "%}";
    case TokenKind::kString: return "a string";
    default: return token.text;
  }
}

}  // namespace

ExpressionParser::Nested::Nested(ExpressionParser& parser) : parser_(parser) {
  if (++parser_.depth_ > kMaxDepth) {
    --parser_.depth_;
    parser_.fail(fmt::format("is nested more than {} levels deep", kMaxDepth));
  }
}

bool ExpressionParser::at(TokenKind kind, std::string_view text) const {
  return token().kind == kind && (text.empty() || token().text == text);
}

bool ExpressionParser::take(TokenKind kind, std::string_view text) {
  const bool is = at(kind, text);
  at_ += is ? 1 : 0;
  return is;
}

Token ExpressionParser::expect(TokenKind kind, std::string_view text) {
  if (!at(kind, text)) {
    const std::string wanted = !text.empty()              ? std::string(text)
                               : kind == TokenKind::kName ? "a name"
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
  while (at(TokenKind::kName, "if")) {
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
  while (at(TokenKind::kName, "or")) {
    const int line = tokens_[at_++].line;
    left = with(Kind::kOr, line, "", std::move(left), both());
  }
  return left;
}

ExpressionPtr ExpressionParser::both() {
  ExpressionPtr left = negation();
  while (at(TokenKind::kName, "and")) {
    const int line = tokens_[at_++].line;
    left = with(Kind::kAnd, line, "", std::move(left), negation());
  }
  return left;
}

ExpressionPtr ExpressionParser::negation() {
  if (!at(TokenKind::kName, "not")) {
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
    const bool not_in = at(TokenKind::kName, "not") && tokens_[at_ + 1].kind == TokenKind::kName &&
                        tokens_[at_ + 1].text == "in";
    if (not_in) {
      at_ += 2;
      out.operators.emplace_back("not in");
    } else if (take_word("in")) {
      out.operators.emplace_back("in");
    } else if (token().kind == TokenKind::kOperator &&
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
  while (token().kind == TokenKind::kOperator &&
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
  if (at(TokenKind::kOperator, "**")) {
    fail("powers (**) are not supported");
  }
  return base;
}

ExpressionPtr ExpressionParser::signed_value(bool with_filters) {
  ExpressionPtr value;
  if (at(TokenKind::kOperator, "-") || at(TokenKind::kOperator, "+")) {
    const Nested nested(*this);
    const Token sign = tokens_[at_++];
    value = with(Kind::kSign, sign.line, sign.text, signed_value(/*with_filters=*/false));
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filters ? filtered(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::primary() {
  switch (token().kind) {
    case TokenKind::kName: {
      const Token name = tokens_[at_++];
      if (name.text == "true" || name.text == "True" || name.text == "false" ||
          name.text == "False" || name.text == "none" || name.text == "None") {
        return constant(name);
      }
      return made({.kind = Kind::kVariable, .line = name.line, .name = name.text});
    }
    case TokenKind::kString:
    case TokenKind::kInteger:
    case TokenKind::kFloat: return constant(tokens_[at_++]);
    default: break;
  }
  const Nested nested(*this);
  if (at(TokenKind::kOperator, "(")) {
    return parenthesised();
  }
  if (at(TokenKind::kOperator, "[")) {
    return list();
  }
  if (at(TokenKind::kOperator, "{")) {
    return dict();
  }
  fail(fmt::format("expected an expression, found {}", described(token())));
}

ExpressionPtr ExpressionParser::constant(const Token& token) {
  Expression out{.kind = Kind::kConstant, .line = token.line};
  if (token.kind == TokenKind::kString) {
    std::string text = token.text;
    while (at(TokenKind::kString)) {  // strings in a row are one
      text += tokens_[at_++].text;
    }
    out.value = Value::text(text);
  } else if (token.kind == TokenKind::kInteger) {
    int64_t value = 0;
    const char* end = token.text.data() + token.text.size();
    if (std::from_chars(token.text.data(), end, value).ec != std::errc()) {
      fail_at(name_, token.line, fmt::format("{} is too large", token.text));
    }
    out.value = value;
  } else if (token.kind == TokenKind::kFloat) {
    double value = 0;
    std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    out.value = value;
  } else if (token.text == "none" || token.text == "None") {
    out.value = None();
  } else {
    out.value = token.text == "true" || token.text == "True";
  }
  return made(std::move(out));
}

bool ExpressionParser::ends_tuple() const {
  return at(TokenKind::kPrintEnd) || at(TokenKind::kBlockEnd) || at(TokenKind::kOperator, ")");
}

ExpressionPtr ExpressionParser::tuple(bool with_conditional) {
  Expression out{.kind = Kind::kTuple, .line = token().line};
  bool is_tuple = false;
  do {
    if (is_tuple && ends_tuple()) {
      break;
    }
    out.parts.push_back(with_conditional ? expression() : either());
  } while (take_operator(",") && (is_tuple = true));
  return is_tuple ? made(std::move(out)) : std::move(out.parts[0]);
}

ExpressionPtr ExpressionParser::parenthesised() {
  const int line = expect(TokenKind::kOperator, "(").line;
  ExpressionPtr inside =
      at(TokenKind::kOperator, ")") ? made({.kind = Kind::kTuple, .line = line}) : tuple();
  expect(TokenKind::kOperator, ")");
  return inside;
}

ExpressionPtr ExpressionParser::list() {
  Expression out{.kind = Kind::kList, .line = expect(TokenKind::kOperator, "[").line};
  while (!at(TokenKind::kOperator, "]")) {
    out.parts.push_back(expression());
    if (!take_operator(",")) {
      break;
    }
  }
  expect(TokenKind::kOperator, "]");
  return made(std::move(out));
}

ExpressionPtr ExpressionParser::dict() {
  Expression out{.kind = Kind::kDict, .line = expect(TokenKind::kOperator, "{").line};
  while (!at(TokenKind::kOperator, "}")) {
    out.parts.push_back(expression());
    expect(TokenKind::kOperator, ":");
    out.parts.push_back(expression());
    if (!take_operator(",")) {
      break;
    }
  }
  expect(TokenKind::kOperator, "}");
  return made(std::move(out));
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr of) {
  while (true) {
    if (at(TokenKind::kOperator, ".") || at(TokenKind::kOperator, "[")) {
      of = subscript(std::move(of));
    } else if (at(TokenKind::kOperator, "(")) {
      Expression call{.kind = Kind::kCall, .line = token().line};
      call.parts.push_back(std::move(of));
      arguments(call);
      of = made(std::move(call));
    } else {
      return of;
    }
  }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr of) {
  const int line = token().line;
  if (take_operator(".")) {
    if (at(TokenKind::kInteger)) {
      return with(Kind::kItem, line, "", std::move(of), constant(tokens_[at_++]));
    }
    return with(Kind::kAttribute, line, expect_name(), std::move(of));
  }
  expect(TokenKind::kOperator, "[");
  Expression slice{.kind = Kind::kSlice, .line = line};
  slice.parts.push_back(std::move(of));
  bool is_slice = false;
  for (int part = 0; part < 3; ++part) {
    const bool is_left_out =
        at(TokenKind::kOperator, ":") || (is_slice && at(TokenKind::kOperator, "]"));
    slice.parts.push_back(is_left_out ? nullptr : expression());
    if (part < 2 && take_operator(":")) {
      is_slice = true;
    } else {
      break;
    }
  }
  expect(TokenKind::kOperator, "]");
  if (!is_slice) {
    return with(Kind::kItem, line, "", std::move(slice.parts[0]), std::move(slice.parts[1]));
  }
  slice.parts.resize(4);
  return made(std::move(slice));
}

void ExpressionParser::arguments(Expression& call) {
  expect(TokenKind::kOperator, "(");
  while (!at(TokenKind::kOperator, ")")) {
    if (at(TokenKind::kOperator, "*") || at(TokenKind::kOperator, "**")) {
      fail("arguments unpacked by * are not supported");
    }
    if (at(TokenKind::kName) && tokens_[at_ + 1].kind == TokenKind::kOperator &&
        tokens_[at_ + 1].text == "=") {
      const std::string name = expect_name();
      ++at_;
      call.named.emplace_back(name, expression());
    } else {
      if (!call.named.empty()) {
        fail("an argument without a name follows one with a name");
      }
      call.parts.push_back(expression());
    }
    if (!take_operator(",")) {
      break;
    }
  }
  expect(TokenKind::kOperator, ")");
}

ExpressionPtr ExpressionParser::filtered(ExpressionPtr of) {
  while (true) {
    if (at(TokenKind::kOperator, "|")) {
      ++at_;
      of = filter(std::move(of));
    } else if (at(TokenKind::kName, "is")) {
      of = test(std::move(of));
    } else {
      return of;
    }
  }
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr of) {
  const Token name = expect(TokenKind::kName);
  Expression out{.kind = Kind::kFilter, .line = name.line, .name = name.text};
  out.parts.push_back(std::move(of));
  if (at(TokenKind::kOperator, "(")) {
    arguments(out);
  }
  return made(std::move(out));
}

ExpressionPtr ExpressionParser::filters_alone() {
  ExpressionPtr out = filter(nullptr);
  while (take_operator("|")) {
    out = filter(std::move(out));
  }
  return out;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr of) {
  const int line = expect(TokenKind::kName, "is").line;
  const bool negated = take_word("not");
  Expression out{.kind = Kind::kTest, .line = line, .name = expect_name()};
  out.parts.push_back(std::move(of));
  const bool has_argument = token().kind == TokenKind::kString ||
                            token().kind == TokenKind::kInteger ||
                            token().kind == TokenKind::kFloat || at(TokenKind::kOperator, "[") ||
                            at(TokenKind::kOperator, "{") ||
                            (at(TokenKind::kName) && token().text != "else" &&
                             token().text != "or" && token().text != "and");
  if (at(TokenKind::kOperator, "(")) {
    arguments(out);
  } else if (at(TokenKind::kName, "is")) {
    fail("tests cannot be chained with is");
  } else if (has_argument) {
    out.parts.push_back(postfix(primary()));
  }
  ExpressionPtr tested = made(std::move(out));
  return negated ? with(Kind::kNot, line, "", std::move(tested)) : std::move(tested);
}

Target ExpressionParser::target(bool may_be_attribute) {
  Target out;
  do {
    if (out.is_tuple && at(TokenKind::kName, "in")) {
      break;
    }
    if (at(TokenKind::kOperator, "(")) {
      fail("names in parentheses are not supported here");
    }
    out.names.push_back(expect_name());
    const std::string& name = out.names.back();
    for (const char* taken : {"true", "false", "none", "True", "False", "None"}) {
      if (name == taken) {
        fail(fmt::format("{} can be given no value", name));
      }
    }
    if (may_be_attribute && !out.is_tuple && take_operator(".")) {
      out.attribute = expect_name();
      return out;
    }
  } while (take_operator(",") && (out.is_tuple = true));
  return out;
}

Named ExpressionParser::parameters() {
  Named out;
  expect(TokenKind::kOperator, "(");
  while (!at(TokenKind::kOperator, ")")) {
    const std::string name = expect_name();
    if (!out.empty() && out.back().second != nullptr && !at(TokenKind::kOperator, "=")) {
      fail(fmt::format("parameter {} without a default follows one that has one", name));
    }
    out.emplace_back(name, take_operator("=") ? expression() : nullptr);
    if (!take_operator(",")) {
      break;
    }
  }
  expect(TokenKind::kOperator, ")");
  return out;
}

}  // namespace mstrain::jinja
