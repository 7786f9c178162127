#include <algorithm>

#include "core/base/error.h"
#include "core/data/jinja/functions.h"

namespace mstrain::jinja {
namespace {

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_letter(char c) { return lower(c) >= 'a' && lower(c) <= 'z'; }

// Words between white space; the rest of the text, without the space around it, after `most` cuts.
List split_at_spaces(const Text& text, int64_t most) {
  List out;
  std::string_view rest = without_leading_space(text.bytes());
  const auto place = [&] { return static_cast<size_t>(rest.data() - text.bytes().data()); };
  while (!rest.empty()) {
    size_t end = 0;
    if (most >= 0 && static_cast<int64_t>(out.items.size()) == most) {
      end = rest.size();
    }
    while (end < rest.size() && space_size(rest, end) == 0) {
      end += character_size(rest, end);
    }
    out.items.emplace_back(text.substr(place(), end));
    rest = without_leading_space(rest.substr(end));
  }
  return out;
}

}  // namespace

Text stripped(const Text& text, const Text* characters, Side side) {
  std::string_view rest = text.bytes();
  if (characters == nullptr) {
    rest = side == Side::kRight ? rest : without_leading_space(rest);
    rest = side == Side::kLeft ? rest : without_trailing_space(rest);
  } else {
    const auto is_one = [&](size_t at, size_t size) {
      const std::string_view all = characters->bytes();
      const size_t found = all.find(rest.substr(at, size));
      return found != std::string_view::npos;  // no character is a part of another's bytes
    };
    while (side != Side::kRight && !rest.empty() && is_one(0, character_size(rest, 0))) {
      rest.remove_prefix(character_size(rest, 0));
    }
    while (side != Side::kLeft && !rest.empty()) {
      size_t begin = rest.size() - 1;
      while (begin > 0 && (static_cast<unsigned char>(rest[begin]) & 0xC0) == 0x80) {
        --begin;
      }
      if (!is_one(begin, rest.size() - begin)) {
        break;
      }
      rest = rest.substr(0, begin);
    }
  }
  return text.substr(static_cast<size_t>(rest.data() - text.bytes().data()), rest.size());
}

Text replaced(const Text& text, const Text& old, const Text& by, int64_t most) {
  check(!old.empty(), "replace: the empty string is not supported as what is replaced");
  Text out;
  size_t at = 0;
  for (int64_t count = 0; most < 0 || count < most; ++count) {
    const size_t found = text.bytes().find(old.bytes(), at);
    if (found == std::string::npos) {
      break;
    }
    out.append(text.substr(at, found - at));
    out.append(by);
    at = found + old.size();
  }
  out.append(text.substr(at));
  return out;
}

List split(const Text& text, const Text* separator, int64_t most, bool from_the_right) {
  if (separator == nullptr) {
    check(!from_the_right || most < 0, "rsplit: a limit without a separator is not supported");
    return split_at_spaces(text, most);
  }
  const std::string& bytes = text.bytes();
  check(!separator->empty(), "split: the separator is empty");
  List out;
  if (from_the_right) {
    size_t end = bytes.size();
    while (most < 0 || static_cast<int64_t>(out.items.size()) < most) {
      const size_t found = end < separator->size()
                               ? std::string::npos
                               : bytes.rfind(separator->bytes(), end - separator->size());
      if (found == std::string::npos) {
        break;
      }
      out.items.emplace_back(
          text.substr(found + separator->size(), end - found - separator->size()));
      end = found;
    }
    out.items.emplace_back(text.substr(0, end));
    std::reverse(out.items.begin(), out.items.end());
    return out;
  }
  size_t at = 0;
  while (most < 0 || static_cast<int64_t>(out.items.size()) < most) {
    const size_t found = bytes.find(separator->bytes(), at);
    if (found == std::string::npos) {
      break;
    }
    out.items.emplace_back(text.substr(at, found - at));
    at = found + separator->size();
  }
  out.items.emplace_back(text.substr(at));
  return out;
}

Text cased(const Text& text, std::string_view what) {
  const std::string& bytes = text.bytes();
  check(std::none_of(bytes.begin(), bytes.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0x80; }),
        "{}: supported for ASCII text alone", what);
  Text out;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool begins = what == "capitalize" ? i == 0 : i == 0 || !is_letter(bytes[i - 1]);
    const bool is_upper = what == "upper" || (what != "lower" && begins);
    const char c = is_upper ? upper(bytes[i]) : lower(bytes[i]);
    out.append_for({&c, 1}, text, i);
  }
  return out;
}

Text joined(const List& list, const Text& between) {
  Text out;
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) {
      out.append(between);
    }
    out.append(to_text(list.items[i]));
  }
  return out;
}

}  // namespace mstrain::jinja
