// Expressions.
#include "core/base/error.h"
#include "core/data/jinja/evaluator_scope.h"

namespace mstrain::jinja {

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
