#include "suites/run/plan.h"
#include "core/base/error.h"
#include "core/forecast/here.h"
#include "core/io/atomic_file.h"
#include "launcher/commands.h"

namespace mstrain::launcher {
namespace {

constexpr const char* kHere = "here";

}  // namespace

int plan(const Usage& usage, Arguments arguments, const std::atomic<bool>&) {
  std::optional<std::string> config;
  std::optional<std::string> cluster;
  std::optional<std::string> write_cluster;
  std::optional<int64_t> ranks;
  std::optional<std::string> write_plan;
  std::optional<std::string> write_schedule;
  bool json = false;
  int64_t top = 5;
  const std::vector<Option> options{
      text_option("--config", "FILE", config, "the configuration"),
      text_option("--cluster", "FILE", cluster,
                  "the machines, as configs/clusters/a100_80gb_x8.yaml; cluster.nodes=4 and the "
                  "like change them; here: this machine, measured now"),
      {"--ranks", "N", [&](const std::string& text) { ranks = integer_value("--ranks", text); },
       "with --cluster here: so many ranks share this machine (default 1)"},
      text_option("--write-cluster", "FILE", write_cluster,
                  "writes the machines down, for --cluster FILE"),
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
  warn_of_repeated(*rest);
  const std::string named = required(cluster, "--cluster FILE");
  const YamlNode tree = load_config(required(config, "--config FILE"), overrides);
  if (ranks && (named != kHere || *ranks < 1 || *ranks > 1000)) {
    throw ConfigError(
        named != kHere ? "--ranks: goes with --cluster here; of other machines cluster.nodes and "
                         "cluster.gpus_per_node tell the ranks"
                       : fmt::format("--ranks: expected 1 to 1000, found {}", *ranks));
  }
  check_planned(real_files(), tree);
  // What was measured is read like a file's, so that keys on the command line lie over it.
  const Cluster machines =
      named == kHere ? parse_cluster(to_text(measure_here(static_cast<int>(ranks.value_or(1)))),
                                     "--cluster here", of_cluster)
                     : read_cluster(real_files(), named, of_cluster);
  if (write_cluster) {
    write_file_atomic(real_files(), *write_cluster, to_text(machines));
  }
  mstrain::plan({.files = real_files(),
                 .tree = tree,
                 .cluster = machines,
                 .json = json,
                 .top = top,
                 .write_plan = write_plan,
                 .write_schedule = write_schedule,
                 .out = stdout});
  return kDone;
}

}  // namespace mstrain::launcher
