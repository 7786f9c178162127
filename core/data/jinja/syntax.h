// What a template says, as a tree.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/data/jinja/value.h"

namespace mstrain::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;
using Named = std::vector<std::pair<std::string, ExpressionPtr>>;

struct Expression {
  enum class Kind {
    kConstant,   // value
    kVariable,   // name
    kList,       // parts
    kTuple,      // parts
    kDict,       // parts: key, value, key, value, …
    kOperation,  // name: + - * / // % ~ ; parts: left, right
    kSign,       // name: + or -; parts: one
    kNot,        // parts: one
    kAnd,
    kOr,           // parts: left, right
    kComparison,   // operators; parts: one more than those
    kConditional,  // parts: condition, value, and the value otherwise, null where there is none
    kAttribute,    // name; parts: object
    kItem,         // parts: object, key
    kSlice,        // parts: object, begin, end, step; null where left out
    kFilter,       // name; parts: what is filtered (null in a filter block), arguments; named
    kTest,         // name; parts: what is tested, arguments
    kCall,         // parts: the function, or its attribute, arguments; named
  };

  Kind kind;
  int line = 0;
  std::string name = {};
  Value value = {};
  std::vector<ExpressionPtr> parts = {};
  std::vector<std::string> operators = {};  // == != < <= > >= in, not in
  Named named = {};
  int depth = 1;  // of the tree below it
};

// What a `set` or a `for` gives values to: names; or an attribute of a namespace.
struct Target {
  std::vector<std::string> names;
  bool is_tuple = false;
  std::string attribute = {};  // not empty: of the namespace names[0]
};

struct Statement;
using Body = std::vector<Statement>;

struct Statement {
  enum class Kind {
    kText,      // text
    kPrint,     // value
    kIf,        // value, body, otherwise
    kFor,       // target, value, condition (may be null), body, otherwise
    kSet,       // target, value
    kSetBlock,  // target, body, value: filters of it, or null
    kMacro,     // name, parameters (null: no default), body
    kScope,     // parameters: names of a `with`; body
    kFilter,    // value, body
    kBreak,
    kContinue,
  };

  Kind kind;
  int line = 0;
  std::string name = {};
  Text text = {};
  ExpressionPtr value = {};
  ExpressionPtr condition = {};
  Target target = {};
  Named parameters = {};
  Body body = {};
  Body otherwise = {};
};

}  // namespace mstrain::jinja
