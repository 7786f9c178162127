#include "suites/transformer/alignment/text_pattern.h"

#include <gmock/gmock.h>

#include "core/base/error.h"
#include "tests/core/base/message_of.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

TEST(TextPattern, MatchesCharactersOfAnyPart) {
  struct Case {
    const char* pattern;
    const char* text;
    bool is_in;
  };
  const Case kCases[] = {{"46", "it is 46.", true},
                         {"^46$", "it is 46", false},
                         {"^46$", "46\n", false},
                         {"^(a|bc){2,3}$", "abca", true},
                         {"^(a|bc){2,3}$", "abcaa", false},
                         {"^.{2}$", "日本", true},
                         {"^.$", "\n", false},
                         {"^[^]$", "\n", true},
                         {"[日-月]", "日", true},
                         {"\\bcat\\b", "concat", false},
                         {"^\\d\\D\\w\\W\\s\\S$", "1a_- x", true},
                         {"[[:upper:]]", "aBc", true},
                         {"\\u65e5\\x41\\t", "日A\t", true},
                         {"^(?=.*\\d)(?!.*x)", "ab1x", false},
                         {"(?<=a)b", "ab", true},
                         {"^(.+)\\1$", "abab", true},
                         {"(?i)^straße [a-c]", "STRAßE B", true},
                         {"(?i)^ÄB$", "äb", true},
                         {"^\\p{Lu}", "Äb", true},
                         {"b", "\xFF b", true},  // no UTF-8 before it
                         {"", "anything", true}};
  for (const Case& each : kCases) {
    EXPECT_EQ(TextPattern(each.pattern).is_in(each.text), each.is_in)
        << each.pattern << " in " << each.text;
  }
}

TEST(TextPattern, EndsAPatternThatTakesForEver) {
  const TextPattern pattern("([^x]+)+xyz$");
  EXPECT_TRUE(pattern.is_in("abcxyz"));
  EXPECT_THAT(
      message_of<Error>([&] { static_cast<void>(pattern.is_in(std::string(64, 'a') + "z xy")); }),
      HasSubstr("takes more than 10000000 steps"));
}

TEST(TextPattern, SaysWhatIsWrongAndWhere) {
  const std::pair<const char*, const char*> kFaults[] = {
      {"(", "missing closing parenthesis (byte 1)"},
      {"*a", "quantifier does not follow a repeatable item (byte 0)"},
      {"a{3,2}", "numbers out of order in {} quantifier"},
      {"[z-a]", "range out of order in character class"},
      {"\xFF", "UTF-8 error"}};
  for (const auto& [pattern, why] : kFaults) {
    EXPECT_THAT(message_of<Error>([&] { const TextPattern tried(pattern); }), HasSubstr(why))
        << pattern;
  }
}

}  // namespace
}  // namespace mstrain
