// The key that docs/adding_a_config_key.md declares has what the page says that follows from its line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/base/message_of.h"
#include "tests/core/base/one_section.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

#include "docs/adding_a_config_key.inc"

TEST(ConfigKeyPage, ItsKeyIsReadCheckedWrittenAndCompared) {
  EXPECT_EQ(section_of<EvalConfig>("eval", "eval: {interval: 5}").interval, 5);
  const auto error = [](const std::string& yaml) {
    return message_of<ConfigError>([&] { section_of<EvalConfig>("eval", yaml); });
  };
  EXPECT_THAT(error("eval:\n  intervall: 5"),
              HasSubstr("test.yaml:2: eval.intervall: unknown key; did you mean eval.interval?"));
  EXPECT_THAT(error("eval: {interval: 0}"),
              HasSubstr("test.yaml:1: eval.interval: expected an integer >= 1"));
  const OneSection<EvalConfig> defaults{"eval", {}};
  EXPECT_EQ(to_yaml(write_config(defaults)), "eval: {interval: 250}\n");
  YamlNode tree = parse_yaml("eval: {interval: 5}", "test.yaml");
  apply_overrides(tree, std::vector<std::string>{"eval.interval=7"});
  OneSection<EvalConfig> overridden{"eval", {}};
  read_config(tree, overridden);
  EXPECT_EQ(overridden.section.interval, 7);
  EXPECT_NE(flatten_config(write_config(defaults)), flatten_config(write_config(overridden)));
}

}  // namespace
}  // namespace mstrain
