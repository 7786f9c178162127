#include "core/base/json.h"

#include <iterator>
#include <vector>

#include "core/base/error.h"

namespace mstrain {
namespace {

// Goes through a text and tells how far the parser has read.
class Reader {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Reader(const char* at, const char** seen) : at_(at), seen_(seen) {}
  reference operator*() const { return *at_; }
  Reader& operator++() {
    *seen_ = ++at_;
    return *this;
  }
  bool operator==(const Reader& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** seen_;
};

// Builds the value from events, so that depth is refused before it is built and duplicate keys are seen.
class TreeBuilder final : public nlohmann::json_sax<Json> {
 public:
  TreeBuilder(std::string_view text, std::string_view name, int max_depth)
      : name_(name), max_depth_(max_depth), begin_(text.data()), seen_(text.data()) {}

  const char** seen() { return &seen_; }
  Json take() { return std::move(root_); }

  bool null() override { return value(nullptr); }
  bool boolean(bool v) override { return value(v); }
  bool number_integer(number_integer_t v) override { return value(v); }
  bool number_unsigned(number_unsigned_t v) override { return value(v); }
  bool number_float(number_float_t v, const string_t&) override { return value(v); }
  bool string(string_t& v) override { return value(std::move(v)); }
  bool binary(binary_t&) override { fail("binary value"); }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& v) override {
    if (open_.back()->contains(v)) {
      fail(fmt::format("duplicate key \"{}\"", v.substr(0, 60)));
    }
    key_ = std::move(v);
    return true;
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: what" becomes "what".
    std::string_view text = error.what();
    if (const size_t bracket = text.find("] "); bracket != std::string_view::npos) {
      text.remove_prefix(bracket + 2);
    }
    if (text.starts_with("parse error") && text.find(": ") != std::string_view::npos) {
      text.remove_prefix(text.find(": ") + 2);
    }
    // It quotes what it read last, a character perhaps in half.
    std::string shown;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      shown += byte < 0x80 ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
    }
    throw IoError(fmt::format("{}: offset {}: {}", name_, position, shown));
  }

 private:
  [[noreturn]] void fail(std::string_view message) {
    throw IoError(fmt::format("{}: offset {}: JSON: {}", name_, seen_ - begin_, message));
  }
  Json* place(Json&& v) {
    if (open_.empty()) {
      root_ = std::move(v);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(v));
      return &parent.back();
    }
    Json& slot = parent[key_];
    slot = std::move(v);
    return &slot;
  }
  bool value(Json v) {
    place(std::move(v));
    return true;
  }
  bool open(Json&& container) {
    if (static_cast<int>(open_.size()) == max_depth_) {
      fail(fmt::format("nested deeper than {} levels", max_depth_));
    }
    open_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view name_;
  int max_depth_;
  const char* begin_;
  const char* seen_;  // up to here the parser has read
  Json root_;
  std::string key_;
  std::vector<Json*> open_;
};

}  // namespace

Json parse_json(std::string_view text, std::string_view name, int max_depth) {
  TreeBuilder builder(text, name, max_depth);
  Json::sax_parse(Reader(text.data(), builder.seen()),
                  Reader(text.data() + text.size(), builder.seen()), &builder);
  return builder.take();
}

}  // namespace mstrain
