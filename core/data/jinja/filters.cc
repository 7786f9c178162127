#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "core/base/error.h"
#include "core/data/jinja/functions.h"

namespace mstrain::jinja {
namespace {

using Filter = Value (*)(const Value& subject, const Arguments& arguments);

const Text& text_of(const Value& value, std::string_view what) {
  check(value.text() != nullptr, "{}: expected a string, found {}", what, value.kind());
  return *value.text();
}
bool truth_of(const Value* value) { return value != nullptr && value->truth(); }

Value trim(const Value& subject, const Arguments& arguments) {
  const auto given = arguments.of({"chars"});
  const bool has_characters = given[0] != nullptr && !given[0]->is_none();
  return stripped(to_text(subject), has_characters ? &text_of(*given[0], "trim") : nullptr,
                  Side::kBoth);
}

Value default_value(const Value& subject, const Arguments& arguments) {
  const auto given = arguments.of({"default_value", "boolean"});
  const bool is_missing =
      subject.undefined() != nullptr || (truth_of(given[1]) && !subject.truth());
  return !is_missing ? subject : given[0] != nullptr ? *given[0] : Value::text("");
}

Value tojson(const Value& subject, const Arguments& arguments) {
  const auto given = arguments.of({"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style{.ascii = truth_of(given[0]), .sorted = truth_of(given[3])};
  if (given[1] != nullptr && !given[1]->is_none()) {
    style.in_lines = true;
    style.between = std::string(1, ',');
    if (given[1]->text() != nullptr) {
      style.indent = given[1]->text()->bytes();
    } else {
      const int64_t width = to_integer(*given[1], "tojson: indent");
      check(width <= 100, "tojson: indent {}: expected at most 100", width);
      style.indent = std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
  }
  if (given[2] != nullptr && !given[2]->is_none()) {
    const List* list = given[2]->list();
    check(list != nullptr && list->items.size() == 2, "tojson: separators: expected two strings");
    style.between = text_of(list->items[0], "tojson: separators").bytes();
    style.after_key = text_of(list->items[1], "tojson: separators").bytes();
  }
  return to_json(subject, style);
}

Value join(const Value& subject, const Arguments& arguments) {
  const auto given = arguments.of({"d", "attribute"});
  List list{elements(subject)->items};
  if (given[1] != nullptr && !given[1]->is_none()) {
    for (Value& each : list.items) {
      each = item(each, *given[1]);
    }
  }
  return joined(list, given[0] == nullptr ? Text() : to_text(*given[0]));
}

Value replace(const Value& subject, const Arguments& arguments) {
  const auto given = arguments.of({"old", "new", "count"});
  check(given[0] != nullptr && given[1] != nullptr, "replace: expected two strings");
  const bool has_count = given[2] != nullptr && !given[2]->is_none();
  return replaced(to_text(subject), to_text(*given[0]), to_text(*given[1]),
                  has_count ? to_integer(*given[2], "replace: count") : -1);
}

// item.a.b of "a.b".
Value path_of(Value value, const Value& path) {
  if (path.text() == nullptr) {
    return item(value, path);
  }
  const Text dot(".");
  const List parts = split(*path.text(), &dot, -1, false);
  for (const Value& part : parts.items) {
    const std::string& name = part.text()->bytes();
    const bool is_index = !name.empty() && name.size() < 10 &&
                          name.find_first_not_of("0123456789") == std::string::npos;
    value = item(value, is_index ? Value(int64_t{std::stoi(name)}) : part);
  }
  return value;
}

// Those of which a test says `wanted`; of an attribute of theirs where `by_attribute`.
template <bool wanted, bool by_attribute>
Value selected(const Value& subject, const Arguments& arguments) {
  const size_t first = by_attribute ? 1 : 0;
  check(arguments.named.empty(), "a selecting filter takes no argument by name");
  check(arguments.given.size() >= first, "a selecting filter needs the name of an attribute");
  std::vector<Value> out;
  for (const auto list = elements(subject); const Value& each : list->items) {
    const Value value = by_attribute ? path_of(each, arguments.given[0]) : each;
    const bool holds =
        arguments.given.size() == first
            ? value.truth()
            : apply_test(text_of(arguments.given[first], "the name of a test").bytes(), value,
                         arguments.from(first + 1));
    if (holds == wanted) {
      out.push_back(each);
    }
  }
  return read_once(std::move(out));
}

Value map(const Value& subject, const Arguments& arguments) {
  std::vector<Value> out;
  if (arguments.given.empty()) {
    const auto given = arguments.of({"attribute", "default"});
    check(given[0] != nullptr, "map: expected the name of a filter, or attribute");
    for (const auto list = elements(subject); const Value& each : list->items) {
      const Value value = path_of(each, *given[0]);
      out.push_back(value.undefined() != nullptr && given[1] != nullptr ? *given[1] : value);
    }
    return read_once(std::move(out));
  }
  const std::string& name = text_of(arguments.given[0], "map: the name of a filter").bytes();
  for (const auto list = elements(subject); const Value& each : list->items) {
    out.push_back(apply_filter(name, each, arguments.from(1)));
  }
  return read_once(std::move(out));
}

Value end_of(const Value& subject, bool is_first) {
  const auto list = elements(subject);
  if (list->items.empty()) {
    return Undefined{is_first ? "the first of nothing" : "the last of nothing"};
  }
  return is_first ? list->items.front() : list->items.back();
}

Value as_list(const Value& subject, const Arguments& arguments) {
  arguments.of({});
  return List{elements(subject)->items};
}

std::vector<Value> pairs_of(const Dict& dict) {
  std::vector<Value> out;
  for (const auto& [key, value] : dict) {
    out.emplace_back(List{{Value::key(key), value}, List::Kind::kTuple});
  }
  return out;
}

Value items(const Value& subject, const Arguments& arguments) {
  arguments.of({});
  if (subject.undefined() != nullptr) {
    return read_once({});
  }
  check(subject.dict() != nullptr, "items: expected a mapping, found {}", subject.kind());
  return read_once(pairs_of(*subject.dict()));
}

Value dictsort(const Value& subject, const Arguments& arguments) {
  const auto given = arguments.of({"case_sensitive", "by", "reverse"});
  check(subject.dict() != nullptr, "dictsort: expected a mapping, found {}", subject.kind());
  check(given[1] == nullptr || text_of(*given[1], "dictsort: by").bytes() == "key",
        "dictsort: by value is not supported");
  List pairs{pairs_of(*subject.dict())};
  const auto key = [&](const Value& pair) {
    const Text& text = *pair.list()->items[0].text();
    return truth_of(given[0]) ? text.bytes() : cased(text, "lower").bytes();
  };
  const bool reversed = truth_of(given[2]);
  std::stable_sort(pairs.items.begin(), pairs.items.end(), [&](const Value& a, const Value& b) {
    return reversed ? key(b) < key(a) : key(a) < key(b);
  });
  return pairs;
}

Value reverse(const Value& subject, const Arguments& arguments) {
  arguments.of({});
  List list{elements(subject)->items};
  std::reverse(list.items.begin(), list.items.end());
  return subject.text() != nullptr ? Value(joined(list, Text()))
                                   : Value(read_once(std::move(list.items)));
}

Value as_integer(const Value& subject, const Arguments& arguments) {
  arguments.of({});
  if (subject.text() == nullptr) {
    check(subject.real() == nullptr || std::abs(*subject.real()) < 9e18, "int: is too large");
    return subject.real() != nullptr ? static_cast<int64_t>(*subject.real())
                                     : to_integer(subject, "int");
  }
  const std::string& bytes = subject.text()->bytes();
  int64_t value = 0;
  const auto end = std::from_chars(bytes.data(), bytes.data() + bytes.size(), value);
  check(end.ec == std::errc() && end.ptr == bytes.data() + bytes.size(),
        "int: \"{}\": supported for decimal integers alone", bytes);
  return value;
}

template <bool is_first>
Value end_filter(const Value& subject, const Arguments& arguments) {
  arguments.of({});
  return end_of(subject, is_first);
}

const std::map<std::string, Filter>& known_filters() {
  static const Filter length_of = [](const Value& subject, const Arguments& arguments) {
    arguments.of({});
    return Value(length(subject));
  };
  static const std::map<std::string, Filter> kFilters{
      {"trim", trim},
      {"tojson", tojson},
      {"length", length_of},
      {"count", length_of},
      {"default", default_value},
      {"d", default_value},
      {"join", join},
      {"replace", replace},
      {"selectattr", selected<true, true>},
      {"rejectattr", selected<false, true>},
      {"select", selected<true, false>},
      {"reject", selected<false, false>},
      {"map", map},
      {"first", end_filter<true>},
      {"last", end_filter<false>},
      {"list", as_list},
      {"items", items},
      {"dictsort", dictsort},
      {"reverse", reverse},
      {"int", as_integer},
      {"string",
       [](const Value& subject, const Arguments& arguments) {
         arguments.of({});
         return Value(to_text(subject));
       }},
      {"abs", [](const Value& subject, const Arguments& arguments) {
         arguments.of({});
         if (subject.real() != nullptr) {
           return Value(std::abs(*subject.real()));
         }
         const int64_t integer = to_integer(subject, "abs");
         check(integer != INT64_MIN, "abs: is too large");
         return Value(std::abs(integer));
       }}};
  return kFilters;
}

}  // namespace

Value apply_filter(const std::string& name, const Value& subject, const Arguments& arguments) {
  if (name == "upper" || name == "lower" || name == "capitalize") {
    arguments.of({});
    return cased(to_text(subject), name);
  }
  const auto found = known_filters().find(name);
  check(found != known_filters().end(), "the filter `{}` is not supported", name);
  return found->second(subject, arguments);
}

}  // namespace mstrain::jinja
