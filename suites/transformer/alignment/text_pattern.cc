#include "suites/transformer/alignment/text_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/base/error.h"

namespace mstrain {
namespace {

std::string message_of(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

PCRE2_SPTR units_of(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

struct TextPattern::Compiled {
  explicit Compiled(pcre2_code* made) : code(made), limits(pcre2_match_context_create(nullptr)) {
    pcre2_set_match_limit(limits, kMostSteps);
  }
  ~Compiled() {
    pcre2_match_context_free(limits);
    pcre2_code_free(code);
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  pcre2_code* code;
  pcre2_match_context* limits;
};

TextPattern::TextPattern(const std::string& pattern) {
  // `$` is the end alone, not also before a last newline; [] and \u are JavaScript's.
  constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_DOLLAR_ENDONLY |
                                PCRE2_ALT_BSUX | PCRE2_ALLOW_EMPTY_CLASS |
                                PCRE2_MATCH_UNSET_BACKREF | PCRE2_NEVER_BACKSLASH_C;
  int fault = 0;
  size_t at = 0;
  pcre2_code* const code =
      pcre2_compile(units_of(pattern), pattern.size(), kOptions, &fault, &at, nullptr);
  if (code == nullptr) {
    fail("{} (byte {})", message_of(fault), at);
  }
  compiled_ = std::make_shared<const Compiled>(code);
}

bool TextPattern::is_in(std::string_view text) const {
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> where(
      pcre2_match_data_create(1, nullptr), &pcre2_match_data_free);
  const int found = pcre2_match(compiled_->code, units_of(text), text.size(), 0, 0, where.get(),
                                compiled_->limits);
  if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
    fail("takes more than {} steps, or fails: {}", kMostSteps, message_of(found));
  }
  return found >= 0;
}

}  // namespace mstrain
