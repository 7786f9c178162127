// Runs of a ViT on folders of pictures, through the door that all models share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/io/folder.h"
#include "core/train/checkpoint.h"
#include "core/train/metrics_file.h"
#include "core/train/run_directory.h"
#include "suites/run/run.h"
#include "suites/run/stored_model.h"
#include "suites/transformer/vit/hf_names.h"
#include "tests/core/base/message_of.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/suites/transformer/pictures.h"

namespace mstrain::vit {
namespace {

using testing::HasSubstr;

class VitRunTest : public testing::Test {
 protected:
  void write_pictures(const std::string& name, const std::vector<std::string>& classes,
                      int64_t count) {
    mstrain::write_pictures(folder_ / name, classes, count, Image(9, 11, 3), rng_);
  }
  // `steps` of a run in the folder `output`; keys beyond those here in `more`.
  YamlNode tree(const std::string& output, const std::string& model, const std::string& augment,
                int steps, const std::string& more = "") {
    return parse_yaml("run: {output_dir: " + folder_.path() + "/" + output +
                          ", threads: 1}\nmodel: {type: vit, " + model +
                          "}\ndata: {train: " + folder_.path() + "/pictures, augment: " + augment +
                          "}\nbatch: {global: 8}\noptimizer: {lr: 3.0e-3}\n"
                          "schedule: {type: constant, total_steps: " +
                          std::to_string(steps) + "}\nlog: {interval: 1}\n" + more,
                      "run.yaml");
  }
  Outcome run(const YamlNode& config, const SessionStart& start = {}) {
    std::FILE* const out = std::tmpfile();
    const Outcome outcome = mstrain::run({real_files(), config, stop_, out, start});
    std::fclose(out);
    return outcome;
  }
  std::vector<Json> rows(const std::string& output) {
    return read_metrics(real_files(), folder_ / output + "/metrics.jsonl");
  }
  std::string weights(const std::string& output) {
    return real_files().read(
        join_path(open_model(real_files(), folder_ / output).folder, "model.safetensors"));
  }

  // What an evaluation of a run's checkpoint on the folder `pictures` says.
  std::string evaluated(const std::string& output, const std::string& pictures,
                        std::span<const std::string> changes = {}) {
    YamlNode config = tree(output, tiny_, "{}", 60);
    config.find("data")->find("train")->text = folder_ / pictures;
    apply_overrides(config, changes);
    std::FILE* const out = std::tmpfile();
    evaluate_checkpoint({real_files(), config, stop_, out}, folder_ / output);
    std::rewind(out);
    std::string text(static_cast<size_t>(1) << 12, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), out));
    std::fclose(out);
    return text;
  }
  // Of a run's newest checkpoint, by number.
  std::vector<std::string> labels(const std::string& output) {
    return named_labels(open_model(real_files(), folder_ / output).description);
  }
  // The model of a run as a directory of Hugging Face has it, under other names of its labels.
  void write_model(const std::string& name, const std::string& output,
                   const std::vector<std::string>& labels) {
    StoredModel stored = open_model(real_files(), folder_ / output);
    for (size_t i = 0; i < labels.size(); ++i) {
      stored.description["id2label"][std::to_string(i)] = labels[i];
    }
    real_files().create_directories(folder_ / name);
    write_file_atomic(real_files(), folder_ / name + "/config.json", stored.description.dump());
    write_file_atomic(real_files(), folder_ / name + "/model.safetensors", weights(output));
  }

  const std::string tiny_ =
      "image_size: 8, patch_size: 4, hidden_size: 16, num_layers: 2, "
      "num_attention_heads: 2";
  const std::string everything_ =
      "{crop: resized, flip: 0.5, rand_augment: {magnitude: 5}, "
      "erase: 0.2, mixup: 0.2, cutmix: 0.2}";
  TemporaryFolder folder_;
  Rng rng_{1};
  std::atomic<bool> stop_ = false;
};

TEST_F(VitRunTest, LearnsToTellPicturesApartAndSaysHowWell) {
  write_pictures("pictures/train", {"red", "green", "blue"}, 12);
  write_pictures("pictures/val", {"red", "green", "blue"}, 5);
  EXPECT_EQ(run(tree("out", tiny_, "{flip: 0.5}", 60)), Outcome::kFinished);
  const std::vector<Json> all = rows("out");
  EXPECT_EQ(all.back()["eval_predictions"], 15);
  EXPECT_EQ(all.back()["eval_accuracy"], 1.0);
  EXPECT_FALSE(all.back().contains("eval_perplexity"));
  const StoredModel saved = open_model(real_files(), folder_ / "out");
  EXPECT_EQ(saved.description["id2label"]["0"], "blue");
  EXPECT_TRUE(real_files().exists(join_path(saved.folder, "preprocessor_config.json")));
}

