#include "core/train/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/json.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/train/memory_disk.h"

namespace mstrain {
namespace {

using testing::HasSubstr;
using testing::Not;

void write(const std::string& path, std::string_view text) {
  real_files().create_directories(parent_path(path));
  real_files().open(path, WriteMode::kTruncate)->append(text);
}

// The data that the page's script reads.
Json data_of(const std::string& html) {
  const std::string open = "id=\"data\">";
  const size_t begin = html.find(open) + open.size();
  return parse_json(html.substr(begin, html.find("</script>", begin) - begin), "report");
}

TEST(Report, HoldsTheCurvesOfEveryRun) {
  const TemporaryFolder folder;
  write(folder / "a/metrics.jsonl",
        "{\"step\":1,\"loss\":2.5,\"lr\":0.1}\n{\"step\":1,\"eval_loss\":2.25}\n");
  write(folder / "a/config.yaml", "model: {hidden_size: 8}\n");
  write(folder / "a/run.json", "{\"name\": \"first\"}");
  write(folder / "b/metrics.jsonl", "{\"step\":4,\"loss\":1.5}\n");
  const std::vector<std::string> runs{folder / "a", folder / "b"};
  const Json data = data_of(report_html(real_files(), runs));
  ASSERT_EQ(data["runs"].size(), 2U);
  EXPECT_EQ(data["runs"][0]["name"], "first");
  EXPECT_EQ(data["runs"][0]["train"]["loss"], Json({2.5}));
  EXPECT_EQ(data["runs"][0]["eval"][0]["eval_loss"], Json({2.25}));
  EXPECT_EQ(data["runs"][0]["config"][0], Json({"model.hidden_size", "8"}));
  EXPECT_EQ(data["runs"][1]["name"], "b");
  EXPECT_EQ(data["runs"][1]["train"]["step"], Json({4}));
  EXPECT_TRUE(data["runs"][1]["train"]["lr"][0].is_null());
}

TEST(Report, HoldsWhatEvaluationsMeasuredAndSamplesBetweenThem) {
  const TemporaryFolder folder;
  write(folder / "a/metrics.jsonl",
        "{\"step\":5,\"samples\":[{\"prompt\":\"a\",\"text\":\"b\"}]}\n"
        "{\"step\":10,\"eval_loss\":2,\"eval_perplexity\":7.5,\"eval_accuracy\":0}\n");
  const std::string path = folder / "a";
  const Json run = data_of(report_html(real_files(), std::span(&path, 1)))["runs"][0];
  EXPECT_EQ(run["eval"][0]["step"], Json({10}));
  EXPECT_EQ(run["eval"][0]["eval_perplexity"], Json({7.5}));
  EXPECT_EQ(run["eval"][0]["eval_accuracy"], Json({0.0}));
  EXPECT_EQ(run["eval"][0]["eval_bits_per_byte"], Json::array({nullptr}));
  EXPECT_EQ(run["samples"][0]["step"], 5);
}

TEST(Report, NeedsNothingFromOutside) {
  const TemporaryFolder folder;
  write(folder / "a/metrics.jsonl", "");
  const std::string path = folder / "a";
  const std::string html = report_html(real_files(), std::span(&path, 1));
  for (const char* reference : {"src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest"}) {
    // `url(#clip…)` points into the page itself.
    size_t at = html.find(reference);
    while (at != std::string::npos && html.compare(at, 5, "url(#") == 0) {
      at = html.find(reference, at + 1);
    }
    EXPECT_EQ(at, std::string::npos) << reference;
  }
}

TEST(Report, TextOfARunCannotEndTheScript) {
  const TemporaryFolder folder;
  write(folder / "a/metrics.jsonl",
        "{\"step\":1,\"eval_loss\":1,\"samples\":[{\"prompt\":\"</"
        "script><b>\",\"text\":\"\\u2028<!--\"}]}\n");
  write(folder / "a/run.json", "{\"name\": \"</title><script>\"}");
  const std::string path = folder / "a";
  const std::string html = report_html(real_files(), std::span(&path, 1));
  EXPECT_THAT(html, Not(HasSubstr("</script><b>")));
  EXPECT_THAT(html, Not(HasSubstr("</title><script>")));
  EXPECT_EQ(data_of(html)["runs"][0]["samples"][0]["texts"][0]["prompt"], "</script><b>");
}

TEST(Report, LongRunsAreThinnedOut) {
  const TemporaryFolder folder;
  std::string rows;
  for (int step = 1; step <= 10000; ++step) {
    rows += "{\"step\":" + std::to_string(step) + ",\"loss\":" + std::to_string(step) + "}\n";
  }
  write(folder / "a/metrics.jsonl", rows);
  const std::string path = folder / "a";
  const Json train = data_of(report_html(real_files(), std::span(&path, 1)))["runs"][0]["train"];
  EXPECT_LE(train["step"].size(), 1500U);
  EXPECT_EQ(train["step"].back(), 10000);
  EXPECT_EQ(train["loss"][0], 4.0);  // of steps 1 to 7
}

TEST(Report, HoldsWhatAgentsMeasureAndSomeOfTheirEvaluations) {
  const TemporaryFolder folder;
  std::string looks;
  for (int step = 1; step <= 100; ++step) {
    looks += fmt::format("{{\"step\":{},\"strip\":\"AA==\",\"at\":[0]}}\n", step);
  }
  write(folder / "a/evaluations.jsonl", looks);
  write(folder / "a/metrics.jsonl",
        "{\"step\":8,\"env_steps\":8,\"loss\":2,\"value_loss\":1.5,\"q\":null,"
        "\"steps_per_second\":9,\"explore\":1}\n");
  write(folder / "b/metrics.jsonl", "{\"step\":8,\"loss\":2,\"further\":1}\n");
  const std::vector<std::string> runs{folder / "a", folder / "b"};
  const Json data = data_of(report_html(real_files(), runs))["runs"];
  EXPECT_EQ(data[0]["parts"], Json({{"explore", {1.0}}, {"value_loss", {1.5}}}));
  EXPECT_LE(data[0]["evaluations"].size(), 24U);
  EXPECT_EQ(data[0]["evaluations"].back()["step"], 100);
  EXPECT_EQ(data[0]["evaluations"][0]["at"], Json::array({0}));
  EXPECT_TRUE(data[1]["parts"].is_null());
  EXPECT_EQ(data[1]["evaluations"], Json::array());
}

TEST(Report, AFolderThatIsNoRunIsAnError) {
  const TemporaryFolder folder;
  const std::string path = folder.path();
  EXPECT_THROW(report_html(real_files(), std::span(&path, 1)), IoError);
}

}  // namespace
}  // namespace mstrain
