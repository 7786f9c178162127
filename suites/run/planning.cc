#include "suites/run/planning.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/base/error.h"
#include "core/io/atomic_file.h"
#include "core/train/tensor_parts.h"
#include "suites/run/model_profiles.h"
#include "suites/run/preflight.h"

namespace mstrain {
namespace {

// Keys that a search decides where nobody did.
constexpr const char* kSearched[] = {"parallel.data",
                                     "parallel.tensor",
                                     "parallel.pipeline",
                                     "parallel.context",
                                     "parallel.virtual_pipeline",
                                     "parallel.schedule",
                                     "parallel.stage_layout",
                                     "parallel.sequence_parallel",
                                     "parallel.copies",
                                     "parallel.zero.stage",
                                     "batch.micro",
                                     "memory.recompute"};
constexpr uint64_t kLargestPlan = 1 << 20;

// Whether a value leaves the key to whoever lays a run out.
bool is_open(std::string_view key, const YamlNode& value) {
  return value.is_null() || (key == "batch.micro" && value.text == "auto") ||
         (key == "parallel.sequence_parallel" && value.text == "auto") ||
         (key == "parallel.data" && value.text == "-1");
}

// Of a micro-batch: products and attention, as the model writes them.
double model_flops(const Profile& profile, int64_t layers) {
  double sum = 0;
  for (const WorkItem& item : profile.items) {
    if (item.kind == WorkKind::kProduct || item.kind == WorkKind::kAttention) {
      sum += item.flops * item.count *
             (item.region == Region::kBlock ? static_cast<double>(layers) : 1);
    }
  }
  return sum;
}

int64_t heads_of(const ModelRun& run) {
  constexpr const char* kHeads = "model.num_attention_heads";
  const YamlNode written = run.written();
  const YamlNode* const heads = find_config(written, kHeads);
  return heads == nullptr ? 1 : as_int(*heads, kHeads);
}

// Names of what a plan says.
std::vector<std::string> keys_of_plans() {
  std::vector<std::string> names;
  for (const std::string& key : RunLayout().keys()) {
    names.push_back(key.substr(0, key.find('=')));
  }
  return names;
}

}  // namespace

// The run under layouts: what it says of those that it refuses, by the checks that it begins with, and what a rank holds beside its steps
// under the others.
class Planning::LaidRuns {
 public:
  LaidRuns(const Planning& planning, TrainTask task)
      : planning_(planning), task_(std::move(task)), run_(read_run(planning.tree)) {}