TEST_F(VitRunTest, AnEvaluationCallsTheClassesOfOtherFoldersAsTheCheckpointDoes) {
  write_pictures("pictures/train", {"red", "green", "blue"}, 12);
  write_pictures("pictures/val", {"red", "green", "blue"}, 5);
  run(tree("out", tiny_, "{}", 60));
  write_pictures("two/train", {"red", "green"}, 2);
  write_pictures("two/val", {"red", "green"}, 5);
  EXPECT_THAT(evaluated("out", "two"), HasSubstr("eval_accuracy 1.0"));
  write_pictures("other/val", {"grey"}, 5);
  write_pictures("other/train", {"green"}, 2);
  EXPECT_THAT(message_of<Error>([&] { evaluated("out", "other"); }),
              HasSubstr("val/grey: is none of the 3 classes that are learnt; did you mean green?"));
}

TEST_F(VitRunTest, ARunThatStoppedGoesOnAsIfItHadNot) {
  write_pictures("pictures", {"red", "green"}, 10);
  run(tree("straight", tiny_ + ", dropout: {hidden: 0.1}", everything_, 9));
  run(tree("stopped", tiny_ + ", dropout: {hidden: 0.1}", everything_, 4));
  YamlNode rest = tree("stopped", tiny_ + ", dropout: {hidden: 0.1}", everything_, 9);
  apply_overrides(rest, Overrides{"data.workers=1"});
  run(rest);
  EXPECT_EQ(weights("stopped"), weights("straight"));
}

TEST_F(VitRunTest, OtherFoldersAreNumberedAsThoseThatTheRunBeganWith) {
  write_pictures("pictures", {"red", "green", "blue"}, 4);
  write_pictures("other", {"red", "green"}, 8);
  const std::string model = tiny_ + ", num_classes: 3";
  const std::vector<std::string> begun{"blue", "green", "red"};
  run(tree("out", model, "{}", 1));
  const auto labels_after = [&](int steps, const SessionStart& start) {
    YamlNode config = tree("out", model, "{}", steps);
    config.find("data")->find("train")->text = folder_ / "other";
    EXPECT_EQ(run(config, start), Outcome::kFinished);
    return labels("out");
  };
  EXPECT_EQ(labels_after(2, {.changes = {"data.train"}}), begun);
  // A start that died before its checkpoint asked for them: this one makes the change; the next has none to make.
  remove_folder(real_files(), folder_ / "out/checkpoints/" + checkpoint_name(2));
  EXPECT_EQ(labels_after(2, {}), begun);
  EXPECT_EQ(labels_after(3, {}), begun);
}

TEST_F(VitRunTest, MicroBatchesChangeTheOrderOfSumsAlone) {
  write_pictures("pictures", {"red", "green"}, 10);
  run(tree("whole", tiny_, everything_, 3));
  YamlNode parts = tree("parts", tiny_, everything_, 3);
  const std::string changed[] = {"batch.micro=2"};
  apply_overrides(parts, changed);
  run(parts);
  const std::vector<Json> expected = rows("whole");
  const std::vector<Json> actual = rows("parts");
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(actual[i]["loss"].get<double>(), expected[i]["loss"].get<double>(), 1e-5);
  }
}

TEST_F(VitRunTest, OtherLabelsGetAHeadOfTheirOwnOnWeightsThatStay) {
  write_pictures("pictures", {"red", "green", "blue"}, 4);
  run(tree("three", tiny_, "{}", 1));
  real_files().remove_all(folder_ / "pictures/red");
  const YamlNode config =
      tree("two", "num_classes: auto, init: {from: " + folder_.path() + "/three}", "{}", 1);
  const StoredModel three = open_model(real_files(), folder_ / "three");
  EXPECT_EQ(three.network->ids(), 3);
  const std::unique_ptr<ModelRun> two = read_run(with_stored_model(real_files(), config));
  two->settle(2, config);
  const Params begun = initial_params(real_files(), three, *two->network(), 7);
  EXPECT_EQ(begun.find("classifier.weight")->shape(), (Shape{2, 16}));
  EXPECT_EQ(begun.size(), two->network()->specs().size());
  for (size_t i = 0; i < begun.size(); ++i) {
    EXPECT_EQ(begun.name(i), two->network()->specs()[i].name);
  }
  run(config);
  const StoredModel saved = open_model(real_files(), folder_ / "two");
  EXPECT_EQ(saved.network->ids(), 2);
  EXPECT_THAT(real_files().read(folder_ / "two/log.txt"),
              HasSubstr("classifier.weight is [3, 16], and [2, 16] is needed; it is drawn anew"));
}

