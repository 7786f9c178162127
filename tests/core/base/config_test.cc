#include "core/base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "tests/core/base/temporary_folder.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

struct DropoutConfig {
  double hidden = 0.0;
  double attention = 0.1;
  template <class V>
  void fields(V& v) {
    v("hidden", hidden, "after each block", rule::at_least(0).below(1));
    v("attention", attention, "on attention weights", rule::at_least(0).below(1));
  }
};

struct ModelConfig {
  enum class Norm { kLayer, kRms };
  AutoOr<int64_t> vocab_size;
  int num_layers = 2;
  std::optional<int64_t> ffn_hidden_size;
  Norm norm = Norm::kLayer;
  DropoutConfig dropout;
  template <class V>
  void fields(V& v) {
    v("vocab_size", vocab_size, "entries of the vocabulary", rule::at_least(1));
    v("num_layers", num_layers, "blocks", rule::at_least(1));
    v("ffn_hidden_size", ffn_hidden_size, "inner width; null: 4 x hidden", rule::at_least(1));
    v("norm", norm, "normalisation", rule::one_of({"layernorm", "rmsnorm"}));
    v("dropout", dropout, "probabilities");
  }
};

struct OptimizerConfig {
  std::string type = "adamw";
  double lr = 1e-3;
  std::array<double, 2> betas{0.9, 0.99};
  bool fused = true;
  template <class V>
  void fields(V& v) {
    v("type", type, "update rule", rule::one_of({"sgd", "adamw"}));
    v("lr", lr, "peak learning rate", rule::positive());
    v("betas", betas, "decay of the moments", rule::at_least(0).below(1));
    v("fused", fused, "one kernel");
  }
};

struct DataConfig {
  std::vector<WeightedPath> train;
  std::vector<std::string> prompts;
  AllOr<int64_t> batches;
  uint32_t workers = 1;
  template <class V>
  void fields(V& v) {
    v("train", train, "training data", rule::required());
    v("prompts", prompts, "to sample from");
    v("batches", batches, "of an evaluation", rule::at_least(1));
    v("workers", workers, "threads");
  }
};

struct Config {
  ModelConfig model;
  OptimizerConfig optimizer;
  DataConfig data;
  template <class V>
  void fields(V& v) {
    v("model", model, "");
    v("optimizer", optimizer, "");
    v("data", data, "");
  }
};

class ConfigTest : public testing::Test {
 protected:
  std::string write(const std::string& name, std::string_view text) {
    const std::string path = folder_ / name;
    real_files().create_directories(parent_path(path));
    write_file_atomic(real_files(), path, text);
    return path;
  }
  Config load(std::string_view text, const std::vector<std::string>& overrides = {}) {
    Config config;
    read_config(load_config(write("my.yaml", text), overrides), config);
    return config;
  }
  // The message with the temporary folder cut off.
  std::string error(std::string_view text, const std::vector<std::string>& overrides = {}) {
    try {
      load(text, overrides);
    } catch (const ConfigError& error) {
      std::string message = error.what();
      for (size_t at; (at = message.find(folder_.path() + '/')) != std::string::npos;) {
        message.erase(at, folder_.path().size() + 1);
      }
      return message;
    }
    return "no error";
  }
  TemporaryFolder folder_;
};

TEST_F(ConfigTest, ReadsEveryKindOfMemberOverTheDefaults) {
  const Config config = load(
      "model: {vocab_size: 65, num_layers: 4, ffn_hidden_size: 512, norm: rmsnorm, dropout: "
      "{hidden: 0.5}}\n"
      "optimizer:\n"
      "  type: sgd\n"
      "  betas: [0.8, 0.95]\n"
      "  fused: false\n"
      "data: {train: [{path: a.txt, weight: 2}, b.txt], prompts: [\"x\", y], batches: 7, workers: "
      "3}\n");
  EXPECT_EQ(config.model.vocab_size.value_or(0), 65);
  EXPECT_EQ(config.model.num_layers, 4);
  EXPECT_EQ(config.model.ffn_hidden_size, 512);
  EXPECT_EQ(config.model.norm, ModelConfig::Norm::kRms);
  EXPECT_EQ(config.model.dropout.hidden, 0.5);
  EXPECT_EQ(config.model.dropout.attention, 0.1);
  EXPECT_EQ(config.optimizer.type, "sgd");
  EXPECT_EQ(config.optimizer.lr, 1e-3);
  EXPECT_EQ(config.optimizer.betas, (std::array<double, 2>{0.8, 0.95}));
  EXPECT_FALSE(config.optimizer.fused);
  EXPECT_THAT(config.data.train, ElementsAre(WeightedPath{"a.txt", 2}, WeightedPath{"b.txt", 1}));
  EXPECT_THAT(config.data.prompts, ElementsAre("x", "y"));
  EXPECT_EQ(config.data.batches.value_or(0), 7);
  EXPECT_EQ(config.data.workers, 3U);
}

