#include "core/data/jinja/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/base/error.h"

namespace mstrain::jinja {

const char* Value::kind() const {
  static constexpr std::array<const char*, 12> kKinds{
      "undefined", "none",      "a boolean", "an integer",  "a float", "a string",
      "a list",    "a mapping", "a loop",    "a namespace", "a macro", "a function"};
  return kKinds[is_.index()];
}

bool Value::truth() const {
  if (undefined() != nullptr || is_none()) {
    return false;
  }
  if (is_number()) {
    return to_real(*this) != 0;
  }
  return text() != nullptr   ? !text()->empty()
         : list() != nullptr ? list()->kind == List::Kind::kOnce || !list()->items.empty()
         : dict() != nullptr ? !dict()->empty()
                             : true;
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    return a.real() == nullptr && b.real() == nullptr ? to_integer(a, "") == to_integer(b, "")
                                                      : to_real(a) == to_real(b);
  }
  if (a.text() != nullptr && b.text() != nullptr) {
    return *a.text() == *b.text();
  }
  if (const List* x = a.list(), *y = b.list(); x != nullptr && y != nullptr) {
    return x->kind == y->kind && x->spent == y->spent &&
           std::equal(x->items.begin(), x->items.end(), y->items.begin(), y->items.end(), equal);
  }
  if (const Dict* x = a.dict(), *y = b.dict(); x != nullptr && y != nullptr) {
    return x->size() == y->size() && std::all_of(x->begin(), x->end(), [&](const auto& entry) {
             const Value* other = find(*y, entry.first);
             return other != nullptr && equal(entry.second, *other);
           });
  }
  if (a.name_space() != nullptr) {
    return a.name_space() == b.name_space();
  }
  if (a.macro() != nullptr && b.macro() != nullptr) {
    return a.macro()->definition == b.macro()->definition;
  }
  return (a.is_none() && b.is_none()) || (a.undefined() != nullptr && b.undefined() != nullptr);
}

bool less(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    return a.real() == nullptr && b.real() == nullptr ? to_integer(a, "") < to_integer(b, "")
                                                      : to_real(a) < to_real(b);
  }
  check(a.text() != nullptr && b.text() != nullptr, "{} and {} have no order", a.kind(), b.kind());
  return a.text()->bytes() < b.text()->bytes();  // UTF-8 has the order of its characters
}

bool contains(const Value& whole, const Value& part) {
  if (const Text* text = whole.text()) {
    check(part.text() != nullptr, "`in`: expected a string in a string, found {}", part.kind());
    return text->bytes().find(part.text()->bytes()) != std::string::npos;
  }
  if (const Dict* dict = whole.dict()) {
    return part.text() != nullptr && find(*dict, part.text()->bytes()) != nullptr;
  }
  const auto list = elements(whole);
  return std::any_of(list->items.begin(), list->items.end(),
                     [&](const Value& item) { return equal(item, part); });
}

const Value* find(const Dict& dict, std::string_view key) {
  const auto found =
      std::find_if(dict.begin(), dict.end(), [&](const auto& entry) { return entry.first == key; });
  return found == dict.end() ? nullptr : &found->second;
}

void assign(Dict& dict, const std::string& key, Value value) {
  const auto found =
      std::find_if(dict.begin(), dict.end(), [&](const auto& entry) { return entry.first == key; });
  if (found == dict.end()) {
    dict.emplace_back(key, std::move(value));
  } else {
    found->second = std::move(value);
  }
}

int64_t to_integer(const Value& value, std::string_view what) {
  check(value.integer() != nullptr || value.boolean() != nullptr,
        "{}: expected an integer, found {}", what, value.kind());
  return value.integer() != nullptr ? *value.integer() : static_cast<int64_t>(*value.boolean());
}

double to_real(const Value& number) {
  return number.real() != nullptr ? *number.real() : static_cast<double>(to_integer(number, ""));
}

std::string show_real(double real) {
  if (!std::isfinite(real)) {
    return std::isnan(real) ? "nan" : real < 0 ? "-inf" : "inf";
  }
  std::array<char, 32> digits{};
  auto end = std::to_chars(digits.data(), digits.data() + digits.size(), real,
                           std::chars_format::scientific);
  const std::string scientific(digits.data(), end.ptr);
  const int exponent = std::stoi(scientific.substr(scientific.find('e') + 1));
  if (exponent < -4 || exponent >= 16) {
    return scientific;
  }
  std::array<char, 32> fixed{};
  end = std::to_chars(fixed.data(), fixed.data() + fixed.size(), real, std::chars_format::fixed);
  std::string out(fixed.data(), end.ptr);
  return out.find('.') == std::string::npos ? out + ".0" : out;
}

Text to_text(const Value& value) {
  if (const Text* text = value.text()) {
    return *text;
  }
  if (value.undefined() != nullptr) {
    return {};
  }
  if (value.is_none()) {
    return Text("None");
  }
  if (const bool* boolean = value.boolean()) {
    return Text(*boolean ? "True" : "False");
  }
  if (const int64_t* integer = value.integer()) {
    return Text(std::to_string(*integer));
  }
  check(value.real() != nullptr, "{} cannot be printed; the filter tojson can", value.kind());
  return Text(show_real(*value.real()));
}

std::shared_ptr<const List> elements(const Value& value) {
  if (const auto* list = value.shared_list()) {
    check((*list)->spent == nullptr || !std::exchange(*(*list)->spent, true),
          "what a filter gave is read for the second time, when it is spent; the filter list keeps "
          "it");
    return *list;
  }
  auto out = std::make_shared<List>();
  if (const Dict* dict = value.dict()) {
    for (const auto& [key, item] : *dict) {
      out->items.push_back(Value::key(key));
    }
  } else if (const Text* text = value.text()) {
    for (size_t at = 0; at < text->size();) {
      const size_t size = character_size(text->bytes(), at);
      out->items.emplace_back(text->substr(at, size));
      at += size;
    }
  } else {
    check(value.undefined() != nullptr, "{} has no elements", value.kind());
  }
  return out;
}

int64_t length(const Value& value) {
  if (const Text* text = value.text()) {
    return std::count_if(text->bytes().begin(), text->bytes().end(), [](char byte) {
      return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
    });
  }
  if (value.dict() != nullptr) {
    return static_cast<int64_t>(value.dict()->size());
  }
  check(value.list() == nullptr || value.list()->kind != List::Kind::kOnce,
        "what a filter gave has no length before the filter list");
  return static_cast<int64_t>(elements(value)->items.size());
}

List read_once(std::vector<Value> items) {
  return {std::move(items), List::Kind::kOnce, std::make_shared<bool>(false)};
}

}  // namespace mstrain::jinja