TEST_F(VitRunTest, AHeadThatNamesEveryFolderIsTaughtByThoseNames) {
  write_pictures("pictures/train", {"red", "green", "blue"}, 12);
  write_pictures("pictures/val", {"red", "green", "blue"}, 5);
  run(tree("first", tiny_, "{}", 60));
  // Rows blue, green, red; those names in another order make other answers right.
  write_model("model", "first", {"red", "blue", "green"});
  const std::string from = "init: {from: " + folder_.path() + "/model}";
  EXPECT_EQ(rows("first").back()["eval_accuracy"], 1.0);
  YamlNode still = tree("second", from, "{}", 1);
  const std::string slow[] = {"optimizer.lr=1e-12"};
  apply_overrides(still, slow);
  run(still);
  EXPECT_EQ(rows("second").back()["eval_accuracy"], 0.0);
  EXPECT_EQ(labels("second"), (std::vector<std::string>{"red", "blue", "green"}));
  EXPECT_THAT(evaluated("second", "pictures"), HasSubstr("eval_accuracy 0.0"));
  // Some of the names, and a run that goes on.
  real_files().remove_all(folder_ / "pictures/train/blue");
  real_files().remove_all(folder_ / "pictures/val/blue");
  const std::string three = from + ", num_classes: 3";
  run(tree("straight", three, "{}", 40));
  run(tree("stopped", three, "{}", 20));
  run(tree("stopped", three, "{}", 40));
  EXPECT_EQ(weights("stopped"), weights("straight"));
  EXPECT_EQ(labels("straight"), (std::vector<std::string>{"red", "blue", "green"}));
  EXPECT_EQ(rows("straight").back()["eval_accuracy"], 1.0);
  EXPECT_THAT(evaluated("straight", "pictures"), HasSubstr("eval_accuracy 1.0"));
}

TEST_F(VitRunTest, AHeadThatNamesOtherThingsIsNamedByTheFolders) {
  write_pictures("pictures/train", {"red", "green", "blue"}, 12);
  write_pictures("pictures/val", {"red", "green", "blue"}, 5);
  const std::string five = ", num_classes: 5";
  run(tree("first", tiny_ + five, "{}", 1));
  EXPECT_EQ(labels("first"),
            (std::vector<std::string>{"blue", "green", "red", "LABEL_3", "LABEL_4"}));
  write_model("model", "first", {"cat", "dog", "eel", "red", "gnu"});
  const std::string from = "init: {from: " + folder_.path() + "/model}" + five;
  run(tree("second", from, "{}", 60));
  EXPECT_EQ(rows("second").back()["eval_accuracy"], 1.0);
  EXPECT_EQ(labels("second"), (std::vector<std::string>{"blue", "green", "red", "LABEL_3", "gnu"}));
  EXPECT_THAT(evaluated("second", "pictures"), HasSubstr("eval_accuracy 1.0"));
}

TEST_F(VitRunTest, AdaptersOfAllLayersLeaveTheNumberOfLabelsToTheData) {
  write_pictures("pictures", {"red", "green", "blue"}, 4);
  run(tree("whole", tiny_, "{}", 1));
  const std::string from = "init: {from: " + folder_.path() + "/whole}";
  EXPECT_EQ(run(tree("adapted", from + ", lora: {rank: 2}", "{}", 2)), Outcome::kFinished);
  real_files().remove_all(folder_ / "pictures/red");
  EXPECT_EQ(run(tree("two", from + ", lora: {rank: 2, modules_to_save: [classifier]}", "{}", 2)),
            Outcome::kFinished);
  EXPECT_EQ(open_model(real_files(), folder_ / "two").network->ids(), 2);
}