TEST_F(ConfigTest, WordsNullAndEmptySectionsAreValues) {
  const Config config = load(
      "model: {vocab_size: auto, ffn_hidden_size: null}\noptimizer:\ndata: {train: a, batches: "
      "all}\n");
  EXPECT_TRUE(config.model.vocab_size.is_word());
  EXPECT_FALSE(config.model.ffn_hidden_size.has_value());
  EXPECT_TRUE(config.data.batches.is_word());
  EXPECT_THAT(config.data.train, ElementsAre(WeightedPath{"a", 1}));
}

TEST_F(ConfigTest, UnknownKeysAreNamedWithTheNearest) {
  const std::string data = "data: {train: a}\n";
  EXPECT_EQ(error(data + "model:\n  num_layer: 3\n"),
            "my.yaml:3: model.num_layer: unknown key; did you mean model.num_layers?");
  EXPECT_EQ(error(data + "modle: {num_layers: 3}\n"),
            "my.yaml:2: modle: unknown key; did you mean model?");
  EXPECT_EQ(error(data + "model: {nun: 4}\n"),
            "my.yaml:2: model.nun: unknown key; did you mean model.num_layers?");
  EXPECT_EQ(error(data + "lr: 1\n"), "my.yaml:2: lr: unknown key; did you mean optimizer.lr?");
  EXPECT_EQ(error(data + "model: {dropout: {xyzzyxyzzy: 1}}\n"),
            "my.yaml:2: model.dropout.xyzzyxyzzy: unknown key; known here: hidden, attention");
}

TEST_F(ConfigTest, KeysOfAFileThatNameTheirSectionsAreToldHowFilesSayThem) {
  const std::string data = "data: {train: a}\n";
  EXPECT_EQ(error(data + "model.dropout.hidden: 0.5\n"),
            "my.yaml:2: model.dropout.hidden: unknown key; in a file that is "
            "model: {dropout: {hidden: …}}");
  EXPECT_EQ(error(data + "model: {dropout.hidden: 0.5}\n"),
            "my.yaml:2: model.dropout.hidden: unknown key; in a file that is dropout: {hidden: …}");
}

TEST_F(ConfigTest, WholeNumbersMayBeWrittenAsFloats) {
  for (const auto& [text, layers] : {std::pair("12.0", 12), {"1e2", 100}, {"2.5E3", 2500}}) {
    Config config;
    read_config(parse_yaml(fmt::format("data: {{train: a}}\nmodel: {{num_layers: {}}}", text), "a"),
                config);
    EXPECT_EQ(config.model.num_layers, layers) << text;
  }
}

