#include "suites/transformer/alignment/aligned_run.h"

#include "core/train/run_device.h"
#include "core/train/session.h"
#include "suites/run/stored_model.h"
#include "suites/transformer/alignment/answer_tasks.h"
#include "suites/transformer/alignment/grpo_task.h"
#include "suites/transformer/alignment/ppo_task.h"
#include "suites/transformer/alignment/reward_model.h"

namespace mstrain {
namespace {

// The folder of what a run that prefers answers compares with.
constexpr const char* kReference = "reference";

// Why sums of generation and of steps cannot have the same bits; empty: they can.
std::string why_inexact(const TrainConfig& train) {
  const ParallelConfig& parallel = train.parallel;
  const bool keys_meet =
      parallel.context_way == ContextWay::kAllToAll || parallel.context_way == ContextWay::kGather;
  return !is_on_cpu(train.run)                        ? "run.device is not cpu"
         : train.precision.params != FloatType::kFp32 ? "precision.params is not fp32"
         : parallel.context > 1 && !keys_meet
             ? "parallel.context shares the sums of attention among ranks, unless "
               "parallel.context_way is all_to_all or gather"
             : "";
}

// Notes in a run's first row what became of the lines of its data.
class LineCounts final : public Callback {
 public:
  explicit LineCounts(const AnswerCounts& counts) : counts_(counts) {}
  void on_start(Trainer& trainer) override {
    if (trainer.step() == 0) {
      trainer.note("data_malformed", static_cast<double>(counts_.malformed));
      trainer.note("data_empty", static_cast<double>(counts_.empty));
      trainer.note("data_cut", static_cast<double>(counts_.cut));
      trainer.note("data_overlong", static_cast<double>(counts_.overlong));
      trainer.note("data_alike", static_cast<double>(counts_.alike));
    }
  }

