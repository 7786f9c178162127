#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "tests/launcher/command.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

// Three tokens beyond the bytes: "th", "the", <|endoftext|>.
void write_small_bpe(const std::string& folder) {
  std::string vocab = "{";
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool plain = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    vocab += fmt::format("\"\\u{:04x}\":{},", static_cast<uint32_t>(plain ? byte : next++), byte);
  }
  write_text(join_path(folder, "vocab.json"), vocab + R"("th":256,"the":257,"<|endoftext|>":258})");
  write_text(join_path(folder, "merges.txt"), "#version: 0.2\nt h\nth e\n");
}

class TokenizeCommand : public testing::Test {
 protected:
  TokenizeCommand() {
    write_small_bpe(folder_ / "tokenizer");
    write_text(folder_ / "a.txt", "the end");
    write_text(folder_ / "b.jsonl", "{\"text\": \"the\"}\n{\"text\": \"\"}\n{\"text\": \"é\"}\n");
  }
  CommandResult run(const std::string& tokenizer, const std::string& input,
                    const std::string& output, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"tokenize", "--tokenizer", tokenizer, "--input", folder_ / input,
                               "--output", output});
    return run_command(more);
  }
  TemporaryFolder folder_;
};

TEST_F(TokenizeCommand, KeepsItsInput) {
  const CommandResult result = run("byte", "a.txt", folder_ / "tokenizer/../a.txt");
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("is the input, which would be lost"));
  EXPECT_EQ(real_files().read(folder_ / "a.txt", 1000), "the end");
}

TEST_F(TokenizeCommand, WritesToWhatALinkPointsAt) {
  std::filesystem::create_symlink("ids", folder_ / "link.bin");
  EXPECT_THAT(run("byte", "a.txt", folder_ / "link.bin").err, HasSubstr("/ids: a file of ids"));
  std::filesystem::remove(folder_ / "link.bin");
  std::filesystem::create_symlink("ids.bin", folder_ / "link.bin");
  EXPECT_EQ(run("byte", "a.txt", folder_ / "link.bin").status, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link.bin"));
  EXPECT_EQ(real_files().file_size(folder_ / "ids.bin"), 2 * std::strlen("the end"));
}

TEST_F(TokenizeCommand, WritesIdsToStandardOutputAndProgressToStandardError) {
  const CommandResult lines =
      run(folder_ / "tokenizer", "b.jsonl", "-", {"--format", "jsonl", "--add-special"});
  EXPECT_EQ(lines.status, 0) << lines.err;
  EXPECT_EQ(lines.out, "[257, 258]\n[258]\n[195, 169, 258]\n");
  EXPECT_THAT(lines.err, HasSubstr("6 tokens, 3 documents"));
  EXPECT_EQ(std::count(lines.err.begin(), lines.err.end(), '\n'), 1);
  EXPECT_EQ(run("byte", "a.txt", "-").out, std::string("t\0h\0e\0 \0e\0n\0d\0", 14));
}

TEST_F(TokenizeCommand, WritesFilesThatTrainingReads) {
  for (const char* format : {"nanogpt", "llmc", "megatron"}) {
    const std::string output = folder_ / (std::string(format) + ".bin");
    const CommandResult result = run(folder_ / "tokenizer", "a.txt", output, {"--format", format});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_TRUE(real_files().exists(output));
    EXPECT_FALSE(real_files().exists(folder_ / ("." + std::string(format) + ".bin.partial")));
  }
  EXPECT_EQ(run("char", "a.txt", folder_ / "c.bin").status, 0);
  const std::string kept = folder_ / "c.bin.tokenizer.json";
  EXPECT_EQ(run(kept, "a.txt", "-", {"--format", "jsonl"}).out, "[5, 3, 2, 0, 2, 4, 1]\n");
}

TEST_F(TokenizeCommand, KeepsTheTokenizerOfCharactersBesideWholeIdsAndIsNotMadeOfIt) {
  write_text(folder_ / "text/a.txt", "the end");
  const std::string kept = folder_ / "text/c.bin.tokenizer.json";
  ASSERT_EQ(run("char", "text", folder_ / "text/c.bin").status, 0);
  EXPECT_TRUE(real_files().exists(kept));
  real_files().remove(folder_ / "text/c.bin");
  const CommandResult again = run("char", "text", folder_ / "text/c.bin");
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.err, HasSubstr("c.bin.tokenizer.json: is the input, which would be lost"));
}

TEST_F(TokenizeCommand, TakesInputsOneAfterTheOther) {
  const CommandResult both =
      run("byte", "a.txt", "-", {"--input", folder_ / "b.jsonl", "--format", "jsonl"});
  EXPECT_EQ(both.out, run("byte", "a.txt", "-", {"--format", "jsonl"}).out +
                          run("byte", "b.jsonl", "-", {"--format", "jsonl"}).out);
}

