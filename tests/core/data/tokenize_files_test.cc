#include "core/data/tokenize_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/files_fault.h"
#include "core/data/encoded_text.h"
#include "core/data/simple_tokenizers.h"
#include "core/data/token_files.h"
#include "core/data/tokenizer_files.h"
#include "tests/amount.h"
#include "tests/core/data/scratch.h"
#include "tests/core/data/small_tokenizers.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::shared_ptr<const Tokenizer> small_tokenizer() {
  const std::string json =
      small_bpe({{"t", "h"}, {"th", "e"}, {" ", "c"}, {" c", "a"}, {" ca", "t"}, {" ", " "}})
          .dump();
  return tokenizer_from_hf({"t.json", json});
}

class TokenizeFiles : public testing::Test {
 protected:
  TokenizeFiles() {
    Rng rng(51);
    while (text_.size() < (9 << 17)) {
      text_ += random_text(rng, 100);
    }
    for (int i = 0; i < 200; ++i) {
      lines_ += Json{{"text", fmt::format("the cat {} é\n", i)}}.dump() + "\n";
    }
    scratch_.write("data/a.txt", text_);
    scratch_.write("data/b.jsonl", lines_);
    scratch_.write("data/c.txt", "the end");
  }
  TokenizeJob job(TokenFormat format, const std::string& output) const {
    TokenizeJob out;
    out.sources = find_source_files(real_files(), scratch_.path("data"));
    out.output = scratch_.path(output);
    out.format = format;
    out.tokenizer = small_tokenizer();
    out.bytes_between_saves = 1 << 18;
    return out;
  }
  static bool run(FileSystem& files, const TokenizeJob& job, const std::atomic<bool>& stop = no()) {
    TokenizeProgress progress;
    return tokenize_files(files, job, stop, progress);
  }
  static const std::atomic<bool>& no() {
    static const std::atomic<bool> stop = false;
    return stop;
  }
  std::string contents(const std::string& name) const {
    return real_files().read(scratch_.path(name));
  }

  Scratch scratch_;
  std::string text_;
  std::string lines_;
};

TEST_F(TokenizeFiles, GivesTheIdsOfTheDocuments) {
  TokenizeJob plain = job(TokenFormat::kMegatron, "out.bin");
  ASSERT_TRUE(run(real_files(), plain));
  const SourceFile written{scratch_.path("out.bin"), "out.bin",
                           static_cast<int64_t>(contents("out.bin").size())};
  const TokenStreamPtr stream =
      open_token_file(real_files(), written, plain.tokenizer->vocab_size());
  std::vector<int32_t> ids(stream->size());
  stream->read(0, ids);
  std::vector<int32_t> expected = plain.tokenizer->encode(text_);
  EXPECT_EQ(stream->document_ends().front(), static_cast<int64_t>(expected.size()));
  EXPECT_EQ(stream->document_ends().size(), 202);
  for (int i = 0; i < 200; ++i) {
    const auto more = plain.tokenizer->encode(fmt::format("the cat {} é\n", i));
    expected.insert(expected.end(), more.begin(), more.end());
  }
  const auto end = plain.tokenizer->encode("the end");
  expected.insert(expected.end(), end.begin(), end.end());
  EXPECT_TRUE(ids == expected);

  plain.sources = {plain.sources[2]};
  plain.output = scratch_.path("special.json");
  plain.format = TokenFormat::kJsonl;
  plain.add_special = true;
  ASSERT_TRUE(run(real_files(), plain));
  EXPECT_EQ(contents("special.json"), "[257, 32, 101, 110, 100, 262]\n");
}

TEST_F(TokenizeFiles, WhoeverIsKilledAnywhereGoesOnToTheSameBytes) {
  for (const TokenFormat format :
       {TokenFormat::kNanogpt, TokenFormat::kLlmc, TokenFormat::kMegatron, TokenFormat::kJsonl}) {
    const std::string ending = format == TokenFormat::kJsonl ? ".jsonl" : ".bin";
    const std::string whole = "whole" + ending;
    const std::string killed = "killed" + ending;
    ASSERT_TRUE(run(real_files(), job(format, whole)));
    const TokenizeJob again = job(format, killed);
    int64_t operation = 0;
    for (bool finished = false; !finished; operation += stride(4)) {
      FaultyFiles files(real_files());
      files.reset({.power_off_operation = operation});
      try {
        finished = run(files, again);
      } catch (const IoError&) {
        files.crash();
        ASSERT_TRUE(!real_files().exists(again.output) || contents(killed) == contents(whole))
            << "operation " << operation;
        ASSERT_TRUE(run(real_files(), again)) << "operation " << operation;
      }
      ASSERT_TRUE(contents(killed) == contents(whole)) << "operation " << operation;
      if (format == TokenFormat::kMegatron) {
        ASSERT_TRUE(contents("killed.idx") == contents("whole.idx")) << "operation " << operation;
      }
      std::filesystem::remove(again.output);
    }
    EXPECT_GT(operation, 20);
  }
}

