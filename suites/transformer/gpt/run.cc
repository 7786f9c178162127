#include "suites/transformer/gpt/run.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/json.h"
#include "core/base/thread_pool.h"
#include "core/train/find_lr.h"
#include "core/train/timing.h"
#include "suites/transformer/gpt/generate.h"
#include "suites/transformer/gpt/preflight.h"
#include "suites/transformer/gpt/stored_model.h"
#include "suites/transformer/gpt/sweep.h"
#include "suites/transformer/gpt/task.h"

namespace mstrain::gpt {
namespace {

GptRunConfig with_overrides(YamlNode tree, const Overrides& overrides, int64_t vocab) {
  apply_overrides(tree, overrides);
  return with_vocab(read_run_config(tree), vocab, tree);
}

Overrides joined(Overrides a, const Overrides& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// What recomputes more than the configuration does.
std::vector<Overrides> more_recomputation(Recompute given) {
  const Overrides selective{"memory.recompute=selective"};
  const Overrides full{"memory.recompute=full"};
  switch (given) {
    case Recompute::kNone: return {selective, full};
    case Recompute::kSelective: return {full};
    case Recompute::kFull: break;
  }
  return {};
}

// No copy for checkpoints, smaller micro-batches, recomputation, both, leaner states, and all of it with shorter sequences
// as well; each kind from mild to strong.
std::vector<std::vector<Overrides>> candidate_changes(const GptRunConfig& config, int64_t micro) {
  std::vector<std::vector<Overrides>> kinds;
  if (config.train.checkpoint.async.value_or(false)) {
    kinds.push_back({{"checkpoint.async=false"}});
  }
  const std::vector<Overrides> recomputed = more_recomputation(config.train.memory.recompute);
  const Overrides most = recomputed.empty() ? Overrides() : recomputed.back();
  std::vector<Overrides> smaller;
  std::vector<Overrides> both;
  for (int64_t m = micro / 2; m >= 1; m /= 2) {
    if (config.train.batch.global % m == 0) {
      smaller.push_back({fmt::format("batch.micro={}", m)});
      both.push_back(joined(most, smaller.back()));
    }
  }
  kinds.push_back(smaller);
  kinds.push_back(recomputed);
  if (!recomputed.empty()) {
    kinds.push_back(both);
  }
  const Overrides least = joined({"batch.micro=1"}, most);
  const std::vector<Overrides> leaner = leaner_precisions(config.train.precision);
  kinds.push_back(leaner);
  kinds.emplace_back();
  for (const Overrides& precision : leaner) {
    kinds.back().push_back(joined(precision, least));
  }
  kinds.emplace_back();
  for (int64_t seq = config.data.seq_length / 2; seq >= 128; seq /= 2) {
    kinds.back().push_back(joined({fmt::format("data.seq_length={}", seq)}, least));
  }
  return kinds;
}

// Plans with other choices than those of a configuration, each made once.
class Variants {
 public:
  // `micro`: 0, or that of the plans, whatever batch.micro says.
  Variants(const GptRunConfig& config, const YamlNode& tree, int64_t limit, bool evaluates,
           int64_t micro)
      : config_(config), tree_(tree), limit_(limit), evaluates_(evaluates), micro_(micro) {}

  // Many layers take their time, and one is like the other.
  bool reckons_exactly() const { return layers() <= kFewEnough; }
  // The plan as far as it follows from plans of fewer layers.
  const RunPlan& about(const Overrides& overrides) {
    if (const auto found = known_.find(overrides); found != known_.end()) {
      return found->second;
    }
    return known_.emplace(overrides, reckoned(overrides)).first->second;
  }
  RunPlan exactly(const Overrides& overrides) const {
    return reckons_exactly() ? reckoned(overrides) : planned(overrides, layers(), limit_);
  }

  // The same of several choices, on all processors.
  std::vector<Alternative> about(const std::vector<Overrides>& choices) {
    std::vector<Alternative> out;
    for (const Overrides& overrides : choices) {
      out.push_back({overrides, {}});
    }
    const auto count = static_cast<int64_t>(out.size());
    const int64_t threads = make_context(config_.train).num_threads();
    ThreadPool pool(static_cast<int>(std::clamp<int64_t>(count - 1, 0, threads - 1)));
    pool.parallel_for(count, 1, [&](int64_t i, int64_t) {
      Alternative& it = out[static_cast<size_t>(i)];
      it.plan = reckoned(it.overrides);
    });
    for (const Alternative& it : out) {
      known_.emplace(it.overrides, it.plan);
    }
    return out;
  }

 private:
  static constexpr int64_t kFew = 4;
  static constexpr int64_t kMore = 8;
  static constexpr int64_t kFewEnough = 16;

  int64_t layers() const { return config_.model.num_layers; }

  RunPlan planned(const Overrides& overrides, int64_t layers, int64_t limit) const {
    const GptRunConfig changed =
        with_overrides(tree_, joined(overrides, {fmt::format("model.num_layers={}", layers)}),
                       *config_.model.vocab_size.value);
    return plan_run(make_task(changed), changed.train, make_context(changed.train), limit,
                    evaluates_, micro_)
        .plan;
  }

  RunPlan reckoned(const Overrides& overrides) const {
    if (reckons_exactly()) {
      return planned(overrides, layers(), limit_);
    }
    // Whether a copy for checkpoints fits is not what fewer layers tell.
    constexpr int64_t kNoRoom = 0;
    RunPlan plan = extrapolated(planned(overrides, kFew, kNoRoom), kFew,
                                planned(overrides, kMore, kNoRoom), kMore, layers());
    if (config_.train.checkpoint.async.is_word() && plan.total() + plan.copied_bytes() <= limit_) {
      plan.snapshot_bytes = plan.copied_bytes();
    }
    return plan;
  }

  const GptRunConfig& config_;
  const YamlNode& tree_;
  int64_t limit_;
  bool evaluates_;
  int64_t micro_;
  std::map<Overrides, RunPlan> known_;
};

[[noreturn]] void refuse(const GptRunConfig& config, const YamlNode& tree, const RunPlan& plan,
                         int64_t limit) {
  // What does not fit with micro-batches of one sample does not fit with `auto`.
  Variants variants(config, tree, limit, plan.evaluates,
                    config.train.batch.micro.is_word() ? 1 : 0);
  std::vector<std::vector<Overrides>> candidates = candidate_changes(config, plan.micro);
  if (plan.least() > limit) {  // unless states become leaner
    std::erase_if(candidates, [](const std::vector<Overrides>& kind) {
      return kind.empty() || !kind[0][0].starts_with("precision.");
    });
  }
  Changes changes = fitting_changes(
      candidates, [&](const Overrides& overrides) { return variants.about(overrides); }, limit);
  if (!variants.reckons_exactly()) {
    std::erase_if(changes.fitting, [&](Alternative& it) {
      it.plan = variants.exactly(it.overrides);
      return it.plan.total() > limit;
    });
  }
  throw PlanError(refusal(plan, limit, changes));
}

// What choices that are not made yet save and cost, with the same micro-batches.
void print_choices(const RunRequest& request, const GptRunConfig& config, const RunPlan& plan,
                   int64_t limit) {
  std::vector<Overrides> choices = more_recomputation(config.train.memory.recompute);
  if (!config.train.memory.loss_chunks.is_word()) {
    choices.push_back({"memory.loss_chunks=auto"});
  }
  const std::vector<Overrides> leaner = leaner_precisions(config.train.precision);
  choices.insert(choices.end(), leaner.begin(), leaner.end());
  Variants variants(config, request.tree, limit, plan.evaluates, plan.micro);
  const bool exact = variants.reckons_exactly();
  if (!exact) {
    choices.insert(choices.begin(), Overrides());  // nothing changed, reckoned in the same way
  }
  const std::vector<Alternative> alternatives = variants.about(choices);
  const std::span<const Alternative> all(alternatives);
  fmt::print(request.out, "{}",
             exact ? describe(all, plan, exact) : describe(all.subspan(1), all[0].plan, exact));
}

void print_evaluation(std::FILE* out, const EvaluationResult& result) {
  for (const Metric& metric : result.metrics) {
    const bool is_loss = metric.kind->name == std::string_view(kEvalLoss);
    const std::string seconds = metric.set.empty() ? fmt::format(", {:.1f} s", result.seconds) : "";
    fmt::print(out, "{} {:.6f}{}\n", metric.name(), metric.value,
               is_loss ? fmt::format("  ({} predictions{})", metric.predictions, seconds) : "");
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

Refuse refuse_by(const GptRunConfig& config, const YamlNode& tree) {
  return [&](const RunPlan& plan, int64_t limit) { refuse(config, tree, plan, limit); };
}

Outcome train_and_tell(const RunRequest& request) {
  const SessionResult result = train_model(request);
  const std::string directory = read_run_config(request.tree).train.run.directory();
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

Outcome look_for_rate(const RunRequest& request) {
  const Opened opened = open(request);
  const FoundRate found = find_lr(
      request.files, opened.config.train, write_config(read_run_config(request.tree)), opened.task,
      opened.data, refuse_by(opened.config, request.tree), request.stop, request.start);
  fmt::print(request.out, "{}: {} steps{}\n", found.directory, found.curve.lr.size(),
             found.end_reason.empty() ? "" : ", " + found.end_reason);
  if (found.suggestion) {
    fmt::print(request.out, "the loss falls fastest at optimizer.lr={:.2g}\n", *found.suggestion);
  } else {
    fmt::print(request.out, "the loss did not fall by more than its noise: no rate is suggested\n");
  }
  fmt::print(request.out, "open {} in a browser\n", join_path(found.directory, kReportFile));
  return found.interrupted ? Outcome::kInterrupted : Outcome::kFinished;
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

bool is_sweep(const RunRequest& request) {
  const YamlNode* sweep = request.tree.find("sweep");
  return sweep != nullptr && !sweep->is_null();
}

RunRequest resolved(const RunRequest& request) {
  return {request.files, with_stored_model(request.files, request.tree), request.stop, request.out,
          request.start};
}

}  // namespace

SessionResult train_model(const RunRequest& request, const std::vector<Callback*>& more) {
  const Opened opened = open(request);
  return train(request.files, opened.config.train, write_config(read_run_config(request.tree)),
               opened.task, opened.data, refuse_by(opened.config, request.tree), request.stop, more,
               request.start);
}

YamlNode resolved_config(FileSystem& files, const YamlNode& tree) {
  return write_config(read_run_config(with_stored_model(files, tree)));
}

Outcome run(const RunRequest& given) {
  if (is_sweep(given)) {
    return run_sweep(given);
  }
  const RunRequest request = resolved(given);
  const GptRunConfig config = read_run_config(request.tree);
  switch (config.train.run.mode) {
    case RunMode::kTrain: return train_and_tell(request);
    case RunMode::kEval: evaluate_checkpoint(request, config.train.run.directory()); break;
    case RunMode::kGenerate: continue_prompts(request, config); break;
    case RunMode::kBenchmark: benchmark(request); break;
    case RunMode::kFindLr: return look_for_rate(request);
  }
  return request.stop ? Outcome::kInterrupted : Outcome::kFinished;
}

void dry_run(const RunRequest& asked_for, const DryRun& options) {
  RunRequest given = asked_for;
  if (is_sweep(asked_for)) {
    print_sweep(asked_for);
    given.tree = first_tree(asked_for);
  }
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