TEST_F(VitRunTest, ImagesAreNormalizedAsThoseOfTheDirectoryUnlessToldOtherwise) {
  write_pictures("pictures", {"red", "green"}, 10);
  YamlNode first = tree("first", tiny_, "{}", 1);
  const std::string own[] = {"data.mean=[0.1, 0.2, 0.3]", "data.std=[0.25]"};
  apply_overrides(first, own);
  run(first);
  const auto data = [&](const YamlNode& config, const char* key) {
    const YamlNode all = resolved_config(real_files(), config);
    return to_flow(*find_config(all, std::string("data.") + key));
  };
  YamlNode second = tree("second", "init: {from: " + folder_.path() + "/first}", "{}", 1);
  EXPECT_EQ(data(second, "mean"), "[0.1, 0.2, 0.3]");
  EXPECT_EQ(data(second, "std"), "[0.25, 0.25, 0.25]");
  const auto before_seconds = [](const std::string& text) {
    return text.substr(0, text.find(','));
  };
  EXPECT_EQ(before_seconds(evaluated("first", "pictures")),
            before_seconds(evaluated("first", "pictures", own)));
  write_model("model", "first", {});
  const std::string from = "init: {from: " + folder_.path() + "/model}";
  YamlNode third = tree("third", from, "{}", 1);
  EXPECT_EQ(data(third, "mean"), "[0.5]");
  const std::string file = folder_ / "model/preprocessor_config.json";
  const auto write = [&](const std::string& json) { write_file_atomic(real_files(), file, json); };
  write(R"({"do_normalize": false, "image_mean": [0.1, 0.2, 0.3]})");
  EXPECT_EQ(data(third, "mean"), "[0.0]");
  EXPECT_EQ(data(third, "std"), "[1.0]");
  write(R"({"image_mean": [0.1, 0.2]})");
  EXPECT_THAT(message_of<Error>([&] { data(third, "mean"); }),
              HasSubstr(file + ": image_mean is [0.1,0.2], not a number for each of 3 channels"));
  const std::string mean[] = {"data.mean=[0.4]"};
  apply_overrides(third, mean);
  EXPECT_EQ(data(third, "mean"), "[0.4]");
  EXPECT_EQ(data(third, "std"), "[0.5]");
  write(R"({"image_std": [0.1, 0.2, 0]})");
  EXPECT_THAT(message_of<Error>([&] { data(third, "mean"); }),
              HasSubstr(file + ": image_std is [0.1,0.2,0], not a positive number"));
}

TEST_F(VitRunTest, LargerImagesSeePositionsInterpolatedAndLeaveThemAsTheyWere) {
  write_pictures("pictures", {"red", "green"}, 8);
  YamlNode config = tree("out", tiny_, "{}", 2);
  const std::string larger[] = {"data.image_size=12"};
  apply_overrides(config, larger);
  run(config);
  const StoredModel saved = open_model(real_files(), folder_ / "out");
  EXPECT_EQ(saved.description["image_size"], 8);
  const Params params = load_params(real_files(), saved);
  EXPECT_EQ(params.find("vit.embeddings.position_embeddings")->shape(), (Shape{1, 5, 16}));
}

TEST_F(VitRunTest, TheReportShowsSamplesAsTheyEnterTheModel) {
  write_pictures("pictures", {"red", "green"}, 10);
  run(tree("out", tiny_, "{mixup: 0.5}", 1));
  const Json pictures =
      Json::parse(real_files().read(folder_ / "out/" + std::string(kPicturesFile)));
  ASSERT_EQ(pictures.size(), 24U);
  EXPECT_THAT(pictures[0]["label"].get<std::string>(), HasSubstr(" + "));
  EXPECT_TRUE(pictures[0]["png"].get<std::string>().starts_with("iVBORw0KGgo"));
  EXPECT_THAT(real_files().read(folder_ / "out/report.html"),
              HasSubstr(pictures[5]["png"].get<std::string>()));
}

TEST_F(VitRunTest, MistakesAreToldWithTheirLine) {
  write_pictures("pictures", {"red", "green", "blue"}, 2);
  const auto error = [&](const std::string& model, const std::string& augment = "{}") {
    return message_of<Error>([&] { run(tree("out", model, augment, 1)); });
  };
  EXPECT_THAT(error("image_size: 10"),
              HasSubstr("run.yaml:2: model.image_size: 10 is no multiple"));
  EXPECT_THAT(error(tiny_ + ", num_classes: 2"),
              HasSubstr("run.yaml:2: model.num_classes: 2 is less than the 3 labels of the data"));
  EXPECT_THAT(error(tiny_ + ", num_channels: 4"), HasSubstr("model.num_channels: 4; images have"));
  EXPECT_THAT(
      message_of<Error>([&] { run(tree("out", tiny_, "{}", 1, "eval: {prompts: [what]}\n")); }),
      HasSubstr("run.yaml:8: eval.prompts: a vit writes no text"));
  EXPECT_THAT(error(tiny_, "{scale: [0.5, 0.1]}"),
              HasSubstr("run.yaml:3: data.augment.scale: 0.5 is more than 0.1"));
  EXPECT_THAT(error(tiny_, "{mixup_alpha: 1}"), HasSubstr("here that is data.augment.mixup"));
  real_files().create_directories(folder_ / "pictures/yellow");
  EXPECT_THAT(error(tiny_), HasSubstr("run.yaml:3: data.train: " + folder_.path() +
                                      "/pictures/yellow: the folder holds no file"));
  YamlNode config = tree("out", tiny_, "{}", 1);
  const std::string nowhere[] = {"data.train=" + (folder_ / "none")};
  apply_overrides(config, nowhere);
  EXPECT_THAT(message_of<Error>([&] { run(config); }), HasSubstr("data.train: "));
}

}  // namespace
}  // namespace mstrain::vit
