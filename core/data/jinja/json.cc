#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/data/jinja/functions.h"

namespace mstrain::jinja {
namespace {

char32_t code_point(std::string_view bytes, size_t at) {
  const size_t size = character_size(bytes, at);
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[at + i]); };
  char32_t code = size == 1 ? byte(0) : byte(0) & (0xFFU >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    code = code << 6 | (byte(i) & 63U);
  }
  return code;
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  void write(const Value& value, int level) {
    if (value.is_none()) {
      add("null");
    } else if (const bool* boolean = value.boolean()) {
      add(*boolean ? "true" : "false");
    } else if (const int64_t* integer = value.integer()) {
      add(std::to_string(*integer));
    } else if (const double* real = value.real()) {
      add(std::isnan(*real)   ? "NaN"
          : std::isinf(*real) ? (*real < 0 ? "-Infinity" : "Infinity")
                              : show_real(*real));
    } else if (const Text* text = value.text()) {
      write(*text);
    } else if (const List* list = value.list();
               list != nullptr &&
               (list->kind == List::Kind::kList || list->kind == List::Kind::kTuple)) {
      write_all("[]", list->items.size(), level,
                [&](size_t i) { write(list->items[i], level + 1); });
    } else {
      check(value.dict() != nullptr, "tojson: {} has no form in JSON", value.kind());
      write(*value.dict(), level);
    }
  }
  Text take() { return std::move(out_); }

 private:
  void add(std::string_view bytes) { out_.append(Text(bytes)); }
  void new_line(int level) {
    if (style_.in_lines) {
      add("\n");
      for (int i = 0; i < level; ++i) {
        add(style_.indent);
      }
    }
  }
  template <class WriteItem>
  void write_all(std::string_view brackets, size_t count, int level, const WriteItem& write_item) {
    add(brackets.substr(0, 1));
    for (size_t i = 0; i < count; ++i) {
      add(i == 0 ? "" : style_.between);
      new_line(level + 1);
      write_item(i);
    }
    if (count > 0) {
      new_line(level);
    }
    add(brackets.substr(1));
  }
  void write(const Dict& dict, int level) {
    std::vector<const Dict::value_type*> entries;
    for (const auto& entry : dict) {
      entries.push_back(&entry);
    }
    if (style_.sorted) {
      std::sort(entries.begin(), entries.end(),
                [](const auto* a, const auto* b) { return a->first < b->first; });
    }
    write_all("{}", entries.size(), level, [&](size_t i) {
      write(*Value::key(entries[i]->first).text());
      add(style_.after_key);
      write(entries[i]->second, level + 1);
    });
  }
  void write(const Text& text) {
    constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f";
    constexpr std::string_view kLetters = "\"\\nrtbf";
    add("\"");
    const std::string& bytes = text.bytes();
    for (size_t at = 0; at < bytes.size(); at += character_size(bytes, at)) {
      const char32_t code = code_point(bytes, at);
      if (const size_t known = kEscaped.find(bytes[at]); known != std::string_view::npos) {
        out_.append_for(std::string("\\") + kLetters[known], text, at);
      } else if (code < 0x20 || (style_.ascii && code > 0x7E)) {
        const std::string escape =
            code < 0x10000 ? fmt::format("\\u{:04x}", static_cast<uint32_t>(code))
                           : fmt::format("\\u{:04x}\\u{:04x}",
                                         0xD800 + ((static_cast<uint32_t>(code) - 0x10000) >> 10),
                                         0xDC00 + (static_cast<uint32_t>(code) & 1023));
        out_.append_for(escape, text, at);
      } else {
        out_.append(text.substr(at, character_size(bytes, at)));
      }
    }
    add("\"");
  }

  const JsonStyle& style_;
  Text out_;
};

}  // namespace

Text to_json(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace mstrain::jinja
