// Checkpoints that several ranks write, each its own bytes: the same files as of one.
#include "core/train/checkpoint_together.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "core/base/error.h"
#include "core/base/files_fault.h"
#include "core/base/files_silent.h"
#include "core/io/folder.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "core/train/checkpoint_writer.h"
#include "tests/core/base/message_of.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/ranks.h"

namespace mstrain {
namespace {

using testing::IsEmpty;

// Two stages of two ranks along data and two along tensor.
const Mesh kMesh{{{"pipeline", 2}, {"data", 2}, {"tensor", 2}}};
const MeshAxis kData{"data", 2};
const MeshAxis kTensor{"tensor", 2};

Tensor numbers(const Shape& shape, double first) {
  return cast(iota({shape.elements()}, 0), Dtype::kF32) + first;
}

// Part `i` of two of `x`, behind which there is padding.
Tensor half(const Tensor& x, int64_t i, int64_t padding) {
  const int64_t each = (x.elements() + padding) / 2;
  return slice(pad(x, {0}, {padding}), 0, i * each, (i + 1) * each);
}

// A large tensor, which those that have it share; a small one; parts along data of one and of columns, which may be uneven; what the second stage
// has. `ranks` null: all of it.
CheckpointContents contents(const Ranks* ranks, int64_t step) {
  const auto value = static_cast<double>(step);
  const Tensor large = numbers({700, 1000}, value);
  const Tensor small = numbers({7}, value);
  const Tensor parted = numbers({11}, value);
  const Tensor matrix = numbers({6, 4}, value);
  const Tensor uneven = numbers({6, 3}, value);
  const Tensor late = numbers({9}, value);
  CheckpointContents out;
  out.progress.step = step;
  out.files = {{"config.json", "{}\n"}};
  if (ranks == nullptr) {
    out.model = {{"large", {700, 1000}, large}, {"small", {7}, small}, {"late", {9}, late}};
    out.optimizer = {
        {"parted", {11}, parted}, {"matrix", {6, 4}, matrix}, {"uneven", {6, 3}, uneven}};
    return out;
  }
  const int64_t stage = ranks->coordinate("pipeline");
  const int64_t data = ranks->coordinate("data");
  const int64_t tensor = ranks->coordinate("tensor");
  const auto on_stage = [&](int64_t wanted, const std::string& name, const Shape& shape,
                            const Tensor& held) {
    StoredTensor it{name, shape, stage == wanted ? held : Tensor(), nullptr, 2, &kTensor};
    it.first = static_cast<int>(4 * wanted);
    it.groups = 2;
    it.elsewhere = held.type();
    return it;
  };
  out.model = {on_stage(0, "large", {700, 1000}, large), on_stage(0, "small", {7}, small),
               on_stage(1, "late", {9}, late)};
  const auto columns = [&](const Tensor& x) {
    return half(reshape(slice(x, 1, 2 * tensor, 2 * tensor + 2), {12}), data, 0);
  };
  out.optimizer = {
      on_stage(0, "parted", {11}, half(parted, data, 1)),
      on_stage(1, "matrix", {6, 4}, columns(reshape(matrix, {6, 4}))),
      on_stage(1, "uneven", {6, 3}, columns(pad(reshape(uneven, {6, 3}), {0, 0}, {0, 1})))};
  for (StoredTensor& it : out.optimizer) {
    it.parts = &kData;
    it.rows = it.name == "parted" ? 0 : 6;
    it.width = 2;
  }
  return out;
}

std::vector<std::string> bytes_of(const std::string& folder) {
  std::vector<std::string> all;
  for (const std::string& name : real_files().list(folder)) {
    all.push_back(name + ": " + real_files().read(join_path(folder, name)));
  }
  return all;
}

TEST(CheckpointTogether, IsThatOfOneRankByteForByte) {
  const TemporaryFolder folder;
  save_checkpoint(real_files(), folder / "alone", contents(nullptr, 3));
  SilentFiles silent(real_files());
  run_ranks(kMesh, [&](const std::shared_ptr<Ranks>& ranks) {
    FileSystem& files = ranks->rank() == 0 ? real_files() : silent;
    save_checkpoint(files, folder / "together", contents(ranks.get(), 3), &ranks->world());
  });
  EXPECT_TRUE(bytes_of(folder / "together") == bytes_of(folder / "alone"));
  EXPECT_THAT(verify_folder(real_files(), folder / "together"), IsEmpty());
}

TEST(CheckpointTogether, BesideTrainingIsTheSame) {
  const TemporaryFolder folder;
  save_checkpoint(real_files(), folder / "alone", contents(nullptr, 3));
  SilentFiles silent(real_files());
  run_ranks(kMesh, [&](const std::shared_ptr<Ranks>& ranks) {
    FileSystem& files = ranks->rank() == 0 ? real_files() : silent;
    CheckpointWriter writer;
    for (const int64_t step : {2, 3}) {  // the second one into the memory of the first
      writer.submit(contents(ranks.get(), step), [&](const CheckpointContents& copy) {
        save_checkpoint(files, folder / "together", copy, &ranks->world());
      });
    }
    writer.wait();
  });
  EXPECT_TRUE(bytes_of(folder / "together") == bytes_of(folder / "alone"));
}

TEST(CheckpointTogether, BytesThatNoRankWritesAreAnErrorOfAll) {
  const TemporaryFolder folder;
  std::atomic<int> failed = 0;
  run_ranks(kMesh, [&](const std::shared_ptr<Ranks>& ranks) {
    SilentFiles silent(real_files());
    CheckpointContents lacking = contents(ranks.get(), 3);
    lacking.optimizer[1].width = 1;
    const std::string message = message_of<Error>([&] {
      save_checkpoint(ranks->rank() == 0 ? real_files() : silent, folder / "together", lacking,
                      &ranks->world());
    });
    failed += message.find("ranks wrote ") != std::string::npos ? 1 : 0;
  });
  EXPECT_EQ(failed, 8);
  EXPECT_FALSE(real_files().exists(folder / "together"));
}

TEST(CheckpointTogether, IsReadByWhoeverHasParts) {
  const TemporaryFolder folder;
  save_checkpoint(real_files(), folder / "alone", contents(nullptr, 5));
  run_ranks(kMesh, [&](const std::shared_ptr<Ranks>& ranks) {
    const CheckpointContents expected = contents(ranks.get(), 5);
    std::vector<StoredTensor> found = expected.optimizer;
    for (StoredTensor& it : found) {
      it.value = it.value.defined() ? uninitialised(it.value.type()) : Tensor();
    }
    load_tensors(real_files(), folder / "alone", kOptimizerFile, found);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].value.defined(), expected.optimizer[i].value.defined());
      if (found[i].value.defined()) {
        EXPECT_EQ(to_doubles(found[i].value), to_doubles(expected.optimizer[i].value));
      }
    }
  });
}