TEST_F(TokenizeFiles, WhoeverIsStoppedGoesOnFromThere) {
  ASSERT_TRUE(run(real_files(), job(TokenFormat::kNanogpt, "whole.bin")));
  std::atomic<bool> stop = false;
  TokenizeJob stopped = job(TokenFormat::kNanogpt, "stopped.bin");
  int64_t reached = 0;
  stopped.report = [&](const TokenizeProgress& progress) {
    reached = progress.bytes;
    stop = true;
  };
  EXPECT_FALSE(run(real_files(), stopped, stop));
  EXPECT_GT(reached, 0);
  EXPECT_FALSE(real_files().exists(stopped.output));
  int64_t first = -1;
  stopped.report = [&](const TokenizeProgress& progress) {
    first = first < 0 ? progress.bytes : first;
    EXPECT_EQ(progress.resumed_bytes, reached);
  };
  EXPECT_TRUE(run(real_files(), stopped));
  EXPECT_GT(first, reached);
  EXPECT_TRUE(contents("stopped.bin") == contents("whole.bin"));
  EXPECT_FALSE(real_files().exists(scratch_.path(".stopped.bin.progress")));
  EXPECT_FALSE(real_files().exists(scratch_.path(".stopped.bin.partial")));
}

TEST_F(TokenizeFiles, WhatItLeavesIsNoInputOfItsFolder) {
  const auto names = [&] {
    std::vector<std::string> out;
    for (const SourceFile& source : job(TokenFormat::kMegatron, "x.bin").sources) {
      out.push_back(source.name);
    }
    return out;
  };
  const std::atomic<bool> stop = true;
  ASSERT_TRUE(run(real_files(), job(TokenFormat::kMegatron, "whole.bin")));
  ASSERT_FALSE(run(real_files(), job(TokenFormat::kMegatron, "data/out.bin"), stop));
  ASSERT_THAT(names(), ElementsAre("a.txt", "b.jsonl", "c.txt"));
  TokenizeJob again = job(TokenFormat::kMegatron, "data/out.bin");
  again.report = [](const TokenizeProgress& progress) { EXPECT_GT(progress.resumed_bytes, 0); };
  ASSERT_TRUE(run(real_files(), again));
  EXPECT_TRUE(contents("data/out.bin") == contents("whole.bin"));
  EXPECT_THAT(names(), ElementsAre("a.txt", "b.jsonl", "c.txt", "out.bin", "out.idx"));
}

TEST_F(TokenizeFiles, TwoDoNotWriteOneOutput) {
  ASSERT_TRUE(run(real_files(), job(TokenFormat::kNanogpt, "whole.bin")));
  TokenizeJob first = job(TokenFormat::kNanogpt, "x.bin");
  int others = 0;
  first.report = [&](const TokenizeProgress&) {
    if (others++ == 0) {
      EXPECT_THAT(
          message_of<IoError>([&] { run(real_files(), job(TokenFormat::kNanogpt, "x.bin")); }),
          HasSubstr("x.bin: another process writes ids to it"));
    }
  };
  ASSERT_TRUE(run(real_files(), first));
  EXPECT_GT(others, 0);
  EXPECT_TRUE(contents("x.bin") == contents("whole.bin"));
}

TEST_F(TokenizeFiles, StopsAndTellsBetweenSmallFiles) {
  for (int i = 0; i < 60; ++i) {
    scratch_.write(fmt::format("small/{}.txt", i), text_.substr(0, 40000));
  }
  const auto small = [&](const std::string& output) {
    TokenizeJob out = job(TokenFormat::kNanogpt, output);
    out.sources = find_source_files(real_files(), scratch_.path("small"));
    return out;
  };
  TokenizeJob whole = small("whole.bin");
  int64_t told = 0;
  whole.report = [&](const TokenizeProgress&) { ++told; };
  ASSERT_TRUE(run(real_files(), whole));
  EXPECT_EQ(told, 3);
  std::atomic<bool> stop = true;
  ASSERT_FALSE(run(real_files(), small("x.bin"), stop));
  stop = false;
  TokenizeJob again = small("x.bin");
  again.report = [&](const TokenizeProgress& progress) {
    EXPECT_EQ(progress.resumed_bytes, 40000);
    stop = true;
  };
  ASSERT_FALSE(run(real_files(), again, stop));
  ASSERT_TRUE(run(real_files(), small("x.bin")));
  EXPECT_TRUE(contents("x.bin") == contents("whole.bin"));
}

