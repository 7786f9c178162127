#include "core/train/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/files_fault.h"
#include "core/base/log.h"
#include "core/base/rng.h"
#include "core/io/folder.h"
#include "core/tensor/host.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/train/memory_disk.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CheckpointContents contents(int64_t step) {
  CheckpointContents out;
  out.progress = {step, 7, step * 8, 4, "data", "avx2", 3, Json{{"best", nullptr}}};
  const auto value = static_cast<double>(step);
  out.model = {{"w", {4}, vector({1, 2, value, 4})},
               {"a.matrix", {2, 3}, tensor<float>(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2})}};
  out.optimizer = {{"w.exp_avg", {4}, vector({-1, value, 0, 1})}};
  out.files = {{"config.json", "{}\n"}};
  return out;
}

std::vector<StoredTensor> empty_model() {
  return {{"a.matrix", {2, 3}, uninitialised({Dtype::kF32, {3, 2}})},
          {"w", {4}, uninitialised({Dtype::kF32, {4}})}};
}

void damage(const std::string& path) {
  std::string bytes = real_files().read(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  real_files().open(path, WriteMode::kTruncate)->append(as_bytes(bytes));
}

// Collects warnings as long as it lives.
class Warnings {
 public:
  Warnings() {
    previous_ = set_log_sink([this](LogLevel level, std::string_view message) {
      if (level == LogLevel::kWarning) {
        messages.emplace_back(message);
      }
    });
  }
  ~Warnings() { set_log_sink(previous_); }
  std::vector<std::string> messages;

 private:
  LogSink previous_;
};

TEST(Checkpoint, ReadsBackWhatWasSaved) {
  const TemporaryFolder folder;
  const std::string path = folder / "step-00000003";
  save_checkpoint(real_files(), path, contents(3));
  const std::vector<StoredTensor> model = empty_model();
  load_tensors(real_files(), path, kModelFile, model);
  EXPECT_THAT(to_vector<float>(model[1].value), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(to_vector<float>(model[0].value), ElementsAre(1, 2, 3, 4, 5, 6));
  const ProgressState progress = read_progress(real_files(), path);
  EXPECT_EQ(progress.step, 3);
  EXPECT_EQ(progress.seed, 7U);
  EXPECT_EQ(progress.samples, 24);
  EXPECT_EQ(progress.micro_batch, 4);
  EXPECT_EQ(progress.data, "data");
  EXPECT_EQ(progress.isa, "avx2");
  EXPECT_EQ(progress.threads, 3);
}

TEST(Checkpoint, ReadsStatesOfAnySizeBack) {
  const TemporaryFolder folder;
  CheckpointContents large = contents(3);
  large.progress.callbacks["answers"] = {{"rows", std::string(3 << 20, 'A')}};
  large.progress.frozen[kInitFromKey] = {.checkpoint = "checkpoints/step-00000040",
                                         .manifest = "ab"};
  save_checkpoint(real_files(), folder / "large", large);
  const ProgressState read = read_progress(real_files(), folder / "large");
  EXPECT_EQ(read.callbacks, large.progress.callbacks);
  ASSERT_TRUE(read.frozen.contains(kInitFromKey));
  EXPECT_EQ(read.frozen.at(kInitFromKey).checkpoint, "checkpoints/step-00000040");
  EXPECT_EQ(read.frozen.at(kInitFromKey).manifest, "ab");
}

TEST(Checkpoint, DependsOnTheStateAlone) {
  const TemporaryFolder folder;
  save_checkpoint(real_files(), folder / "here", contents(3));
  save_checkpoint(real_files(), folder / "there", contents(3));
  EXPECT_EQ(real_files().read(folder / "here/MANIFEST.json"),
            real_files().read(folder / "there/MANIFEST.json"));
}

TEST(Checkpoint, RefusesTensorsThatTheModelDoesNotHave) {
  const TemporaryFolder folder;
  const std::string path = folder / "c";
  save_checkpoint(real_files(), path, contents(1));
  const auto message = [&](std::vector<StoredTensor> wanted) -> std::string {
    try {
      load_tensors(real_files(), path, kModelFile, wanted);
    } catch (const IoError& error) {
      return error.what();
    }
    return "";
  };
  auto wrong_shape = empty_model();
  wrong_shape[1] = {"w", {2, 2}, uninitialised({Dtype::kF32, {2, 2}})};
  EXPECT_THAT(message(wrong_shape), HasSubstr("w is F32[4]; the model needs f32[2, 2]"));
  auto too_many = empty_model();
  too_many.push_back({"b", {1}, uninitialised({Dtype::kF32, {1}})});
  EXPECT_THAT(message(too_many), HasSubstr("model.safetensors"));
  auto too_few = empty_model();
  too_few.pop_back();
  EXPECT_THAT(message(too_few), HasSubstr("w belongs to no parameter of the model"));
}

TEST(Checkpoint, NamesAreStepsOfEightDigitsOrMore) {
  EXPECT_EQ(checkpoint_name(1000), "step-00001000");
  EXPECT_EQ(parse_checkpoint_name("step-00001000"), 1000);
  EXPECT_EQ(parse_checkpoint_name(checkpoint_name(123456789012)), 123456789012);
  for (const char* name :
       {"step-1000", "step-", "step-0000100x", "step-00001000.damaged",
        "step-00001000.tmp-0123456789abcdef", "epoch-00001000", "step-99999999999999999999"}) {
    EXPECT_EQ(parse_checkpoint_name(name), std::nullopt) << name;
  }
}

TEST(Checkpoint, ADamagedOneIsSetAsideAndTheOneBeforeIsUsed) {
  const TemporaryFolder folder;
  for (const int64_t step : {1, 2, 3}) {
    save_checkpoint(real_files(), folder / checkpoint_name(step), contents(step));
  }
  damage(folder / "step-00000003/model.safetensors");
  real_files().remove(folder / "step-00000002/optimizer.safetensors");
  const Warnings warnings;
  EXPECT_EQ(newest_checkpoint(real_files(), folder.path(), true), folder / "step-00000001");
  EXPECT_THAT(warnings.messages,
              ElementsAre(folder / "step-00000003: model.safetensors does not match its digest; "
                                   "going back to step-00000002",
                          folder / "step-00000002: optimizer.safetensors is missing; going back to "
                                   "step-00000001"));
  EXPECT_THAT(list_checkpoints(real_files(), folder.path()), ElementsAre(1));
  EXPECT_TRUE(real_files().exists(folder / "step-00000003.damaged/model.safetensors"));
}

TEST(Checkpoint, WhereNoneIsSoundTheRunDoesNotStartOverSilently) {
  const TemporaryFolder folder;
  EXPECT_EQ(newest_checkpoint(real_files(), folder / "none", true), std::nullopt);
  save_checkpoint(real_files(), folder / "step-00000001", contents(1));
  damage(folder / "step-00000001/state.json");
  EXPECT_THROW(newest_checkpoint(real_files(), folder.path(), true), IoError);
  EXPECT_THAT(list_checkpoints(real_files(), folder.path()), ElementsAre(1));
}

TEST(Checkpoint, TheOldestGoFirst) {
  const TemporaryFolder folder;
  for (const int64_t step : {10, 200, 30, 4}) {
    save_checkpoint(real_files(), folder / checkpoint_name(step), contents(step));
  }
  prune_checkpoints(real_files(), folder.path(), 2);
  EXPECT_THAT(list_checkpoints(real_files(), folder.path()), ElementsAre(30, 200));
}

// Every operation of a save fails in turn, and every number of bytes fits onto the disk.
TEST(Checkpoint, AFailingDiskLeavesTheLastOne) {
  const TemporaryFolder folder;
  save_checkpoint(real_files(), folder / "step-00000001", contents(1));
  FaultyFiles files(real_files());
  int failures = 0;
  const auto survives = [&](const Faults& faults) {
    files.reset(faults);
    bool saved = true;
    try {
      save_checkpoint(files, folder / "step-00000002", contents(2));
    } catch (const IoError&) {
      saved = false;
      ++failures;
    }
    if (faults.power_off_operation >= 0) {
      files.crash();
    }
    clean_folders(real_files(), folder.path());
    const auto newest = newest_checkpoint(real_files(), folder.path(), false);
    EXPECT_TRUE(newest == folder / "step-00000001" || newest == folder / "step-00000002");
    EXPECT_TRUE(!saved || newest == folder / "step-00000002");
    real_files().remove_all(folder / "step-00000002");
    return saved;
  };
  int64_t n = 0;
  while (!survives({.fail_operation = n})) {
    ++n;
  }
  EXPECT_GT(n, 10);
  for (int64_t i = 0; i < n; ++i) {
    survives({.power_off_operation = i});
  }
  int64_t bytes = 0;
  while (!survives({.enospc_after_bytes = bytes, .short_writes = true})) {
    bytes += 13;
  }
  EXPECT_GT(bytes, 500);
  EXPECT_GT(failures, 50);
}

// Text that is cut, changed or mixed up either reads as a state or is refused by an IoError.
TEST(Checkpoint, AnyTextReadsAsAStateOrIsRefused) {
  const std::string good = print_progress(contents(5).progress);
  EXPECT_EQ(parse_progress(good, "state.json").step, 5);
  Rng rng(20260726);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    for (uint64_t edits = 1 + rng.below(3); edits > 0; --edits) {
      const size_t at = rng.below(text.size());
      switch (rng.below(3)) {
        case 0: text[at] = static_cast<char>(rng.below(256)); break;
        case 1: text.erase(at, 1 + rng.below(20)); break;
        default: text.insert(at, good.substr(rng.below(good.size()), rng.below(20)));
      }
      if (text.empty()) {
        text = "{";
      }
    }
    try {
      parse_progress(text, "state.json");
    } catch (const IoError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace mstrain