  std::string refusal(const RunLayout& layout) {
    lay(layout);
    try {
      check_runs(run_->train.parallel, planning_.tree, planning_.cluster.ranks());
      run_->recheck(planning_.tree);
      check_batch(run_->train, layout.data, planning_.tree);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return parts_of(layout).refusal;
  }

  HeldBytes held(const RunLayout& layout) {
    const std::optional<TensorParts>& parts = parts_of(layout).parts;
    lay(layout);
    return parts ? held_bytes(task_, run_->train, *parts, planning_.context_) : HeldBytes();
  }

 private:
  struct Parts {
    std::optional<TensorParts> parts;  // none: it is refused
    std::string refusal;
  };

  void lay(const RunLayout& layout) {
    TrainConfig& train = run_->train;
    train.parallel = layout.in(planning_.train.parallel);
    train.batch.micro = layout.micro;
    train.memory.recompute = layout.recompute;
  }

  // Many layouts share a model in the same parts.
  const Parts& parts_of(const RunLayout& layout) {
    const auto [found, is_new] =
        parts_.try_emplace({layout.tensor, layout.context, layout.sequence_parallel});
    if (is_new) {
      lay(layout);
      try {
        found->second.parts.emplace(task_, run_->train, planning_.context_);
      } catch (const ConfigError& error) {
        found->second.refusal = error.what();
      }
    }
    return found->second;
  }

  const Planning& planning_;
  const TrainTask task_;
  const std::unique_ptr<ModelRun> run_;
  std::map<std::tuple<int64_t, int64_t, bool>, Parts> parts_;
};

Planning::Planning(FileSystem& files, YamlNode given, const Cluster& on, std::optional<int64_t> ids)
    : tree(std::move(given)),
      run(read_run(tree)),
      train(run->train),
      cluster(on),
      context_{.backend = described_backend(cluster.device.name, cluster.device), .threads = 1},
      scope_(context_) {
  if (const auto why = run->unplanned()) {
    throw ConfigError(*why);
  }
  const double limit = train.memory.limit_gb.value_or(cluster.device.memory_gb) * 1e9;  // of a rank
  if (train.memory.offload.any()) {
    config_fail(tree, "memory.offload",
                "layouts are searched for runs that keep everything on their devices; say none, or "
                "plan one layout by --dry-run and run.device_description");
  }
  refuse_absurd(*run, static_cast<int64_t>(limit * static_cast<double>(cluster.ranks())));
  ids = run->network()->ids() ? run->network()->ids() : ids;
  if (!ids) {
    ids = run->known_ids(files, tree);
  }
  if (!ids) {
    run->fail_unsettled(tree);
  }
  run->settle(*ids, tree);
  profiles_ = std::make_unique<ModelProfiles>(*run, tree, *ids, context_);
  own_schedule_ = read_own_schedule(files, train.parallel, tree);
  TrainTask task = run->adapted_task();
  const Units units = task.units;
  const int64_t tokens = task.positions_inside > 0 ? task.positions_inside : units.count;
  const bool along_tensor = task.positions.size() == 1;
  // Without equal blocks all is one.
  const int64_t layers = run->with_layers(1).empty() ? 1 : run->network()->num_layers();
  const int64_t together = task.samples_together;
  const bool evaluates = train.eval.evaluates() && run->holds_out();
  const double flops = model_flops(profiles_->of(together, Recompute::kNone, false), layers);
  input_.emplace(ForecastInput{.cluster = cluster,
                               .model = {layers, heads_of(*run), tokens, along_tensor},
                               .units_per_sample = static_cast<double>(units.count),
                               .global_batch = train.batch.global,
                               .limit_bytes = limit,
                               .model_flops = flops / static_cast<double>(together),
                               .dtype = train.precision.param_dtype(),
                               .beside = [this, evaluates](const RunLayout& layout) {
                                 return BesideSteps{
                                     .held = laid_->held(layout),
                                     .evaluation = evaluates ? profiles_->evaluation(layout) : 0};
                               }});
  laid_ = std::make_unique<LaidRuns>(*this, std::move(task));
}

Planning::~Planning() = default;

ProfileOf Planning::profile_of() const {
  return [this](const RunLayout& layout) -> const Profile& {
    return profiles_->of(layout.micro / layout.copies, layout.recompute, layout.context > 1);
  };
}

Objection Planning::objection() const {
  return [this](const RunLayout& layout) { return laid_->refusal(layout); };
}

RunLayout Planning::asked(int64_t micro) const {
  return resolve_layout(train, tree, cluster, input().model, micro, own_schedule_);
}

RunLayout Planning::asked(const std::set<std::string>& decided) const {
  return decided_layout(train, tree, cluster, input().model, decided, own_schedule_);
}

std::set<std::string> Planning::decided(bool all) const {
  std::set<std::string> keys;
  const YamlNode said = all ? run->written() : tree;
  for (const char* key : kSearched) {
    const YamlNode* const value = find_config(said, key);
    if (value != nullptr && !is_open(key, *value)) {
      keys.insert(key);
    }
  }
  return keys;
}

SearchResult search_layouts(const Planning& planning, const std::set<std::string>& decided,
                            size_t top) {
  const ForecastInput& input = planning.input();
  SearchResult result = search_layouts(input, planning.profile_of(), planning.asked(decided),
                                       decided, top, planning.objection());
  if (result.best.empty() && result.too_large.empty()) {
    if (!result.objection.empty()) {
      throw PlanError(fmt::format("no layout of {} ranks can be run; of the last: {}",
                                  input.cluster.ranks(), result.objection));
    }
    throw PlanError(fmt::format(
        "no layout divides batch.global {}, {} layers and {} heads over {} ranks{}",
        input.global_batch, input.model.layers, input.model.heads, input.cluster.ranks(),
        decided.empty() ? "; another batch.global, or another number of ranks, would do"
                        : " as the configuration asks for; leave more of `parallel` open"));
  }
  return result;
}

bool is_plan_file(const std::string& plan) { return plan != kManualPlan && plan != kAutoPlan; }

YamlNode with_plan_file(FileSystem& files, YamlNode tree, const std::string& path) {
  if (!files.exists(path)) {
    config_fail(tree, "parallel.plan",
                fmt::format("expected manual, auto or a file that mstrain plan --write-plan wrote; "
                            "there is no {}",
                            path));
  }
  const YamlNode plan = parse_yaml(files.read(path, kLargestPlan), path);
  if (!plan.is_map()) {
    throw ConfigError(fmt::format("{}: expected what mstrain plan --write-plan wrote", path));
  }
  const std::vector<std::string> known = keys_of_plans();
  for (const auto& [key, text] : flatten_config(plan)) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      config_fail(plan, key, "is no key of a plan" + did_you_mean(key, known));
    }
    const YamlNode& value = *find_config(plan, key);
    const YamlNode* const said = find_config(tree, key);
    if (said != nullptr && !is_open(key, *said) && !said->same_value(value)) {
      config_fail(
          tree, key,
          fmt::format("{}, but the plan {} says {}; leave one out", to_flow(*said), path, text));
    }
    set_config(tree, key, value);
  }
  return tree;
}

void write_plan_file(FileSystem& files, const std::string& path, const RunLayout& layout) {
  YamlNode tree = YamlNode::map();
  apply_overrides(tree, layout.keys());
  write_file_atomic(files, path, to_yaml(tree));
}

}  // namespace mstrain
