// The configuration of a run of a recommender: what its models have in common. Numbers of samples and rows come from the data; dense
// parameters are trained by the step, rows by the cache that the step looks them up in.
#pragma once

#include <memory>

#include "suites/recommender/data/data_config.h"
#include "suites/recommender/embedding/batches.h"
#include "suites/recommender/models/parts.h"
#include "suites/recommender/run/sizing.h"
#include "suites/run/model_run.h"
#include "suites/run/stored_model.h"

namespace mstrain::recommender {

class RecommenderRun : public ModelRun {
 public:
  DataConfig data;
  EmbeddingConfig embedding;
  CacheConfig cache;

  void settle(int64_t ids, const YamlNode& tree) override;
  [[noreturn]] void fail_unsettled(const YamlNode& tree) const override;
  std::optional<int64_t> known_ids(FileSystem& files, const YamlNode& tree) const override;
  void open_data(FileSystem& files, const YamlNode& tree,
                 const std::optional<std::string>& folder) override;
  // Of the opened data: what settles the network, see shape_id().
  int64_t data_ids() const override;
  bool holds_out() const override;
  void find_oddities_of(int64_t ids, const YamlNode& tree, Findings& findings) const override;
  TrainTask task() const override;
  TrainData samples(const Json& source) const override;
  std::string describe_besides(const RunPlan& plan) const override;
  LeastSize least_size() const override;
  std::optional<std::string> unplanned() const override;
  Overrides with_layers(int64_t layers) const override;

  // In place of open_data(): the samples of a file, which may have no labels, as held-out data. The network is settled. `folder`: the
  // checkpoint that scores them.
  void open_to_score(FileSystem& files, const YamlNode& tree, const std::string& path,
                     const std::string& folder);

  // Fields and how they are looked up: those of opened data, or as many as the configuration says.
  std::shared_ptr<const Tables> tables() const;
  // Where rows and commits lie in this mode of running.
  std::string rows_directory() const;
  std::shared_ptr<Rows> rows(FileSystem& files) const;

 protected:
  virtual FieldsConfig& shape() = 0;
  const FieldsConfig& shape() const { return const_cast<RecommenderRun*>(this)->shape(); }
  // None: the model has no single weights. Else, of which fields.
  virtual std::optional<std::optional<std::vector<std::string>>> weights_of() const = 0;
  // The layers that plans repeat, and their section.
  struct Tower {
    std::string key;
    const TowerConfig& config;
  };
  virtual Tower tower() const = 0;
  // Log-odds [b]; a function that outlives the run.
  virtual std::function<Tensor(const Params&, const Features&)> model_function() const = 0;

  void declare_data(ConfigFields& fields) override;
  void check(const YamlNode& tree) const override;

 private:
  void check_batch_norm(const YamlNode& tree) const;
  void check_rows(const YamlNode& tree) const;
  void lay_out(FileSystem& files, const YamlNode& tree);
  FieldUse use() const;
  int readers() const;      // threads that read samples
  Context context() const;  // of the run, or that a plan for a device that is not here is made in
  Placement placement(const Tables& tables) const;
  embedding_cache::Options options() const;
  std::vector<uint64_t> device_rows(const embedding_cache::Options& options) const;
  SizedRun sized(const Placement& placement, const embedding_cache::Options& options) const;
  int64_t samples_taught() const;
  std::vector<uint64_t> rows_to_come(const Tables& tables) const;
  int64_t bytes_of_tables(const Tables& tables) const;
  std::function<void(const RowSink&)> first_rows(FileSystem& files) const;

  FileSystem* files_ = nullptr;
  std::optional<std::string> begins_with_;  // model.init.from
  uint64_t rows_before_ = 0;                // that it has
  std::string host_rows_key_;               // "FILE:LINE: embedding_cache.host_rows"
  OpenedSamples opened_;
  std::shared_ptr<const Tables> tables_;
};

// The run that wrote a checkpoint, with its configuration; its network is the stored one. Throws ConfigError where it is no recommender's.
struct WrittenRun {
  std::unique_ptr<RecommenderRun> run;
  YamlNode tree;
};
WrittenRun run_of_checkpoint(const StoredModel& model);

// The one number that settles a network of so many vectors and numeric columns a sample.
int64_t shape_id(int64_t fields, int64_t numeric);

// The features in a batch as `tables` lay it out; its labels are batch[0].
Features features_of(const Tables& tables, std::span<const Tensor> batch);

}  // namespace mstrain::recommender