TEST_F(TokenizeCommand, TakesNoInputTwice) {
  write_text(folder_ / "text/a.txt", "the end");
  const CommandResult twice = run("byte", "text", "-", {"--input", folder_ / "text/./a.txt"});
  EXPECT_EQ(twice.status, 1);
  EXPECT_THAT(twice.err, HasSubstr("a.txt: named twice by --input, the second time by "));
  EXPECT_EQ(twice.out, "");
}

TEST_F(TokenizeCommand, RefusesWhatIsNoTextUnlessAsked) {
  write_text(folder_ / "c.txt.gz", std::string("\x1f\x8b\x08\0\0ab", 7));
  const CommandResult refused = run("byte", "c.txt.gz", folder_ / "c.bin");
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err,
              HasSubstr("c.txt.gz: is no text: it is compressed by gzip: unpack it; "));
  EXPECT_FALSE(real_files().exists(folder_ / "c.bin"));
  EXPECT_EQ(run("byte", "c.txt.gz", folder_ / "c.bin", {"--binary"}).status, 0);
  EXPECT_EQ(real_files().file_size(folder_ / "c.bin"), 2 * 7);
}

TEST_F(TokenizeCommand, MistakesAreNamed) {
  const auto says = [](const CommandResult& result, int status, const char* text) {
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_THAT(result.err, HasSubstr(text));
  };
  says(run_command({"tokenize"}), 2, "--tokenizer X is missing");
  says(run("byte", "a.txt", "-", {"--format", "lmc"}), 2, "did you mean llmc?");
  says(run("byte", "a.txt", "-", {"--format", "megatron"}), 2, "cannot go to standard output");
  for (const char* format : {"nanogpt", "llmc", "megatron"}) {
    says(run("char", "a.txt", folder_ / "ids.dat", {"--format", format}), 2,
         "ids.dat: a file of ids in format");
  }
  EXPECT_FALSE(real_files().exists(folder_ / "ids.dat.tokenizer.json"));
  says(run("byt", "a.txt", "-"), 2, "did you mean byte?");
  says(run("byte", "c.txt", "-"), 2, "did you mean");
  says(run(folder_ / "tokeniser", "a.txt", "-"), 2, "did you mean");
  write_text(folder_ / "d.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"b\"}\n");
  says(run("byte", "d.jsonl", "-"), 1, "d.jsonl:2: from byte 14: expected a JSON object");
  says(run("byte", "b.jsonl", folder_ / "b.bin", {"--format", "jsonl"}), 2,
       "b.bin: training takes what ends in .bin for ids in bytes");
}

TEST_F(TokenizeCommand, InspectSaysWhatFilesHold) {
  const std::string tokenizer = folder_ / "tokenizer";
  const auto says = [&](const std::string& path, const char* text) {
    const CommandResult result = run_command({"inspect", path});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(text));
  };
  for (const char* format : {"nanogpt", "llmc", "megatron"}) {
    const std::string output = folder_ / (std::string(format) + ".bin");
    ASSERT_EQ(run(tokenizer, "b.jsonl", output, {"--format", format}).status, 0);
  }
  says(folder_ / "nanogpt.bin", "nanogpt.bin: ids as nanoGPT writes them, 3 tokens of 16 bits\n");
  says(folder_ / "llmc.bin", "ids as llm.c writes them, 3 tokens of 16 bits\n");
  says(folder_ / "megatron.bin", "as Megatron writes them, 3 tokens of 16 bits, 3 documents");
  says(folder_ / "megatron.idx", "megatron.bin: ids as Megatron writes them");
  says(folder_ / "b.jsonl", "JSON lines, 3 documents, 5 bytes of text");
  says(tokenizer, "tokenizer bpe, 259 tokens, 258 ends a text");
  says(join_path(tokenizer, "vocab.json"), "tokenizer bpe, 259 tokens");
  write_text(folder_ / "odd.bin", "abc");
  const CommandResult odd = run_command({"inspect", folder_ / "odd.bin"});
  EXPECT_EQ(odd.status, 1);
  EXPECT_THAT(odd.err, HasSubstr("odd.bin: offset 2: ids of 16 bits"));
  write_text(folder_ / "ids.dat", std::string("a\0b\0", 4));
  EXPECT_THAT(
      run_command({"inspect", folder_ / "ids.dat"}).err,
      HasSubstr("ids.dat: is no UTF-8 text from byte 1 on; what other files hold is told by their "
                "names: *.safetensors, "));
}

