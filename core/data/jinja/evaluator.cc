#include "core/data/jinja/evaluator.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace mstrain::jinja {
namespace {

constexpr int kDeepest = 600;  // expressions and statements in each other, with those of macros
constexpr int64_t kMostSteps = 5'000'000;
constexpr size_t kLargestText = 64 << 20;
constexpr size_t kLongestList = 1 << 20;

// An error with its line in front.
class LocatedError : public Error {
 public:
  using Error::Error;
};

void check_size(const Text& text) {
  check(text.size() <= kLargestText, "a text has more than {} bytes", kLargestText);
}

Value integer_operation(char name, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflows = false;
  if (name == '+') {
    overflows = __builtin_add_overflow(a, b, &result);
  } else if (name == '-') {
    overflows = __builtin_sub_overflow(a, b, &result);
  } else if (name == '*') {
    overflows = __builtin_mul_overflow(a, b, &result);
  } else {
    check(b != 0, "division by 0");
    if (b == -1) {
      overflows = name != '%' && __builtin_sub_overflow(int64_t{0}, a, &result);
    } else {
      const int64_t rest = a % b;
      const bool rounds_down = rest != 0 && (rest < 0) != (b < 0);  // as Python does
      result = name == '%' ? rest + (rounds_down ? b : 0) : a / b - (rounds_down ? 1 : 0);
    }
  }
  check(!overflows, "a number is too large");
  return result;
}

Value real_operation(const std::string& name, double a, double b) {
  if (name == "+" || name == "-" || name == "*") {
    return name == "+" ? a + b : name == "-" ? a - b : a * b;
  }
  check(b != 0, "division by 0");
  check(name == "/", "{} of floats is not supported", name);
  return a / b;
}

}  // namespace

class Evaluator::Inner {
 public:
  explicit Inner(Evaluator& evaluator, Scope* outer = nullptr)
      : evaluator_(evaluator), before_(evaluator.scope_), scope_{{}, outer ? outer : before_} {
    evaluator_.scope_ = &scope_;
  }
  ~Inner() { evaluator_.scope_ = before_; }
  Inner(const Inner&) = delete;
  Inner& operator=(const Inner&) = delete;

 private:
  Evaluator& evaluator_;
  Scope* before_;
  Scope scope_;
};

