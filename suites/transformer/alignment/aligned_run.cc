#include "suites/transformer/alignment/aligned_run.h"

#include "suites/run/stored_model.h"
#include "suites/transformer/alignment/answer_tasks.h"
#include "suites/transformer/alignment/grpo_task.h"

namespace mstrain {
namespace {

// The folder of what a run that prefers answers compares with.
constexpr const char* kReference = "reference";

}  // namespace

void AlignedRun::declare_data(ConfigFields& fields) {
  CausalRun::declare_data(fields);
  fields("objective", objective,
         "what is learnt of data.train, where that is not each next token of texts; null: that",
         rule::elsewhere_called({"finetuning_type", "training_objective"}));
}

void AlignedRun::check(const YamlNode& tree) const {
  CausalRun::check(tree);
  if (!objective) {
    return;
  }
  check_objective(*objective, tree);
  if (objective->is_rewarded()) {
    if (train.batch.global % objective->grpo.group != 0) {
      config_fail(tree, "objective.grpo.group",
                  fmt::format("must divide batch.global, {}", train.batch.global));
    }
    if (objective->grpo.answer_tokens >= data.seq_length) {
      config_fail(
          tree, "objective.grpo.answer_tokens",
          fmt::format("leaves no room for prompts in data.seq_length, {}", data.seq_length));
    }
  }
  if (!objective->prefers() && !objective->is_rewarded()) {
    return;
  }
  // The model's layers are passed several times.
  if (train.parallel.pipeline > 1) {
    config_fail(tree, "parallel.pipeline", "objectives that compare answers are of one stage");
  }
  if (lora && objective->compares() && !lora->modules_to_save.empty()) {
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
  answers_ = std::make_shared<const AnswerCorpus>(
      open_answers(files, data, *objective, tokenizer_in(files, folder), tree));
  use({.tokenizer = answers_->tokenizer, .identity = answers_->identity});
  check_prompts(tree, [this](const std::string& prompt) { corpus().tokenizer->encode(prompt); });
}

std::vector<Callback*> AlignedRun::callbacks() const {
  return written_ == nullptr ? std::vector<Callback*>() : std::vector<Callback*>{written_.get()};
}

RowKind AlignedRun::row_kind() const {
  return objective->prefers()                        ? RowKind::kPairs
         : data.packing && !objective->is_rewarded() ? RowKind::kPacked
                                                     : RowKind::kSingle;
}

std::function<Params()> AlignedRun::reference() const {
  return [files = files_, from = from_, network = network(), dtype = train.precision.param_dtype(),
          seed = static_cast<uint64_t>(train.run.seed)] {
    if (!from) {
      throw ConfigError(
          "objective.type compares with the weights that the run begins with: give "
          "model.init.from");
    }
    std::vector<ParamSpec> specs = network->specs();
    for (ParamSpec& spec : specs) {
      spec.type.dtype = dtype;
    }
    const Params own = initial_params(*files, open_model(*files, *from), *network, seed, specs);
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
    TrainTask task = grpo_task(*network(), causal_model(), objective->grpo, data.seq_length,
                               reference, train.precision.param_dtype());
    if (!task.frozen.empty()) {
      task.frozen_weights = this->reference();
    }
    return task;
  }
  if (!objective->prefers()) {
    return sft_task(*network(), causal_model(), row_kind(), data.seq_length);
  }
  TrainTask task = preference_task(*network(), causal_model(), *objective, data.seq_length,
                                   reference, train.precision.param_dtype());
  if (!lora) {
    task.frozen_weights = this->reference();
  }
  return task;
}

TrainData AlignedRun::samples(const Json& source) const {
  if (!objective) {
    return CausalRun::samples(source);
  }
  TrainData out = text_data(source);
  const auto rows_of = [this](const std::vector<AnswerSample>& samples) {
    return std::make_shared<const AnswerRows>(samples, row_kind(), data.seq_length);
  };
  if (objective->is_rewarded()) {
    written_ = std::make_shared<GroupAnswers>(
        causal_model(), answers_,
        GroupAnswersOptions{.grpo = objective->grpo,
                            .rows = train.batch.global,
                            .seq = data.seq_length,
                            .seed = static_cast<uint64_t>(train.run.seed),
                            .shuffle = data.shuffle,
                            .lora = lora,
                            .execution = train.run.execution});
    out.training = [written = written_](uint64_t, const BatchPart& part, int64_t first) {
      return written->stream(part, first);
    };
    for (const AnswerSet& set : answers_->valid) {
      out.evaluation.push_back(
          with_advantages(held_out_rows(set.name, rows_of(set.samples)), objective->grpo));
    }
    return out;
  }
  out.training = [rows = rows_of(answers_->train), shuffle = data.shuffle](
                     uint64_t seed, const BatchPart& part, int64_t first) {
    return training_rows(rows, shuffle, seed, part, first);
  };
  for (const AnswerSet& set : answers_->valid) {
    out.evaluation.push_back(held_out_rows(set.name, rows_of(set.samples)));
  }
  return out;
}

}  // namespace mstrain
