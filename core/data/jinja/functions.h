// What templates call by name: filters, tests, methods of values and functions.
#pragma once

#include <ctime>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/data/jinja/value.h"

namespace mstrain::jinja {

struct Arguments {
  std::vector<Value> given;
  std::vector<std::pair<std::string, Value>> named;

  // The values of `parameters` in their order, null where one is not given. Throws Error naming what there are too many of, or
  // what has no such name.
  std::vector<const Value*> of(std::initializer_list<const char*> parameters) const;
  // The rest, from `first` on.
  Arguments from(size_t first) const;
};

// Each throws Error where the name is not known here, and where values are not what it takes.
Value apply_filter(const std::string& name, const Value& subject, const Arguments& arguments);
bool apply_test(const std::string& name, const Value& subject, const Arguments& arguments);
// Of a string, a mapping or a loop.
Value call_method(const std::string& name, const Value& object, const Arguments& arguments);
// What `now` is for strftime_now.
Value call_function(const std::string& name, const Arguments& arguments, std::time_t now);
// Those that call_function() knows.
bool is_function(std::string_view name);
// Whether mappings, or strings, have such a method in Python.
bool is_dict_method(std::string_view name);
bool is_text_method(std::string_view name);

// left name right, of numbers, texts and lists, and a number with a sign, as Python has them. Each throws Error where there is
// no such operation, or the result is too large.
Value operation(const std::string& name, const Value& left, const Value& right);
Value signed_value(const std::string& sign, const Value& value);
// Throws Error for a text that is too large.
void check_size(const Text& text);

// object.name and object[key]; undefined where it has none. Throws Error where `object` is undefined.
Value attribute(const Value& object, const std::string& name);
Value item(const Value& object, const Value& key);
// object[begin:end:step]; null: left out.
Value slice(const Value& object, const Value* begin, const Value* end, const Value* step);

// As json.dumps of Python. Throws Error for what JSON has no form for.
struct JsonStyle {
  bool ascii = false;
  bool sorted = false;
  std::string indent = {};  // of each level; empty with in_lines: lines alone
  bool in_lines = false;
  std::string between = ", ";
  std::string after_key = ": ";
};
Text to_json(const Value& value, const JsonStyle& style);

// Parts of text. White space is Python's.
enum class Side { kLeft, kRight, kBoth };
// Without characters of `characters` (null: white space) at those sides.
Text stripped(const Text& text, const Text* characters, Side side);
Text replaced(const Text& text, const Text& old, const Text& by, int64_t most);
List split(const Text& text, const Text* separator, int64_t most, bool from_the_right);
// ASCII letters; throws Error for text with others, which `what` names.
Text cased(const Text& text, std::string_view what);
Text joined(const List& list, const Text& between);

}  // namespace mstrain::jinja