class Evaluator::Nested {
 public:
  explicit Nested(Evaluator& evaluator) : evaluator_(evaluator) {
    check(evaluator_.depth_ < kDeepest, "the template calls itself too often");
    evaluator_.step();
    ++evaluator_.depth_;
  }
  ~Nested() { --evaluator_.depth_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  Evaluator& evaluator_;
};

// Puts the line in front of what goes wrong in `run`, once.
template <class Run>
auto Evaluator::located(int line, const Run& run) {
  try {
    const Nested nested(*this);
    return run();
  } catch (const LocatedError&) {
    throw;
  } catch (const Error& error) {
    throw LocatedError(fmt::format("{}:{}: {}", name_, line, error.what()));
  }
}

Text Evaluator::run(const Body& body) {
  Text out;
  execute(body, out);
  return out;
}

Evaluator::Flow Evaluator::execute(const Body& body, Text& out) {
  for (const Statement& statement : body) {
    if (const Flow flow = execute(statement, out); flow != Flow::kOn) {
      return flow;
    }
  }
  return Flow::kOn;
}

Evaluator::Flow Evaluator::execute(const Statement& statement, Text& out) {
  return located(statement.line, [&] { return execute_statement(statement, out); });
}

Evaluator::Flow Evaluator::execute_statement(const Statement& statement, Text& out) {
  switch (statement.kind) {
    case Statement::Kind::kText: print(statement.text, out); break;
    case Statement::Kind::kPrint: {
      // What is safe to print is printed as it is. Elsewhere the filter would make text that escapes what it is added to.
      const Expression& value = *statement.value;
      const bool is_safe =
          value.kind == Kind::kFilter && value.name == "safe" && value.parts.size() == 1;
      print(evaluate(is_safe ? *value.parts[0] : value), out);
      break;
    }
    case Statement::Kind::kIf:
      return execute(evaluate(*statement.value).truth() ? statement.body : statement.otherwise,
                     out);
    case Statement::Kind::kFor: return execute_for(statement, out);
    case Statement::Kind::kSet:
    case Statement::Kind::kSetBlock: execute_set(statement); break;
    case Statement::Kind::kMacro:
      check(scope_ == &root_, "a macro inside a loop, a macro or another block is not supported");
      assign(root_.variables, statement.name, Macro{&statement});
      break;
    case Statement::Kind::kScope: execute_scope(statement, out); break;
    case Statement::Kind::kFilter:
      print(filtered(*statement.value, inside(statement.body)), out);
      break;
    case Statement::Kind::kBreak: return Flow::kBreak;
    case Statement::Kind::kContinue: return Flow::kContinue;
  }
  return Flow::kOn;
}

void Evaluator::print(const Value& value, Text& out) {
  out.append(to_text(value));
  check_size(out);
}

std::shared_ptr<const List> Evaluator::items_of(const Statement& loop) {
  const auto all = elements(evaluate(*loop.value));
  if (loop.condition == nullptr) {
    return all;
  }
  auto out = std::make_shared<List>();
  const bool outer = std::exchange(in_condition_, true);
  for (const Value& each : all->items) {
    const Inner inner(*this);
    give(loop.target, each);
    if (evaluate(*loop.condition).truth()) {
      out->items.push_back(each);
    }
  }
  in_condition_ = outer;
  return out;
}

void Evaluator::step() { check(++steps_ <= kMostSteps, "the template does not end"); }

Evaluator::Flow Evaluator::execute_for(const Statement& statement, Text& out) {
  const auto items = items_of(statement);
  for (size_t i = 0; i < items->items.size(); ++i) {
    step();
    const Inner inner(*this);
    assign(scope_->variables, "loop", std::make_shared<const LoopState>(LoopState{items, i}));
    give(statement.target, items->items[i]);
    if (execute(statement.body, out) == Flow::kBreak) {
      break;
    }
  }
  if (!items->items.empty()) {
    return Flow::kOn;
  }
  const Inner inner(*this);
  return execute(statement.otherwise, out);
}

void Evaluator::execute_set(const Statement& statement) {
  if (statement.kind == Statement::Kind::kSet) {
    give(statement.target, evaluate(*statement.value));
    return;
  }
  const Value text = inside(statement.body);
  give(statement.target, statement.value == nullptr ? text : filtered(*statement.value, text));
}

void Evaluator::execute_scope(const Statement& statement, Text& out) {
  std::vector<Value> values;  // in the scope outside
  for (const auto& [name, value] : statement.parameters) {
    values.push_back(evaluate(*value));
  }
  const Inner inner(*this);
  for (size_t i = 0; i < values.size(); ++i) {
    assign(scope_->variables, statement.parameters[i].first, values[i]);
  }
  execute(statement.body, out);
}

void Evaluator::give(const Target& target, const Value& value) {
  if (!target.attribute.empty()) {
    const Value object = variable(target.names[0]);
    check(object.name_space() != nullptr, "{} is {}; only namespaces have attributes that change",
          target.names[0], object.kind());
    check(!target.attribute.starts_with('_'), "{}: a namespace keeps no name that begins with _",
          target.attribute);
    assign(object.name_space()->attributes, target.attribute, value);
    return;
  }
  if (!target.is_tuple) {
    assign(scope_->variables, target.names[0], value);
    return;
  }
  check(value.undefined() == nullptr, "{} is undefined",
        value.undefined() == nullptr ? "" : value.undefined()->what);
  const auto list = elements(value);
  check(list->items.size() == target.names.size(), "{} values for {} names", list->items.size(),
        target.names.size());
  for (size_t i = 0; i < target.names.size(); ++i) {
    assign(scope_->variables, target.names[i], list->items[i]);
  }
}

Text Evaluator::inside(const Body& body) {
  const Inner inner(*this);
  Text out;
  execute(body, out);
  return out;
}

// Filters in a row, the innermost of which has nothing to filter yet.
Value Evaluator::filtered(const Expression& filters, const Value& subject) {
  return located(filters.line, [&] {
    return apply_filter(
        filters.name, filters.parts[0] == nullptr ? subject : filtered(*filters.parts[0], subject),
        arguments(filters));
  });
}

Value Evaluator::evaluate(const Expression& expression) {
  return located(expression.line, [&] { return value_of(expression); });
}

Value Evaluator::value_of(const Expression& e) {
  const auto part = [&](size_t i) { return evaluate(*e.parts[i]); };
  switch (e.kind) {
    case Kind::kConstant: return e.value;
    case Kind::kVariable: return variable(e.name);
    case Kind::kList:
    case Kind::kTuple: {
      List list;
      list.kind = e.kind == Kind::kTuple ? List::Kind::kTuple : List::Kind::kList;
      for (size_t i = 0; i < e.parts.size(); ++i) {
        list.items.push_back(part(i));
      }
      return list;
    }
    case Kind::kDict: return dict(e);
    case Kind::kOperation: {
      const Value left = part(0);
      return operation(e.name, left, part(1));
    }
    case Kind::kSign: return signed_value(e.name, part(0));
    case Kind::kNot: return !part(0).truth();
    case Kind::kAnd:
    case Kind::kOr: {
      Value left = part(0);
      return left.truth() == (e.kind == Kind::kAnd) ? part(1) : left;
    }
    case Kind::kComparison: return comparison(e);
    case Kind::kConditional: return conditional(e);
    case Kind::kAttribute: {
      const Value object = part(0);
      check(!in_condition_ || object.name_space() == nullptr,
            "a namespace in the condition of a for is not supported");
      return attribute(object, e.name);
    }
    case Kind::kItem: {
      const Value object = part(0);
      return item(object, part(1));
    }
    case Kind::kSlice: return slice_of(e);
    case Kind::kFilter: {
      const Value subject = part(0);
      return apply_filter(e.name, subject, arguments(e));
    }
    case Kind::kTest: {
      const Value subject = part(0);
      return apply_test(e.name, subject, arguments(e));
    }
    case Kind::kCall: return call(e);
  }
  return Undefined{};
}

Value Evaluator::variable(const std::string& name) const {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->outer) {
    if (const Value* found = find(scope->variables, name)) {
      return *found;
    }
  }
  if (is_function(name)) {
    return Function{name};
  }
  for (const char* unknown :
       {"cycler", "joiner", "lipsum", "caller", "varargs", "kwargs", "self"}) {
    check(name != unknown, "{} is not supported", name);
  }
  return Undefined{"`" + name + "`"};
}

