// What operators make of values.
#include <algorithm>

#include "core/base/error.h"
#include "core/data/jinja/functions.h"

namespace mstrain::jinja {
namespace {

constexpr size_t kLargestText = 64 << 20;
constexpr size_t kLongestList = 1 << 20;

Value integer_operation(char name, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflows = false;
  if (name == '+') {
    overflows = __builtin_add_overflow(a, b, &result);
  } else if (name == '-') {
    overflows = __builtin_sub_overflow(a, b, &result);
  } else if (name == '*') {
    overflows = __builtin_mul_overflow(a, b, &result);
  } else {
    check(b != 0, "division by 0");
    if (b == -1) {
      overflows = name != '%' && __builtin_sub_overflow(int64_t{0}, a, &result);
    } else {
      const int64_t rest = a % b;
      const bool rounds_down = rest != 0 && (rest < 0) != (b < 0);  // as Python does
      result = name == '%' ? rest + (rounds_down ? b : 0) : a / b - (rounds_down ? 1 : 0);
    }
  }
  check(!overflows, "a number is too large");
  return result;
}

Value real_operation(const std::string& name, double a, double b) {
  if (name == "+" || name == "-" || name == "*") {
    return name == "+" ? a + b : name == "-" ? a - b : a * b;
  }
  check(b != 0, "division by 0");
  check(name == "/", "{} of floats is not supported", name);
  return a / b;
}

}  // namespace

void check_size(const Text& text) {
  check(text.size() <= kLargestText, "a text has more than {} bytes", kLargestText);
}

Value operation(const std::string& name, const Value& left, const Value& right) {
  if (name == "~") {
    Text out = to_text(left);
    out.append(to_text(right));
    check_size(out);
    return out;
  }
  if (left.is_number() && right.is_number()) {
    return name == "/" || left.real() != nullptr || right.real() != nullptr
               ? real_operation(name, to_real(left), to_real(right))
               : integer_operation(name == "//" ? '/' : name[0], to_integer(left, name),
                                   to_integer(right, name));
  }
  for (const Value* side : {&left, &right}) {
    check(side->undefined() == nullptr, "{} is undefined",
          side->undefined() == nullptr ? "" : side->undefined()->what);
  }
  if (name == "+" && left.text() != nullptr && right.text() != nullptr) {
    Text out = *left.text();
    out.append(*right.text());
    check_size(out);
    return out;
  }
  const List* a = left.list();
  const List* b = right.list();
  if (name == "+" && a != nullptr && b != nullptr && a->kind == b->kind &&
      (a->kind == List::Kind::kList || a->kind == List::Kind::kTuple)) {
    List out = *a;
    out.items.insert(out.items.end(), b->items.begin(), b->items.end());
    check(out.items.size() <= kLongestList, "a list has more than {} elements", kLongestList);
    return out;
  }
  if (name == "*" && left.text() != nullptr && right.integer() != nullptr) {
    const auto times = static_cast<size_t>(std::max<int64_t>(*right.integer(), 0));
    check(left.text()->empty() || times <= kLargestText / left.text()->size(),
          "a text has more than {} bytes", kLargestText);
    Text out;
    for (size_t i = 0; i < times && !left.text()->empty(); ++i) {
      out.append(*left.text());
    }
    return out;
  }
  fail("{} {} {} is not supported", left.kind(), name, right.kind());
}

Value signed_value(const std::string& sign, const Value& value) {
  check(value.is_number(), "{} {}: expected a number", sign, value.kind());
  if (value.real() != nullptr) {
    return sign == "-" ? -*value.real() : *value.real();
  }
  return integer_operation(sign[0], 0, to_integer(value, sign));
}

}  // namespace mstrain::jinja
