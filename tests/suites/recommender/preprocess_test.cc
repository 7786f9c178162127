#include "suites/recommender/data/preprocess.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <chrono>
#include <filesystem>
#include <map>

#include "core/base/error.h"
#include "core/base/files_fault.h"
#include "core/base/rng.h"
#include "core/io/atomic_file.h"
#include "suites/recommender/data/prepared.h"
#include "suites/recommender/run/preprocess.h"
#include "tests/core/base/message_of.h"
#include "tests/core/base/temporary_folder.h"

namespace mstrain::recommender {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::atomic<bool> kNever = false;

DataConfig columns(const TemporaryFolder& folder) {
  DataConfig config;
  config.format = DataFormat::kCsv;
  config.csv.header = false;
  config.csv.columns = {"label", "n", "a", "b"};
  config.csv.numeric = {"n"};
  config.csv.numeric_scale = NumericScale::kNone;
  config.csv.categorical = {"a", "b"};
  config.ids.min_count = 2;
  config.train = folder / "*.csv";
  config.prepared = folder / "made";
  return config;
}

std::string lines(int count, uint64_t seed) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const auto draw = [&](uint64_t of, uint64_t n) { return hash_combine(seed, i * 8 + of) % n; };
    text += fmt::format("{},{},v{},w{}\n", draw(0, 2), draw(1, 100), draw(2, 5) * draw(3, 9),
                        draw(4, 200));
  }
  return text;
}

void write(const std::string& path, const std::string& text) {
  write_file_atomic(real_files(), path, text);
}

SampleBatch all_of(const SampleSource& samples) {
  std::vector<int64_t> every(static_cast<size_t>(samples.samples()));
  for (size_t i = 0; i < every.size(); ++i) {
    every[i] = static_cast<int64_t>(i);
  }
  SampleBatch out;
  samples.read(every, out);
  return out;
}

std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> out;
  for (const std::string& name : real_files().list(folder)) {
    if (!real_files().is_directory(join_path(folder, name)) && name != "lock") {
      out[name] = real_files().read(join_path(folder, name));
    }
  }
  return out;
}

Preprocessed run(const DataConfig& config, int threads = 1, uint64_t chunk = 1 << 20,
                 FileSystem& files = real_files()) {
  return preprocess(files, config, YamlNode::map(), {.threads = threads, .chunk_bytes = chunk},
                    kNever);
}

TEST(Preprocess, FrequentValuesHaveIdsByTheirFrequencyAndOthersShareOne) {
  const TemporaryFolder folder;
  write(folder / "1.csv", "1,3,x,p\n0,,y,q\n\n1,5,x,p\n");
  write(folder / "2.csv", "0,7,y,r\r\n1,9,x,p");
  const DataConfig config = columns(folder);
  EXPECT_EQ(run(config), Preprocessed::kDone);
  EXPECT_EQ(run(config), Preprocessed::kWasDone);
  const auto samples = open_prepared(real_files(), *config.prepared);
  EXPECT_EQ(samples->schema().fields[0].rows, 3U);
  EXPECT_EQ(samples->schema().fields[1].rows, 2U);
  const SampleBatch batch = all_of(*samples);
  std::FILE* const out = std::tmpfile();
  prepared_folder().print(real_files(), *config.prepared, out);  // as mstrain inspect does
  std::rewind(out);
  char line[512] = "";
  EXPECT_NE(std::fgets(line, sizeof line, out), nullptr);
  std::fclose(out);
  EXPECT_THAT(line, testing::HasSubstr("samples of mstrain preprocess, 5 in "));
  EXPECT_THAT(batch.labels, ElementsAre(1, 0, 1, 0, 1));
  EXPECT_THAT(batch.numeric, ElementsAre(3, 0, 5, 7, 9));
  EXPECT_THAT(batch.fields[0].ids, ElementsAre(1, 2, 1, 2, 1));
  EXPECT_THAT(batch.fields[1].ids, ElementsAre(1, 0, 1, 0, 1));
}

