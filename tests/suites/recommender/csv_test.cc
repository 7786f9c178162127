#include "suites/recommender/data/csv.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <numeric>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/rng.h"
#include "core/io/atomic_file.h"
#include "suites/recommender/data/data_config.h"
#include "tests/core/base/message_of.h"
#include "tests/core/base/temporary_folder.h"

namespace mstrain::recommender {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CsvConfig columns() {
  CsvConfig config;
  config.label = "click";
  config.numeric = {"n"};
  config.numeric_scale = NumericScale::kNone;
  config.categorical = {"a", "b"};
  config.crosses = {{{"a", "b"}}};
  config.buckets = {{"n", {0, 10}}};
  return config;
}

SampleBatch all_of(const std::string& text, const CsvConfig& config = columns(),
                   bool needs_labels = true) {
  const TemporaryFolder folder;
  write_file_atomic(real_files(), folder / "x.csv", text);
  const auto samples = read_csv(real_files(), config, YamlNode::map(), folder / "x.csv",
                                {.needs_labels = needs_labels});
  std::vector<int64_t> every(static_cast<size_t>(samples->samples()));
  for (size_t i = 0; i < every.size(); ++i) {
    every[i] = static_cast<int64_t>(i);
  }
  SampleBatch out;
  samples->read(every, out);
  return out;
}

std::string refusal(const std::string& yaml) {
  return message_of<ConfigError>([&] {
    const YamlNode tree = parse_yaml("data: " + yaml, "f.yaml");
    DataConfig config;
    read_config(*tree.find("data"), config);
    check_data_config(config, tree);
  });
}

TEST(DataKeys, ThatNobodyReadsAreRefused) {
  EXPECT_THAT(
      refusal("{format: synthetic, train: x.csv}"),
      HasSubstr("data.train: has no effect with data.format: synthetic; did you mean csv?"));
  EXPECT_THAT(refusal("{format: synthetic, csv: {label: y}}"), HasSubstr("data.csv"));
  EXPECT_THAT(refusal("{format: csv, ids: {min_count: 2}}"), HasSubstr("without data.prepared"));
  EXPECT_THAT(refusal("{format: csv, csv: {columns: [a, label]}}"),
              HasSubstr("data.csv.header: false"));
  EXPECT_THAT(refusal("{format: csv, csv: {positive: yes, negative: yes}}"),
              HasSubstr("data.csv.negative: \"yes\" is what data.csv.positive says of label 1"));
  EXPECT_THAT(refusal("{format: csv, csv: {header: false}}"),
              HasSubstr("data.csv.columns: name the columns"));
  EXPECT_THAT(refusal("{format: csv, prepared: d, ids: {mode: dictionary, buckets: 50}}"),
              HasSubstr("data.ids.buckets: has no effect with data.ids.mode: dictionary"));
  EXPECT_THAT(refusal("{format: csv, ids: {mode: hash, buckets: 50, min_count: 4}}"),
              HasSubstr("data.ids.min_count: has no effect with data.ids.mode: hash"));
  EXPECT_THAT(refusal("{format: criteo_tsv, csv: {numeric_scale: none, categorical: [a]}}"),
              HasSubstr("with data.format: criteo_tsv"));
}

TEST(DataKeys, KeepTheLabelOutOfTheFeatures) {
  for (const char* const features :
       {"numeric: [y]", "categorical: [a, y]", "buckets: [{column: y, boundaries: [1]}]",
        "bags: [{column: y}]"}) {
    EXPECT_THAT(refusal(fmt::format("{{format: csv, csv: {{label: y, {}}}}}", features)),
                HasSubstr("\"y\" is the label"));
  }
}

TEST(DataKeys, ThatGoTogetherPass) {
  for (const char* const data :
       {"{format: synthetic}", "{format: criteo_tsv, csv: {numeric_scale: none}}",
        "{format: csv, prepared: d, ids: {mode: hash, buckets: 9}}",
        "{format: csv, ids: {mode: hash, buckets: 9}}",
        "{format: csv, csv: {header: false, columns: [a, label], categorical: [a]}}"}) {
    const YamlNode tree = parse_yaml(fmt::format("data: {}", data), "f.yaml");
    DataConfig config;
    read_config(*tree.find("data"), config);
    EXPECT_NO_THROW(check_data_config(config, tree)) << data;
  }
}

TEST(Csv, IdsAreEqualWhereValuesAre) {
  const SampleBatch batch = all_of("click,n,a,b\n1, 3.5 ,x,y\n0,,x,z\r\n1,-1,x,y\n0,10,y,x");
  EXPECT_THAT(batch.labels, ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(batch.numeric, ElementsAre(3.5F, 0, -1, 10));
  ASSERT_EQ(batch.fields.size(), 4U);
  const auto& a = batch.fields[0].ids;
  EXPECT_EQ(a[0], a[2]);
  EXPECT_NE(a[0], a[3]);
  EXPECT_THAT(batch.fields[2].ids, ElementsAre(1, 1, 0, 2));  // below 0, from 0, from 10 on
  const auto& cross = batch.fields[3].ids;
  EXPECT_EQ(cross[0], cross[2]);
  EXPECT_NE(cross[0], cross[1]);
  EXPECT_NE(cross[0], cross[3]);  // x of a and y of b are not y of a and x of b
}

TEST(Csv, MayBeginWithTheMarkOfSpreadsheets) {
  EXPECT_THAT(all_of("\xEF\xBB\xBF"
                     "click,n,a,b\n1,3,x,y\n")
                  .labels,
              ElementsAre(1));
  CsvConfig config = columns();
  config.header = false;
  config.columns = {"click", "n", "a", "b"};
  EXPECT_THAT(all_of("\xEF\xBB\xBF"
                     "1,3,x,y\n0,3,x,y\n1,3,x,y\n",
                     config)
                  .labels,
              ElementsAre(1, 0, 1));
}

TEST(Csv, AMissingFileIsNamedByItsOwnKey) {
  const TemporaryFolder folder;
  write_file_atomic(real_files(), folder / "x.csv", "click,n,a,b\n1,3,x,y\n");
  DataConfig config;
  config.format = DataFormat::kCsv;
  config.csv = columns();
  config.train = folder / "x.csv";
  config.valid = folder / "nowhere.csv";
  EXPECT_THAT(message_of<IoError>([&] { open_samples(real_files(), config, YamlNode::map(), 1); }),
              HasSubstr("data.valid"));
}

TEST(Csv, InMemoryIsOfOneFile) {
  const TemporaryFolder folder;
  write_file_atomic(real_files(), folder / "x.csv", "click,n,a,b\n1,3,x,y\n");
  DataConfig config;
  config.format = DataFormat::kCsv;
  config.csv = columns();
  config.train = folder / "*.csv";
  EXPECT_THAT(
      message_of<ConfigError>([&] { open_samples(real_files(), config, YamlNode::map(), 1); }),
      HasSubstr("*.csv is a pattern, as data.train of mstrain preprocess may be"));
}

TEST(Csv, HeldOutLabelsAreThoseOfTheTrainingFile) {
  const TemporaryFolder folder;
  write_file_atomic(real_files(), folder / "x.csv", "click,n,a,b\nno,1,x,y\nyes,1,x,y\n");
  write_file_atomic(real_files(), folder / "held.csv", "click,n,a,b\nyes.,1,x,y\nyes.,3,x,y\n");
  DataConfig config;
  config.format = DataFormat::kCsv;
  config.csv = columns();
  config.csv.positive = "yes";
  config.train = folder / "x.csv";
  config.valid = folder / "held.csv";
  EXPECT_THAT(message_of<IoError>([&] { open_samples(real_files(), config, YamlNode::map(), 1); }),
              HasSubstr("held.csv:2: the label \"yes.\" is neither data.csv.positive, \"yes\", nor "
                        "the other one so far, \"no\""));
}

TEST(Csv, MayHaveNoLabelsWhereNoneAreNeeded) {
  EXPECT_THAT(all_of("n,a,b\n1,x,y\n", columns(), false).labels, ElementsAre(-1));
}

TEST(Csv, EveryLineThatIsScoredIsASample) {
  EXPECT_THAT(all_of("\nn,a,b\n1,x,y\n2,x,y\n\r\n\n", columns(), false).labels,
              ElementsAre(-1, -1));
  EXPECT_THAT(message_of<IoError>([] { all_of("n,a,b\n1,x,y\n\r\n2,x,y\n", columns(), false); }),
              HasSubstr("x.csv:3: an empty line, for which there would be no prediction"));
  EXPECT_THAT(all_of("click,n,a,b\n1,1,x,y\n\n0,2,x,y\n").labels, ElementsAre(1, 0));
}

TEST(Csv, WarnsOfNumbersThatTheirScaleCutsOff) {
  std::vector<std::string> said;
  const LogSink before =
      set_log_sink([&](LogLevel, std::string_view message) { said.emplace_back(message); });
  CsvConfig config = columns();
  const std::string text = "click,n,a,b\n1,-2,x,y\n0,1,x,y\n1,-0.5,x,y\n";
  EXPECT_THAT(all_of(text, config).numeric, ElementsAre(-2, 1, -0.5F));
  config.numeric_scale = NumericScale::kLog1p;
  EXPECT_THAT(all_of(text, config).numeric, ElementsAre(0, testing::FloatNear(0.6931F, 1e-4F), 0));
  set_log_sink(before);
  EXPECT_THAT(said, ElementsAre(HasSubstr("x.csv: negative numbers are 0 by "
                                          "data.csv.numeric_scale: log1p: n (2 of 3)")));
}

TEST(Csv, WarnsWhereAllLabelsAreOne) {
  std::vector<std::string> said;
  const LogSink before =
      set_log_sink([&](LogLevel, std::string_view message) { said.emplace_back(message); });
  all_of("click,n,a,b\n0,1,x,y\n0,2,x,y\n", columns());
  all_of("click,n,a,b\n1,1,x,y\n1,2,x,y\n", columns());
  all_of("click,n,a,b\n1,1,x,y\n0,2,x,y\n", columns());
  set_log_sink(before);
  EXPECT_THAT(said,
              ElementsAre(HasSubstr("x.csv: none of 2 samples has the label \"1\" (data.csv.posi"),
                          HasSubstr("x.csv: all of 2 samples have the label \"1\" (data.csv.pos")));
}

std::string error_text(const std::function<void()>& read) {
  return message_of<std::exception>(read);
}

TEST(Csv, HasTwoLabels) {
  CsvConfig config = columns();
  config.positive = "yes";
  EXPECT_THAT(all_of("click,n,a,b\nno,1,x,y\nyes,1,x,y\nno,1,x,y\n", config).labels,
              ElementsAre(0, 1, 0));
  const std::string dotted = "click,n,a,b\nno,1,x,y\nyes.,1,x,y\n";
  EXPECT_THAT(
      error_text([&] { all_of(dotted, config); }),
      HasSubstr("x.csv:3: the label \"yes.\" is neither data.csv.positive, \"yes\", nor the "
                "other one so far, \"no\""));
  config.negative = "never";
  EXPECT_THAT(error_text([&] { all_of(dotted, config); }),
              HasSubstr("x.csv:2: the label \"no\" is neither data.csv.positive, \"yes\", nor "
                        "data.csv.negative, \"never\""));
  config.negative = "*";
  EXPECT_THAT(all_of(dotted, config).labels, ElementsAre(0, 0));
  // Which of several is that of label 0 is nothing that a limit decides, by the order of the lines.
  const TemporaryFolder folder;
  write_file_atomic(real_files(), folder / "x.csv", "click,n,a,b\n3,1,x,y\n0,1,x,y\n1,1,x,y\n");
  config = columns();
  const auto read = [&] {
    return read_csv(real_files(), config, YamlNode::map(), folder / "x.csv", {.malformed = 5})
        ->samples();
  };
  EXPECT_THAT(error_text(read),
              HasSubstr("lines of a third label: 1 of 4; data.csv.negative names that of label 0"));
  config.negative = "0";
  EXPECT_EQ(read(), 2);
  EXPECT_THAT(all_of("click,n,a,b\n?,1,x,y\n!,1,x,y\n", columns(), false).labels,
              ElementsAre(0, 0));
}

TEST(Csv, HasBagsOfSeveralValues) {
  CsvConfig config = columns();
  config.bags = {{.column = "b", .separator = "|", .pooling = embedding_cache::Pooling::kMax}};
  config.categorical = {"a"};
  config.crosses.clear();
  const SampleBatch batch = all_of("click,n,a,b\n1,1,x,p | q\n0,1,x,\n1,1,x,q||p|r\n", config);
  ASSERT_EQ(batch.fields.size(), 3U);
  const SampleBatch::Field& bag = batch.fields[2];
  EXPECT_THAT(bag.offsets, ElementsAre(0, 2, 2, 5));
  EXPECT_EQ(bag.ids[0], bag.ids[3]);
  EXPECT_EQ(bag.ids[1], bag.ids[2]);
  EXPECT_EQ(std::set<uint64_t>(bag.ids.begin(), bag.ids.end()).size(), 3U);
  config.bags[0].separator = ",";
  EXPECT_THAT(error_text([&] { all_of("click,n,a,b\n1,1,x,y\n", config); }),
              HasSubstr("b: separator: expected one character"));
}

TEST(Csv, IdsOfFieldsAndBagsHaveTheBoundThatTheyAreGiven) {
  const TemporaryFolder folder;
  write_file_atomic(real_files(), folder / "x.csv",
                    "click,n,a,b\n1,1,x,p|q\n0,1,y,r|s|t\n1,1,z,q\n");
  DataConfig config;
  config.format = DataFormat::kCsv;
  config.train = folder / "x.csv";
  config.split = 1;
  config.csv = columns();
  config.csv.categorical = {"a"};
  config.csv.crosses.clear();
  config.csv.bags = {{"b"}};
  const auto open = [&] { return open_samples(real_files(), config, YamlNode::map(), 1).train; };
  const std::string unbounded = open()->identity();
  config.ids = {.mode = IdsConfig::Mode::kHash, .buckets = 4};
  const std::vector<std::shared_ptr<const SampleSource>> sources{
      open(), open_for_scoring(real_files(), config, YamlNode::map(), *config.train, 1)};
  EXPECT_NE(sources[0]->identity(), unbounded);
  for (const auto& source : sources) {
    SampleBatch batch;
    source->read(std::vector<int64_t>{0, 1, 2}, batch);
    for (size_t f = 0; f < batch.fields.size(); ++f) {
      EXPECT_EQ(source->schema().fields[f].rows, 4U);
      EXPECT_THAT(batch.fields[f].ids, testing::Each(testing::Lt(4U)));
    }
    const SampleBatch::Field& bag = batch.fields.back();
    EXPECT_THAT(bag.offsets, ElementsAre(0, 2, 5, 6));
    EXPECT_EQ(bag.ids[1], bag.ids[5]);
    EXPECT_EQ(source->schema().fields.back().ids, 2);  // in the mean
  }
}

TEST(Csv, NamesOfColumnsAndFieldsAreOfOne) {
  const auto refused = [](const std::function<void(CsvConfig&)>& change,
                          const std::string& text = "click,n,a,b\n1,1,x,y\n") {
    CsvConfig config = columns();
    change(config);
    return message_of<ConfigError>([&] { all_of(text, config); });
  };
  EXPECT_THAT(refused([](CsvConfig&) {}, "click,n,a,b,a\n1,1,x,y,z\n"),
              HasSubstr("has two columns called a"));
  EXPECT_THAT(all_of("click,n,a,b,c,c\n1,1,x,y,,\n").labels, ElementsAre(1));  // nobody reads c
  EXPECT_THAT(refused([](CsvConfig& config) {
                config.numeric = {"n", "n"};
              }),
              HasSubstr("n comes twice"));
  for (const auto& change : std::vector<std::function<void(CsvConfig&)>>{
           [](CsvConfig& config) { config.categorical.push_back("a"); },
           [](CsvConfig& config) {
             config.buckets.push_back({"n", {5}});
           },
           [](CsvConfig& config) { config.crosses.push_back(config.crosses[0]); },
           [](CsvConfig& config) { config.bags = {{"a"}}; }}) {
    EXPECT_THAT(refused(change), HasSubstr("two fields of ids would be called"));
  }
  EXPECT_THAT(refused([](CsvConfig& config) { config.crosses = {{{"a"}}}; }),
              HasSubstr("a cross is of two fields or more"));
  EXPECT_THAT(refused([](CsvConfig& config) {
                config.crosses = {{{"a", "a"}}};
              }),
              HasSubstr("a comes twice in a cross"));
  EXPECT_THAT(refused([](CsvConfig& config) {
                config.categorical = {"a"};
                config.bags = {{"b"}};
              }),
              HasSubstr("b is a bag, and a cross is of fields of one id"));
  EXPECT_THAT(refused([](CsvConfig& config) { config.buckets[0].boundaries.clear(); }),
              HasSubstr("n: there are no boundaries"));
}

TEST(Csv, LeavesOutAsManyLinesAsItMay) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.csv";
  write_file_atomic(real_files(), path, "click,n,a,b\n1,2,x\n1,two,x,y\n1,2,x,y\n");
  const auto read = [&](int64_t limit) {
    return read_csv(real_files(), columns(), YamlNode::map(), path, {.malformed = limit})
        ->samples();
  };
  EXPECT_EQ(read(2), 1);
  EXPECT_THAT(
      error_text([&] { read(1); }),
      testing::AllOf(HasSubstr("x.csv:2: 3 columns, expected 4"),
                     HasSubstr("x.csv:3: expected a number"),
                     HasSubstr("2 of 4 lines are no samples; data.malformed.limit allows 1")));
}

TEST(Csv, ComesThroughAPipe) {
  const TemporaryFolder folder;
  const std::string text = "click,n,a,b\n1,2,x,y\n0,3,x,z\n";
  write_file_atomic(real_files(), folder / "file", text);
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(folder / "pipe") << text; });
  const auto read = [&](const char* name) {
    return read_csv(real_files(), columns(), YamlNode::map(), folder / name)->identity();
  };
  const std::string piped = read("pipe");
  writer.join();
  EXPECT_EQ(piped, read("file"));
  write_file_atomic(real_files(), folder / "file", "\n");
  EXPECT_THAT(message_of<IoError>([&] { read("file"); }), HasSubstr("there are no samples"));
}

