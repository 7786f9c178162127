#include "core/io/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/base/files_fault.h"
#include "core/base/rng.h"
#include "tests/core/base/temporary_folder.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

void save(FileSystem& files, const std::string& path, const std::string& text) {
  AtomicFolder folder(files, path);
  WritableFile& first = folder.create("a.bin");
  first.append(text);
  first.append(text);
  folder.write("b.json", text);
  folder.commit();
}

// The text that save() wrote, checked against the manifest.
std::string load(const std::string& path) {
  EXPECT_THAT(verify_folder(real_files(), path), IsEmpty());
  return real_files().read(join_path(path, "b.json"));
}

TEST(AtomicFolder, ExistsWithItsManifest) {
  const TemporaryFolder root;
  save(real_files(), root / "deep/step-1", "hello");
  EXPECT_THAT(real_files().list(root / "deep"), ElementsAre("step-1"));
  EXPECT_THAT(real_files().list(root / "deep/step-1"),
              ElementsAre("MANIFEST.json", "a.bin", "b.json"));
  EXPECT_EQ(load(root / "deep/step-1"), "hello");
  const Manifest manifest = read_manifest(real_files(), root / "deep/step-1");
  EXPECT_EQ(manifest.at("a.bin"), (FileSummary{10, sha256_hex("hellohello")}));
  EXPECT_EQ(real_files().read(root / "deep/step-1/MANIFEST.json"),
            "{\n  \"format\": \"mstrain-folder-1\",\n  \"files\": {\n    \"a.bin\": {\n      "
            "\"size\": 10,\n"
            "      \"sha256\": \"" +
                sha256_hex("hellohello") +
                "\"\n    },\n    \"b.json\": {\n      \"size\": 5,\n"
                "      \"sha256\": \"" +
                sha256_hex("hello") + "\"\n    }\n  }\n}\n");
}

TEST(AtomicFolder, WithoutCommitNothingIsLeft) {
  const TemporaryFolder root;
  {
    AtomicFolder folder(real_files(), root / "x");
    folder.write("a", "1");
  }
  EXPECT_THAT(real_files().list(root.path()), IsEmpty());
}

TEST(AtomicFolder, ReplacesWhatALinkPointsAt) {
  const TemporaryFolder parent;
  std::filesystem::create_directory_symlink("real", parent / "link");
  for (const char* text : {"one", "two"}) {
    AtomicFolder folder(real_files(), parent / "link/");
    folder.write("a", text);
    folder.commit();
    EXPECT_EQ(real_files().read(parent / "real/a"), text);
  }
  EXPECT_TRUE(std::filesystem::is_symlink(parent / "link"));
}

TEST(AtomicFolder, RefusesNamesThatEscape) {
  const TemporaryFolder root;
  AtomicFolder folder(real_files(), root / "x");
  for (const char* name : {"", "..", "a/b", "/etc/passwd", "MANIFEST.json"}) {
    EXPECT_THROW(folder.create(name), Error) << name;
  }
  folder.write("a", "1");
  EXPECT_THROW(folder.create("a"), Error);
  folder.commit();
  EXPECT_THROW(folder.create("b"), Error);
  EXPECT_THROW(folder.commit(), Error);
}

// Every operation fails in turn, once with an error and once with the power cut there: the name holds the whole old or
// the whole new folder, and after an error and clean_folders() nothing else.
void check_every_fail_point(bool power_off, bool exists_before, bool no_exchange) {
  for (int64_t n = 0;; ++n) {
    const TemporaryFolder root;
    const std::string path = root / "checkpoints/step";
    if (exists_before) {
      save(real_files(), path, "old");
    }
    Faults faults{.no_exchange = no_exchange};
    (power_off ? faults.power_off_operation : faults.fail_operation) = n;
    FaultyFiles files(real_files(), faults);
    bool failed = false;
    try {
      save(files, path, "new");
    } catch (const IoError&) {
      failed = true;
    }
    if (power_off || !failed) {
      files.crash();
    }
    if (real_files().exists(root / "checkpoints")) {
      clean_folders(real_files(), root / "checkpoints");
    }
    if (real_files().exists(path)) {
      const std::string now = load(path);
      EXPECT_TRUE(now == "new" || (failed && exists_before && now == "old")) << n << ' ' << now;
      EXPECT_THAT(real_files().list(root / "checkpoints"), ElementsAre("step")) << n;
    } else {
      EXPECT_TRUE(failed && !exists_before) << n;
    }
    if (!failed && n >= files.operations()) {
      EXPECT_GT(n, 15);
      break;
    }
    ASSERT_LT(n, 200);
  }
}

