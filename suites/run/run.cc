#include "suites/run/run.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/forecast/here.h"
#include "core/io/folder.h"
#include "core/train/checkpoint.h"
#include "core/train/find_lr.h"
#include "core/train/log_file.h"
#include "core/train/outside.h"
#include "core/train/previous_run.h"
#include "core/train/rank_talk.h"
#include "core/train/run_device.h"
#include "core/train/shared_plan.h"
#include "core/train/timing.h"
#include "suites/run/adapter_files.h"
#include "suites/run/fit.h"
#include "suites/run/frozen_origin.h"
#include "suites/run/laid_out.h"
#include "suites/run/plan.h"
#include "suites/run/preflight.h"
#include "suites/run/rank_log.h"
#include "suites/run/stop_ids.h"
#include "suites/run/stored_model.h"
#include "suites/run/suite.h"
#include "suites/run/sweep.h"

namespace mstrain {
namespace {

void print_evaluation(std::FILE* out, const EvaluationResult& result) {
  for (const Metric& metric : result.metrics) {
    const bool is_loss = metric.kind->name == std::string_view(kEvalLoss);
    const std::string seconds = metric.set.empty() ? fmt::format(", {:.1f} s", result.seconds) : "";
    fmt::print(out, "{} {:.6f}{}\n", metric.name(), metric.value,
               is_loss ? fmt::format("  ({} predictions{})", metric.predictions, seconds) : "");
  }
}

int64_t ranks_of(const SessionStart& start) {
  return start.ranks == nullptr ? 1 : start.ranks->mesh().ranks();
}

struct Opened {
  std::unique_ptr<ModelRun> run;
  TrainTask task;
  TrainData data;
};

// The weights of `from` are read when the run begins, or, those that stay as they are, whenever it goes on.
TrainTask task_of(FileSystem& files, const ModelRun& run, const std::optional<std::string>& from) {
  TrainTask task = run.adapted_task();
  if (!from) {
    return task;
  }
  const auto read = [&files, path = *from, network = run.adapted_network(),
                     seed = static_cast<uint64_t>(run.train.run.seed)](
                        const std::vector<ParamSpec>& specs, bool is_trained,
                        std::optional<WeightCode> code) {
    const StoredModel stored = open_model(files, path);
    if (is_trained && stored.base != nullptr) {
      return load_adapter(files, stored);
    }
    const StoredModel& holder = stored.base != nullptr ? *stored.base : stored;
    return initial_params(files, holder, *network, seed, specs, code);
  };
  task.initial = [read, specs = task.parameters] { return read(specs, /*is_trained=*/true, {}); };
  if (run.lora) {
    task.frozen_weights = [read, network = AdaptedNetwork(run.network(), *run.lora),
                           dtype = run.train.precision.param_dtype()] {
      return read(frozen_specs(network, dtype), /*is_trained=*/false, network.lora().base.value);
    };
  }
  return task;
}

// The newest checkpoint of a training run that goes on: its data are read with the tokenizer, and under the labels, that it began with,
// also where these were made of data which the configuration names no more. That tensors are whole, which takes long to tell, is for the
// session to look at.
std::optional<std::string> checkpoint_so_far(const RunRequest& request, const ModelRun& run) {
  constexpr uint64_t kLargestDigested = 64 << 20;
  if (request.start.restart || run.train.run.mode != RunMode::kTrain) {
    return std::nullopt;
  }
  const std::string directory = run.train.run.directory();
  const std::string checkpoints = join_path(directory, "checkpoints");
  std::vector<int64_t> steps = list_checkpoints(request.files, checkpoints);
  std::reverse(steps.begin(), steps.end());
  for (const int64_t step : steps) {
    std::string folder = join_path(checkpoints, checkpoint_name(step));
    if (verify_folder(request.files, folder, kLargestDigested).empty()) {
      // What may not change is refused by its key, before anything is read in another's way.
      find_previous(request.files, directory, folder, run.train, run.written(), request.start);
      return folder;
    }
  }
  return std::nullopt;
}

// `model`: what is evaluated instead of the configuration's network.
Opened open(const RunRequest& request, const StoredModel* model = nullptr) {
  std::unique_ptr<ModelRun> run = read_run(request.tree);
  const std::map<std::string, std::string> besides = run->models_besides();
  const std::optional<std::string> folder =
      model == nullptr ? checkpoint_so_far(request, *run) : model->folder;
  // An adapter itself names what it adapts.
  const bool is_adapter = model != nullptr && model->base != nullptr;
  std::set<std::string> stands_upon;
  for (const auto& [key, named] : besides) {
    stands_upon.insert(key);
  }
  if (!is_adapter) {
    stands_upon.insert(kInitFromKey);
  }
  const YamlNode tree = with_frozen_origins(request.files, request.tree, folder, stands_upon);
  if (!besides.empty()) {
    run = read_run(tree);
  }
  check_run_device(run->train.run, tree);
  check_runs(run->train.parallel, tree, ranks_of(request.start));
  const Context context = make_context(run->train, request.start.ranks);
  const ContextScope scope(context);
  refuse_absurd(*run, memory_limit(run->train.memory, make_context(run->train)));
  const bool is_split = run->holds_out();
  run->open_data(request.files, tree, folder);
  std::optional<std::string> from = begins_with(tree);
  if (model != nullptr) {
    run->take_adapted_network(*model->network);
    from = model->folder;
  }
  run->settle(run->data_ids(), tree);
  if (model == nullptr) {
    Findings findings;
    find_oddities(run->train, tree, findings);
    if (is_split && !run->holds_out()) {
      findings.push_back(fmt::format("{}: leaves nothing to evaluate on; the data are too few",
                                     config_where(tree, "data.split")));
    }
    run->find_oddities_of(run->data_ids(), tree, findings);
    run->check_adapters(tree, findings);
    warn_of(findings);
    if (run->lora && !from && run->train.run.mode == RunMode::kTrain) {
      config_fail(tree, "model.lora",
                  "adapters need the weights that they adapt: give model.init.from");
    }
  }
  TrainTask task = task_of(request.files, *run, from);
  const auto begun = from ? std::optional(open_model(request.files, *from)) : std::nullopt;
  if (task.frozen.empty()) {
    stands_upon.erase(kInitFromKey);
  }
  check_frozen_origins(request.files, request.tree, folder, stands_upon);
  if (model == nullptr && begun && !task.frozen.empty()) {
    task.frozen_origins[kInitFromKey] =
        frozen_origin(request.files, *begins_with(request.tree), begun->folder);
  }
  for (const auto& [key, path] : run->models_besides()) {
    task.frozen_origins[key] =
        frozen_origin(request.files, besides.at(key), find_checkpoint(request.files, path));
  }
  TrainData data = run->samples(begun ? begun->description : Json::object());
  if (auto config =
          generation_config(request.files, begun ? &*begun : nullptr, run->taught_end())) {
    data.checkpoint_files.emplace_back(kGenerationConfigFile, std::move(*config));
  }
  if (begun && run->lora) {
    data.checkpoint_files.emplace_back(
        kAdapterConfigFile,
        adapter_config(AdaptedNetwork(run->network(), *run->lora),
                       (begun->base != nullptr ? *begun->base : *begun).folder));
  }
  return {std::move(run), std::move(task), std::move(data)};
}

Outcome train_and_tell(const RunRequest& request) {
  const SessionResult result = train_model(request);
  const std::string directory = read_run(request.tree)->train.run.directory();
  switch (result.outcome) {
    case Outcome::kWasFinished:
      fmt::print(request.out, "{}: finished at step {}{}\n", directory, result.step,
                 result.end_reason.empty()
                     ? "; raise schedule.total_steps to go on, or begin anew with --restart"
                     : " by " + result.end_reason);
      break;
    case Outcome::kInterrupted:
      fmt::print(request.out, "{}: interrupted{}\n", directory,
                 result.step == 0
                     ? " before its first step, with nothing to save; the same command begins"
                     : fmt::format(", saved at step {}; the same command goes on", result.step));
      break;
    case Outcome::kFinished: {
      for (const auto& [prompt, text, reward] : result.samples) {
        print_sample(request.out, prompt, text);
      }
      fmt::print(request.out, "{}: finished at step {}{}{}{}\n", directory, result.step,
                 result.evaluation ? ", " + describe(result.evaluation->metrics) : "",
                 result.end_reason.empty() ? "" : " (" + result.end_reason + ")",
                 result.restored
                     ? fmt::format("; the weights are those of step {}", *result.restored)
                     : "");
      if (result.best) {
        fmt::print(request.out, "best {} {:.6f} at step {}: {}\n", result.best->metric,
                   result.best->value, result.best->step,
                   join_path(join_path(directory, "checkpoints"), result.best->checkpoint));
      }
      fmt::print(request.out, "open {} in a browser\n", join_path(directory, kReportFile));
      break;
    }
  }
  return result.outcome;
}

void benchmark(const RunRequest& request) {
  const Opened opened = open(request);
  const TrainConfig train = with_warm_up(opened.run->train);
  const Context context = make_context(train, request.start.ranks);
  const int64_t limit = memory_of_rank(train.memory, context);
  const ContextScope scope(context);
  const PlannedRun run = plan_together(opened.task, train, context, limit, /*evaluates=*/false);
  refuse_together(run.plan, limit, refuse_by(*opened.run, request.tree, context));
  const HeedInterrupts heeds;
  const StepTimes times = time_steps(opened.task, opened.data, train, run, request.stop);
  fmt::print(
      request.out, "steps {}  median {:.6f} s  fastest {:.6f} s  {:.1f} {}s/s  {:.2f} GFLOP/s\n",
      times.steps, times.median_seconds, times.fastest_seconds,
      static_cast<double>(run.plan.units.count) / times.median_seconds, run.plan.units.name,
      run.plan.cost.flops * static_cast<double>(run.plan.ranks) / times.median_seconds / 1e9);
  if (opened.data.outside != nullptr) {
    fmt::print(request.out, "{}", opened.data.outside->describe());
  }
}

Outcome look_for_rate(const RunRequest& request) {
  const Opened opened = open(request);
  const FoundRate found =
      find_lr(request.files, opened.run->train, read_run(request.tree)->written(), opened.task,
              opened.data, refuse_by(*opened.run, request.tree, make_context(opened.run->train)),
              request.stop, request.start);
  fmt::print(request.out, "{}: {} steps{}\n", found.directory, found.curve.lr.size(),
             found.end_reason.empty() ? "" : ", " + found.end_reason);
  if (found.suggestion) {
    const std::string wider = range_to_widen(found.curve, *found.suggestion,
                                             found.end_reason.empty() && !found.interrupted);
    fmt::print(
        request.out, "the loss falls fastest at optimizer.lr={:.2g}{}\n", *found.suggestion,
        wider.empty() ? "" : ", at the edge of what was tried: " + wider + " may show better");
  } else {
    fmt::print(request.out, "the loss did not fall by more than its noise: no rate is suggested\n");
  }
  fmt::print(request.out, "open {} in a browser\n", join_path(found.directory, kReportFile));
  return found.interrupted ? Outcome::kInterrupted : Outcome::kFinished;
}

void continue_prompts(const RunRequest& request, const TrainConfig& config) {
  std::vector<std::string> prompts = config.eval.prompts;
  if (prompts.empty()) {
    prompts.push_back("\n");
  }
  generate(request.files,
           {config.run.directory(),
            std::move(prompts),
            config.eval.sample_tokens,
            {.temperature = 0.8, .seed = static_cast<uint64_t>(config.run.seed)},
            {}},
           request.out);
}

// What the ranks do in a step by the plan for this machine, as it is now. They may be on several: then there is none.
std::optional<Timeline> planned_here(const RunRequest& request, const Context& context,
                                     int64_t micro, std::optional<int64_t> ids) {
  Ranks& ranks = *context.ranks;
  if (ranks_here(&ranks) < ranks.world().size()) {
    return std::nullopt;
  }
  const Cluster here = measure_here(context, ranks.world());
  std::optional<Timeline> planned;
  work_together(&ranks, "plan", [&] {
    if (!is_first(&ranks)) {
      return;
    }
    try {
      planned = planned_step(request.files, request.tree, here, micro, ids);
    } catch (const Error& error) {
      log_warning("profile: a step as planned is not shown: {}", error.what());
    }
  });
  return planned;
}

RunRequest resolved(const RunRequest& request) {
  return {request.files,
          with_named_layout(request.files, with_stored_model(request.files, request.tree)),
          request.stop, request.out, request.start};
}

Outcome run_in_mode(const RunRequest& request, const TrainConfig& config) {
  switch (config.run.mode) {
    case RunMode::kTrain: return train_and_tell(request);
    case RunMode::kEval: evaluate_checkpoint(request, config.run.directory()); break;
    case RunMode::kGenerate: continue_prompts(request, config); break;
    case RunMode::kBenchmark: benchmark(request); break;
    case RunMode::kFindLr: return look_for_rate(request);
  }
  return request.stop ? Outcome::kInterrupted : Outcome::kFinished;
}

Outcome run_together(const RunRequest& given) {
  RunRequest request = resolved(given);
  const TrainConfig asked = read_run(request.tree)->train;
  check_run_device(asked.run, request.tree);
  std::unique_ptr<Communicator> world =
      with_devices(asked.run, given.world(asked.parallel.timeout_s), asked.parallel.timeout_s);
  request.tree = with_layout(request.files, std::move(request.tree), *world, request.start.restart);
  const TrainConfig config = read_run(request.tree)->train;
  check_many_ranks(request.files, request.tree, world->size());
  const RankLog log(request, config.run, world->rank());
  request.start.ranks = make_ranks(config.parallel, std::move(world));
  return is_sweep(request.tree) ? run_sweep(request) : run_in_mode(request, config);
}

}  // namespace

void check_many_ranks(FileSystem& files, const YamlNode& given, int64_t ranks) {
  if (const RunKind* kind = run_kind_of(given)) {
    kind->check_many_ranks(files, given, ranks);
    return;
  }
  if (is_sweep(given)) {
    check_sweep_ranks(files, with_named_layout(files, with_stored_model(files, given)), ranks);
    return;
  }
  const YamlNode tree = with_named_layout(files, with_stored_model(files, given));
  const TrainConfig config = read_run(tree)->train;
  if (config.run.mode == RunMode::kGenerate) {
    config_fail(tree, "run.mode", fmt::format("generate is of one rank, and there are {}", ranks));
  }
  check_run_device(config.run, tree);
  if (config.parallel.plan == kAutoPlan && planned_ranks(config.parallel) != ranks) {
    return;  // the layout is not known yet
  }
  check_runs(config.parallel, tree, ranks);
  check_batch(config, mesh_of(config.parallel, ranks, tree).size(kDataAxis), tree);
}

SessionResult train_model(const RunRequest& request, const std::vector<Callback*>& more) {
  std::optional<EarlyMessages> early;
  if (request.start.ranks == nullptr || request.start.ranks->rank() == 0) {  // who has the log
    early.emplace();
  }
  const Opened opened = open(request);
  SessionStart start = request.start;
  start.planned_step = [&](const Context& context, int64_t micro) {
    return planned_here(request, context, micro, opened.run->network()->ids());
  };
  std::vector<Callback*> callbacks = opened.run->callbacks();
  callbacks.insert(callbacks.end(), more.begin(), more.end());
  return train(request.files, opened.run->train, read_run(request.tree)->written(), opened.task,
               opened.data, refuse_by(*opened.run, request.tree, make_context(opened.run->train)),
               request.stop, callbacks, start);
}

YamlNode resolved_config(FileSystem& files, const YamlNode& tree) {
  if (const RunKind* kind = run_kind_of(tree)) {
    return kind->resolved_config(files, tree);
  }
  return read_run(with_stored_model(files, tree))->written();
}

std::vector<ConfigKeyDoc> keys_of(const YamlNode& tree) {
  const RunKind* const kind = run_kind_of(tree);
  return kind != nullptr ? kind->keys(tree) : model_of(tree).run()->keys();
}

Outcome run(const RunRequest& given) {
  if (const RunKind* kind = run_kind_of(given.tree)) {
    return kind->run(given);
  }
  if (given.world) {
    return run_together(given);
  }
  if (is_sweep(given.tree)) {
    return run_sweep(given);
  }
  const RunRequest request = resolved(given);
  const TrainConfig config = read_run(request.tree)->train;
  check_run_device(config.run, request.tree);
  check_runs(config.parallel, request.tree, ranks_of(request.start));
  return run_in_mode(request, config);
}

void evaluate_checkpoint(const RunRequest& given, const std::string& checkpoint) {
  if (const RunKind* const kind = run_kind_of(given.tree)) {
    config_fail(
        given.tree, kind->section,
        "is of an agent, which mstrain play shows; models that learn from data are evaluated");
  }
  const StoredModel stored = open_model(given.files, checkpoint);
  YamlNode tree = with_model_of(given.files, stored, given.tree);
  const RunRequest request{given.files, with_named_layout(given.files, std::move(tree)), given.stop,
                           given.out, given.start};
  const Opened opened = open(request, &stored);
  const TrainConfig& config = opened.run->train;
  const Context context = make_context(config, request.start.ranks);
  const ContextScope scope(context);
  int64_t rows = config.batch.micro.value_or(config.batch.global);
  auto program = std::make_unique<LossProgram>(opened.task, config, rows, context);
  const int64_t limit = memory_of_rank(config.memory, context);
  const auto fits = [&] {
    const bool here = program->memory().inputs + program->memory().arena <= limit;
    return least(context.ranks.get(), here ? 1 : 0, "plan") == 1;
  };
  while (rows > 1 && !fits()) {
    rows = (rows + 1) / 2;
    program = std::make_unique<LossProgram>(opened.task, config, rows, context);
  }
  const auto read = [&](const std::string& name) { return program->reads(name); };
  const Params params =
      joined(stored.base != nullptr ? load_adapter(request.files, stored)
                                    : load_params(request.files, stored, /*code=*/{}, read),
             frozen_weights(opened.task));
  if (opened.data.outside != nullptr) {
    read_outside(request.files, stored.folder, *opened.data.outside);
  }
  const HeedInterrupts heeds;
  const auto result = evaluate(*program, program->parts().cut(params), opened.task, opened.data,
                               config, rows, request.stop, [&] { return params; });
  if (result) {
    print_evaluation(request.out, *result);
    if (const std::string odd = not_finite(result->metrics); !odd.empty()) {
      fail("{}: {}", stored.folder, odd);
    }
  }
}

}  // namespace mstrain
