#include "suites/transformer/alignment/numbers_in_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

namespace mstrain {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::optional<double> last() {
    std::optional<double> out;
    while (at_ < text_.size()) {
      if (!begins_number(at_) || (at_ > 0 && text_[at_] == '.' && text_[at_ - 1] == '.')) {
        ++at_;
        continue;
      }
      const bool is_negative = has_minus_before(at_);
      if (const std::optional<Found> found = whole()) {
        out = found->value;
        if (out && is_negative) {
          out = -*out;
        }
      }
    }
    return out;
  }

 private:
  struct Found {
    std::optional<double> value;  // nothing: beyond what a double holds
  };

  bool is_digit_at(size_t at) const { return at < text_.size() && is_digit(text_[at]); }
  bool begins_number(size_t at) const {
    return is_digit_at(at) || (at < text_.size() && text_[at] == '.' && is_digit_at(at + 1));
  }

  bool has_minus_before(size_t at) const {
    constexpr std::string_view kMinus = "\xE2\x88\x92";  // U+2212
    const std::string_view before = text_.substr(0, at);
    const size_t size = before.ends_with('-') ? 1 : before.ends_with(kMinus) ? kMinus.size() : 0;
    return size > 0 && (size == at || !is_digit(text_[at - size - 1]));
  }

  // From at_ on, which is left behind it. Nothing where it is no number.
  std::optional<Found> whole() {
    std::optional<Found> out = simple();
    bool is_number = out.has_value();
    for (int over = 0; at_ < text_.size() && text_[at_] == '/' && begins_number(at_ + 1); ++over) {
      ++at_;
      const std::optional<Found> below = simple();
      is_number = is_number && over == 0 && below;
      if (is_number) {
        out = Found{out->value && below->value && *below->value != 0
                        ? std::optional(*out->value / *below->value)
                        : std::nullopt};
      }
    }
    return is_number ? out : std::nullopt;
  }

  std::optional<Found> simple() {
    const size_t begin = at_;
    skip_digits();
    if (at_ > begin && at_ - begin <= 3) {
      skip_thousands();
    }
    bool has_point = false, is_number = true;
    while (at_ < text_.size() && text_[at_] == '.' && is_digit_at(at_ + 1)) {
      is_number = is_number && !has_point;
      has_point = true;
      ++at_;
      skip_digits();
    }
    skip_exponent();
    if (!is_number) {
      return std::nullopt;
    }
    std::string digits(text_.substr(begin, at_ - begin));
    std::erase(digits, ',');
    // from_chars knows no plus.
    std::erase(digits, '+');
    double value = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return Found{result.ec == std::errc() ? std::optional(value) : std::nullopt};
  }

  void skip_digits() {
    while (is_digit_at(at_)) {
      ++at_;
    }
  }

  void skip_thousands() {
    while (at_ < text_.size() && text_[at_] == ',' && is_digit_at(at_ + 1) &&
           is_digit_at(at_ + 2) && is_digit_at(at_ + 3) && !is_digit_at(at_ + 4)) {
      at_ += 4;
    }
  }

  void skip_exponent() {
    if (at_ >= text_.size() || (text_[at_] != 'e' && text_[at_] != 'E')) {
      return;
    }
    size_t end = at_ + 1;
    end += end < text_.size() && (text_[end] == '-' || text_[end] == '+') ? 1 : 0;
    const size_t digits = end;
    while (is_digit_at(end)) {
      ++end;
    }
    if (end > digits && (end == text_.size() || !is_letter(text_[end]))) {
      at_ = end;
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::optional<double> last_number(std::string_view text) { return Scanner(text).last(); }

}  // namespace mstrain