TEST_F(ConfigTest, WrongTypesAndRangesSayWhatWasExpected) {
  const auto with = [&](const std::string& line) { return error("data: {train: a}\n" + line); };
  EXPECT_EQ(with("model: {num_layers: abc}"),
            "my.yaml:2: model.num_layers: expected an integer >= 1, found \"abc\"");
  EXPECT_EQ(with("model: {num_layers: 0}"),
            "my.yaml:2: model.num_layers: expected an integer >= 1, found \"0\"");
  EXPECT_EQ(with("model: {num_layers: 1.5}"),
            "my.yaml:2: model.num_layers: expected an integer >= 1, found \"1.5\"");
  for (const char* large : {"1e30", "9223372036854775808"}) {
    EXPECT_EQ(with(fmt::format("model: {{num_layers: {}}}", large)),
              fmt::format("my.yaml:2: model.num_layers: expected an integer from 1 to 2147483647, "
                          "found \"{}\"",
                          large));
  }
  EXPECT_EQ(with("model: {num_layers: 3000000000}"),
            "my.yaml:2: model.num_layers: expected an integer from 1 to 2147483647, "
            "found \"3000000000\"");
  EXPECT_EQ(with("model: {num_layers: null}"),
            "my.yaml:2: model.num_layers: expected an integer >= 1, found null");
  EXPECT_EQ(with("model: {vocab_size: many}"),
            "my.yaml:2: model.vocab_size: expected auto or an integer >= 1, found \"many\"");
  EXPECT_EQ(with("model: {ffn_hidden_size: x}"),
            "my.yaml:2: model.ffn_hidden_size: expected null or an integer >= 1, found \"x\"");
  EXPECT_EQ(with("model: {norm: rmsnrom}"),
            "my.yaml:2: model.norm: expected one of layernorm, rmsnorm, found \"rmsnrom\"; did you "
            "mean rmsnorm?");
  EXPECT_EQ(with("model: {dropout: {hidden: 1}}"),
            "my.yaml:2: model.dropout.hidden: expected a number >= 0 and < 1, found \"1\"");
  EXPECT_EQ(with("model: {dropout: 0.1}"),
            "my.yaml:2: model.dropout: expected a section (a map of keys), found \"0.1\"");
  EXPECT_EQ(with("optimizer: {lr: .nan}"),
            "my.yaml:2: optimizer.lr: expected a number > 0, found \".nan\"");
  EXPECT_EQ(with("optimizer: {lr: .inf}"),
            "my.yaml:2: optimizer.lr: expected a number > 0, found \".inf\"");
  EXPECT_EQ(with("optimizer: {betas: [0.9]}"),
            "my.yaml:2: optimizer.betas: expected a list of 2, each a number >= 0 and < 1, found a "
            "list of 1");
  EXPECT_EQ(with("optimizer:\n  betas:\n    - 0.9\n    - 1.5\n"),
            "my.yaml:5: optimizer.betas[1]: expected a number >= 0 and < 1, found \"1.5\"");
  EXPECT_EQ(with("optimizer: {fused: yes}"),
            "my.yaml:2: optimizer.fused: expected true or false, found \"yes\"");
  EXPECT_EQ(with("optimizer: {type: [adamw]}"),
            "my.yaml:2: optimizer.type: expected one of sgd, adamw, found a list of 1");
  EXPECT_EQ(error("data: {train: [{weight: 1}]}"),
            "my.yaml:1: data.train[0].path: required key is missing; expected text");
  EXPECT_EQ(error("data: {train: [{path: a, wieght: 1}]}"),
            "my.yaml:1: data.train[0].wieght: unknown key; did you mean data.train[0].weight?");
  EXPECT_EQ(error("data: {train: [[a]]}"),
            "my.yaml:1: data.train[0]: expected a path or {path, weight}, found a list of 1");
  EXPECT_EQ(error("data: {train: a, workers: -1}"),
            "my.yaml:1: data.workers: expected an integer from 0 to 4294967295, found \"-1\"");
}

TEST_F(ConfigTest, RequiredKeysAreMissedEvenInAMissingSection) {
  const std::string tail =
      "data.train: required key is missing; expected a path, a list of paths or a list of {path, "
      "weight}";
  EXPECT_EQ(error("data: {workers: 1}\n"), "my.yaml:1: " + tail);
  EXPECT_EQ(error("model: {num_layers: 1}\n"), "my.yaml: " + tail);
}

TEST_F(ConfigTest, OverridesWinAndNameTheCommandLine) {
  const Config config =
      load("model: {num_layers: 4}\ndata: {train: a}\n",
           {"model.num_layers=12", "optimizer.betas=[0.5, 0.6]", "model.dropout.hidden=0.25",
            "data.train=[x, {path: y, weight: 3}]", "model.dropout={attention: 0.5}"});
  EXPECT_EQ(config.model.num_layers, 12);
  EXPECT_EQ(config.optimizer.betas[1], 0.6);
  EXPECT_EQ(config.model.dropout.hidden, 0.25);
  EXPECT_EQ(config.model.dropout.attention, 0.5);
  EXPECT_EQ(config.data.train[1].weight, 3.0);
  const auto with = [&](const std::string& text) { return error("data: {train: a}\n", {text}); };
  EXPECT_EQ(with("model.num_layer=3"),
            "command line: model.num_layer: unknown key; did you mean model.num_layers?");
  EXPECT_EQ(with("model.num_layers=x"),
            "command line: model.num_layers: expected an integer >= 1, found \"x\"");
  EXPECT_EQ(with("model.num_layers"),
            "command line: expected key.path=value, found \"model.num_layers\"");
  EXPECT_EQ(with("model..x=1"), "command line: expected key.path=value, found \"model..x=1\"");
  EXPECT_EQ(with("data.train.path=1"),
            "command line: data.train.path: data.train is no section but \"a\"");
  EXPECT_THAT(with("optimizer.betas=[1,"),
              HasSubstr("command line: optimizer.betas: \"[1,\" is no YAML value"));
}

