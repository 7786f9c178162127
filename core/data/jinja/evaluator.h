// Runs a template.
#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "core/data/jinja/functions.h"
#include "core/data/jinja/syntax.h"

namespace mstrain::jinja {

// For one run: what a template says of `variables`. Both must outlive it, as must the template.
class Evaluator {
 public:
  Evaluator(const Dict& variables, std::string_view name, std::time_t now)
      : name_(name), now_(now), root_{variables, nullptr}, scope_(&root_) {}

  // Throws Error "<name>:<line>: ..." as Template::render() does.
  Text run(const Body& body);

 private:
  struct Scope {
    Dict variables;
    Scope* outer = nullptr;
  };
  // A scope in the one that was, as long as it lives.
  class Inner;
  class Nested;
  enum class Flow { kOn, kBreak, kContinue };
  using Kind = Expression::Kind;

  Flow execute(const Body& body, Text& out);
  Flow execute(const Statement& statement, Text& out);
  Flow execute_statement(const Statement& statement, Text& out);
  Flow execute_for(const Statement& statement, Text& out);
  Flow execute_set(const Statement& statement);
  Flow execute_scope(const Statement& statement, Text& out);
  void give(const Target& target, const Value& value);
  std::shared_ptr<const List> items_of(const Statement& loop);
  Flow inside(const Body& body, Text& out);  // in a scope of its own
  Value filtered(const Expression& filters, const Value& subject);
  void print(const Value& value, Text& out);

  Value evaluate(const Expression& expression);
  Value value_of(const Expression& expression);
  Value variable(const std::string& name) const;
  Value dict(const Expression& expression);
  Value comparison(const Expression& expression);
  Value conditional(const Expression& expression);
  Value slice_of(const Expression& expression);
  Value call(const Expression& expression);
  Value call_macro(const Statement& macro, const Arguments& arguments);
  Arguments arguments(const Expression& expression);

  void step();  // throws where a template has taken too many

  template <class Run>
  auto located(int line, const Run& run);

  std::string_view name_;
  std::time_t now_;
  Scope root_;
  Scope* scope_;
  int depth_ = 0;
  int64_t steps_ = 0;
  bool in_condition_ = false;  // of a for, which Jinja evaluates as the loop goes on
};

}  // namespace mstrain::jinja