Value Evaluator::dict(const Expression& e) {
  Dict out;
  for (size_t i = 0; i < e.parts.size(); i += 2) {
    const Value key = evaluate(*e.parts[i]);
    check(key.text() != nullptr, "a key of a mapping: expected a string, found {}", key.kind());
    assign(out, key.text()->bytes(), evaluate(*e.parts[i + 1]));
  }
  return out;
}

Value Evaluator::operation(const std::string& name, const Value& left, const Value& right) {
  if (name == "~") {
    Text out = to_text(left);
    out.append(to_text(right));
    check_size(out);
    return out;
  }
  if (left.is_number() && right.is_number()) {
    return name == "/" || left.real() != nullptr || right.real() != nullptr
               ? real_operation(name, to_real(left), to_real(right))
               : integer_operation(name == "//" ? '/' : name[0], to_integer(left, name),
                                   to_integer(right, name));
  }
  for (const Value* side : {&left, &right}) {
    check(side->undefined() == nullptr, "{} is undefined",
          side->undefined() == nullptr ? "" : side->undefined()->what);
  }
  if (name == "+" && left.text() != nullptr && right.text() != nullptr) {
    Text out = *left.text();
    out.append(*right.text());
    check_size(out);
    return out;
  }
  const List* a = left.list();
  const List* b = right.list();
  if (name == "+" && a != nullptr && b != nullptr && a->kind == b->kind &&
      (a->kind == List::Kind::kList || a->kind == List::Kind::kTuple)) {
    List out = *a;
    out.items.insert(out.items.end(), b->items.begin(), b->items.end());
    check(out.items.size() <= kLongestList, "a list has more than {} elements", kLongestList);
    return out;
  }
  if (name == "*" && left.text() != nullptr && right.integer() != nullptr) {
    const auto times = static_cast<size_t>(std::max<int64_t>(*right.integer(), 0));
    check(left.text()->empty() || times <= kLargestText / left.text()->size(),
          "a text has more than {} bytes", kLargestText);
    Text out;
    for (size_t i = 0; i < times && !left.text()->empty(); ++i) {
      out.append(*left.text());
    }
    return out;
  }
  fail("{} {} {} is not supported", left.kind(), name, right.kind());
}

