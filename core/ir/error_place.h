// Where errors say that they happened: the line that called the operation.
#pragma once

#include "core/base/error.h"

namespace mstrain {

// While it lives, operations of this thread are called from `where`, whatever they are told: those that another one consists of,
// or that a rule records for it. `where` outlives it.
class WhereScope {
 public:
  explicit WhereScope(const SourceLocation& where);
  ~WhereScope();
  WhereScope(const WhereScope&) = delete;
  WhereScope& operator=(const WhereScope&) = delete;

  // Null: none is open.
  static const SourceLocation* current();

 private:
  const SourceLocation* previous_;
};

// In the handler of an Error: throws it again, ", at FILE:LINE" behind it. What says it already, has no line, or tells more than
// a message (ConfigError, IoError, …) is thrown as it is.
[[noreturn]] void rethrow_placed(const Error& error, const SourceLocation& where);

// Runs f; its errors are those of an operation called from `where`.
template <class F>
decltype(auto) placing_errors(const SourceLocation& where, const F& f) {
  try {
    return f();
  } catch (const Error& error) {
    rethrow_placed(error, where);
  }
}

}  // namespace mstrain