 private:
  AnswerCounts counts_;
};

}  // namespace

void AlignedRun::declare_data(ConfigFields& fields) {
  CausalRun::declare_data(fields);
  fields("objective", objective,
         "what is learnt of data.train, where that is not each next token of texts; null: that",
         rule::elsewhere_called({"finetuning_type", "training_objective"}));
}

HeadType AlignedRun::needed_head() const {
  return objective ? objective->head() : HeadType::kNextToken;
}

void AlignedRun::check(const YamlNode& tree) const {
  CausalRun::check(tree);
  const HeadType wanted = needed_head();
  if (head() != wanted) {
    config_fail(tree, "model.head",
                wanted == HeadType::kScore   ? "objective.type: reward needs score"
                : wanted == HeadType::kBoth  ? "objective.type: ppo needs both"
                : head() == HeadType::kScore ? "a score is learnt with objective.type: reward"
                                             : "values are learnt with objective.type: ppo");
  }
  if (!objective) {
    return;
  }
  check_objective(*objective, tree);
  if (objective->judges() && train.batch.global < 2) {
    config_fail(tree, "batch.global",
                "kto finds its reference point from each prompt and another one's answer: expected "
                "at least 2");
  }
  if (objective->scores() && !train.eval.prompts.empty()) {
    config_fail(tree, "eval.prompts", "a model of scores writes no text");
  }
  const YamlNode* const smoothing = find_config(tree, "model.label_smoothing");
  if (objective->type != ObjectiveType::kSft && smoothing != nullptr &&
      std::strtod(smoothing->text.c_str(), nullptr) != 0) {
    config_fail(tree, "model.label_smoothing",
                "is for the next tokens of texts and objective.type: sft; others score the targets "
                "as they are");
  }
  if (train.precision.has_float8() && objective->compares() && !objective->is_rewarded()) {
    config_fail(tree, "precision.products",
                "fp8, but the model that the run begins with, which this objective.type compares "
                "with, would have other units; expected params");
  }
  if (objective->is_rewarded()) {
    if (train.run.mode == RunMode::kBenchmark || train.run.mode == RunMode::kFindLr) {
      config_fail(
          tree, "run.mode",
          "a step of objective.type grpo or ppo learns from answers that are written before "
          "it; expected train or eval");
    }
    if (train.precision.has_float8()) {
      config_fail(tree, "precision.products",
                  "fp8, but answers and their first probabilities, which ratios are to, are not of "
                  "it; expected params with objective.type grpo or ppo");
    }
    const GrpoConfig writing = objective->writing();
    if (train.batch.global % writing.group != 0) {
      config_fail(tree, "objective.grpo.group",
                  fmt::format("must divide batch.global, {}", train.batch.global));
    }
    if (writing.answer_tokens >= data.seq_length) {
      config_fail(
          tree, objective->section() + ".answer_tokens",
          fmt::format("leaves no room for prompts in data.seq_length, {}", data.seq_length));
    }
    if (const std::string why = why_inexact(train);
        writing.generation.exact.value_or(false) && !why.empty()) {
      config_fail(tree, objective->section() + ".generation.exact",
                  why + "; expected auto or false");
    }
  }
  if (!objective->prefers() && !objective->judges() && !objective->is_rewarded()) {
    return;
  }
  // The model's layers are passed several times.
  if (train.parallel.pipeline > 1) {
    config_fail(tree, "parallel.pipeline", "objectives that compare answers are of one stage");
  }
  if (lora && (objective->scores() || objective->has_values()) && !lora->trains(kScoreWeight)) {
    config_fail(
        tree, "model.lora.modules_to_save",
        "without score the weight of scores or values, which is drawn, would not be learnt");
  }
  const auto is_trunk = [](const std::string& module) { return module != kScore; };
  if (lora && objective->compares() &&
      std::any_of(lora->modules_to_save.begin(), lora->modules_to_save.end(), is_trunk)) {
    config_fail(tree, "model.lora.modules_to_save",
                "an objective that compares with the model without its adapters trains no other "
                "weights");
  }
}

void AlignedRun::open_data(FileSystem& files, const YamlNode& tree,
                           const std::optional<std::string>& folder) {
  if (!objective) {
    CausalRun::open_data(files, tree, folder);
    return;
  }
  files_ = &files;
  from_ = begins_with(tree);
  type_key_ = config_where(tree, "objective.type");
  answers_ = std::make_shared<const AnswerCorpus>(
      open_answers(files, data, *objective, tokenizer_in(files, folder), tree));
  use({.tokenizer = answers_->tokenizer, .identity = answers_->identity});
  longest_ = longest_of(*answers_);
  pairs_ = objective->prefers() ? groups_of_pairs(*answers_, /*last_alone=*/objective->scores())
                                : AnswerGroups();
  lengths_ = std::make_shared<const LengthOrder>(
      lengths_of(answers_->train, /*whole=*/row_kind() == RowKind::kEnds), data.shuffle);
  check_prompts(tree, [this](const std::string& prompt) { corpus().tokenizer->encode(prompt); });
  counts_ = std::make_shared<LineCounts>(answers_->counts);
}

void AlignedRun::take_data_of(const ModelRun& opened) {
  if (const auto* const other = dynamic_cast<const AlignedRun*>(&opened)) {
    longest_ = other->longest_;
    pairs_ = other->pairs_;
    lengths_ = other->lengths_;
  }
}

void AlignedRun::settle(int64_t ids, const YamlNode& tree) {
  CausalRun::settle(ids, tree);
  if (objective && objective->is_rewarded() && causal_model()->turns_by_length(data.seq_length) &&
      objective->writing().generation.exact.value_or(false)) {
    config_fail(tree, objective->section() + ".generation.exact",
                "model.rope.type: dynamic turns the tokens of a text by its length, and rows of "
                "steps are longer than texts under way; expected auto or false");
  }
  const int64_t vocab = *vocab_size().value;
  if (objective && objective->is_rewarded() && objective->writing().generation.support() > vocab) {
    config_fail(tree, objective->section() + ".generation.top_k",
                fmt::format("{} is more than the {} tokens that there are",
                            objective->writing().generation.support(), vocab));
  }
}

std::vector<Overrides> AlignedRun::smaller_samples() const {
  return objective ? samples_below(row_length()) : CausalRun::smaller_samples();
}

// How many answers a prompt gets changes no step where they share nothing.
Overrides AlignedRun::profile_changes() const {
  return objective && objective->type == ObjectiveType::kGrpo && groups().size == 1
             ? Overrides{"objective.grpo.group=2"}
             : Overrides();
}

std::optional<int32_t> AlignedRun::taught_end() const {
  return objective && !objective->scores() ? std::optional(answers_->end) : std::nullopt;
}

std::vector<Callback*> AlignedRun::callbacks() const {
  std::vector<Callback*> out;
  if (counts_ != nullptr) {
    out.push_back(counts_.get());
  }
  if (written_ != nullptr) {
    out.push_back(written_.get());
  }
  if (point_ != nullptr) {
    out.push_back(point_.get());
  }
  return out;
}

std::map<std::string, std::string> AlignedRun::models_besides() const {
  std::map<std::string, std::string> out;
  if (objective && objective->is_rewarded()) {
    const std::vector<RewardConfig> rewards = objective->writing().rewards;
    for (size_t i = 0; i < rewards.size(); ++i) {
      if (rewards[i].type == RewardType::kModel) {
        out[fmt::format("{}.rewards[{}].path", objective->section(), i)] = rewards[i].path;
      }
    }
  }
  return out;
}

RowKind AlignedRun::row_kind() const {
  return objective->scores()                         ? RowKind::kEnds
         : objective->prefers()                      ? RowKind::kPairs
         : objective->judges()                       ? RowKind::kJudged
         : data.packing && !objective->is_rewarded() ? RowKind::kPacked
                                                     : RowKind::kSingle;
}

int64_t AlignedRun::row_length() const {
  if (!longest_ || row_kind() == RowKind::kPacked ||
      causal_model()->turns_by_length(data.seq_length)) {
    return data.seq_length;
  }
  int64_t ids = longest_->text;
  if (objective->is_rewarded()) {
    ids = std::max(ids, longest_->prompt + objective->writing().answer_tokens);
  } else if (objective->judges()) {  // each prompt meets other answers
    ids = longest_->prompt + longest_->answer;
  }
  return length_for(row_kind() == RowKind::kEnds ? ids : ids - 1, data.seq_length);
}

bool AlignedRun::writes_exactly() const {
  return objective->writing().generation.exact.value_or(
      why_inexact(train).empty() && !causal_model()->turns_by_length(data.seq_length));
}

// Of dropout, by the place in a row.
bool AlignedRun::draws() const {
  return causal_model()->has_dropout() || (lora && lora->dropout > 0);
}

std::shared_ptr<const LengthOrder> AlignedRun::by_length() const {
  const ParallelConfig& parallel = train.parallel;
  const RowKind kind = row_kind();
  const bool is_alone = kind != RowKind::kPacked && kind != RowKind::kJudged;
  const bool shares = parallel.tensor > 1 || parallel.context > 1 || parallel.pipeline > 1;
  return is_alone && !objective->is_rewarded() && !shares && !draws() &&
                 !causal_model()->turns_by_length(data.seq_length)
             ? lengths_
             : nullptr;
}

// Ranks along `context` have parts of rows.
AnswerGroups AlignedRun::groups() const {
  if (draws() || train.parallel.context > 1) {
    return {};
  }
  if (!objective->is_rewarded()) {
    return pairs_.pays(row_length()) ? pairs_ : AnswerGroups();
  }
  const GrpoConfig writing = objective->writing();
  return {.size = writing.group, .answer_tokens = writing.answer_tokens};
}

int64_t AlignedRun::bytes_of_writing() const {
  if (!bytes_of_writing_) {
    const GrpoConfig writing = objective->writing();
    Context context = make_context(train);
    context.batch_invariant = writes_exactly();
    const ContextScope scope(context);
    // Where the data are not there, of the longest prompts that there may be.
    const int64_t prompt =
        longest_ ? longest_->prompt : data.seq_length + 1 - writing.answer_tokens;
    const int64_t rows = train.batch.global;
    const Dtype dtype = train.precision.param_dtype();
    const Decoder decoder(causal_model(), train.run.execution);
    const AnswerLogProbs log_probs(causal_model(), "", rows, row_length(), writing.generation,
                                   train.run.execution, groups());
    bytes_of_writing_ = decoder.bytes(std::min(rows, writing.generation.rows.value_or(rows)),
                                      prompt, prompt + writing.answer_tokens - 1, dtype) +
                        log_probs.bytes(dtype);
  }
  return *bytes_of_writing_;
}

std::function<Params()> AlignedRun::reference() const {
  return [files = files_, from = from_, type = type_key_, network = network(),
          dtype = train.precision.param_dtype(), seed = static_cast<uint64_t>(train.run.seed)] {
    if (!from) {
      throw ConfigError(
          fmt::format("{}: compares with the weights that the run begins with: give "
                      "model.init.from",
                      type));
    }
    std::vector<ParamSpec> specs = network->specs();
    for (ParamSpec& spec : specs) {
      spec.type.dtype = dtype;
    }
    const Params own = [&] {
      try {
        return initial_params(*files, open_model(*files, *from), *network, seed, specs);
      } catch (const Error& error) {
        throw IoError(
            fmt::format("model.init.from, with which objective.type compares, is no such model: {}",
                        error.what()));
      }
    }();
    Params out;
    for (const ParamSpec& spec : specs) {
      out.set(fmt::format("{}.{}", kReference, spec.name), *own.find(spec.name));
    }
    return out;
  };
}

TrainTask AlignedRun::task() const {
  if (!objective) {
    return CausalRun::task();
  }
  const std::string reference = lora ? "" : kReference;
  if (objective->is_rewarded()) {
    const Dtype dtype = train.precision.param_dtype();
    TrainTask task =
        objective->has_values()
            ? ppo_task(*network(), causal_model(), objective->ppo, row_length(), reference, dtype)
            : grpo_task(*network(), causal_model(), objective->grpo, row_length(), reference, dtype,
                        groups());
    if (!task.frozen.empty()) {
      task.frozen_weights = this->reference();
    }
    task.batch_invariant = writes_exactly();
    task.asks_whole_weights = true;
    task.outside_bytes = bytes_of_writing();
    for (const RewardConfig& reward : objective->writing().rewards) {
      if (reward.type == RewardType::kModel) {
        task.outside_bytes += reward_model_bytes(reward.path);
      }
    }
    return task;
  }
  const Dtype dtype = train.precision.param_dtype();
  const auto of_rows = [network = network(), model = causal_model(), objective = *objective,
                        kind = row_kind(), reference,
                        dtype](int64_t seq, const AnswerGroups& groups) {
    return objective.scores()      ? scored_task(*network, model, objective, seq, groups)
           : !objective.compares() ? sft_task(*network, model, kind, seq)
           : objective.judges()
               ? judged_task(*network, model, objective, seq, reference, dtype)
               : preference_task(*network, model, objective, seq, reference, dtype, groups);
  };
  TrainTask task = of_rows(row_length(), groups());
  task.asks_whole_weights = objective->judges();
  if (objective->compares() && !lora) {
    task.frozen_weights = this->reference();
  }
  if (const auto order = by_length()) {
    const AnswerGroups pairs = draws() ? AnswerGroups() : pairs_;
    task.in_parts = [of_rows, order, pairs, unit = length_for(1, data.seq_length),
                     most = row_length()](const StepRange& steps, int64_t parts) {
      std::vector<TrainTask> out;
      const std::vector<LengthOrder::Lengths> longest = order->longest(steps);
      for (int64_t part = 1; part <= parts && !longest.empty(); ++part) {
        const auto& [positions, answer] =
            longest[static_cast<size_t>(std::ssize(longest) / parts * part - 1)];
        AnswerGroups groups = pairs;
        groups.answer_tokens = answer;
        groups.before_target = groups.before_target > 0 ? answer - 1 : 0;
        const int64_t seq = std::min(most, (positions + unit - 1) / unit * unit);
        out.push_back(of_rows(seq, groups.size > 1 && groups.pays(seq) ? groups : AnswerGroups()));
      }
      return out;
    };
  }
  return task;
}

TrainData AlignedRun::samples(const Json& source) const {
  if (!objective) {
    return CausalRun::samples(source);
  }
  TrainData out = text_data(source);
  const auto rows_of = [this](const std::vector<AnswerSample>& samples) {
    return std::make_shared<const AnswerRows>(samples, row_kind(), row_length());
  };
  if (objective->is_rewarded()) {
    written_ = std::make_shared<GroupAnswers>(
        causal_model(), answers_,
        GroupAnswersOptions{
            .grpo = objective->writing(),
            .ppo = objective->has_values() ? std::optional(objective->ppo) : std::nullopt,
            .end = objective->end,
            .rows = train.batch.global,
            .seq = row_length(),
            .seed = static_cast<uint64_t>(train.run.seed),
            .shuffle = data.shuffle,
            .lora = lora,
            .reference = lora ? "" : kReference,
            .log_interval = train.log.interval,
            .groups = groups(),
            .exact = writes_exactly(),
            .execution = train.run.execution});
    out.training = [written = written_](uint64_t, const BatchPart& part, int64_t first) {
      return written->stream(part, first);
    };
    const auto batch_types = task().batch_types;
    for (const AnswerSet& set : answers_->valid) {
      out.evaluation.push_back(
          with_advantages(held_out_rows(set.name, rows_of(set.samples)), batch_types));
      out.evaluation.back().has_targets = std::ranges::any_of(
          set.samples, [](const AnswerSample& sample) { return sample.texts[0].has_answer(); });
      out.evaluation.back().earned = [written = written_, answers = answers_, &set](
                                         const Params& params, int64_t first, int64_t count) {
        return written->earned(
            params,
            std::span(set.samples).subspan(static_cast<size_t>(first), static_cast<size_t>(count)));
      };
    }
    return out;
  }
  if (objective->judges()) {
    point_ =
        std::make_shared<ReferencePoint>(causal_model(), rows_of(answers_->train),
                                         ReferencePointOptions{.rows = train.batch.global,
                                                               .shuffle = data.shuffle,
                                                               .reference = lora ? "" : kReference,
                                                               .lora = lora,
                                                               .execution = train.run.execution});
    out.training = [point = point_](uint64_t seed, const BatchPart& part, int64_t first) {
      return point->stream(seed, part, first);
    };
    for (const AnswerSet& set : answers_->valid) {
      out.evaluation.push_back(judged_from_zero(held_out_rows(set.name, rows_of(set.samples))));
    }
    return out;
  }
  out.training = [rows = rows_of(answers_->train), shuffle = data.shuffle, order = by_length()](
                     uint64_t seed, const BatchPart& part, int64_t first) {
    return training_rows(rows, shuffle, order, seed, part, first);
  };
  for (const AnswerSet& set : answers_->valid) {
    out.evaluation.push_back(held_out_rows(set.name, rows_of(set.samples)));
  }
  return out;
}

}  // namespace mstrain
