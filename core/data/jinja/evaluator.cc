// Statements; expressions are in evaluate.cc.
#include "core/base/error.h"
#include "core/data/jinja/evaluator_scope.h"

namespace mstrain::jinja {
namespace {

constexpr int64_t kMostSteps = 5'000'000;

}  // namespace

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
    case Statement::Kind::kSetBlock: return execute_set(statement);
    case Statement::Kind::kMacro:
      check(scope_ == &root_, "a macro inside a loop, a macro or another block is not supported");
      assign(root_.variables, statement.name, Macro{&statement});
      break;
    case Statement::Kind::kScope: return execute_scope(statement, out);
    case Statement::Kind::kFilter: {
      Text text;
      const Flow flow = inside(statement.body, text);
      if (flow == Flow::kOn) {
        print(filtered(*statement.value, text), out);
      }
      return flow;
    }
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
  bool any_ended = false;  // a turn, at its end
  for (size_t i = 0; i < items->items.size(); ++i) {
    step();
    const Inner inner(*this);
    assign(scope_->variables, "loop", std::make_shared<const LoopState>(LoopState{items, i}));
    give(statement.target, items->items[i]);
    const Flow flow = execute(statement.body, out);
    if (flow == Flow::kBreak) {
      break;
    }
    any_ended = any_ended || flow == Flow::kOn;
  }
  if (any_ended) {
    return Flow::kOn;
  }
  const Inner inner(*this);
  return execute(statement.otherwise, out);
}

Evaluator::Flow Evaluator::execute_set(const Statement& statement) {
  if (statement.kind == Statement::Kind::kSet) {
    give(statement.target, evaluate(*statement.value));
    return Flow::kOn;
  }
  Text text;
  const Flow flow = inside(statement.body, text);
  if (flow == Flow::kOn) {
    give(statement.target, statement.value == nullptr ? text : filtered(*statement.value, text));
  }
  return flow;
}

Evaluator::Flow Evaluator::execute_scope(const Statement& statement, Text& out) {
  std::vector<Value> values;  // in the scope outside
  for (const auto& [name, value] : statement.parameters) {
    values.push_back(evaluate(*value));
  }
  const Inner inner(*this);
  for (size_t i = 0; i < values.size(); ++i) {
    assign(scope_->variables, statement.parameters[i].first, values[i]);
  }
  return execute(statement.body, out);
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

Evaluator::Flow Evaluator::inside(const Body& body, Text& out) {
  const Inner inner(*this);
  return execute(body, out);
}

// Filters in a row, the innermost of which has nothing to filter yet.
Value Evaluator::filtered(const Expression& filters, const Value& subject) {
  return located(filters.line, [&] {
    return apply_filter(
        filters.name, filters.parts[0] == nullptr ? subject : filtered(*filters.parts[0], subject),
        arguments(filters));
  });
}

}  // namespace mstrain::jinja
