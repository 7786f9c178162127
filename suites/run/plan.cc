#include "suites/run/plan.h"

#include <fmt/ranges.h>

#include <map>

#include "core/base/error.h"
#include "core/exec/execute.h"
#include "core/forecast/report.h"
#include "core/forecast/search.h"
#include "core/io/atomic_file.h"
#include "suites/run/preflight.h"
#include "suites/run/stored_model.h"

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

bool is_plan_file(const std::string& plan) { return plan != "manual" && plan != "auto"; }

// The configuration with the layout that parallel.plan names.
YamlNode with_plan_file(FileSystem& files, YamlNode tree, const std::string& path) {
  const YamlNode plan = parse_yaml(files.read(path, kLargestPlan), path);
  if (!plan.is_map()) {
    throw ConfigError(fmt::format("{}: expected what mstrain plan --write-plan wrote", path));
  }
  for (const char* key : kSearched) {
    if (const YamlNode* value = find_config(plan, key)) {
      set_config(tree, key, *value);
    }
  }
  return tree;
}

// Profiles of a run's model, each read once.
class Profiles {
 public:
  Profiles(const ModelRun& run, const YamlNode& tree, int64_t ids, const Context& context)
      : tree_(tree), ids_(ids), context_(context) {
    const std::unique_ptr<ModelRun> few = with_changes(run.with_layers(kFewBlocks));
    const std::unique_ptr<ModelRun> some = with_changes(run.with_layers(kBlocks));
    in_blocks_ =
        parameters_of_blocks(few->adapted_task().parameters, some->adapted_task().parameters);
    layers_ = run.with_layers(kBlocks);
  }

  const Profile& of(int64_t micro, Recompute recompute) {
    const auto [found, is_new] = known_.try_emplace({micro, recompute});
    if (is_new) {
      found->second = read(micro, recompute);
    }
    return found->second;
  }

 private:
  // Of an encoder with a decoder half of them are of each.
  static constexpr int64_t kFewBlocks = 2;
  static constexpr int64_t kBlocks = 8;

  std::unique_ptr<ModelRun> with_changes(const Overrides& changes) const {
    YamlNode tree = tree_;
    apply_overrides(tree, changes);
    std::unique_ptr<ModelRun> out = read_run(tree);
    out->settle(ids_, tree);
    return out;
  }

  Profile read(int64_t micro, Recompute recompute) const {
    constexpr const char* kNames[] = {"none", "selective", "full"};
    Overrides changes = layers_;
    changes.push_back(fmt::format("memory.recompute={}", kNames[static_cast<size_t>(recompute)]));
    changes.push_back(fmt::format("batch.global={}", 2 * micro));
    changes.push_back(fmt::format("batch.micro={}", micro));
    changes.emplace_back("run.execution=graph");
    for (const char* key : {"data=1", "tensor=1", "sequence_parallel=auto", "pipeline=1",
                            "virtual_pipeline=1", "schedule=1f1b", "stage_layout=[]"}) {
      changes.push_back(fmt::format("parallel.{}", key));
    }
    const std::unique_ptr<ModelRun> run = with_changes(changes);
    const TrainTask task = run->adapted_task();
    const StepProgram step(task, run->train, micro, context_);
    return read_profile(plan_of(*step.program()), task, step.state_types(), in_blocks_, ids_,
                        kBlocks);
  }

  const YamlNode& tree_;
  int64_t ids_;
  Context context_;
  Overrides layers_;
  std::vector<bool> in_blocks_;
  std::map<std::pair<int64_t, Recompute>, Profile> known_;
};

// Of a sample: products and attention, as the model writes them.
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

void write_plan_file(FileSystem& files, const std::string& path, const RunLayout& layout) {
  YamlNode tree = YamlNode::map();
  apply_overrides(tree, layout.keys());
  write_file_atomic(files, path, to_yaml(tree));
}

// What to say of a layout that does not fit: the choices that would, with the same ranks.
[[noreturn]] void refuse(const ForecastInput& input, const ProfileOf& profiles,
                         const Forecast& found, std::set<std::string> fixed) {
  for (const char* key :
       {"batch.micro", "memory.recompute", "parallel.zero.stage", "parallel.copies"}) {
    fixed.erase(key);
  }
  constexpr size_t kShown = 3;
  SearchResult changes = search_layouts(input, profiles, found.layout, fixed, kShown);
  if (changes.best.empty()) {
    changes = search_layouts(input, profiles, found.layout, {}, kShown);
  }
  std::string message = reason(found, nullptr);
  if (changes.best.empty()) {
    const double least =
        changes.too_large.empty() ? found.peak_bytes() : changes.too_large[0].peak_bytes();
    throw PlanError(
        fmt::format("the plan {}; no layout on these ranks fits: the leanest needs "
                    "{:.1f} GB a rank, so more ranks, or leaner states, as "
                    "precision.params=bf16 precision.moments=int8, are needed",
                    message, least / 1e9));
  }
  message += "; what would fit:";
  const std::vector<std::string> before = found.layout.keys();
  for (const Forecast& it : changes.best) {
    std::vector<std::string> keys;
    const std::vector<std::string> now = it.layout.keys();
    for (size_t i = 0; i < now.size(); ++i) {
      if (now[i] != before[i]) {
        keys.push_back(now[i]);
      }
    }
    message += fmt::format("\n  {}   ({:.1f} GB, {:.4g} s a step)", fmt::join(keys, " "),
                           it.peak_bytes() / 1e9, it.step_seconds);
  }
  throw PlanError("the plan " + message);
}

