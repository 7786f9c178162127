// Methods of strings and mappings, and what templates call without an object.
#include <algorithm>
#include <array>
#include <map>

#include "core/base/error.h"
#include "core/data/jinja/functions.h"

namespace mstrain::jinja {
namespace {

using Method = Value (*)(const Text& text, const std::string& name, const Arguments& arguments);

const Text* text_or_none(const Value* value, const std::string& name) {
  if (value == nullptr || value->is_none()) {
    return nullptr;
  }
  check(value->text() != nullptr, "{}: expected a string, found {}", name, value->kind());
  return value->text();
}
const Text& needed_text(const Value* value, const std::string& name) {
  const Text* text = text_or_none(value, name);
  check(text != nullptr, "{}: expected a string", name);
  return *text;
}
int64_t count_or_all(const Value* value, const std::string& name) {
  return value == nullptr ? -1 : to_integer(*value, name);
}

Value strip(const Text& text, const std::string& name, const Arguments& arguments) {
  const auto given = arguments.of({"chars"});
  return stripped(text, text_or_none(given[0], name),
                  name == "lstrip"   ? Side::kLeft
                  : name == "rstrip" ? Side::kRight
                                     : Side::kBoth);
}

Value split_text(const Text& text, const std::string& name, const Arguments& arguments) {
  const auto given = arguments.of({"sep", "maxsplit"});
  return split(text, text_or_none(given[0], name), count_or_all(given[1], name), name == "rsplit");
}

Value split_lines(const Text& text, const std::string& name, const Arguments& arguments) {
  const auto given = arguments.of({"keepends"});
  check(given[0] == nullptr, "{}: keepends is not supported", name);
  List out;
  const std::string& bytes = text.bytes();
  check(bytes.find_first_of("\r\v\f\x1c\x1d\x1e") == std::string::npos &&
            bytes.find("\xC2\x85") == std::string::npos &&
            bytes.find("\xE2\x80\xA8") == std::string::npos &&
            bytes.find("\xE2\x80\xA9") == std::string::npos,
        "{}: supported for lines that end in \\n alone", name);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(bytes.find('\n', at), bytes.size());
    out.items.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

// startswith and endswith: of one string, or of any of a tuple.
Value has_end(const Text& text, const std::string& name, const Arguments& arguments) {
  const auto given = arguments.of({"what"});
  const auto holds = [&](const Value& part) {
    const std::string& bytes = needed_text(&part, name).bytes();
    return name == "startswith" ? text.bytes().starts_with(bytes) : text.bytes().ends_with(bytes);
  };
  check(given[0] != nullptr, "{}: expected a string", name);
  const List* any = given[0]->list();
  return any != nullptr ? std::any_of(any->items.begin(), any->items.end(), holds)
                        : holds(*given[0]);
}

Value replace_text(const Text& text, const std::string& name, const Arguments& arguments) {
  const auto given = arguments.of({"old", "new", "count"});
  return replaced(text, needed_text(given[0], name), needed_text(given[1], name),
                  count_or_all(given[2], name));
}

Value cased_text(const Text& text, const std::string& name, const Arguments& arguments) {
  arguments.of({});
  return cased(text, name);
}

Value without_end(const Text& text, const std::string& name, const Arguments& arguments) {
  const auto given = arguments.of({"what"});
  const std::string& end = needed_text(given[0], name).bytes();
  if (name == "removeprefix") {
    return text.bytes().starts_with(end) ? text.substr(end.size()) : text;
  }
  return text.bytes().ends_with(end) ? text.substr(0, text.size() - end.size()) : text;
}

Value found_at(const Text& text, const std::string& name, const Arguments& arguments) {
  const auto given = arguments.of({"what"});
  const std::string& what = needed_text(given[0], name).bytes();
  const size_t at = name == "rfind" ? text.bytes().rfind(what) : text.bytes().find(what);
  return at == std::string::npos ? Value(int64_t{-1}) : Value(length(text.substr(0, at)));
}

Value join_with(const Text& text, const std::string& name, const Arguments& arguments) {
  const auto given = arguments.of({"iterable"});
  check(given[0] != nullptr, "{}: expected a list", name);
  const auto list = elements(*given[0]);
  for (const Value& each : list->items) {
    needed_text(&each, name);
  }
  return joined(*list, text);
}

const std::map<std::string, Method, std::less<>>& text_methods() {
  static const std::map<std::string, Method, std::less<>> kMethods{{"strip", strip},
                                                                   {"lstrip", strip},
                                                                   {"rstrip", strip},
                                                                   {"split", split_text},
                                                                   {"rsplit", split_text},
                                                                   {"splitlines", split_lines},
                                                                   {"startswith", has_end},
                                                                   {"endswith", has_end},
                                                                   {"replace", replace_text},
                                                                   {"upper", cased_text},
                                                                   {"lower", cased_text},
                                                                   {"capitalize", cased_text},
                                                                   {"title", cased_text},
                                                                   {"removeprefix", without_end},
                                                                   {"removesuffix", without_end},
                                                                   {"find", found_at},
                                                                   {"rfind", found_at},
                                                                   {"join", join_with}};
  return kMethods;
}

Value call_dict_method(const std::string& name, const Dict& dict, const Arguments& arguments) {
  if (name == "get") {
    const auto given = arguments.of({"key", "default"});
    check(given[0] != nullptr, "get: expected a key");
    const Value* found =
        given[0]->text() == nullptr ? nullptr : find(dict, given[0]->text()->bytes());
    return found != nullptr ? *found : given[1] != nullptr ? *given[1] : Value(None());
  }
  check(name == "items" || name == "keys" || name == "values",
        "the method {} of a mapping is not supported", name);
  arguments.of({});
  List out;
  out.kind = List::Kind::kView;
  for (const auto& [key, value] : dict) {
    out.items.push_back(name == "keys"     ? Value::key(key)
                        : name == "values" ? value
                                           : List{{Value::key(key), value}, List::Kind::kTuple});
  }
  return out;
}

Value range(const Arguments& arguments) {
  constexpr int64_t kMost = 100'000;  // that of Jinja's sandbox
  check(arguments.named.empty() && !arguments.given.empty() && arguments.given.size() <= 3,
        "range: expected one to three integers");
  std::vector<int64_t> given;
  for (const Value& each : arguments.given) {
    given.push_back(to_integer(each, "range"));
  }
  const int64_t begin = given.size() > 1 ? given[0] : 0;
  const int64_t end = given.size() > 1 ? given[1] : given[0];
  const int64_t step = given.size() > 2 ? given[2] : 1;
  check(step != 0, "range: the step is 0");
  List out;
  out.kind = List::Kind::kRange;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    check(static_cast<int64_t>(out.items.size()) < kMost, "range: more than {} numbers", kMost);
    out.items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) {
      break;
    }
  }
  return out;
}

Value strftime(const Arguments& arguments, std::time_t now) {
  const auto given = arguments.of({"format"});
  const std::string& format = needed_text(given[0], "strftime_now").bytes();
  for (size_t at = format.find('%'); at != std::string::npos; at = format.find('%', at + 2)) {
    constexpr std::string_view kKnown = "aAbBcdDeFHIjmMpSTuUVwWxXyY%";
    check(at + 1 < format.size() && kKnown.find(format[at + 1]) != std::string_view::npos,
          "strftime_now: {} is not supported", format.substr(at, 2));
  }
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 1024> out{};
  const size_t size = std::strftime(out.data(), out.size(), format.c_str(), &local);
  check(size > 0 || format.empty(), "strftime_now: the format is too long");
  return Value::text({out.data(), size});
}

// namespace(…) and dict(…): of another mapping, and by names.
Dict mapping_of(const std::string& name, const Arguments& arguments) {
  Dict out;
  check(arguments.given.size() <= 1, "{}: expected one mapping at most", name);
  if (!arguments.given.empty()) {
    check(arguments.given[0].dict() != nullptr, "{}: expected a mapping, found {}", name,
          arguments.given[0].kind());
    out = *arguments.given[0].dict();
  }
  for (const auto& [key, value] : arguments.named) {
    assign(out, key, value);
  }
  return out;
}

constexpr std::string_view kFunctions[] = {"range", "namespace", "dict", "raise_exception",
                                           "strftime_now"};
// All that Python's have, so that none is taken for a key.
constexpr std::string_view kDictMethods[] = {"get",    "items",      "keys",    "values",
                                             "pop",    "popitem",    "copy",    "clear",
                                             "update", "setdefault", "fromkeys"};

}  // namespace