TEST(Csv, IsTheSameInAnyPieces) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.csv";
  CsvConfig config = columns();
  config.bags = {{"m"}};
  std::string text = "click,n,a,b,m\n";
  Rng rng(5);
  for (int i = 0; i < 200; ++i) {
    text += i % 50 == 49
                ? "0,one,x,y,\n\n"
                : fmt::format("{},{},a{},b{},{}\n", rng.below(2), rng.below(20), rng.below(9),
                              rng.below(9), std::string_view("p|q|r").substr(0, 2 * rng.below(3)));
  }
  const auto read = [&](const std::string& lines, int threads, uint64_t piece_bytes,
                        int64_t malformed) {
    write_file_atomic(real_files(), path, lines);
    const auto samples =
        read_csv(real_files(), config, YamlNode::map(), path,
                 {.malformed = malformed, .threads = threads, .piece_bytes = piece_bytes});
    std::vector<int64_t> order(static_cast<size_t>(samples->samples()));
    std::iota(order.rbegin(), order.rend(), 0);
    SampleBatch out;
    samples->read(order, out);
    return std::tuple(samples->identity(), out.labels, out.numeric, out.fields[0].ids,
                      out.fields[3].ids, out.fields[4].ids, out.fields[4].offsets);
  };
  std::string third_label = "click,n,a,b,m\n";
  for (int i = 0; i < 20; ++i) {
    third_label += "1,1,x,y,\n0,1,x,y,\n";
  }
  third_label += "no,1,x,y,\n";
  const auto whole = read(text, 1, 1 << 20, 4);
  EXPECT_EQ(std::get<1>(whole).size(), 196U);
  for (const auto& [threads, bytes] : {std::pair(1, 30), std::pair(3, 30), std::pair(2, 700)}) {
    EXPECT_EQ(read(text, threads, bytes, 4), whole);
    EXPECT_THAT(error_text([&] { read(text, threads, bytes, 3); }),
                testing::AllOf(HasSubstr("x.csv:51: expected a number"),
                               HasSubstr("x.csv:102: expected a number"),
                               HasSubstr("4 of 205 lines are no samples")));
    EXPECT_THAT(error_text([&] { read(third_label, threads, bytes, 0); }),
                HasSubstr("x.csv:42: the label \"no\" is neither"));
  }
}