TEST_F(TokenizeFiles, WhatAnotherJobLeftIsNotGoneOnFrom) {
  std::atomic<bool> stop = true;
  const auto leave = [&] {
    EXPECT_FALSE(run(real_files(), job(TokenFormat::kNanogpt, "x.bin"), stop));
  };
  ASSERT_TRUE(run(real_files(), job(TokenFormat::kNanogpt, "whole.bin")));
  leave();  // a job with other options
  TokenizeJob other = job(TokenFormat::kNanogpt, "x.bin");
  other.add_special = true;
  ASSERT_TRUE(run(real_files(), other));
  EXPECT_EQ(contents("x.bin").size(), contents("whole.bin").size() + 2 * 202);
  leave();  // a damaged output
  std::string partial = contents(".x.bin.partial");
  partial[partial.size() - 3] ^= 1;
  scratch_.write(".x.bin.partial", partial);
  ASSERT_TRUE(run(real_files(), job(TokenFormat::kNanogpt, "x.bin")));
  EXPECT_TRUE(contents("x.bin") == contents("whole.bin"));
  Rng rng(9);  // a damaged progress file
  for (const TokenFormat format : {TokenFormat::kLlmc, TokenFormat::kMegatron}) {
    ASSERT_TRUE(run(real_files(), job(format, "sound.bin")));
    for (int round = 0; round < 5; ++round) {
      ASSERT_FALSE(run(real_files(), job(format, "y.bin"), stop));
      scratch_.write(".y.bin.progress", damaged(rng, contents(".y.bin.progress")));
      ASSERT_TRUE(run(real_files(), job(format, "y.bin")));
      ASSERT_TRUE(contents("y.bin") == contents("sound.bin")) << round;
    }
    ASSERT_FALSE(run(real_files(), job(format, "y.bin"), stop));  // a number that is another one
    std::string progress = contents(".y.bin.progress");
    const size_t at = progress.find("\"tokens\": ") + 10;
    progress[at] = progress[at] == '1' ? '2' : '1';
    scratch_.write(".y.bin.progress", progress);
    ASSERT_TRUE(run(real_files(), job(format, "y.bin")));
    ASSERT_TRUE(contents("y.bin") == contents("sound.bin"));
  }
  EXPECT_TRUE(contents("y.idx") == contents("sound.idx"));
}

TEST_F(TokenizeFiles, ErrorsNameFileAndOffset) {
  TokenizeJob chars = job(TokenFormat::kNanogpt, "x.bin");
  chars.tokenizer = std::make_shared<CharTokenizer>(CharTokenizer::of_text("the "));
  chars.sources = {chars.sources[2]};
  EXPECT_THAT(message_of<IoError>([&] { run(real_files(), chars); }),
              testing::AllOf(HasSubstr("c.txt: "), HasSubstr("at byte 5")));
  EXPECT_THAT(characters_of(chars.sources), ElementsAre(' ', 'd', 'e', 'h', 'n', 't'));
  EXPECT_THAT(message_of<IoError>([&] {
                characters_of(find_source_files(real_files(), scratch_.path("data/a.txt")));
              }),
              HasSubstr("a.txt: not valid UTF-8 at byte"));
}

TEST_F(TokenizeFiles, TextInMemoryHasTokensBetweenDocuments) {
  const auto tokenizer = small_tokenizer();
  const auto sources = job(TokenFormat::kNanogpt, "x.bin").sources;
  const TokenStreamPtr stream = encoded_text({sources[2], sources[1]}, *tokenizer);
  std::vector<int32_t> ids(stream->size());
  stream->read(0, ids);
  EXPECT_EQ(tokenizer->decode(std::span(ids).first(15)),
            "the end<|endoftext|>the cat 0 é\n<|endoftext|>");
  EXPECT_EQ(stream->document_ends().size(), 201);
  EXPECT_EQ(stream->document_ends().back(), stream->size());
}

TEST_F(TokenizeFiles, TextInMemoryBeginsItsDocumentsAsTheTemplateSays) {
  const auto sources = job(TokenFormat::kNanogpt, "x.bin").sources;
  const auto tokenizer = read_tokenizer(beginning_words());
  const TokenStreamPtr stream = encoded_text({sources[2], sources[1]}, *tokenizer);
  std::vector<int32_t> ids(stream->size());
  stream->read(0, ids);
  const std::string text = tokenizer->decode(ids);
  EXPECT_THAT(text, StartsWith("Bthe end<|endoftext|>Bthe cat 0 é\n<|endoftext|>Bthe cat 1"));
  int64_t begin = 0;
  for (const int64_t end : stream->document_ends()) {
    EXPECT_EQ(ids[static_cast<size_t>(begin)], 'B');
    begin = end;
  }
  EXPECT_EQ(begin, stream->size());
}

}  // namespace
}  // namespace mstrain
