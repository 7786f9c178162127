#include "suites/run/plan.h"

#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/forecast/report.h"
#include "core/io/atomic_file.h"
#include "core/train/numbers.h"
#include "suites/run/planning.h"
#include "suites/run/stored_model.h"
#include "suites/run/suite.h"

namespace mstrain {
namespace {

// What to say of a layout that does not fit: the choices that would, with the same ranks.
[[noreturn]] void refuse(const Planning& planning, const Forecast& found,
                         std::set<std::string> fixed) {
  const ForecastInput& input = planning.input();
  const ProfileOf profiles = planning.profile_of();
  if (found.largest().reserved >= found.limit_bytes) {
    throw PlanError(fmt::format(
        "the plan is impossible: a device keeps {} for itself (cluster.device.reserved_gb), and {} "
        "are there (cluster.device.memory_gb, memory.limit_gb)",
        gigabytes(static_cast<int64_t>(found.largest().reserved)),
        gigabytes(static_cast<int64_t>(found.limit_bytes))));
  }
  for (const char* key :
       {"batch.micro", "memory.recompute", "parallel.zero.stage", "parallel.copies"}) {
    fixed.erase(key);
  }
  constexpr size_t kShown = 3;
  const Objection objection = planning.objection();
  SearchResult changes = search_layouts(input, profiles, found.layout, fixed, kShown, objection);
  if (changes.best.empty()) {
    changes = search_layouts(input, profiles, found.layout, {}, kShown, objection);
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

}  // namespace

void check_planned(FileSystem& files, const YamlNode& tree) {
  if (const RunKind* const kind = run_kind_of(tree)) {
    config_fail(tree, kind->section,
                "plans are for models that learn from data; of an agent --dry-run says what it "
                "takes");
  }
  if (const auto why = read_run(with_stored_model(files, tree))->unplanned()) {
    config_fail(tree, "model.type", *why);
  }
}

void plan(const PlanRequest& request) {
  check_planned(request.files, request.tree);
  YamlNode tree = with_stored_model(request.files, request.tree);
  // Who says nothing of ranks asks for a layout.
  std::string kind =
      find_config(tree, "parallel") == nullptr ? kAutoPlan : read_run(tree)->train.parallel.plan;
  if (is_plan_file(kind)) {
    tree = with_plan_file(request.files, std::move(tree), kind);
    kind = kManualPlan;
  }
  const Planning planning(request.files, std::move(tree), request.cluster, {});
  const Cluster& cluster = planning.cluster;
  const ProfileOf profile_of = planning.profile_of();
  const ForecastInput& input = planning.input();
  const std::string unit = planning.run->adapted_task().units.name;

  const std::set<std::string> fixed = planning.decided(/*all=*/kind == kManualPlan);
  Forecast found;
  std::optional<SearchResult> result;
  if (kind == kManualPlan && !planning.train.batch.micro.is_word()) {
    const RunLayout given = planning.asked(/*micro=*/1);
    if (const std::string why = planning.objection()(given); !why.empty()) {
      throw ConfigError(why);
    }
    found = forecast(input, profile_of(given), given);
  } else {
    result = search_layouts(planning, fixed, static_cast<size_t>(request.top));
    found = result->best.empty() ? result->too_large[0] : result->best[0];
  }
  if (request.json) {
    OrderedJson json = to_json(found, cluster);
    if (kind == kAutoPlan) {
      json["layout"] = found.layout.keys();
    }
    fmt::print(request.out, "{}\n", json.dump(2));
  } else {
    fmt::print(request.out, "{}", describe(found, cluster, unit));
    if (kind == kAutoPlan) {
      fmt::print(request.out, "{}", describe(*result, unit));
    }
  }
  std::fflush(request.out);
  if (!found.fits()) {
    refuse(planning, found, fixed);
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
  const Planning planning(files, std::move(changed), cluster, ids);
  const RunLayout layout = planning.asked(micro);
  return planned_step(planning.input(), planning.profile_of()(layout), layout);
}

}  // namespace mstrain
