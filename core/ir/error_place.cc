#include "core/ir/error_place.h"

#include <typeinfo>

namespace mstrain {
namespace {

thread_local const SourceLocation* outer_where = nullptr;

class PlacedError : public Error {
 public:
  using Error::Error;
};

}  // namespace

WhereScope::WhereScope(const SourceLocation& where)
    : previous_(std::exchange(outer_where, &where)) {}
WhereScope::~WhereScope() { outer_where = previous_; }

const SourceLocation* WhereScope::current() { return outer_where; }

void rethrow_placed(const Error& error, const SourceLocation& where) {
  const std::string_view message = error.what();
  if (typeid(error) != typeid(Error) || where.line() == 0 ||
      message.find(", at ") != std::string_view::npos) {
    throw;
  }
  throw PlacedError(fmt::format("{}, at {}", message, to_string(where)));
}

}  // namespace mstrain