Value Evaluator::signed_value(const std::string& sign, const Value& value) {
  check(value.is_number(), "{} {}: expected a number", sign, value.kind());
  if (value.real() != nullptr) {
    return sign == "-" ? -*value.real() : *value.real();
  }
  return integer_operation(sign[0], 0, to_integer(value, sign));
}

Value Evaluator::comparison(const Expression& e) {
  Value left = evaluate(*e.parts[0]);
  for (size_t i = 0; i < e.operators.size(); ++i) {
    const std::string& name = e.operators[i];
    Value right = evaluate(*e.parts[i + 1]);
    const bool holds = name == "=="   ? equal(left, right)
                       : name == "!=" ? !equal(left, right)
                       : name == "<"  ? less(left, right)
                       : name == ">"  ? less(right, left)
                       : name == "<=" ? less(left, right) || equal(left, right)
                       : name == ">=" ? less(right, left) || equal(left, right)
                       : name == "in" ? contains(right, left)
                                      : !contains(right, left);
    if (!holds) {
      return false;
    }
    left = std::move(right);
  }
  return true;
}

Value Evaluator::conditional(const Expression& e) {
  if (evaluate(*e.parts[0]).truth()) {
    return evaluate(*e.parts[1]);
  }
  return e.parts[2] != nullptr ? evaluate(*e.parts[2])
                               : Value(Undefined{"the value of an if without else"});
}

Value Evaluator::slice_of(const Expression& e) {
  const Value object = evaluate(*e.parts[0]);
  Value ends[3];
  for (size_t i = 0; i < 3; ++i) {
    ends[i] = e.parts[i + 1] != nullptr ? evaluate(*e.parts[i + 1]) : Value(None());
  }
  return slice(object, &ends[0], &ends[1], &ends[2]);
}

Arguments Evaluator::arguments(const Expression& e) {
  Arguments out;
  for (size_t i = 1; i < e.parts.size(); ++i) {
    out.given.push_back(evaluate(*e.parts[i]));
  }
  for (const auto& [name, value] : e.named) {
    out.named.emplace_back(name, evaluate(*value));
  }
  return out;
}

Value Evaluator::call(const Expression& e) {
  const Expression& callee = *e.parts[0];
  if (callee.kind == Kind::kAttribute) {
    const Value object = evaluate(*callee.parts[0]);
    check(object.undefined() == nullptr, "{} is undefined, and has no {}",
          object.undefined() == nullptr ? "" : object.undefined()->what, callee.name);
    if (object.name_space() == nullptr) {
      return call_method(callee.name, object, arguments(e));
    }
  }
  const Value function = evaluate(callee);
  if (const Macro* macro = function.macro()) {
    return call_macro(*macro->definition, arguments(e));
  }
  check(function.undefined() == nullptr, "{} is undefined",
        function.undefined() == nullptr ? "" : function.undefined()->what);
  check(function.function() != nullptr, "{} cannot be called", function.kind());
  return call_function(function.function()->name, arguments(e), now_);
}

Value Evaluator::call_macro(const Statement& macro, const Arguments& arguments) {
  check(arguments.given.size() <= macro.parameters.size(),
        "macro {}: {} arguments, but at most {} are taken", macro.name, arguments.given.size(),
        macro.parameters.size());
  const Inner inner(*this, &root_);
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const auto& [name, otherwise] = macro.parameters[i];
    const Value* named = find(arguments.named, name);
    check(named == nullptr || i >= arguments.given.size(), "macro {}: {} is given twice",
          macro.name, name);
    assign(scope_->variables, name,
           i < arguments.given.size() ? arguments.given[i]
           : named != nullptr         ? *named
           : otherwise != nullptr     ? evaluate(*otherwise)
                                      : Value(Undefined{"`" + name + "`"}));
  }
  for (const auto& [name, value] : arguments.named) {
    check(find(scope_->variables, name) != nullptr, "macro {}: the argument {} is unknown",
          macro.name, name);
  }
  Text out;
  execute(macro.body, out);
  return out;
}

}  // namespace mstrain::jinja
