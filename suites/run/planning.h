// What a run is planned with on a cluster, and the layouts that plans, files and searches give it.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "core/forecast/search.h"
#include "suites/run/model_run.h"
#include "suites/run/run.h"

namespace mstrain {

class ModelProfiles;

// While it lives, the current context is one of the cluster's devices.
class Planning {
 public:
  // `tree`: with_stored_model(), its layout in keys. `cluster` must outlive it. `ids`: of its tokenizer, where somebody
  // knows them. Throws as read_run() and plan() do.
  Planning(FileSystem& files, YamlNode tree, const Cluster& cluster, std::optional<int64_t> ids);
  ~Planning();

  const ForecastInput& input() const { return *input_; }
  ProfileOf profile_of() const;
  // To layouts that a run of this configuration refuses: what it says. Must not outlive this.
  Objection objection() const;
  // As the keys say; `micro` stands for batch.micro where that is auto.
  RunLayout asked(int64_t micro) const;
  // As far as keys are `decided`: what a search begins with.
  RunLayout asked(const std::set<std::string>& decided) const;
  // Keys of a layout that the configuration decides; `all`: also those that it leaves to their defaults.
  std::set<std::string> decided(bool all) const;

  const YamlNode tree;
  const std::unique_ptr<ModelRun> run;
  const TrainConfig& train;
  const Cluster& cluster;

 private:
  class LaidRuns;

  const Context context_;
  const ContextScope scope_;
  std::unique_ptr<ModelProfiles> profiles_;
  std::unique_ptr<LaidRuns> laid_;
  std::optional<ForecastInput> input_;
  std::shared_ptr<const Schedule> own_schedule_;
};

// The best layouts of what the configuration leaves open. Throws PlanError where none divides what it has to.
SearchResult search_layouts(const Planning& planning, const std::set<std::string>& decided,
                            size_t top);

// Whether parallel.plan is the name of one.
bool is_plan_file(const std::string& plan);
// `tree` with the layout of a file. Throws ConfigError for what is no plan, and for keys of `tree` that say otherwise.
YamlNode with_plan_file(FileSystem& files, YamlNode tree, const std::string& path);
void write_plan_file(FileSystem& files, const std::string& path, const RunLayout& layout);

}  // namespace mstrain
