// Runs that go on with other data, under the ids that they began with.
#include <gmock/gmock.h>

#include "tests/launcher/command.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

struct OtherDataCase {
  std::string name;
  std::string file;
  std::string model;
  std::string data;  // keys
  std::string more;  // of the configuration
  std::string line;  // of the data
  std::string other;
};

// A run whose tokenizer is made of its data, and goes on with others that lack a character: by themselves they would number those behind
// it anew.
class OtherData : public testing::TestWithParam<OtherDataCase> {
 protected:
  OtherData() {
    write_text(folder_ / "run.yaml",
               "run: {output_dir: " + folder_ / "run" +
                   ", threads: 1}\n"
                   "model: {" +
                   GetParam().model +
                   ", vocab_size: 32, hidden_size: 16, num_layers: 1, num_attention_heads: 2}\n"
                   "data: {tokenizer: {type: char}, split: 0.5, seq_length: 16" +
                   GetParam().data +
                   "}\n"
                   "batch: {global: 4}\neval: {interval: none}\ncheckpoint: {keep: 9}\n" +
                   GetParam().more);
    write("some-", GetParam().line);
    write("other-", GetParam().other);
  }

  // Of a start that ends at step `to`; empty where it fails.
  std::string tokenizer_after(int64_t to, const std::string& which, bool asks = false) {
    const std::string train = "data.train=" + folder_ / (which + GetParam().file);
    std::vector<std::string> arguments{"--config", folder_ / "run.yaml", train,
                                       "schedule.total_steps=" + std::to_string(to)};
    if (asks) {
      arguments.insert(arguments.end(), {"--change", train});
    }
    const CommandResult result = run_command(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("finished at step " + std::to_string(to)));
    return result.status == 0 ? newest_files(folder_ / "run").at("mstrain_tokenizer.json") : "";
  }

  TemporaryFolder folder_;

 private:
  void write(const std::string& which, const std::string& line) {
    std::string text;
    for (int i = 0; i < 100; ++i) {
      text += line;
    }
    write_text(folder_ / (which + GetParam().file), text);
  }
};

TEST_P(OtherData, AreReadWithTheTokenizerSoFar) {
  const std::string begun = tokenizer_after(1, "some-");
  EXPECT_EQ(tokenizer_after(2, "other-", /*asks=*/true), begun);
  // A checkpoint has seen the change: there is none to make.
  EXPECT_EQ(tokenizer_after(3, "other-"), begun);
  EXPECT_EQ(tokenizer_after(4, "other-", /*asks=*/true), begun);
  // The start that asked for it died before its checkpoint: this one makes the change.
  for (const std::string& name : real_files().list(folder_ / "run/checkpoints")) {
    if (name != checkpoint_name(1)) {
      real_files().remove_all(folder_ / "run/checkpoints/" + name);
    }
  }
  EXPECT_EQ(tokenizer_after(2, "other-"), begun);
}

INSTANTIATE_TEST_SUITE_P(
    All, OtherData,
    testing::Values(OtherDataCase{"Texts", "text.txt", "type: gpt, max_position_embeddings: 16", "",
                                  "", "a bcd dcb\n", "a bd db\n"},
                    OtherDataCase{"Answers", "answers.jsonl",
                                  "type: gpt, max_position_embeddings: 16", "",
                                  "objective: {type: sft}\n",
                                  R"({"prompt": "ab", "response": "cd"})"
                                  "\n",
                                  R"({"prompt": "a", "response": "cd"})"
                                  "\n"},
                    OtherDataCase{"Pairs", "pairs.jsonl",
                                  "type: t5, d_kv: 8, ffn_hidden_size: 16, extra_ids: 0",
                                  ", task: pairs", "",
                                  R"({"input": "ab", "target": "cd"})"
                                  "\n",
                                  R"({"input": "a", "target": "cd"})"
                                  "\n"}),
    [](const auto& each) { return each.param.name; });

// What may not change is told by its key, whatever could not be read by it.
TEST(OtherTokenizer, IsRefusedByItsKey) {
  const SmallRun run;
  ASSERT_EQ(run_command(run.arguments("run", {"schedule.total_steps=1"})).status, 0);
  const CommandResult refused =
      run_command(run.arguments("run", {"schedule.total_steps=2", "data.tokenizer={type: byte}"}));
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("this run began with other values (data.tokenizer"));
}

}  // namespace
}  // namespace mstrain