TEST_F(ConfigTest, ExtendsLaysOneFileOverAnother) {
  write("base/root.yaml", "model: {num_layers: 3, norm: rmsnorm}\noptimizer: {lr: 0.5}\n");
  write("base/mid.yaml", "extends: root.yaml\noptimizer: {lr: 0.25, type: sgd}\n");
  const std::string text = "extends: base/mid.yaml\nmodel:\n  num_layers: 5\ndata: {train: a}\n";
  const Config config = load(text);
  EXPECT_EQ(config.model.num_layers, 5);
  EXPECT_EQ(config.model.norm, ModelConfig::Norm::kRms);
  EXPECT_EQ(config.optimizer.lr, 0.25);
  EXPECT_EQ(config.optimizer.type, "sgd");
  write("base/root.yaml", "model: {num_layers: 3}\n\noptimizer: {betas: 1}\n");
  EXPECT_THAT(error(text), HasSubstr("base/root.yaml:3: optimizer.betas: expected a list of 2"));
}

TEST_F(ConfigTest, ANullLaidOverAKeyTakesItBackWhereItIsNoValue) {
  const std::string base =
      "model: {num_layers: 4, ffn_hidden_size: 8}\noptimizer: {betas: [0.5, 0.6], lr: 0.5}\n"
      "data: {train: a, workers: 3}\n";
  const auto expect_defaults = [](const Config& config) {
    EXPECT_EQ(config.model.num_layers, ModelConfig().num_layers);
    EXPECT_EQ(config.optimizer.betas, OptimizerConfig().betas);
    EXPECT_EQ(config.optimizer.lr, 0.5);
    EXPECT_EQ(config.data.workers, 1U);
    EXPECT_EQ(config.model.ffn_hidden_size, std::nullopt);
  };
  expect_defaults(load(base, {"optimizer.betas=null", "model={num_layers: null}",
                              "data.workers=null", "model.ffn_hidden_size=null"}));
  write("base.yaml", base);
  const std::string over =
      "extends: base.yaml\nmodel: {num_layers: null, ffn_hidden_size: null}\n"
      "optimizer: {betas: null}\ndata: {workers: null}\n";
  expect_defaults(load(over));
  EXPECT_EQ(load(over, {"model.num_layers=7"}).model.num_layers, 7);
  EXPECT_EQ(load(base, {"optimizer=null"}).optimizer.lr, OptimizerConfig().lr);
  EXPECT_THAT(error(base, {"data.train=null"}), HasSubstr("data.train: required key is missing"));
  EXPECT_EQ(error(base, {"optimizer.beta=null"}),
            "command line: optimizer.beta: unknown key; did you mean optimizer.betas?");
}

// What is asked which sections there are, and of which type, before anything is read.
TEST(Overrides, TakeSectionsAndTypesBack) {
  YamlNode tree =
      parse_yaml("model: {type: gpt, width: 3}\nsweep: {keys: {a: [1]}}\nlog: {}\n", "x");
  const std::string changes[] = {"model.type=null", "sweep=null", "algorithm.type=null",
                                 "model.width=null"};
  apply_overrides(tree, changes);
  EXPECT_THAT(flatten_config(tree), ElementsAre(Pair("model.width", "null"), Pair("log", "{}")));
}