bool is_function(std::string_view name) {
  return std::find(std::begin(kFunctions), std::end(kFunctions), name) != std::end(kFunctions);
}
bool is_dict_method(std::string_view name) {
  return std::find(std::begin(kDictMethods), std::end(kDictMethods), name) !=
         std::end(kDictMethods);
}
bool is_text_method(std::string_view name) { return text_methods().contains(name); }

Value call_method(const std::string& name, const Value& object, const Arguments& arguments) {
  if (object.dict() != nullptr) {
    return call_dict_method(name, *object.dict(), arguments);
  }
  check(object.text() != nullptr, "the method {} of {} is not supported", name, object.kind());
  const auto found = text_methods().find(name);
  check(found != text_methods().end(), "the method {} of a string is not supported", name);
  return found->second(*object.text(), name, arguments);
}

Value call_function(const std::string& name, const Arguments& arguments, std::time_t now) {
  if (name == "range") {
    return range(arguments);
  }
  if (name == "strftime_now") {
    return strftime(arguments, now);
  }
  if (name == "raise_exception") {
    const auto given = arguments.of({"message"});
    fail("{}", given[0] == nullptr ? "" : to_text(*given[0]).bytes());
  }
  Dict mapping = mapping_of(name, arguments);
  return name == "dict" ? Value(std::move(mapping))
                        : Value(std::make_shared<Namespace>(Namespace{std::move(mapping)}));
}

std::vector<const Value*> Arguments::of(std::initializer_list<const char*> parameters) const {
  check(given.size() <= parameters.size(), "{} arguments, but at most {} are taken", given.size(),
        parameters.size());
  std::vector<const Value*> out(parameters.size());
  for (size_t i = 0; i < given.size(); ++i) {
    out[i] = &given[i];
  }
  for (const auto& [name, value] : named) {
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    check(found != parameters.end(), "the argument {} is not supported", name);
    const Value*& place = out[static_cast<size_t>(found - parameters.begin())];
    check(place == nullptr, "the argument {} is given twice", name);
    place = &value;
  }
  return out;
}

Arguments Arguments::from(size_t first) const {
  return {{given.begin() + static_cast<ptrdiff_t>(std::min(first, given.size())), given.end()},
          named};
}

}  // namespace mstrain::jinja
