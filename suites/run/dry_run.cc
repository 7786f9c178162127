#include <algorithm>

#include "core/base/error.h"
#include "core/train/previous_run.h"
#include "core/train/run_device.h"
#include "suites/run/fit.h"
#include "suites/run/laid_out.h"
#include "suites/run/preflight.h"
#include "suites/run/run.h"
#include "suites/run/stored_model.h"
#include "suites/run/suite.h"
#include "suites/run/sweep.h"

namespace mstrain {

void dry_run(const RunRequest& given, const DryRun& options) {
  if (const RunKind* kind = run_kind_of(given.tree)) {
    kind->dry_run(given, options);
    return;
  }
  const YamlNode tree = with_named_layout(
      given.files,
      with_stored_model(given.files, is_sweep(given.tree) ? first_of_sweep(given) : given.tree));
  const std::unique_ptr<ModelRun> run = read_run(tree);
  const TrainConfig& train = run->train;
  check_runs(train.parallel, tree, planned_ranks(train.parallel));
  const Context context{.backend = planned_backend(given.files, train.run, tree),
                        .threads = static_cast<int>(train.run.threads.value_or(0))};
  const int64_t limit = memory_limit(train.memory, context);
  check_batch(train, data_ranks(train.parallel, context), tree);
  refuse_absurd(*run, limit);
  Findings findings;
  find_oddities(train, tree, findings);
  std::optional<int64_t> ids;
  const bool is_settled = run->network()->ids().has_value();
  if (!options.offline) {
    ids = look_ahead(given.files, *run, tree, findings);
    if (train.run.mode == RunMode::kTrain) {
      find_previous_in_the_way(given.files, train, read_run(tree)->written(), given.start,
                               findings);
    }
  } else if (!is_settled) {
    run->fail_unsettled(tree);
  }
  if (!is_settled) {
    run->settle(*ids, tree);
  }
  run->check_adapters(tree, findings);
  const ContextScope scope(context);
  const bool evaluates = train.eval.evaluates() && run->holds_out();
  const PlannedRun planned =
      plan_run(run->adapted_task(), train, context, limit, evaluates,
               /*micro=*/0, Choices::total_of_micro(*run, tree, context, evaluates));
  fmt::print(given.out, "{}", describe(planned.plan, train, limit));
  if (ids) {
    fmt::print(given.out, "{}", run->describe_besides(planned.plan));
  }
  Choices choices(*run, tree, context, planned.plan, limit);
  if (train.run.execution == Execution::kGraph) {
    choices.print(given.out);
    if (train.fusion.explain) {
      fmt::print(given.out, "{}", fusion_text(planned));
    }
  }
  std::fflush(given.out);
  if (options.plan_file) {
    write_file_atomic(given.files, *options.plan_file, plan_text(planned));
  }
  if (ids) {
    run->find_oddities_of(*ids, tree, findings);
  }
  warn_of(findings);
  if (ids) {
    run->settle(*ids, tree);
  }
  if (planned.plan.total() > limit) {
    choices.refuse();
  }
  fmt::print(given.out, "fits\n");
}

}  // namespace mstrain