TEST(Preprocess, FilesAreTheSameForAnyNumberOfThreadsAndSamplesForAnyPieces) {
  const TemporaryFolder folder;
  write(folder / "1.csv", lines(700, 1));
  write(folder / "2.csv", lines(400, 2));
  DataConfig config = columns(folder);
  run(config);
  const SampleBatch whole = all_of(*open_prepared(real_files(), *config.prepared));
  EXPECT_EQ(whole.samples, 1100);
  for (const uint64_t chunk : {100, 1000, 7000}) {
    std::map<std::string, std::string> one;
    for (const int threads : {1, 3}) {
      config.prepared = folder / fmt::format("made-{}-{}", chunk, threads);
      run(config, threads, chunk);
      const SampleBatch batch = all_of(*open_prepared(real_files(), *config.prepared));
      EXPECT_EQ(batch.labels, whole.labels);
      EXPECT_EQ(batch.numeric, whole.numeric);
      EXPECT_EQ(batch.fields[0].ids, whole.fields[0].ids);
      EXPECT_EQ(batch.fields[1].ids, whole.fields[1].ids);
      one = one.empty() ? contents(*config.prepared) : one;
      EXPECT_EQ(contents(*config.prepared), one);
    }
  }
}

TEST(Preprocess, RefusesAThirdLabelInAnotherPieceOrFile) {
  const TemporaryFolder folder;
  write(folder / "1.csv", lines(100, 1));
  write(folder / "2.csv", "0.,1,x,y\n1,1,x,y\n");
  EXPECT_THAT(message_of<IoError>([&] { run(columns(folder), 2, 200); }),
              HasSubstr("2.csv:1: the label \"0.\" is neither data.csv.positive, \"1\", nor the "
                        "other one so far, \"0\""));
}

TEST(Preprocess, WhatIsHeldOutHasTheLabelsThatAreLearnt) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& other, const std::string& held_out) {
    write(folder / "1.csv", other + ",1,x,y\n1,1,x,y\n");
    write(folder / "held", held_out + ",1,x,y\n1,1,x,y\n");
    DataConfig config = columns(folder);
    config.valid = folder / "held";
    real_files().remove_all(*config.prepared);
    run(config);
    return all_of(*open_samples(real_files(), config, YamlNode::map(), 1).valid);
  };
  EXPECT_THAT(message_of<IoError>([&] { read("0", "O"); }),
              HasSubstr("held:1: the label \"O\" is neither data.csv.positive, \"1\", nor the "
                        "other one so far, \"0\""));
  EXPECT_THAT(read("n\xe3o", "n\xe3o").labels, ElementsAre(0, 1));  // Latin-1
}

TEST(Preprocess, GoesOnAfterAnyFailureAndEndsAsIfThereHadBeenNone) {
  const TemporaryFolder folder;
  write(folder / "1.csv", lines(300, 3));
  DataConfig config = columns(folder);
  run(config, 1, 2000);
  const auto straight = contents(*config.prepared);
  config.prepared = folder / "again";
  bool done = false;
  int failures = 0;
  for (int64_t after = 1; !done; after += 7) {
    FaultyFiles files(real_files(), {.power_off_operation = after});
    try {
      done = run(config, 1, 2000, files) == Preprocessed::kDone;
    } catch (const IoError&) {
      ++failures;
      files.crash();
    }
  }
  EXPECT_GT(failures, 3);
  EXPECT_EQ(contents(*config.prepared), straight);
}

TEST(Preprocess, LeavesNothingOfKilledProcessesInTheFolder) {
  const TemporaryFolder folder;
  write(folder / "1.csv", lines(300, 9));
  DataConfig config = columns(folder);
  run(config);
  const std::vector<std::string> whole = real_files().list(*config.prepared);

  config.prepared = folder / "killed";
  const std::string work = join_path(*config.prepared, "work");
  const auto leave_parts_of_files = [&] {
    real_files().create_directories(work);
    for (const std::string& path :
         {join_path(work, "counts-00000.safetensors"), join_path(*config.prepared, part_name(0))}) {
      real_files().open(temporary_name(path), WriteMode::kTruncate)->append(as_bytes("part"));
    }
  };
  leave_parts_of_files();
  EXPECT_EQ(run(config), Preprocessed::kDone);
  EXPECT_EQ(real_files().list(*config.prepared), whole);
  leave_parts_of_files();
  EXPECT_EQ(run(config), Preprocessed::kWasDone);
  EXPECT_EQ(real_files().list(*config.prepared), whole);
}