TEST(AtomicFolder, EveryFailPointOfANewFolder) {
  check_every_fail_point(false, false, false);
  check_every_fail_point(true, false, false);
}
TEST(AtomicFolder, EveryFailPointOfAReplacedFolder) {
  check_every_fail_point(false, true, false);
  check_every_fail_point(true, true, false);
}
TEST(AtomicFolder, EveryFailPointWhereFoldersCannotBeExchanged) {
  check_every_fail_point(false, true, true);
  check_every_fail_point(true, true, true);
}

TEST(AtomicFolder, FullDiskLeavesTheOldFolder) {
  const TemporaryFolder root;
  save(real_files(), root / "x", "old");
  for (const bool short_writes : {false, true}) {
    for (int64_t limit = 0; limit < 400; limit += 7) {
      FaultyFiles files(real_files(), {.enospc_after_bytes = limit, .short_writes = short_writes});
      try {
        save(files, root / "x", "new");
        EXPECT_GE(limit, files.bytes_written());
        EXPECT_EQ(load(root / "x"), "new");
        save(real_files(), root / "x", "old");
      } catch (const IoError& error) {
        EXPECT_EQ(error.error_number(), ENOSPC);
        EXPECT_EQ(load(root / "x"), "old") << limit;
      }
      EXPECT_THAT(real_files().list(root.path()), ElementsAre("x"));
    }
  }
}

TEST(VerifyFolder, NamesWhatIsWrong) {
  const TemporaryFolder root;
  const std::string path = root / "x";
  EXPECT_THAT(verify_folder(real_files(), path), ElementsAre(HasSubstr("has no MANIFEST.json")));
  save(real_files(), path, "hello");
  real_files().open(path + "/b.json", WriteMode::kTruncate)->append("hellO");
  EXPECT_THAT(verify_folder(real_files(), path),
              ElementsAre(path + ": b.json does not match its digest"));
  EXPECT_EQ(verify_folder(real_files(), path, /*digested=*/5).size(), 1U);
  EXPECT_THAT(verify_folder(real_files(), path, /*digested=*/4), IsEmpty());
  real_files().open(path + "/b.json", WriteMode::kTruncate)->append("hell");
  real_files().remove(path + "/a.bin");
  EXPECT_THAT(verify_folder(real_files(), path),
              ElementsAre(path + ": a.bin is missing", path + ": b.json has 4 bytes instead of 5"));
  real_files().remove(path + "/MANIFEST.json");
  EXPECT_THAT(verify_folder(real_files(), path), ElementsAre(path + ": has no MANIFEST.json"));
}

TEST(VerifyFolder, EveryFlippedBitIsFound) {
  const TemporaryFolder root;
  save(real_files(), root / "x", "hello");
  for (const char* name : {"a.bin", "b.json"}) {
    const std::string path = root / ("x/" + std::string(name));
    const std::string good = real_files().read(path);
    for (size_t bit = 0; bit < good.size() * 8; ++bit) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
      real_files().open(path, WriteMode::kTruncate)->append(bad);
      EXPECT_EQ(verify_folder(real_files(), root / "x").size(), 1U);
    }
    real_files().open(path, WriteMode::kTruncate)->append(good);
  }
}

