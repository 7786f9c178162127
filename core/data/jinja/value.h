// What expressions of a template are about: Python's values, as far as templates see them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/data/jinja/text.h"

namespace mstrain::jinja {

class Value;
struct Statement;

struct Undefined {
  std::string what;  // for errors: "`tools`", "`content` of a mapping"
};
struct None {};

// Python's several kinds of sequences. What filters such as `select` give is read once and then spent, and is true even where
// it is empty.
struct List {
  enum class Kind { kList, kTuple, kRange, kView, kOnce };
  std::vector<Value> items;
  Kind kind = Kind::kList;
  std::shared_ptr<bool> spent = {};  // of kOnce

  bool has_places() const { return kind != Kind::kView && kind != Kind::kOnce; }
};
List read_once(std::vector<Value> items);
// In order of insertion; no key twice.
using Dict = std::vector<std::pair<std::string, Value>>;

// Which turn of a `for` it is.
struct LoopState {
  std::shared_ptr<const List> items;
  size_t index = 0;
};

// The one thing that changes after it was made.
struct Namespace {
  Dict attributes;
};
struct Macro {
  const Statement* definition = nullptr;
};
// A function that every template knows: range, namespace, …
struct Function {
  std::string name;
};

// Values never change, but for namespaces, which are shared.
class Value {
 public:
  using Is =
      std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>,
                   std::shared_ptr<const List>, std::shared_ptr<const Dict>,
                   std::shared_ptr<const LoopState>, std::shared_ptr<Namespace>, Macro, Function>;

  Value() = default;                                         // undefined
  Value(Undefined undefined) : is_(std::move(undefined)) {}  // NOLINT(google-explicit-constructor)
  Value(None none) : is_(none) {}                            // NOLINT
  Value(bool b) : is_(b) {}                                  // NOLINT
  Value(int64_t i) : is_(i) {}                               // NOLINT
  Value(double d) : is_(d) {}                                // NOLINT
  Value(Text text) : is_(std::make_shared<const Text>(std::move(text))) {}  // NOLINT
  Value(List list) : is_(std::make_shared<const List>(std::move(list))) {}  // NOLINT
  Value(Dict dict) : is_(std::make_shared<const Dict>(std::move(dict))) {}  // NOLINT
  Value(std::shared_ptr<const LoopState> loop) : is_(std::move(loop)) {}    // NOLINT
  Value(std::shared_ptr<Namespace> ns) : is_(std::move(ns)) {}              // NOLINT
  Value(Macro macro) : is_(macro) {}                                        // NOLINT
  Value(Function function) : is_(std::move(function)) {}                    // NOLINT
  static Value text(std::string_view bytes) { return Text(bytes); }
  // Of a mapping, which may be from outside.
  static Value key(std::string_view bytes) { return Text(bytes, /*from_outside=*/true); }
  static Value size(size_t n) { return static_cast<int64_t>(n); }

  // Null where it is something else.
  const Undefined* undefined() const { return std::get_if<Undefined>(&is_); }
  const bool* boolean() const { return std::get_if<bool>(&is_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&is_); }
  const double* real() const { return std::get_if<double>(&is_); }
  const Text* text() const { return pointed<Text>(); }
  const List* list() const { return pointed<List>(); }
  const Dict* dict() const { return pointed<Dict>(); }
  const LoopState* loop() const { return pointed<LoopState>(); }
  Namespace* name_space() const {
    const auto* found = std::get_if<std::shared_ptr<Namespace>>(&is_);
    return found == nullptr ? nullptr : found->get();
  }
  const Macro* macro() const { return std::get_if<Macro>(&is_); }
  const Function* function() const { return std::get_if<Function>(&is_); }
  bool is_none() const { return std::holds_alternative<None>(is_); }
  bool is_number() const { return boolean() || integer() || real(); }
  const std::shared_ptr<const List>* shared_list() const {
    return std::get_if<std::shared_ptr<const List>>(&is_);
  }

  // "a string", for errors.
  const char* kind() const;
  bool truth() const;

 private:
  template <class T>
  const T* pointed() const {
    const auto* found = std::get_if<std::shared_ptr<const T>>(&is_);
    return found == nullptr ? nullptr : found->get();
  }

  Is is_;
};

// As Python's ==.
bool equal(const Value& a, const Value& b);
// As Python's <. Throws Error for values without an order.
bool less(const Value& a, const Value& b);
// As Python's `in`. Throws Error where `whole` holds nothing.
bool contains(const Value& whole, const Value& part);

// Null where there is none.
const Value* find(const Dict& dict, std::string_view key);
// Adds it, or takes the place of what the key had.
void assign(Dict& dict, const std::string& key, Value value);

// Of an integer or a boolean. Throws Error "<what>: expected an integer, …".
int64_t to_integer(const Value& value, std::string_view what);
double to_real(const Value& number);

// As Python's str(). Throws Error for lists, mappings and what else has no text worth printing.
Text to_text(const Value& value);
// As Python's repr() of a float.
std::string show_real(double real);

// The elements, keys or characters. Throws Error where it has none, and where they are spent; of undefined there are none.
std::shared_ptr<const List> elements(const Value& value);
// In characters, elements or keys. Throws Error where it has none; of undefined it is 0.
int64_t length(const Value& value);

}  // namespace mstrain::jinja