TEST(Csv, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(error_text([] { all_of("click,n,a,b\n1,2,x\n"); }),
              HasSubstr("x.csv:2: 3 columns, expected 4"));
  EXPECT_THAT(error_text([] { all_of("click,n,a,b\n1,2,x,y\n1,two,x,y\n"); }),
              HasSubstr("x.csv:3: expected a number, found \"two\" in column n"));
  EXPECT_THAT(error_text([] { all_of("click,n,a,b\n1,1e39,x,y\n"); }),
              HasSubstr("x.csv:2: 1e39 in column n is more than a float of 32 bits holds"));
  EXPECT_THAT(error_text([] { all_of("clicks,n,a,b\n"); }),
              HasSubstr("has no column click; did you mean clicks?"));
  EXPECT_THAT(error_text([] { all_of("click;n;a;b\n"); }),
              HasSubstr("it has one column alone where \",\" (data.csv.separator) is between"));
  EXPECT_THAT(error_text([] { all_of("click,n,a,b\n"); }), HasSubstr("there are no samples"));
}

TEST(Csv, KnowsOtherFilesThanText) {
  const auto refused = [](const std::string& text) {
    return message_of<IoError>([&] { all_of(text); });
  };
  EXPECT_THAT(refused("PAR1\x15\x04"), HasSubstr("x.csv: is Parquet"));
  EXPECT_THAT(refused("\x1f\x8b\x08"), HasSubstr("gzipped: unpack it, or call it .gz"));
  EXPECT_THAT(refused("\x28\xb5\x2f\xfd"), HasSubstr("zstd"));
  EXPECT_THAT(refused("\xff\xfe"
                      "c"),
              HasSubstr("UTF-8"));
}

TEST(Csv, NeverCrashesOnDamagedText) {
  Rng rng(4);
  const std::string good = "click,n,a,b\n1,3.5,x,y\n0,,x,z\n";
  for (int i = 0; i < 300; ++i) {
    std::string bad = good;
    for (uint64_t k = rng.below(4) + 1; k > 0; --k) {
      bad[rng.below(bad.size())] = static_cast<char>(rng.below(256));
    }
    try {
      all_of(bad);
    } catch (const Error&) {  // whatever is wrong is said, and nothing else happens
    }
  }
}

}  // namespace
}  // namespace mstrain::recommender