TEST(Preprocess, MalformedLinesAreNamedAndLeftOutUpToALimit) {
  const TemporaryFolder folder;
  write(folder / "1.csv", lines(50, 4) + "1,2,three\n" + lines(2, 5) + "1,two,x,y\n");
  DataConfig config = columns(folder);
  EXPECT_THAT(message_of<IoError>([&] { run(config, 2, 200); }),
              AllOf(HasSubstr("1.csv:51: 3 columns, expected 4"),
                    HasSubstr("1.csv:54: expected a number, found \"two\""),
                    HasSubstr("2 of 54 lines are no samples; data.malformed.limit allows 0")));
  config.malformed.limit = 2;
  EXPECT_EQ(run(config, 2, 200), Preprocessed::kDone);
  EXPECT_EQ(open_prepared(real_files(), *config.prepared)->samples(), 52);
}

TEST(Preprocess, ReadsGzipOfSeveralMembers) {
  const TemporaryFolder folder;
  const std::string path = folder / "1.csv.gz";
  for (const char* mode : {"wb", "ab"}) {
    gzFile file = gzopen(path.c_str(), mode);
    const std::string text = lines(100, mode[0]);
    ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
              static_cast<int>(text.size()));
    gzclose(file);
  }
  DataConfig config = columns(folder);
  config.train = path;
  run(config, 2, 500);
  EXPECT_EQ(open_prepared(real_files(), *config.prepared)->samples(), 200);
  EXPECT_EQ(read_csv(real_files(), config.csv, YamlNode::map(), path)->samples(), 200);
  const std::string whole = real_files().read(path);
  config.prepared = folder / "cut";
  write(path, whole.substr(0, whole.size() - 20));
  EXPECT_THAT(message_of<IoError>([&] { run(config); }), HasSubstr("gz"));
}

TEST(Preprocess, AFolderOfOtherColumnsIsRefusedAndAMissingOneSaysHowToMakeIt) {
  const TemporaryFolder folder;
  write(folder / "1.csv", lines(30, 6));
  DataConfig config = columns(folder);
  EXPECT_THAT(message_of<IoError>([&] { open_samples(real_files(), config, YamlNode::map(), 1); }),
              HasSubstr("mstrain preprocess --config FILE makes it"));
  run(config);
  config.ids.min_count = 3;
  EXPECT_THAT(
      message_of<ConfigError>([&] { open_samples(real_files(), config, YamlNode::map(), 1); }),
      HasSubstr("was made with data.ids.min_count: 2, here 3; preprocess into another folder"));
  EXPECT_THAT(message_of<ConfigError>([&] { run(config); }),
              HasSubstr("holds what was made with data.ids.min_count: 2, here 3"));
}

TEST(Preprocess, AFolderIsOfItsFilesAsTheyWere) {
  const TemporaryFolder folder;
  const std::string path = folder / "1.csv";
  write(path, lines(30, 6));
  DataConfig config = columns(folder);
  run(config);
  const std::string identity = open_prepared(real_files(), *config.prepared)->identity();
  const auto written = std::filesystem::last_write_time(path);
  write(folder / "2.csv", lines(30, 6));
  EXPECT_THAT(message_of<ConfigError>([&] { run(config); }),
              HasSubstr("of 1.csv, not of 1.csv, 2.csv"));
  std::filesystem::remove(folder / "2.csv");
  std::string text = lines(30, 6);
  text[0] ^= 1;  // the other label: as many bytes
  write(path, text);
  std::filesystem::last_write_time(path, written + std::chrono::seconds(1));
  EXPECT_THAT(message_of<ConfigError>([&] { run(config); }),
              HasSubstr("1.csv as it was before it was written anew"));
  config.prepared = folder / "again";
  run(config);
  EXPECT_NE(open_prepared(real_files(), *config.prepared)->identity(), identity);
}

TEST(Preprocess, TrainingReadsWhatItsOwnFilesWereMadeTo) {
  const TemporaryFolder folder;
  write(folder / "1.csv", lines(30, 6));
  write(folder / "other.txt", lines(30, 7));
  DataConfig config = columns(folder);
  run(config);
  const auto open = [&](const std::optional<std::string>& train) {
    config.train = train;
    return error_of([&] { open_samples(real_files(), config, YamlNode::map(), 1); });
  };
  for (const char* other : {"other.txt", "nowhere.csv"}) {
    EXPECT_THAT(open(folder / other), HasSubstr("made, was made of 1.csv; preprocess"));
  }
  EXPECT_EQ(open(folder / "1.csv"), "no error");  // the same, called otherwise
  std::filesystem::remove(folder / "1.csv");
  EXPECT_EQ(open(folder / "*.csv"), "no error");
  EXPECT_EQ(open(std::nullopt), "no error");
}

