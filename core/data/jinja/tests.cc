#include <functional>
#include <map>

#include "core/base/error.h"
#include "core/data/jinja/functions.h"

namespace mstrain::jinja {
namespace {

using Test = bool (*)(const Value& subject, const std::vector<const Value*>& with);

bool has_elements(const Value& value) {
  return value.text() != nullptr || value.list() != nullptr || value.dict() != nullptr ||
         value.undefined() != nullptr;
}
bool is_sequence(const Value& value) {
  return has_elements(value) && (value.list() == nullptr || value.list()->has_places());
}
int64_t number(const Value& value) { return to_integer(value, "test"); }

struct Known {
  size_t arguments;
  Test holds;
};

using Values = const std::vector<const Value*>&;
bool is_equal(const Value& v, Values w) { return equal(v, *w[0]); }
bool is_unequal(const Value& v, Values w) { return !equal(v, *w[0]); }
bool is_less(const Value& v, Values w) { return less(v, *w[0]); }
bool is_greater(const Value& v, Values w) { return less(*w[0], v); }
bool is_at_most(const Value& v, Values w) { return less(v, *w[0]) || equal(v, *w[0]); }
bool is_at_least(const Value& v, Values w) { return less(*w[0], v) || equal(v, *w[0]); }

const std::map<std::string, Known>& known_tests() {
  static const std::map<std::string, Known> kTests{
      {"defined", {0, [](const Value& v, Values) { return v.undefined() == nullptr; }}},
      {"undefined", {0, [](const Value& v, Values) { return v.undefined() != nullptr; }}},
      {"none", {0, [](const Value& v, Values) { return v.is_none(); }}},
      {"string", {0, [](const Value& v, Values) { return v.text() != nullptr; }}},
      {"mapping", {0, [](const Value& v, Values) { return v.dict() != nullptr; }}},
      {"sequence", {0, [](const Value& v, Values) { return is_sequence(v); }}},
      {"iterable",
       {0, [](const Value& v, Values) { return has_elements(v) || v.loop() != nullptr; }}},
      {"number", {0, [](const Value& v, Values) { return v.is_number(); }}},
      {"integer", {0, [](const Value& v, Values) { return v.integer() != nullptr; }}},
      {"float", {0, [](const Value& v, Values) { return v.real() != nullptr; }}},
      {"boolean", {0, [](const Value& v, Values) { return v.boolean() != nullptr; }}},
      {"true", {0, [](const Value& v, Values) { return v.boolean() != nullptr && *v.boolean(); }}},
      {"false",
       {0, [](const Value& v, Values) { return v.boolean() != nullptr && !*v.boolean(); }}},
      {"callable",
       {0,
        [](const Value& v, Values) {
          return v.macro() != nullptr || v.function() != nullptr || v.loop() != nullptr ||
                 v.undefined() != nullptr;  // a call of which is Jinja's error
        }}},
      {"odd", {0, [](const Value& v, Values) { return number(v) % 2 != 0; }}},
      {"even", {0, [](const Value& v, Values) { return number(v) % 2 == 0; }}},
      {"divisibleby",
       {1,
        [](const Value& v, Values w) {
          check(number(*w[0]) != 0, "test divisibleby: division by 0");
          return number(*w[0]) == -1 || number(v) % number(*w[0]) == 0;
        }}},
      {"in", {1, [](const Value& v, Values w) { return contains(*w[0], v); }}},
      {"eq", {1, is_equal}},
      {"equalto", {1, is_equal}},
      {"==", {1, is_equal}},
      {"ne", {1, is_unequal}},
      {"!=", {1, is_unequal}},
      {"lt", {1, is_less}},
      {"lessthan", {1, is_less}},
      {"<", {1, is_less}},
      {"gt", {1, is_greater}},
      {"greaterthan", {1, is_greater}},
      {">", {1, is_greater}},
      {"le", {1, is_at_most}},
      {"<=", {1, is_at_most}},
      {"ge", {1, is_at_least}},
      {">=", {1, is_at_least}}};
  return kTests;
}

}  // namespace

bool apply_test(const std::string& name, const Value& subject, const Arguments& arguments) {
  const auto found = known_tests().find(name);
  check(found != known_tests().end(), "the test `{}` is not supported", name);
  const Known& known = found->second;
  const auto given = known.arguments == 0 ? arguments.of({}) : arguments.of({"other"});
  check(known.arguments == 0 || given[0] != nullptr, "test {}: expected a value", name);
  return known.holds(subject, given);
}

}  // namespace mstrain::jinja
