#include "suites/recommender/run/recommender_run.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/written_yaml.h"
#include "core/data/corpus_sources.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/runtime/context.h"
#include "core/tensor/host.h"
#include "core/train/metrics.h"
#include "core/train/numbers.h"
#include "core/train/ranked_scores.h"
#include "core/train/run_directory.h"
#include "core/train/session.h"
#include "suites/recommender/run/export_rows.h"
#include "suites/recommender/run/import_rows.h"
#include "suites/recommender/run/stored_rows.h"

namespace mstrain::recommender {
namespace {

constexpr int64_t kNumericUnit = int64_t{1} << 32;

// As many fields as a configuration says, of any ids.
SampleSchema unnamed(int64_t fields, int64_t numeric) {
  SampleSchema schema;
  for (int64_t i = 0; i < numeric; ++i) {
    schema.numeric.push_back(fmt::format("numeric_{}", i));
  }
  for (int64_t i = 0; i < fields; ++i) {
    schema.fields.push_back({.name = fmt::format("field_{}", i)});
  }
  return schema;
}

std::string identity_of(const SampleSource* source) {
  return source == nullptr ? std::string() : source->identity();
}

// What no model can beat on the first of `samples`, where it is known who made them.
std::string best_possible(const SampleSource& samples) {
  constexpr int64_t kSamples = 200'000;
  constexpr int64_t kBatch = 10'000;
  RankedScores scores;
  double log_losses = 0;
  const int64_t count = std::min(samples.samples(), kSamples);
  SampleBatch batch;
  for (int64_t first = 0; first < count; first += kBatch) {
    std::vector<int64_t> places(static_cast<size_t>(std::min(kBatch, count - first)));
    std::iota(places.begin(), places.end(), first);
    samples.read(places, batch);
    const std::vector<double> odds = samples.true_log_odds(batch);
    if (odds.empty()) {
      return "";
    }
    const std::vector<double> labels(batch.labels.begin(), batch.labels.end());
    scores.add(odds, labels);
    for (size_t i = 0; i < odds.size(); ++i) {
      log_losses += std::log1p(std::exp(labels[i] > 0.5 ? -odds[i] : odds[i]));
    }
  }
  return fmt::format("the model that made the samples has auc {:.4f} and loss {:.4f} on {} of them",
                     scores.auc(), log_losses / static_cast<double>(count), grouped(count));
}

// The columns of numbers that are the fields of `table`.
Tensor columns_of(const Tensor& numbers_bn, const TableSpec& table) {
  std::vector<int32_t> places;
  for (const TableField& field : table.fields) {
    places.push_back(static_cast<int32_t>(field.index));
  }
  const auto n = std::ssize(places);
  return n == numbers_bn.dim(1) ? numbers_bn : take(numbers_bn, tensor<int32_t>(places, {n}), 1);
}

}  // namespace

WrittenRun run_of_checkpoint(const StoredModel& model) {
  const std::filesystem::path home =
      std::filesystem::path(model.folder).parent_path().parent_path();
  const std::string config = (home / kConfigFile).string();
  if (!real_files().exists(config)) {
    throw IoError(fmt::format(
        "{}: is no checkpoint of a run, whose {} would say how samples are read; an export, which "
        "is there to be served, does not: name the run or a checkpoint of it",
        model.folder, kConfigFile));
  }
  WrittenRun out{nullptr, read_written_yaml(real_files(), config)};
  set_config(out.tree, "run.output_dir", YamlNode::string(home.string()));
  std::unique_ptr<ModelRun> read = read_run(out.tree);
  if (dynamic_cast<RecommenderRun*>(read.get()) == nullptr) {
    throw ConfigError(fmt::format("{}: is no recommender; see mstrain eval", model.folder));
  }
  out.run.reset(static_cast<RecommenderRun*>(read.release()));
  out.run->take_network(*model.network);
  return out;
}

int64_t shape_id(int64_t fields, int64_t numeric) { return fields + kNumericUnit * numeric; }

Features features_of(const Tables& tables, std::span<const Tensor> batch) {
  Features out;
  size_t place = 1;
  const Tensor numbers_bn = tables.columns() > 0 ? batch[place++] : Tensor();
  if (tables.numeric() > 0) {
    out.numeric_bn = numbers_bn;
  }
  Tensors vectors, of_numbers, numbers;
  for (const TableSpec& table : tables.specs()) {
    if (table.has_vectors) {
      (table.is_numeric ? of_numbers : vectors).push_back(batch[place++]);
    }
    if (table.has_vectors && table.is_numeric) {
      numbers.push_back(columns_of(numbers_bn, table));
    }
    if (table.has_weights) {
      const Tensor& sum_b = batch[place++];
      out.weights_b = out.weights_b.defined() ? out.weights_b + sum_b : sum_b;
    }
  }
  const auto joined = [](const Tensors& parts) {
    return parts.empty() ? Tensor() : parts.size() == 1 ? parts[0] : concat(parts, 1);
  };
  out.vectors_bfd = joined(vectors);
  out.vectors_of_numbers_bnd = joined(of_numbers);
  out.numbers_bn = joined(numbers);
  return out;
}

void RecommenderRun::declare_data(ConfigFields& fields) {
  fields("data", data, "samples to train and to evaluate on");
  fields("embedding", embedding, "how the rows of ids begin and learn");
  fields("embedding_cache", cache, "where the rows of ids live");
}

FieldUse RecommenderRun::use() const {
  const auto weights = weights_of();
  return {.has_weights = weights.has_value(),
          .width = shape().embedding_dim,
          .embeds_numeric = shape().embed_numeric,
          .group_by = data.group_by,
          .vectors_of = shape().vector_fields,
          .weights_of = weights.value_or(std::nullopt)};
}

std::shared_ptr<const Tables> RecommenderRun::tables() const {
  if (tables_ != nullptr) {
    return tables_;
  }
  FieldUse all = use();
  all.embeds_numeric = false;
  all.vectors_of.reset();
  all.weights_of.reset();
  all.group_by.reset();
  return std::make_shared<const Tables>(
      unnamed(shape().num_fields.value_or(1), shape().num_numeric.value_or(0)), all);
}

void RecommenderRun::settle(int64_t ids, const YamlNode& tree) {
  const auto take = [&](const char* key, AutoOr<int64_t>& own, int64_t given, const char* what) {
    if (own.is_word()) {
      own = given;
    } else if (*own.value != given) {
      config_fail(tree, key,
                  fmt::format("{}, but a sample of the data has {} {}{}", *own.value, given, what,
                              begins_with(tree)
                                  ? "; the dense layers of model.init.from take as many as they "
                                    "learned with"
                                  : ""));
    }
  };
  take("model.num_fields", shape().num_fields, ids % kNumericUnit, "vectors");
  take("model.num_numeric", shape().num_numeric, ids / kNumericUnit, "numbers");
}

void RecommenderRun::fail_unsettled(const YamlNode& tree) const {
  config_fail(tree, "model.num_fields",
              "auto asks the data; a plan, and --offline, need this and model.num_numeric");
}

std::optional<int64_t> RecommenderRun::known_ids(FileSystem&, const YamlNode&) const { return {}; }

int RecommenderRun::readers() const {
  return Context{.threads = static_cast<int>(train.run.threads.value_or(0))}.num_threads();
}

void RecommenderRun::open_data(FileSystem& files, const YamlNode& tree,
                               const std::optional<std::string>& folder) {
  opened_ = open_samples(files, data, tree, readers());
  lay_out(files, tree);
  if (folder) {
    expect_features_of(files, *folder, description_of(*tables_));
  }
}

void RecommenderRun::open_to_score(FileSystem& files, const YamlNode& tree, const std::string& path,
                                   const std::string& folder) {
  opened_.valid = open_for_scoring(files, data, tree, path, readers());
  opened_.train = opened_.valid;
  lay_out(files, tree);
  expect_features_of(files, folder, description_of(*tables_));
  settle(data_ids(), tree);
}

void RecommenderRun::lay_out(FileSystem& files, const YamlNode& tree) {
  files_ = &files;
  begins_with_ = begins_with(tree);
  rows_before_ = begins_with_ ? count_rows(files, *begins_with_) : 0;
  host_rows_key_ = config_where(tree, "embedding_cache.host_rows");
  if (data.group_by) {
    FieldUse grouped = use();
    grouped.vectors_of.reset();
    grouped.weights_of.reset();
    try {
      const Tables trial(opened_.train->schema(), grouped);
    } catch (const Error& error) {
      config_fail(tree, "data.group_by", error.what());
    }
  }
  try {
    tables_ = std::make_shared<const Tables>(opened_.train->schema(), use());
  } catch (const Error& error) {
    config_fail(tree, "model", error.what());
  }
  if (tables_->vectors() == 0) {
    config_fail(tree, "model.vector_fields", "no field has vectors");
  }
  if (shape().embed_numeric && opened_.train->schema().numeric.empty()) {
    config_fail(tree, "model.embed_numeric",
                "true, but the data have no numeric columns; say false");
  }
  if (use().has_weights && !tables_->has_weights()) {
    config_fail(tree, "model.wide_fields", "no field has single weights");
  }
}

int64_t RecommenderRun::data_ids() const {
  return shape_id(tables_->vectors(), tables_->numeric());
}

bool RecommenderRun::holds_out() const {
  return opened_.train != nullptr ? opened_.valid != nullptr : data.valid || data.split < 1;
}

TrainTask RecommenderRun::task() const {
  TrainTask task;
  const std::shared_ptr<const Network> own = network();
  task.parameters = own->specs();
  task.stored_shapes = stored_shapes(*own, task.parameters);
  const std::shared_ptr<const Tables> tables = this->tables();
  task.batch_types = [tables](int64_t rows) { return tables->batch_types(rows); };
  task.sums = [tables, model = model_function()](const Params& params,
                                                 std::span<const Tensor> batch) {
    const Tensor& labels_b = batch[0];
    const Tensor logits_b = model(params, features_of(*tables, batch));
    const Tensor counts_b = greater_equal(labels_b, 0.0);
    const Tensor losses_b = where(counts_b, log_losses(logits_b, labels_b), 0.0);
    const Tensor right_b =
        logical_and(counts_b, equal(cast(greater(logits_b, 0.0), Dtype::kF32), labels_b));
    const Tensor count = sum(cast(counts_b, Dtype::kI32));
    TaskSums sums{
        {sum(losses_b), count}, {{sum(cast(right_b, Dtype::kI32)), count}}, {logits_b, labels_b}};
    if (tables->group()) {
      sums.scores.push_back(batch.back());
    }
    return sums;
  };
  task.metrics = {kEvalAccuracy};
  task.has_scores = true;
  task.has_groups = tables->group().has_value();
  task.looked_up = tables->looked_up();
  task.outside_bytes = bytes_of_tables(*tables);
  return task;
}

// Of a rank: its cache, and what is on its way between ranks.
TrainData RecommenderRun::samples(const Json& source) const {
  TrainData out;
  const std::shared_ptr<Rows> own = rows(*files_);
  const BatchSource training{opened_.train, tables_, own};
  Hasher identity;
  identity.add(identity_of(opened_.train.get()));
  identity.add(identity_of(opened_.valid.get()));
  out.identity = to_string(identity.finish());
  out.checkpoint_files = {{"config.json", config_json(source)},
                          {kRowsFile, description_of(*tables_).dump(2) + "\n"}};
  out.outside = own;
  const SampleOrder order{.shuffle = data.shuffle};
  if (opened_.train != opened_.valid && train.run.mode != RunMode::kEval) {
    // Told before rows of an earlier run are let go; scores and evaluations hold none.
    const Placement shared = placement(*tables_);
    const embedding_cache::Options planned = options();
    check_first_batch(sized(shared, planned));
  }
  out.training = [training, order](uint64_t seed, const BatchPart& part, int64_t first) {
    return training_batches(training, order, seed, part, first);
  };
  if (opened_.valid != nullptr) {
    if (const std::string best = best_possible(*opened_.valid); !best.empty()) {
      log_info("held out: {}, which no other can beat but by chance", best);
    }
    const BatchSource held_out{opened_.valid, tables_, own};
    out.evaluation.push_back({"",
                              [held_out](const BatchPart& part, int64_t samples) {
                                return reading_batches(held_out, part, samples);
                              },
                              opened_.valid->samples()});
  }
  return out;
}

// The first ones as they are, more of them like the last.
Overrides RecommenderRun::with_layers(int64_t layers) const {
  const auto& [key, config] = tower();
  std::vector<int64_t> widths = config.hidden;
  widths.resize(static_cast<size_t>(layers), widths.empty() ? 1 : widths.back());
  return {fmt::format("{}.hidden=[{}]", key, fmt::join(widths, ","))};
}

std::optional<std::string> RecommenderRun::unplanned() const {
  return "plans for clusters do not count rows of ids, which are most of a recommender; --dry-run "
         "counts them, parallel.data=N of one of N ranks";
}

LeastSize RecommenderRun::least_size() const {
  const auto rows = static_cast<double>(train.batch.global);
  const double floats = static_cast<double>(shape().num_fields.value_or(1)) *
                            static_cast<double>(shape().embedding_dim) +
                        static_cast<double>(shape().num_numeric.value_or(0)) + 1;
  return {0, rows * floats * sizeof(float), fmt::format("the {:.3g} samples of a step", rows),
          "model.embedding_dim and the hidden layers of model"};
}

}  // namespace mstrain::recommender