// What a run of `tree` is planned with on a cluster.
class Planning {
 public:
  // `ids`: of its tokenizer, where somebody knows them.
  Planning(FileSystem& files, YamlNode given, const Cluster& on, std::optional<int64_t> ids = {})
      : tree(std::move(given)),
        run(read_run(tree)),
        train(run->train),
        cluster(on),
        context_{.backend = described_backend(cluster.device.name, cluster.device), .threads = 1},
        scope_(context_) {
    limit = train.memory.limit_gb.value_or(cluster.device.memory_gb) * 1e9;
    refuse_absurd(*run, static_cast<int64_t>(limit * static_cast<double>(cluster.ranks())));
    ids = run->network()->ids() ? run->network()->ids() : ids;
    if (!ids) {
      ids = run->known_ids(files, tree);
    }
    if (!ids) {
      run->fail_unsettled(tree);
    }
    run->settle(*ids, tree);
    profiles_.emplace(*run, tree, *ids, context_);
    own_schedule = read_own_schedule(files, train.parallel, tree);
  }

  const Profile& profile_of(int64_t micro, Recompute recompute) {
    return profiles_->of(micro, recompute);
  }
  ForecastInput input() {
    const Units units = run->adapted_task().units;
    const int64_t layers = run->network()->num_layers();
    return {.cluster = cluster,
            .model = {layers, heads_of(*run), units.count},
            .units_per_sample = static_cast<double>(units.count),
            .global_batch = train.batch.global,
            .limit_bytes = limit,
            .model_flops = model_flops(profile_of(1, Recompute::kNone), layers),
            .dtype = train.precision.param_dtype()};
  }

  const YamlNode tree;
  const std::unique_ptr<ModelRun> run;
  const TrainConfig& train;
  const Cluster& cluster;
  double limit = 0;  // bytes of a rank
  std::shared_ptr<const Schedule> own_schedule;

 private:
  const Context context_;
  const ContextScope scope_;
  std::optional<Profiles> profiles_;
};

}  // namespace

void plan(const PlanRequest& request) {
  YamlNode tree = with_stored_model(request.files, request.tree);
  // Who says nothing of ranks asks for a layout.
  std::string kind =
      find_config(tree, "parallel") == nullptr ? "auto" : read_run(tree)->train.parallel.plan;
  if (is_plan_file(kind)) {
    tree = with_plan_file(request.files, std::move(tree), kind);
    kind = "manual";
  }
  Planning planning(request.files, std::move(tree), request.cluster);
  const YamlNode& asked = planning.tree;
  const TrainConfig& train = planning.train;
  const Cluster& cluster = planning.cluster;
  const ProfileOf profile_of = [&](int64_t micro, Recompute recompute) -> const Profile& {
    return planning.profile_of(micro, recompute);
  };
  const ForecastInput input = planning.input();
  const std::string unit = planning.run->adapted_task().units.name;

  std::set<std::string> fixed;
  for (const char* key : kSearched) {
    const bool is_open = std::string_view(key) == "batch.micro" && train.batch.micro.is_word();
    const bool is_left = std::string_view(key) == "parallel.data" && train.parallel.data == -1;
    if (!is_open && !is_left && (kind == "manual" || find_config(asked, key) != nullptr)) {
      fixed.insert(key);
    }
  }
  const RunLayout given =
      resolve_layout(train, asked, cluster, input.model, /*micro=*/1, planning.own_schedule);
  Forecast found;
  std::optional<SearchResult> result;
  if (kind == "manual" && !train.batch.micro.is_word()) {
    found = forecast(input, profile_of(given.micro / given.copies, given.recompute), given);
  } else {
    result = search_layouts(input, profile_of, given, fixed, static_cast<size_t>(request.top));
    if (result->best.empty() && result->too_large.empty()) {
      throw PlanError(fmt::format(
          "no layout divides batch.global {}, {} layers and {} heads over {} ranks as the "
          "configuration asks for; leave more of `parallel` open",
          train.batch.global, input.model.layers, input.model.heads, cluster.ranks()));
    }
    found = result->best.empty() ? result->too_large[0] : result->best[0];
  }
  if (request.json) {
    OrderedJson json = to_json(found, cluster);
    if (kind == "auto") {
      json["layout"] = found.layout.keys();
    }
    fmt::print(request.out, "{}\n", json.dump(2));
  } else {
    fmt::print(request.out, "{}", describe(found, cluster, unit));
    if (kind == "auto") {
      fmt::print(request.out, "{}", describe(*result, unit));
    }
  }
  std::fflush(request.out);
  if (!found.fits() && !request.json) {
    refuse(input, profile_of, found, fixed);
  }
  if (request.write_schedule) {
    if (found.layout.pipeline == 1) {
      throw ConfigError("--write-schedule: the layout has no pipeline");
    }
    write_file_atomic(request.files, *request.write_schedule,
                      to_text(found.layout.made_schedule()));
  }
  if (request.write_plan) {
    write_plan_file(request.files, *request.write_plan, found.layout);
  }
}

Timeline planned_step(FileSystem& files, const YamlNode& tree, const Cluster& cluster,
                      int64_t micro, std::optional<int64_t> ids) {
  YamlNode changed = with_stored_model(files, tree);
  apply_overrides(changed, Overrides{"parallel.plan=manual", fmt::format("batch.micro={}", micro)});
  Planning planning(files, std::move(changed), cluster, ids);
  const ForecastInput input = planning.input();
  const RunLayout layout = resolve_layout(planning.train, planning.tree, cluster, input.model,
                                          micro, planning.own_schedule);
  return planned_step(input, planning.profile_of(layout.micro / layout.copies, layout.recompute),
                      layout);
}

}  // namespace mstrain
