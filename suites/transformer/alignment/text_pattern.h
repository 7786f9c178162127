// Regular expressions of rewards: PCRE2's, over characters, in bounded time. A text that is no UTF-8 matches nothing where it is none.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace mstrain {

class TextPattern {
 public:
  // Throws Error that says what is wrong with the pattern, and at which of its bytes.
  explicit TextPattern(const std::string& pattern);

  // Whether any part of the text matches. Throws Error where that takes more than kMostSteps.
  bool is_in(std::string_view text) const;
  static constexpr uint32_t kMostSteps = 10'000'000;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace mstrain
