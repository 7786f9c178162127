// Attributes, items and slices.
#include <algorithm>

#include "core/base/error.h"
#include "core/data/jinja/functions.h"

namespace mstrain::jinja {
namespace {

// Where an index is, counted from the end where it is negative; none outside.
std::optional<size_t> place(int64_t index, int64_t count) {
  index += index < 0 ? count : 0;
  return index >= 0 && index < count ? std::optional(static_cast<size_t>(index)) : std::nullopt;
}

bool has_places(const Value& object) {
  return object.text() != nullptr || (object.list() != nullptr && object.list()->has_places());
}

Value of_loop(const LoopState& loop, const std::string& name) {
  const size_t count = loop.items->items.size();
  const size_t i = loop.index;
  if (name == "index0" || name == "index") {
    return Value::size(i + (name == "index" ? 1 : 0));
  }
  if (name == "revindex0" || name == "revindex") {
    return Value::size(count - i - (name == "revindex0" ? 1 : 0));
  }
  if (name == "first") {
    return i == 0;
  }
  if (name == "last") {
    return i + 1 == count;
  }
  if (name == "length") {
    return Value::size(count);
  }
  if (name == "previtem" || name == "nextitem") {
    const size_t other = name == "previtem" ? i - 1 : i + 1;  // beyond all of them before the first
    return other < count ? loop.items->items[other] : Value(Undefined{"`loop." + name + "`"});
  }
  check(name != "depth" && name != "depth0" && name != "cycle" && name != "changed",
        "loop.{} is not supported", name);
  return Undefined{"`loop." + name + "`"};
}

[[noreturn]] void fail_undefined(const Value& object, std::string_view of) {
  fail("{} is undefined, and has no {}", object.undefined()->what, of);
}

}  // namespace

Value attribute(const Value& object, const std::string& name) {
  if (object.undefined() != nullptr) {
    fail_undefined(object, name);
  }
  check(!name.starts_with("__"), "{}: attributes that begin with __ are not supported", name);
  if (const Dict* dict = object.dict()) {
    check(!is_dict_method(name), "the method {} of a mapping is supported as a call alone", name);
    const Value* found = find(*dict, name);
    return found != nullptr ? *found : Value(Undefined{fmt::format("`{}` of a mapping", name)});
  }
  if (const Namespace* ns = object.name_space()) {
    const Value* found = find(ns->attributes, name);
    return found != nullptr ? *found : Value(Undefined{fmt::format("`{}` of a namespace", name)});
  }
  if (const LoopState* loop = object.loop()) {
    return of_loop(*loop, name);
  }
  check(object.text() == nullptr || !is_text_method(name),
        "the method {} of a string is supported as a call alone", name);
  return Undefined{fmt::format("`{}` of {}", name, object.kind())};
}

Value item(const Value& object, const Value& key) {
  if (object.undefined() != nullptr) {
    fail_undefined(object, "items");
  }
  const Value nothing = Undefined{fmt::format("an item of {}", object.kind())};
  if (const Text* name = key.text()) {
    if (const Dict* dict = object.dict()) {
      const Value* found = find(*dict, name->bytes());
      return found != nullptr ? *found : attribute(object, name->bytes());
    }
    return attribute(object, name->bytes());
  }
  if (!key.is_number() || key.real() != nullptr || object.dict() != nullptr) {
    return nothing;
  }
  if (!has_places(object)) {
    return nothing;
  }
  const auto list = elements(object);
  const auto at = place(to_integer(key, "index"), static_cast<int64_t>(list->items.size()));
  return at ? list->items[*at] : nothing;
}

Value slice(const Value& object, const Value* begin, const Value* end, const Value* step) {
  if (object.undefined() != nullptr) {
    fail_undefined(object, "slices");
  }
  check(has_places(object), "{} has no slices", object.kind());
  const auto list = elements(object);
  const auto count = static_cast<int64_t>(list->items.size());
  const auto given = [](const Value* value) { return value != nullptr && !value->is_none(); };
  const int64_t by = given(step) ? to_integer(*step, "the step of a slice") : 1;
  check(by != 0, "the step of a slice is 0");
  const auto bound = [&](const Value* value, int64_t otherwise) {
    if (!given(value)) {
      return otherwise;
    }
    const int64_t index = to_integer(*value, "an end of a slice");
    const int64_t from_start = index < 0 ? std::max(index, -count - 1) + count : index;
    return by > 0 ? std::clamp<int64_t>(from_start, 0, count)
                  : std::clamp<int64_t>(from_start, -1, count - 1);
  };
  const int64_t first = bound(begin, by > 0 ? 0 : count - 1);
  const int64_t last = bound(end, by > 0 ? count : -1);
  List out;
  out.kind = list->kind;
  // A step beyond all of them takes the first alone.
  const int64_t stride = std::clamp(by, -count - 1, count + 1);
  for (int64_t i = first; by > 0 ? i < last : i > last; i += stride) {
    out.items.push_back(list->items[static_cast<size_t>(i)]);
  }
  return object.text() != nullptr ? Value(joined(out, Text())) : Value(std::move(out));
}

}  // namespace mstrain::jinja
