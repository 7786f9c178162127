// What the parts of Evaluator share: scopes, and how deep a run is in them.
#pragma once

#include "core/base/error.h"
#include "core/data/jinja/evaluator.h"

namespace mstrain::jinja {

inline constexpr int kDeepest =
    600;  // expressions and statements in each other, with those of macros

// An error with its line in front.
class LocatedError : public Error {
 public:
  using Error::Error;
};

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

}  // namespace mstrain::jinja
