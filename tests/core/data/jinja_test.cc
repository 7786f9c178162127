// What a template must not do in silence, and what becomes of text from outside. tests/launcher/chat_test.py compares with Jinja.
#include "core/data/jinja/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/amount.h"
#include "tests/core/base/message_of.h"
#include "tests/core/data/small_tokenizers.h"

namespace mstrain {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

jinja::Text rendered(std::string_view source, jinja::Dict variables = {}) {
  return jinja::Template(source, "t").render(variables, 0);
}
std::string refusal(std::string_view source) {
  return message_of<Error>([&] { rendered(source); });
}

TEST(Jinja, SaysWhichConstructIsLeftOutAndWhere) {
  const std::pair<const char*, const char*> cases[] = {
      {"a\n{% include 'x' %}", "t:2: {% include %} is not supported"},
      {"{% incldue %}", "t:1: {% incldue %}"},
      {"{% fro x in y %}", "did you mean for?"},
      {"{% for x in y recursive %}{% endfor %}", "t:1: recursive loops are not supported"},
      {"{{ 2 ** 3 }}", "t:1: powers (**) are not supported"},
      {"{{ f(*x) }}", "t:1: arguments unpacked by * are not supported"},
      {"\n\n{{ 'a'|wordwrap }}", "t:3: the filter `wordwrap` is not supported"},
      {"{{ 'a' is filter }}", "t:1: the test `filter` is not supported"},
      {"{{ 'a'.encode() }}", "t:1: the method encode of a string is not supported"},
      {"{{ 'a'.strip }}", "t:1: the method strip of a string is supported as a call alone"},
      {"{{ {'a': 1}.update({}) }}", "t:1: the method update of a mapping is not supported"},
      {"{{ {'a': 1}.items }}", "t:1: the method items of a mapping is supported as a call alone"},
      {"{{ '%s' % 'a' }}", "t:1: a string % a string is not supported"},
      {"{{ 'é'|upper }}", "t:1: upper: supported for ASCII text alone"},
      {"{{ [1] }}", "t:1: a list cannot be printed; the filter tojson can"},
      {"{{ ('<' + ('a'|safe)) }}", "t:1: the filter `safe` is not supported"},
      {"{{ loop.cycle(1) }}", "t:1: `loop` is undefined, and has no cycle"},
      {"{{ cycler(1) }}", "t:1: cycler is not supported"},
      {"{{ strftime_now('%f') }}", "t:1: strftime_now: %f is not supported"},
      {"{% for i in [1] %}{% macro m() %}{% endmacro %}{% endfor %}", "t:1: a macro inside a loop"},
      {"{% set n = namespace(a=1) %}{% for i in [1] if n.a %}{% endfor %}",
       "t:1: a namespace in the condition of a for is not supported"},
      {"{% set x = [1]|select %}{% for i in x %}{% endfor %}\n{{ x|first }}",
       "t:2: what a filter gave"}};
  for (const auto& [source, message] : cases) {
    EXPECT_THAT(refusal(source), HasSubstr(message)) << source;
  }
}

TEST(Jinja, SaysWhatIsWrongAndWhere) {
  const std::pair<const char*, const char*> cases[] = {
      {"a\n\n{% if x %}", "t:3: the block of line 3 does not end; expected {% endif %}"},
      {"{% endif %}", "t:1: {% endif %}"},
      {"{{ 'a }}", "t:1: a string does not end; expected '"},
      {"{{ a", "t:1: a tag does not end; expected }}"},
      {"{# a", "t:1: the comment that begins here does not end; expected #}"},
      {"{{ (a] }}", "t:1: unexpected ]; expected )"},
      {"{{ a b }}", "t:1: expected }}, found b"},
      {"{{ }}", "t:1: expected an expression, found }}"},
      {"{% break %}", "t:1: {% break %} stands in no for"},
      {"x\n{{ tools[0] }}", "t:2: `tools` is undefined"},
      {"{{ message.content + 'a' }}", "t:1: `message` is undefined, and has no content"},
      {"{{ {'a': 1}.b + 'a' }}", "t:1: `b` of a mapping is undefined"},
      {"{{ raise_exception('turns ' ~ 'alternate') }}", "t:1: turns alternate"},
      {"{{ 1 // 0 }}", "t:1: division by 0"},
      {"{{ 9223372036854775807 + 1 }}", "t:1: a number is too large"},
      {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "t:1: macro m: 2 arguments, but at most 1"},
      {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "the template calls itself too often"},
      {"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
       "the template does not end"},
      {"{{ 'aaaaaaaaaa' * 100000000 }}", "a text has more than"}};
  for (const auto& [source, message] : cases) {
    if (!kSanitized || std::string_view(message) != "the template does not end") {
      EXPECT_THAT(refusal(source), HasSubstr(message)) << source;
    }
  }
  std::string deep;
  for (int i = 0; i < 100000; ++i) {
    deep += "(";
  }
  EXPECT_THAT(refusal("{{ " + deep + "1" + std::string(deep.size(), ')') + " }}"),
              StartsWith("t:1: is nested more than 200 levels deep"));
  std::string longer = "1";
  for (int i = 0; i < 100000; ++i) {
    longer += "+1";
  }
  EXPECT_THAT(refusal("{{ " + longer + " }}"), StartsWith("t:1: the expression is more than 200"));
}

TEST(Jinja, LoopsAreLeftFromBlocksInThem) {
  const std::pair<const char*, const char*> cases[] = {
      {"{% for i in [1, 2, 3] %}{% with %}{% if i == 2 %}{% break %}{% endif %}{{ i }}"
       "{% endwith %};{% endfor %}",
       "1;"},
      {"{% for i in [1, 2, 3] %}{% with %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}"
       "{% endwith %};{% endfor %}",
       "1;3;"},
      {"{% for i in [1, 2, 3] %}{% filter upper %}a{% if i == 2 %}{% break %}{% endif %}{{ i }}"
       "{% endfilter %};{% endfor %}",
       "A1;"},
      {"{% for i in [1, 2, 3] %}{% set x %}a{% if i == 2 %}{% continue %}{% endif %}{{ i }}"
       "{% endset %}{{ x }};{% endfor %}",
       "a1;a3;"},
      {"{% for i in [1, 2, 3] %}{{ i }}{% break %}{% else %}E{% endfor %}", "1E"},
      {"{% for i in [1, 2, 3] %}{{ i }}{% continue %}{% else %}E{% endfor %}", "123E"},
      {"{% for i in [1, 2, 3] %}{{ i }}{% if i == 2 %}{% break %}{% endif %}{% else %}E"
       "{% endfor %}",
       "12"},
      {"{% for i in [1, 2, 3] %}{{ i }}{% if i < 3 %}{% continue %}{% endif %}{% else %}E"
       "{% endfor %}",
       "123"},
      {"{% for j in [1, 2] %}{% for i in [1] %}{% break %}{% else %}{% break %}{% endfor %}x"
       "{% endfor %}",
       ""}};
  for (const auto& [source, text] : cases) {
    EXPECT_EQ(rendered(source).bytes(), text) << source;
  }
  EXPECT_THAT(refusal("{% for i in [1] %}{% generation %}{% break %}{% endgeneration %}"
                      "{% endfor %}"),
              HasSubstr("t:1: {% break %} stands in no for"));
}

TEST(Jinja, WhatIsUndefinedIsCallable) {
  EXPECT_EQ(rendered("{{ x is callable }} {{ ''.x is callable }} {{ 1 is callable }}"
                     "{% for i in [1] %} {{ loop is callable }}{% endfor %}")
                .bytes(),
            "True True False True");
}

TEST(Jinja, TextFromOutsideStaysKnownAsThat) {
  const auto outside = [](std::string_view source) {
    const jinja::Text text =
        rendered(source, {{"u", jinja::Text("  Ab,Ab ", /*from_outside=*/true)}});
    std::string marked;
    for (size_t i = 0; i < text.size(); ++i) {
      marked += text.outside()[i] != 0 ? text.bytes()[i] : '.';
    }
    return marked;
  };
  EXPECT_EQ(outside("Ab{{ u }}Ab"), "..  Ab,Ab ..");
  EXPECT_EQ(outside("{{ 'Ab' + u|trim + 'b' }}"), "..Ab,Ab.");
  EXPECT_EQ(outside("{{ u.strip().split(',')[1] ~ '!' }}"), "Ab.");
  EXPECT_EQ(outside("{{ u[2:4]|upper }}{{ u|replace('Ab', 'xy') }}"), "AB  ..,.. ");
  EXPECT_EQ(outside("{{ [u|trim]|tojson }}"), "..Ab,Ab..");
  EXPECT_EQ(outside("{% for c in u %}{{ c }}-{% endfor %}"), " . .A.b.,.A.b. .");
  EXPECT_EQ(outside("{% set x %}[{{ u|trim }}]{% endset %}{{ x }}"), ".Ab,Ab.");
  EXPECT_EQ(outside("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(u|trim)|lower }}"), ".ab,ab.");
}

TEST(Jinja, DamagedTemplatesAreRefusedOrStillTemplates) {
  const std::string whole =
      "{%- set ns = namespace(n=0) -%}{% macro m(a, b='x') %}{{ a[0:2] ~ b }}{% endmacro %}\n"
      "{%- for x in messages if x.role is defined %}\n  {% if loop.first and x['role'] == 'user' %}"
      "{{- m(x.content|trim, b=1) + \"\\n\" }}{% elif not x %}{% continue %}{% else %}{{ x|tojson "
      "}}"
      "{% endif %}{% set ns.n = ns.n + 1 %}{# c #}\n{% endfor %}{{ ns.n if ns else 'none' }}";
  const jinja::Dict message{{"role", jinja::Value::text("user")},
                            {"content", jinja::Value::text(" hey ")}};
  const jinja::Dict variables{{"messages", jinja::List{{message, message}}}};
  ASSERT_EQ(jinja::Template(whole, "t").render(variables, 0).bytes(),
            "he1\n{\"role\": \"user\", \"content\": \" hey \"}2");
  Rng rng(41);
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::string source = damaged(rng, whole);
    try {
      const jinja::Text text = jinja::Template(source, "t").render(variables, 0);
      ASSERT_EQ(text.bytes().size(), text.outside().size());
    } catch (const Error& error) {
      ++refused;
      ASSERT_THAT(error.what(), StartsWith("t:")) << source;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 4000);
}

}  // namespace
}  // namespace mstrain