TEST(Manifest, RefusesWhatIsNone) {
  const std::string digest(64, 'a');
  const auto error = [](const std::string& text) -> std::string {
    try {
      parse_manifest(text, "M");
    } catch (const IoError& error) {
      return error.what();
    }
    return "no error";
  };
  const auto with = [&](const std::string& files) {
    return error(R"({"format": "mstrain-folder-1", "files": )" + files + "}");
  };
  EXPECT_EQ(with(R"({"a": {"size": 1, "sha256": ")" + digest + "\"}}"), "no error");
  EXPECT_THAT(with(R"({"../a": {"size": 1, "sha256": ")" + digest + "\"}}"),
              HasSubstr("no plain file name"));
  EXPECT_THAT(with(R"({"/a": {"size": 1, "sha256": ")" + digest + "\"}}"),
              HasSubstr("no plain file name"));
  EXPECT_THAT(with(R"({"a": {"size": -1, "sha256": ")" + digest + "\"}}"), HasSubstr("lacks size"));
  EXPECT_THAT(with(R"({"a": {"size": 1.5, "sha256": ")" + digest + "\"}}"),
              HasSubstr("lacks size"));
  EXPECT_THAT(with(R"({"a": {"size": 1, "sha256": "abc"}})"), HasSubstr("no SHA-256"));
  EXPECT_THAT(with(R"({"a": 1})"), HasSubstr("lacks size"));
  EXPECT_THAT(with("[]"), HasSubstr("files is no map"));
  EXPECT_THAT(error(R"({"format": "other", "files": {}})"), HasSubstr("expected format"));
  EXPECT_THAT(error("[]"), HasSubstr("not a manifest"));
  EXPECT_THAT(error("{"), HasSubstr("M: offset"));
}

TEST(Manifest, FuzzedTextsNeverCrash) {
  Rng rng(40);
  const std::string seed =
      print_manifest({{"a.bin", {10, std::string(64, 'a')}}, {"b", {0, std::string(64, '0')}}});
  int parsed = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string text = seed;
    for (uint64_t edits = 1 + rng.below(3); edits > 0 && !text.empty(); --edits) {
      const size_t at = rng.below(text.size());
      switch (rng.below(3)) {
        case 0: text[at] = static_cast<char>(rng.below(256)); break;
        case 1: text.erase(at, rng.below(20)); break;
        default: text.insert(at, text.substr(rng.below(text.size()), rng.below(20))); break;
      }
    }
    try {
      const Manifest manifest = parse_manifest(text, "fuzz");
      ++parsed;
      ASSERT_EQ(parse_manifest(print_manifest(manifest), "again"), manifest);
      for (const auto& [name, summary] : manifest) {
        ASSERT_TRUE(is_plain_name(name));
      }
    } catch (const IoError&) {
    }
  }
  EXPECT_GT(parsed, 100);
}

TEST(Folders, CleaningRemovesTemporariesOnlyAndRestoresWhatWasMovedAside) {
  const TemporaryFolder root;
  FileSystem& files = real_files();
  save(files, root / "step-1", "one");
  save(files, root / "step-2.old-0123456789abcdef", "two");
  save(files, root / "step-1.old-0123456789abcdef", "stale");
  files.create_directories(root / "step-3.tmp-0123456789abcdef");
  write_file_atomic(files, root / "notes.tmp-x", "kept");
  clean_folders(files, root.path());
  EXPECT_THAT(files.list(root.path()), ElementsAre("notes.tmp-x", "step-1", "step-2"));
  EXPECT_EQ(load(root / "step-1"), "one");
  EXPECT_EQ(load(root / "step-2"), "two");
  EXPECT_THAT(clean_folders(files, root.path()), IsEmpty());
}

TEST(Folders, RemovingIsWholeOrNothing) {
  for (int64_t n = 0;; ++n) {
    const TemporaryFolder root;
    save(real_files(), root / "x", "old");
    FaultyFiles files(real_files(), {.power_off_operation = n});
    bool failed = false;
    try {
      remove_folder(files, root / "x");
    } catch (const IoError&) {
      failed = true;
    }
    files.crash();
    EXPECT_TRUE(!real_files().exists(root / "x") || (failed && load(root / "x") == "old"));
    if (!failed) {
      EXPECT_FALSE(real_files().exists(root / "x"));
      break;
    }
  }
}

TEST(AtomicFile, AppearsWithCommitAndReportsItsDigest) {
  const TemporaryFolder root;
  {
    AtomicFile file(real_files(), root / "a");
    file.append("hel");
  }
  EXPECT_THAT(real_files().list(root.path()), IsEmpty());
  AtomicFile file(real_files(), root / "a");
  file.append("hel");
  file.append("lo");
  EXPECT_FALSE(real_files().exists(root / "a"));
  EXPECT_EQ(file.commit(), (FileSummary{5, sha256_hex("hello")}));
  EXPECT_EQ(summarize_file(real_files(), root / "a"), (FileSummary{5, sha256_hex("hello")}));
}

}  // namespace
}  // namespace mstrain