// Every operation of one rank's disk fails in turn.
TEST(CheckpointTogether, ADiskThatFailsForOneRankLeavesTheLastOne) {
  const TemporaryFolder folder;
  save_checkpoint(real_files(), folder / "step-00000001", contents(nullptr, 1));
  for (const int bad : {0, 3}) {
    int failures = 0;
    for (int64_t n = 0;; ++n) {
      FaultyFiles faulty(real_files(), {.fail_operation = n});
      SilentFiles silent(real_files());
      SilentFiles silent_faulty(faulty);
      std::atomic<int> failed = 0;
      run_ranks(kMesh, [&](const std::shared_ptr<Ranks>& ranks) {
        const bool first = ranks->rank() == 0;
        FileSystem& files = ranks->rank() == bad
                                ? (first ? static_cast<FileSystem&>(faulty) : silent_faulty)
                            : first ? real_files()
                                    : silent;
        try {
          save_checkpoint(files, folder / "step-00000002", contents(ranks.get(), 2),
                          &ranks->world());
        } catch (const Error&) {
          ++failed;
        }
      });
      EXPECT_TRUE(failed == 0 || failed == 8) << n;  // all of them hear of it
      clean_folders(real_files(), folder.path());
      const auto newest = newest_checkpoint(real_files(), folder.path(), false);
      EXPECT_EQ(newest, folder / (failed == 0 || real_files().exists(folder / "step-00000002")
                                      ? "step-00000002"
                                      : "step-00000001"));
      real_files().remove_all(folder / "step-00000002");
      if (failed == 0) {
        break;
      }
      ++failures;
    }
    EXPECT_GT(failures, bad == 0 ? 10 : 4);
  }
}

TEST(CheckpointTogether, DigestsOfLargeFilesAreThoseOfTheirBlocks) {
  const TemporaryFolder folder;
  const std::string text(kDigestBlock + 5, 'x');
  {
    AtomicFolder out(real_files(), folder / "large");
    out.write("file", text);
    out.commit();
  }
  const auto block = [](std::string_view bytes) { return Sha256().add(as_bytes(bytes)).finish(); };
  const Sha256::Digest digests[] = {block(std::string_view(text).substr(0, kDigestBlock)),
                                    block("xxxxx")};
  const Manifest manifest = read_manifest(real_files(), folder / "large");
  EXPECT_EQ(manifest.at("file"), summary_of(text.size(), digests));
  EXPECT_TRUE(manifest.at("file").of_blocks);
  EXPECT_THAT(verify_folder(real_files(), folder / "large"), IsEmpty());
  // As versions before wrote it.
  const std::string path = join_path(folder / "large", kManifestName);
  write_file_atomic(real_files(), path,
                    print_manifest({{"file", {text.size(), sha256_hex(text)}}}));
  EXPECT_THAT(verify_folder(real_files(), folder / "large"), IsEmpty());
  write_file_atomic(real_files(), path, print_manifest({{"file", {text.size(), sha256_hex("")}}}));
  EXPECT_EQ(verify_folder(real_files(), folder / "large").size(), 1);
}

}  // namespace
}  // namespace mstrain