// 24 MiB of words, and now and then a long one.
std::string long_text() {
  std::string text;
  uint32_t state = 7;
  while (text.size() < (24 << 20)) {
    state = state * 1664525U + 1013904223U;
    static constexpr const char* kWords[] = {"the ", "cat ", "théâtre ", "on ", "a ", "mat.\n"};
    text += state >> 20 == 0 ? std::string(3000, 'z') : kWords[(state >> 16) % 6];
  }
  return text;
}

// The most memory that a process has had in use; 0 before it has become the command, and once it has ended.
int64_t peak_bytes(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Name:") && line.find("launcher_test") != line.npos) {
      return 0;
    }
    if (line.starts_with("VmHWM:")) {
      return std::stoll(line.substr(6)) * 1024;
    }
  }
  return 0;
}

TEST_F(TokenizeCommand, MemoryDoesNotGrowWithTheInputAndAnInterruptedRunGoesOn) {
  const std::string text = long_text();
  write_text(folder_ / "long.txt", text);
  write_text(folder_ / "short.txt", text.substr(0, 2 << 20));
  const std::string tokenizer = folder_ / "tokenizer";
  const auto arguments = [&](const char* input, const std::string& output) {
    return std::vector<std::string>{"tokenize", "--tokenizer",   tokenizer,
                                    "--input",  folder_ / input, "--output",
                                    output,     "--format",      "nanogpt"};
  };
  const auto peak_of = [&](const char* input) {
    RunningCommand command(arguments(input, folder_ / (std::string(input) + ".bin")));
    int64_t peak = 0;
    while (!command.ended()) {
      peak = std::max(peak, peak_bytes(command.pid()));
      usleep(1000);
    }
    EXPECT_EQ(command.wait().status, 0);
    return peak;
  };
  const int64_t small = peak_of("short.txt");
  const int64_t large = peak_of("long.txt");
  if (!kSanitized && small > 0) {
    EXPECT_LT(large, small + (8 << 20));
  }
  const std::string whole = real_files().read(folder_ / "long.txt.bin");
  ASSERT_GT(whole.size(), text.size());

  // Killed where nothing was saved, then stopped after a save, then to the end.
  const std::string output = folder_ / "again.bin";
  const std::string partial = folder_ / ".again.bin.partial";
  for (const int number : {SIGKILL, SIGTERM}) {
    RunningCommand command(arguments("long.txt", output));
    while (!command.ended() &&
           !(real_files().exists(partial) && real_files().file_size(partial) > (1 << 20))) {
      usleep(500);
    }
    command.signal(number);
    const CommandResult result = command.wait();
    if (result.status == 0) {
      GTEST_SKIP() << "it ended before it could be stopped";
    }
    ASSERT_EQ(result.status, number == SIGKILL ? 128 + SIGKILL : 130) << result.err;
    EXPECT_FALSE(real_files().exists(output));
    if (number == SIGKILL) {
      real_files().remove(partial);
    }
  }
  EXPECT_TRUE(real_files().exists(folder_ / ".again.bin.progress"));
  ASSERT_EQ(run_command(arguments("long.txt", output)).status, 0);
  EXPECT_TRUE(real_files().read(output) == whole);
  EXPECT_FALSE(real_files().exists(partial));
}

// A run on a text under a byte-pair encoding, and one on the ids that the command makes of it.
TEST_F(TokenizeCommand, TrainingOnTextAndOnItsIdsIsTheSame) {
  const SmallRun small;
  const std::string tokenizer = folder_ / "tokenizer";
  const std::string ids = small.path("ids.bin");
  ASSERT_EQ(run_command({"tokenize", "--tokenizer", tokenizer, "--input", small.path("text.txt"),
                         "--output", ids, "--format", "llmc"})
                .status,
            0);
  const auto train = [&](const std::string& name, const std::string& data) {
    const CommandResult result = run_command(
        small.arguments(name, {"data.train=" + data, "data.tokenizer.type=hf",
                               "data.tokenizer.path=" + tokenizer, "schedule.total_steps=10"}));
    EXPECT_EQ(result.status, 0) << result.err;
    const std::string weights = small.path(name + "/checkpoints/step-00000010/model.safetensors");
    return real_files().exists(weights) ? real_files().read(weights) : "";
  };
  const std::string on_text = train("on_text", small.path("text.txt"));
  EXPECT_FALSE(on_text.empty());
  EXPECT_TRUE(train("on_ids", ids) == on_text);
  EXPECT_TRUE(real_files().exists(small.path("on_ids/checkpoints/step-00000010/vocab.json")));
  const CommandResult text = run_command(
      {"generate", "--checkpoint", small.path("on_ids"), "--prompt", "the cat", "--tokens", "4"});
  EXPECT_EQ(text.status, 0) << text.err;
}

}  // namespace
}  // namespace mstrain