TEST_F(ConfigTest, ExtendsCyclesAndMissingFilesAreErrors) {
  write("a.yaml", "extends: b.yaml\n");
  write("b.yaml", "model: {}\nextends: a.yaml\n");
  EXPECT_EQ(error("extends: a.yaml\n"),
            "b.yaml:2: extends: a.yaml extends itself through this file");
  EXPECT_EQ(error("extends: my.yaml\n"),
            "my.yaml:1: extends: my.yaml extends itself through this file");
  EXPECT_THAT(error("\nextends: none.yaml\n"),
              HasSubstr("my.yaml:2: extends: none.yaml: no such file"));
  EXPECT_THAT(error("extends: bb.yaml\n"),
              testing::AllOf(HasSubstr("bb.yaml: no such file or folder; did you mean "),
                             testing::EndsWith("b.yaml?")));
  EXPECT_THROW(load_config(folder_ / "none.yaml"), ConfigError);
  EXPECT_THAT(error("- 1\n"), HasSubstr("my.yaml:1: expected sections"));
}

TEST_F(ConfigTest, ResolvedListingReadsBackAsItself) {
  const Config config = load(
      "model: {vocab_size: 65, norm: rmsnorm}\noptimizer: {lr: 1.0e-8}\n"
      "data: {train: [a, {path: 'b: c', weight: 0.5}], prompts: [\"12\", \"null\", \"a\\nb\"]}\n");
  const std::string text = to_yaml(write_config(config));
  EXPECT_EQ(text,
            "model:\n"
            "  vocab_size: 65\n"
            "  num_layers: 2\n"
            "  ffn_hidden_size: null\n"
            "  norm: rmsnorm\n"
            "  dropout: {hidden: 0.0, attention: 0.1}\n"
            "optimizer: {type: adamw, lr: 1.0e-8, betas: [0.9, 0.99], fused: true}\n"
            "data:\n"
            "  train: [{path: a, weight: 1.0}, {path: \"b: c\", weight: 0.5}]\n"
            "  prompts: [\"12\", \"null\", \"a\\nb\"]\n"
            "  batches: all\n"
            "  workers: 1\n");
  EXPECT_EQ(to_yaml(write_config(load(text))), text);
}

struct Rates {
  float lr = 1e-3F, eps = 1e-8F, third = 1.0F / 3, most = std::numeric_limits<float>::max();
  template <class V>
  void fields(V& v) {
    v("lr", lr, "");
    v("eps", eps, "");
    v("third", third, "");
    v("most", most, "");
  }
};

TEST_F(ConfigTest, FloatsAreWrittenInTheFewestDigitsThatReadBack) {
  const std::string text = to_flow(write_config(Rates()));
  EXPECT_EQ(text, "{lr: 0.001, eps: 1.0e-8, third: 0.33333334, most: 3.4028235e+38}");
  Rates read{0, 0, 0, 0};
  read_config(parse_yaml(text, "-"), read);
  EXPECT_EQ(read.lr, Rates().lr);
  EXPECT_EQ(read.eps, Rates().eps);
  EXPECT_EQ(read.third, Rates().third);
  EXPECT_EQ(read.most, Rates().most);
}

TEST_F(ConfigTest, FlatListAndDocumentation) {
  const YamlNode tree = parse_yaml("a: {b: 1, c: {d: [1, x], e: {}}}\nf: null\n", "x");
  EXPECT_THAT(flatten_config(tree), ElementsAre(Pair("a.b", "1"), Pair("a.c.d", "[1, x]"),
                                                Pair("a.c.e", "{}"), Pair("f", "null")));
  const auto docs = document_config(Config());
  ASSERT_EQ(docs.size(), 14U);
  EXPECT_EQ(docs[0].path, "model.vocab_size");
  EXPECT_EQ(docs[0].type, "an integer >= 1 or auto");
  EXPECT_EQ(docs[0].value, "auto");
  EXPECT_EQ(docs[4].path, "model.dropout.hidden");
  EXPECT_EQ(docs[4].doc, "after each block");
}

TEST_F(ConfigTest, LaterChecksNameThePlaceOfTheKey) {
  const YamlNode tree = load_config(write("c.yaml", "model:\n  num_layers: 3\n"),
                                    std::vector<std::string>{"optimizer.lr=1"});
  const auto message = [&](const char* path) -> std::string {
    try {
      config_fail(tree, path, "bad");
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(message("model.num_layers"), folder_ / "c.yaml" + ":2: model.num_layers: bad");
  EXPECT_EQ(message("optimizer.lr"), "command line: optimizer.lr: bad");
  EXPECT_EQ(message("model.norm"), folder_ / "c.yaml" + ": model.norm: bad");
}

}  // namespace
}  // namespace mstrain
