#include "suites/run/plan.h"
#include "core/base/error.h"
#include "launcher/commands.h"

namespace mstrain::launcher {

int plan(const Usage& usage, Arguments arguments, const std::atomic<bool>&) {
  std::optional<std::string> config;
  std::optional<std::string> cluster;
  std::optional<std::string> write_plan;
  std::optional<std::string> write_schedule;
  bool json = false;
  int64_t top = 5;
  const std::vector<Option> options{
      text_option("--config", "FILE", config, "the configuration"),
      text_option("--cluster", "FILE", cluster,
                  "the machines, as configs/clusters/a100_80gb_x8.yaml; cluster.nodes=4 and the "
                  "like change them"),
      flag("--json", json, "one object instead of tables, whether it fits or not"),
      {"--top", "N",
       [&](const std::string& text) {
         top = integer_value("--top", text);
         if (top < 1 || top > 1000) {
           throw ConfigError("--top: expected an integer from 1 to 1000, found " + text);
         }
       },
       "with parallel.plan=auto: layouts of each kind to show (default 5)"},
      text_option("--write-plan", "FILE", write_plan, "writes the layout, for parallel.plan=FILE"),
      text_option("--write-schedule", "FILE", write_schedule,
                  "writes the order of work in its pipeline, for parallel.schedule=FILE")};
  const auto rest = parse_arguments(usage, arguments, options);
  if (!rest) {
    return kDone;
  }
  std::vector<std::string> overrides;
  std::vector<std::string> of_cluster;
  for (const std::string& change : *rest) {
    (change.starts_with("cluster.") ? of_cluster : overrides).push_back(change);
  }
  mstrain::plan(
      {.files = real_files(),
       .tree = load_config(required(config, "--config FILE"), overrides),
       .cluster = read_cluster(real_files(), required(cluster, "--cluster FILE"), of_cluster),
       .json = json,
       .top = top,
       .write_plan = write_plan,
       .write_schedule = write_schedule,
       .out = stdout});
  return kDone;
}

}  // namespace mstrain::launcher
