// What stands between operators: constants, names, lists, calls, filters and tests; and the names that are given values.
#include <charconv>

#include "core/base/error.h"
#include "core/data/jinja/expression_parser.h"

namespace mstrain::jinja {

ExpressionPtr ExpressionParser::primary() {
  switch (token().kind) {
    case Token::Kind::kName: {
      const Token name = tokens_[at_++];
      if (name.text == "true" || name.text == "True" || name.text == "false" ||
          name.text == "False" || name.text == "none" || name.text == "None") {
        return constant(name);
      }
      return made({.kind = Kind::kVariable, .line = name.line, .name = name.text});
    }
    case Token::Kind::kString:
    case Token::Kind::kInteger:
    case Token::Kind::kFloat: return constant(tokens_[at_++]);
    default: break;
  }
  const Nested nested(*this);
  if (at(Token::Kind::kOperator, "(")) {
    return parenthesised();
  }
  if (at(Token::Kind::kOperator, "[")) {
    return list();
  }
  if (at(Token::Kind::kOperator, "{")) {
    return dict();
  }
  fail(fmt::format("expected an expression, found {}", described(token())));
}

ExpressionPtr ExpressionParser::constant(const Token& token) {
  Expression out{.kind = Kind::kConstant, .line = token.line};
  if (token.kind == Token::Kind::kString) {
    std::string text = token.text;
    while (at(Token::Kind::kString)) {  // strings in a row are one
      text += tokens_[at_++].text;
    }
    out.value = Value::text(text);
  } else if (token.kind == Token::Kind::kInteger) {
    int64_t value = 0;
    const char* end = token.text.data() + token.text.size();
    if (std::from_chars(token.text.data(), end, value).ec != std::errc()) {
      fail_at(name_, token.line, fmt::format("{} is too large", token.text));
    }
    out.value = value;
  } else if (token.kind == Token::Kind::kFloat) {
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
  return at(Token::Kind::kPrintEnd) || at(Token::Kind::kBlockEnd) ||
         at(Token::Kind::kOperator, ")");
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
  const int line = expect(Token::Kind::kOperator, "(").line;
  ExpressionPtr inside =
      at(Token::Kind::kOperator, ")") ? made({.kind = Kind::kTuple, .line = line}) : tuple();
  expect(Token::Kind::kOperator, ")");
  return inside;
}

ExpressionPtr ExpressionParser::list() {
  Expression out{.kind = Kind::kList, .line = expect(Token::Kind::kOperator, "[").line};
  while (!at(Token::Kind::kOperator, "]")) {
    out.parts.push_back(expression());
    if (!take_operator(",")) {
      break;
    }
  }
  expect(Token::Kind::kOperator, "]");
  return made(std::move(out));
}

ExpressionPtr ExpressionParser::dict() {
  Expression out{.kind = Kind::kDict, .line = expect(Token::Kind::kOperator, "{").line};
  while (!at(Token::Kind::kOperator, "}")) {
    out.parts.push_back(expression());
    expect(Token::Kind::kOperator, ":");
    out.parts.push_back(expression());
    if (!take_operator(",")) {
      break;
    }
  }
  expect(Token::Kind::kOperator, "}");
  return made(std::move(out));
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr of) {
  while (true) {
    if (at(Token::Kind::kOperator, ".") || at(Token::Kind::kOperator, "[")) {
      of = subscript(std::move(of));
    } else if (at(Token::Kind::kOperator, "(")) {
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
    if (at(Token::Kind::kInteger)) {
      return with(Kind::kItem, line, "", std::move(of), constant(tokens_[at_++]));
    }
    return with(Kind::kAttribute, line, expect_name(), std::move(of));
  }
  expect(Token::Kind::kOperator, "[");
  Expression slice{.kind = Kind::kSlice, .line = line};
  slice.parts.push_back(std::move(of));
  bool is_slice = false;
  for (int part = 0; part < 3; ++part) {
    const bool is_left_out =
        at(Token::Kind::kOperator, ":") || (is_slice && at(Token::Kind::kOperator, "]"));
    slice.parts.push_back(is_left_out ? nullptr : expression());
    if (part < 2 && take_operator(":")) {
      is_slice = true;
    } else {
      break;
    }
  }
  expect(Token::Kind::kOperator, "]");
  if (!is_slice) {
    return with(Kind::kItem, line, "", std::move(slice.parts[0]), std::move(slice.parts[1]));
  }
  slice.parts.resize(4);
  return made(std::move(slice));
}

void ExpressionParser::arguments(Expression& call) {
  expect(Token::Kind::kOperator, "(");
  while (!at(Token::Kind::kOperator, ")")) {
    if (at(Token::Kind::kOperator, "*") || at(Token::Kind::kOperator, "**")) {
      fail("arguments unpacked by * are not supported");
    }
    if (at(Token::Kind::kName) && tokens_[at_ + 1].kind == Token::Kind::kOperator &&
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
  expect(Token::Kind::kOperator, ")");
}

ExpressionPtr ExpressionParser::filtered(ExpressionPtr of) {
  while (true) {
    if (at(Token::Kind::kOperator, "|")) {
      ++at_;
      of = filter(std::move(of));
    } else if (at(Token::Kind::kName, "is")) {
      of = test(std::move(of));
    } else {
      return of;
    }
  }
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr of) {
  const Token name = expect(Token::Kind::kName);
  Expression out{.kind = Kind::kFilter, .line = name.line, .name = name.text};
  out.parts.push_back(std::move(of));
  if (at(Token::Kind::kOperator, "(")) {
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
  const int line = expect(Token::Kind::kName, "is").line;
  const bool negated = take_word("not");
  Expression out{.kind = Kind::kTest, .line = line, .name = expect_name()};
  out.parts.push_back(std::move(of));
  const bool has_argument = token().kind == Token::Kind::kString ||
                            token().kind == Token::Kind::kInteger ||
                            token().kind == Token::Kind::kFloat ||
                            at(Token::Kind::kOperator, "[") || at(Token::Kind::kOperator, "{") ||
                            (at(Token::Kind::kName) && token().text != "else" &&
                             token().text != "or" && token().text != "and");
  if (at(Token::Kind::kOperator, "(")) {
    arguments(out);
  } else if (at(Token::Kind::kName, "is")) {
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
    if (out.is_tuple && at(Token::Kind::kName, "in")) {
      break;
    }
    if (at(Token::Kind::kOperator, "(")) {
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
  expect(Token::Kind::kOperator, "(");
  while (!at(Token::Kind::kOperator, ")")) {
    const std::string name = expect_name();
    if (!out.empty() && out.back().second != nullptr && !at(Token::Kind::kOperator, "=")) {
      fail(fmt::format("parameter {} without a default follows one that has one", name));
    }
    out.emplace_back(name, take_operator("=") ? expression() : nullptr);
    if (!take_operator(",")) {
      break;
    }
  }
  expect(Token::Kind::kOperator, ")");
  return out;
}

}  // namespace mstrain::jinja
