#include "suites/transformer/gpt/run.h"

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/json.h"
#include "core/train/timing.h"
#include "suites/transformer/gpt/generate.h"
#include "suites/transformer/gpt/preflight.h"
#include "suites/transformer/gpt/stored_model.h"
#include "suites/transformer/gpt/task.h"

namespace mstrain::gpt {
namespace {

GptRunConfig with_overrides(YamlNode tree, const std::vector<std::string>& overrides,
                            int64_t vocab) {
  apply_overrides(tree, overrides);
  return with_vocab(read_run_config(tree), vocab, tree);
}

// No copy for checkpoints, smaller micro-batches, recomputation, both, and shorter sequences as well; each kind from mild to strong.
std::vector<std::vector<std::vector<std::string>>> candidate_changes(const GptRunConfig& config,
                                                                     int64_t micro) {
  const std::string full = "memory.recompute=full";
  const Recompute given = config.train.memory.recompute;
  std::vector<std::vector<std::string>> smaller;
  std::vector<std::vector<std::string>> both;
  for (int64_t m = micro / 2; m >= 1; m /= 2) {
    if (config.train.batch.global % m == 0) {
      const std::string change = fmt::format("batch.micro={}", m);
      smaller.push_back({change});
      both.push_back({full, change});
    }
  }
  std::vector<std::vector<std::string>> no_copy;
  if (config.train.checkpoint.async.value_or(false)) {
    no_copy.push_back({"checkpoint.async=false"});
  }
  std::vector<std::vector<std::string>> shorter;
  for (int64_t seq = config.data.seq_length / 2; seq >= 128; seq /= 2) {
    shorter.push_back({fmt::format("data.seq_length={}", seq), "batch.micro=1", full});
  }
  switch (given) {
    case Recompute::kNone:
      return {no_copy, smaller, {{"memory.recompute=selective"}}, {{full}}, both, shorter};
    case Recompute::kSelective: return {no_copy, smaller, {{full}}, both, shorter};
    case Recompute::kFull: break;
  }
  return {no_copy, smaller, shorter};
}

[[noreturn]] void refuse(const GptRunConfig& config, const YamlNode& tree, const RunPlan& plan,
                         int64_t limit) {
  Changes changes;
  if (plan.least() <= limit) {
    const PlanWith plan_with = [&](const std::vector<std::string>& overrides) {
      const GptRunConfig changed = with_overrides(tree, overrides, *config.model.vocab_size.value);
      return plan_run(make_task(changed), changed.train, make_context(changed.train), limit,
                      plan.evaluates)
          .plan;
    };
    changes = fitting_changes(candidate_changes(config, plan.micro), plan_with, limit);
  }
  throw PlanError(refusal(plan, limit, changes));
}

// What the choices of the section `memory` save and cost.
void print_choices(const RunRequest& request, const GptRunConfig& config, const RunPlan& plan,
                   int64_t limit) {
  const auto with = [&](const std::string& choice) {
    const GptRunConfig changed =
        with_overrides(request.tree, {choice}, *config.model.vocab_size.value);
    return Alternative{
        choice, plan_run(make_task(changed), changed.train, make_context(changed.train), limit,
                         plan.evaluates, plan.micro)
                    .plan};
  };
  const Alternative recomputed[] = {with("memory.recompute=selective"),
                                    with("memory.recompute=full")};
  const Alternative chunked[] = {with("memory.loss_chunks=auto")};
  fmt::print(request.out, "{}{}", describe(recomputed, with("memory.recompute=none")),
             describe(chunked, with("memory.loss_chunks=none")));
}

void print_evaluation(std::FILE* out, const EvaluationResult& result) {
  for (const auto& [kind, value] : result.metrics) {
    const bool first = kind->name == std::string_view(kEvalLoss);
    fmt::print(out, "{} {:.6f}{}\n", kind->name, value,
               first
                   ? fmt::format("  ({} predictions, {:.1f} s)", result.predictions, result.seconds)
                   : "");
  }
}

void print_sample(std::FILE* out, const std::string& prompt, const std::string& text) {
  fmt::print(out, "---- generated after {} ----\n{}{}\n----\n",
             Json(prompt).dump(-1, ' ', false, Json::error_handler_t::replace), prompt, text);
}

// What ends a text: ids that were asked for, and the model's own.
std::vector<int32_t> stop_ids(const StoredModel& stored, const std::vector<int64_t>& asked) {
  std::vector<int32_t> out;
  const int64_t vocab = *stored.config.vocab_size.value;
  for (const int64_t id : asked) {
    check(id >= 0 && id < vocab, "stop {}: the model has ids from 0 to {}", id, vocab - 1);
    out.push_back(static_cast<int32_t>(id));
  }
  const Json own = stored.description.value("eos_token_id", Json());  // one id or several
  for (const Json& id : own.is_array() ? own : Json::array({own})) {
    if (id.is_number_unsigned() && id.get<uint64_t>() < static_cast<uint64_t>(vocab)) {
      out.push_back(id.get<int32_t>());
    }
  }
  return out;
}

struct Opened {
  GptRunConfig config;
  TrainTask task;
  TrainData data;
};

// The weights of model.init.from are read when the run begins.
TrainTask task_of(FileSystem& files, const GptRunConfig& config) {
  TrainTask task = make_task(config);
  if (const auto& from = config.model.init.from) {
    task.initial = [&files, path = *from] { return load_params(files, open_model(files, path)); };
  }
  return task;
}

bool changes_data(const SessionStart& start) {
  return std::any_of(start.changes.begin(), start.changes.end(),
                     [](const std::string& key) { return key.starts_with("data."); });
}

// Other data are read with the tokenizer that the run began with, also where it was made of the text. Null where there is no
// run yet.
std::shared_ptr<const Tokenizer> tokenizer_so_far(FileSystem& files, const GptRunConfig& config) {
  const auto folder = newest_checkpoint(
      files, join_path(config.train.run.directory(), "checkpoints"), /*set_aside=*/false);
  return folder && has_tokenizer(files, *folder) ? load_tokenizer(files, *folder) : nullptr;
}

void warn_of(const Findings& findings) {
  for (const std::string& finding : findings) {
    log_warning("{}", finding);
  }
}

// `model`: what is evaluated instead of the configuration's network.
Opened open(const RunRequest& request, const StoredModel* model = nullptr) {
  GptRunConfig config = read_run_config(request.tree);
  refuse_absurd(config, memory_limit(config.train.memory));
  std::shared_ptr<const Tokenizer> tokenizer;
  if (model != nullptr) {
    tokenizer = stored_tokenizer(request.files, *model);
  } else if (changes_data(request.start)) {
    tokenizer = tokenizer_so_far(request.files, config);
  }
  Corpus corpus = open_corpus(request.files, config.data, std::move(tokenizer), request.tree);
  config = with_vocab(std::move(config), corpus.tokenizer->vocab_size(), request.tree);
  check_prompts(config, *corpus.tokenizer, request.tree);
  if (model == nullptr) {
    Findings findings;
    find_oddities(config.train, request.tree, findings);
    find_unused_vocabulary(config, corpus.tokenizer->vocab_size(), request.tree, findings);
    warn_of(findings);
  }
  const auto& from = config.model.init.from;
  const Json source = from ? open_model(request.files, *from).description : Json::object();
  if (model != nullptr) {
    config.model = model->config;
  }
  TrainTask task = task_of(request.files, config);
  TrainData data = make_data(config, corpus, source);
  return {std::move(config), std::move(task), std::move(data)};
}

Outcome train_model(const RunRequest& request) {
  const Opened opened = open(request);
  const GptRunConfig& config = opened.config;
  const auto refuse_plan = [&](const RunPlan& plan, int64_t limit) {
    refuse(config, request.tree, plan, limit);
  };
  const SessionResult result =
      train(request.files, config.train, write_config(read_run_config(request.tree)), opened.task,
            opened.data, refuse_plan, request.stop, {}, request.start);
  const std::string directory = config.train.run.directory();
  switch (result.outcome) {
    case Outcome::kWasFinished:
      fmt::print(request.out, "{}: finished at step {}{}\n", directory, result.step,
                 result.end_reason.empty()
                     ? "; raise schedule.total_steps to go on, or begin anew with --restart"
                     : " by " + result.end_reason);
      break;
    case Outcome::kInterrupted:
      fmt::print(request.out, "{}: interrupted, saved at step {}; the same command goes on\n",
                 directory, result.step);
      break;
    case Outcome::kFinished: {
      for (const auto& [prompt, text] : result.samples) {
        print_sample(request.out, prompt, text);
      }
      fmt::print(request.out, "{}: finished at step {}{}{}{}\n", directory, result.step,
                 result.evaluation ? ", " + describe(result.evaluation->metrics) : "",
                 result.end_reason.empty() ? "" : " (" + result.end_reason + ")",
                 result.restored
                     ? fmt::format("; the weights are those of step {}", *result.restored)
                     : "");
      if (result.best) {
        fmt::print(
            request.out, "best {} {:.6f} at step {}: {}\n", result.best->metric, result.best->value,
            result.best->step,
            join_path(join_path(directory, "checkpoints"), checkpoint_name(result.best->step)));
      }
      fmt::print(request.out, "open {} in a browser\n", join_path(directory, kReportFile));
      break;
    }
  }
  return result.outcome;
}

void benchmark(const RunRequest& request) {
  const Opened opened = open(request);
  const GptRunConfig& config = opened.config;
  const int64_t limit = memory_limit(config.train.memory);
  const Context context = make_context(config.train);
  const ContextScope scope(context);
  const PlannedRun run = plan_run(opened.task, config.train, context, limit, /*evaluates=*/false);
  if (run.plan.total() > limit) {
    refuse(config, request.tree, run.plan, limit);
  }
  const HeedInterrupts heeds;
  const StepTimes times = time_steps(opened.task, opened.data, config.train, run, request.stop);
  fmt::print(request.out,
             "steps {}  median {:.6f} s  fastest {:.6f} s  {:.1f} tokens/s  {:.2f} GFLOP/s\n",
             times.steps, times.median_seconds, times.fastest_seconds,
             static_cast<double>(run.plan.tokens) / times.median_seconds,
             run.plan.cost.flops / times.median_seconds / 1e9);
}

void continue_prompts(const RunRequest& request, const GptRunConfig& config) {
  std::vector<std::string> prompts = config.train.eval.prompts;
  if (prompts.empty()) {
    prompts.push_back("\n");
  }
  generate(request.files,
           {config.train.run.directory(),
            std::move(prompts),
            config.train.eval.sample_tokens,
            {.temperature = 0.8, .seed = static_cast<uint64_t>(config.train.run.seed)},
            {}},
           request.out);
}

RunRequest resolved(const RunRequest& request) {
  return {request.files, with_stored_model(request.files, request.tree), request.stop, request.out,
          request.start};
}

}  // namespace

YamlNode resolved_config(FileSystem& files, const YamlNode& tree) {
  return write_config(read_run_config(with_stored_model(files, tree)));
}

Outcome run(const RunRequest& given) {
  const RunRequest request = resolved(given);
  const GptRunConfig config = read_run_config(request.tree);
  switch (config.train.run.mode) {
    case RunMode::kTrain: return train_model(request);
    case RunMode::kEval: evaluate_checkpoint(request, config.train.run.directory()); break;
    case RunMode::kGenerate: continue_prompts(request, config); break;
    case RunMode::kBenchmark: benchmark(request); break;
  }
  return request.stop ? Outcome::kInterrupted : Outcome::kFinished;
}

void dry_run(const RunRequest& given, const DryRun& options) {
  const RunRequest request = resolved(given);
  GptRunConfig config = read_run_config(request.tree);
  const int64_t limit = memory_limit(config.train.memory);
  refuse_absurd(config, limit);
  Findings findings;
  find_oddities(config.train, request.tree, findings);
  std::optional<int64_t> tokens;
  if (!options.offline) {
    tokens = look_ahead(request.files, config, request.tree, findings);
  } else if (config.model.vocab_size.is_word()) {
    config_fail(request.tree, "model.vocab_size",
                "auto asks the tokenizer; --offline needs a number");
  }
  auto& vocab = config.model.vocab_size;
  const GptRunConfig asked = config;
  if (vocab.is_word()) {
    vocab.value = tokens;
  }
  const bool evaluates =
      config.train.eval.evaluates() && (config.data.valid.has_value() || config.data.split < 1);
  const Context context = make_context(config.train);
  const ContextScope scope(context);
  const PlannedRun run = plan_run(make_task(config), config.train, context, limit, evaluates);
  fmt::print(request.out, "{}", describe(run.plan, config.train, limit));
  if (config.train.run.execution == Execution::kGraph) {
    print_choices(request, config, run.plan, limit);
    if (config.train.fusion.explain) {
      fmt::print(request.out, "{}", fusion_text(run));
    }
  }
  std::fflush(request.out);
  if (options.plan_file) {
    write_file_atomic(request.files, *options.plan_file, plan_text(run));
  }
  if (tokens) {
    find_unused_vocabulary(config, *tokens, request.tree, findings);
  }
  warn_of(findings);
  if (tokens) {
    with_vocab(asked, *tokens, request.tree);
  }
  if (run.plan.total() > limit) {
    refuse(config, request.tree, run.plan, limit);
  }
  fmt::print(request.out, "fits\n");
}

void generate(FileSystem& files, const GenerateRequest& request, std::FILE* out) {
  check_sampling(request.sampling);
  check(request.tokens >= 1, "tokens {}: expected at least 1", request.tokens);
  const StoredModel stored = open_model(files, request.checkpoint);
  const auto tokenizer = stored_tokenizer(files, stored);
  if (tokenizer == nullptr) {
    load_tokenizer(files, stored.folder);  // says what it looks for
  }
  const ContinueOptions options{request.tokens, request.sampling, stop_ids(stored, request.stop)};
  const Params params = load_params(files, stored);
  Generator generator(Gpt(stored.config), tokenizer);
  const std::vector<std::string>& prompts = request.prompts;
  if (prompts.size() == 1) {
    fmt::print(out, "{}", prompts[0]);
    generator.generate(params, prompts, options, [&](size_t, std::string_view piece) {
      fmt::print(out, "{}", piece);
      std::fflush(out);
    });
    fmt::print(out, "\n");
    return;
  }
  const std::vector<std::string> texts = generator.generate(params, prompts, options);
  for (size_t i = 0; i < prompts.size(); ++i) {
    print_sample(out, prompts[i], texts[i]);
  }
}

void evaluate_checkpoint(const RunRequest& given, const std::string& checkpoint) {
  const RunRequest request = resolved(given);
  const StoredModel stored = open_model(request.files, checkpoint);
  const Params params = load_params(request.files, stored);
  const Opened opened = open(request, &stored);
  const GptRunConfig& config = opened.config;
  const Context context = make_context(config.train);
  const ContextScope scope(context);
  int64_t rows = config.train.batch.micro.value_or(config.train.batch.global);
  auto program = std::make_unique<LossProgram>(opened.task, config.train, rows, context);
  const int64_t limit = memory_limit(config.train.memory);
  while (rows > 1 && program->program() != nullptr &&
         program->program()->memory().inputs + program->program()->memory().arena > limit) {
    rows = (rows + 1) / 2;
    program = std::make_unique<LossProgram>(opened.task, config.train, rows, context);
  }
  const HeedInterrupts heeds;
  const auto result =
      evaluate(*program, params, opened.task, opened.data, config.train, rows, request.stop);
  if (result) {
    print_evaluation(request.out, *result);
  }
}

}  // namespace mstrain::gpt