TEST(Preprocess, AnotherFileIsReadByTheDictionaryAlsoWithoutLabels) {
  const TemporaryFolder folder;
  write(folder / "1.csv", "1,3,x,p\n0,4,y,q\n1,5,x,p\n0,4,y,q\n");
  const DataConfig config = columns(folder);
  run(config);
  write(folder / "new.txt", "3,x,q\n4,z,p\n");
  const auto samples =
      open_for_scoring(real_files(), config, YamlNode::map(), folder / "new.txt", 1);
  const SampleBatch batch = all_of(*samples);
  EXPECT_THAT(batch.labels, ElementsAre(-1, -1));
  EXPECT_EQ(batch.fields[0].ids[1], 0U);
  const SampleBatch trained = all_of(*open_prepared(real_files(), *config.prepared));
  EXPECT_EQ(batch.fields[0].ids[0], trained.fields[0].ids[0]);
  EXPECT_EQ(batch.fields[1].ids, (std::vector{trained.fields[1].ids[1], trained.fields[1].ids[0]}));
}

TEST(Preprocess, DamagedFilesAreErrorsOrOtherNumbersAndNothingElse) {
  const TemporaryFolder folder;
  write(folder / "1.csv", lines(60, 7));
  const DataConfig config = columns(folder);
  run(config);
  const auto whole = contents(*config.prepared);
  uint64_t seed = 0;
  for (const auto& [name, text] : whole) {
    const std::string path = join_path(*config.prepared, name);
    for (int i = 0; i < 40; ++i) {
      std::string damaged = text;
      ++seed;
      damaged[hash_combine(seed, 1) % damaged.size()] ^=
          static_cast<char>(1 << hash_combine(seed, 2) % 8);
      if (i % 4 == 0) {
        damaged.resize(hash_combine(seed, 3) % damaged.size());
      }
      write(path, damaged);
      try {
        const Prepared prepared = read_prepared(real_files(), *config.prepared);
        ids_of_prepared(real_files(), *config.prepared, prepared)->id(0, 1);
        EXPECT_THAT(all_of(*open_prepared(real_files(), *config.prepared)).labels,
                    testing::Each(testing::AnyOf(0.0F, 1.0F)));
      } catch (const IoError&) {
      }
    }
    write(path, text);
  }
}

TEST(Preprocess, CriteosColumnsAreKnown) {
  const TemporaryFolder folder;
  std::string line = "1";
  for (int i = 0; i < 39; ++i) {
    line += i % 3 == 2 ? "\t" : fmt::format("\t{}", i);
  }
  write(folder / "day_0.tsv", line + "\n" + line + "\n");
  DataConfig config;
  config.format = DataFormat::kCriteoTsv;
  config.train = folder / "day_*.tsv";
  config.prepared = folder / "made";
  config.ids.min_count = 1;
  run(config);
  const auto samples = open_prepared(real_files(), *config.prepared);
  const std::string of_no_label = "2" + line.substr(1) + "\n0" + line.substr(1) + "\n";
  write(folder / "held.tsv", of_no_label);
  config.valid = folder / "held.tsv";
  const auto held_out = [&] {
    return all_of(*open_samples(real_files(), config, YamlNode::map(), 1).valid).labels;
  };
  EXPECT_THAT(message_of<IoError>(held_out),
              HasSubstr("held.tsv:1: the label \"2\" is neither \"1\" nor \"0\""));
  config.malformed.limit = 1;
  EXPECT_THAT(held_out(), ElementsAre(0));
  EXPECT_EQ(samples->schema().numeric.size(), 13U);
  EXPECT_EQ(samples->schema().fields.size(), 26U);
  EXPECT_EQ(all_of(*samples).fields[25].ids, (std::vector<uint64_t>{1, 1}));
}

}  // namespace
}  // namespace mstrain::recommender
