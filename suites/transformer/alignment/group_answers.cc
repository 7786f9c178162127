#include "suites/transformer/alignment/group_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/data/shuffle.h"
#include "core/data/windows.h"
#include "core/train/state_fields.h"
#include "core/train/trainer.h"
#include "suites/transformer/alignment/ended_answer.h"
#include "suites/transformer/alignment/ppo_task.h"
#include "suites/transformer/text/generate.h"

namespace mstrain {

// The answers to a prompt.
struct GroupAnswers::Group {
  int64_t prompt = 0;
  std::vector<std::vector<int32_t>> answers;   // with what ends them, unless they are cut
  std::vector<std::vector<float>> log_probs;   // that their tokens were drawn by
  std::vector<std::vector<int32_t>> supports;  // and from
  std::vector<bool> is_cut;
  std::vector<double> rewards, advantages;
  bool is_even() const {
    return std::all_of(advantages.begin(), advantages.end(), [](double a) { return a == 0; });
  }
};

GroupAnswers::GroupAnswers(std::shared_ptr<const CausalModel> model,
                           std::shared_ptr<const AnswerCorpus> corpus,
                           const GroupAnswersOptions& options)
    : corpus_(std::move(corpus)),
      options_(options),
      rewards_(options.grpo.rewards, options.end),
      model_(std::move(model)),
      rows_(std::make_shared<WrittenRows>()) {}

void GroupAnswers::prepare(const TensorParts& parts) {
  const GenerationConfig& generation = options_.grpo.generation;
  if (options_.exact && parts.shares()) {
    shared_ = std::make_shared<SharedModel>(*model_, parts);
  }
  parts_ = &parts;
  decoder_.emplace(model_, options_.execution, generation.temperature, shared_);
  log_probs_.emplace(model_, options_.reference, options_.rows, options_.seq, generation,
                     options_.execution, options_.groups, shared_);
}

std::unique_ptr<BatchStream> GroupAnswers::stream(const BatchPart& part, int64_t first) const {
  return written_batches(rows_, options_.seq, part, first);
}

const AnswerText& GroupAnswers::prompt(int64_t index) const {
  const int64_t count = std::ssize(corpus_->train);
  const int64_t place = index % count;
  const int64_t of = options_.shuffle
                         ? Permutation(count, options_.seed, random_stream("data.prompts", 0),
                                       static_cast<uint64_t>(index / count))(place)
                         : place;
  return corpus_->train[static_cast<size_t>(of)].texts[0];
}

std::vector<GroupAnswers::Group> GroupAnswers::write_groups(const Params& params,
                                                            int64_t first_prompt, int64_t prompts,
                                                            uint64_t seed) {
  const auto size = static_cast<size_t>(options_.grpo.group);
  std::vector<std::vector<int32_t>> given;
  for (int64_t p = 0; p < prompts; ++p) {
    const AnswerText& text = prompt(first_prompt + p);
    given.insert(given.end(), size,
                 {text.ids.begin(), text.ids.begin() + static_cast<ptrdiff_t>(text.answer)});
  }
  const GenerationConfig& generation = options_.grpo.generation;
  const WriteOptions how{.tokens = options_.grpo.answer_tokens,
                         .sampling = {.top_k = generation.top_k,
                                      .top_p = generation.top_p,
                                      .min_p = generation.min_p,
                                      .seed = seed},
                         .stop = {corpus_->end},
                         .at_once = generation.rows.value};
  const Tokenizer& tokenizer = *corpus_->tokenizer;
  DrawnTokens drawn{.support = generation.support(), .log_probs = {}, .supports = {}};
  auto written =
      continue_tokens(*decoder_, params, given, how, tokenizer.vocab_size(), nullptr, 0, &drawn);
  std::vector<Group> out(static_cast<size_t>(prompts));
  std::vector<WrittenAnswer> texts;
  for (size_t i = 0; i < written.size(); ++i) {
    Group& group = out[i / size];
    group.prompt = first_prompt + static_cast<int64_t>(i / size);
    WrittenAnswer answer =
        ended_answer(*corpus_, prompt(group.prompt), written[i], options_.grpo.answer_tokens);
    group.is_cut.push_back(answer.is_cut);
    group.answers.push_back(std::move(written[i]));
    group.log_probs.push_back(std::move(drawn.log_probs[i]));
    group.supports.push_back(std::move(drawn.supports[i]));
    texts.push_back(std::move(answer));
  }
  const Rewards::Earned earned = rewards_.earned(texts);
  for (size_t i = 0; i < earned.total.size(); ++i) {
    out[i / size].rewards.push_back(earned.total[i]);
  }
  const auto append = [](std::vector<double>& all, const std::vector<double>& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  append(earned_, earned.total);
  for (size_t rule = 0; rule < earned.rules.size(); ++rule) {
    append(earned_by_rule_[rule], earned.rules[rule]);
  }
  for (Group& group : out) {
    group.advantages = advantages_of(group.rewards, options_.grpo.scale, options_.grpo.negatives);
  }
  return out;
}

bool GroupAnswers::is_measured(const Trainer& trainer) const {
  const int64_t next = trainer.step() + 1;
  return next == 1 || next % options_.log_interval == 0;
}

void GroupAnswers::measure(Trainer& trainer, const Params& params) {
  const GrpoConfig& grpo = options_.grpo;
  const bool is_due = is_measured(trainer);
  const bool is_new = rows_->is_new;
  if (keeps() && is_new && options_.exact) {
    rows_->log_probs = drawn_;
  }
  // What is known already is not asked for again.
  if (!is_due && !(is_new && (options_.ppo || (keeps() && !options_.exact)))) {
    return;
  }
  const AnswerLogProbs::Answers answers{rows_->tokens, rows_->targets, rows_->supports};
  AnswerLogProbs::Valued now;
  if (options_.ppo && is_new) {
    now = log_probs_->of_policy_and_values(params, answers);
  } else {
    now.log_probs = log_probs_->of_policy(params, answers);
  }
  const bool pays = options_.ppo && grpo.kl > 0;
  std::vector<float> reference;
  if (is_new && (pays || (is_due && (grpo.kl > 0 || options_.lora)))) {
    reference = log_probs_->of_reference(params, answers);
  }
  if (is_due && is_new) {
    trainer.note("entropy", entropy_of(now.log_probs, rows_->targets));
    note_mismatch(trainer, now.log_probs);
  }
  if (is_due && !reference.empty()) {
    trainer.note("kl", divergence_of(now.log_probs, reference, rows_->targets));
  }
  if (is_due && keeps()) {
    const ClippedShares shares = is_new ? ClippedShares()
                                        : clipped_shares(grpo, now.log_probs, rows_->log_probs,
                                                         rows_->targets, rows_->advantages);
    trainer.note("clipped_low", shares.low);
    trainer.note("clipped_high", shares.high);
  }
  if (options_.ppo && is_new) {
    TokenAdvantages of_tokens = token_advantages(
        *options_.ppo, {.targets = rows_->targets,
                        .log_probs = now.log_probs,
                        .reference = pays ? std::span<const float>(reference) : std::span<float>(),
                        .values = now.values,
                        .rewards = rows_->rewards});
    note(trainer, "explained_variance",
         explained_variance(now.values, of_tokens.returns, rows_->targets));
    rows_->advantages = std::move(of_tokens.advantages);
    rows_->returns = std::move(of_tokens.returns);
    rows_->values = std::move(now.values);
  }
  if (keeps() && is_new) {
    rows_->log_probs = std::move(now.log_probs);
  }
}

void GroupAnswers::on_start(Trainer& trainer) {
  trainer_ = &trainer;
  prepare(trainer.parts());  // a run that goes on may evaluate before it writes
  for (const auto& [name, value] : noted_) {
    trainer.note(name, value);
  }
}

void GroupAnswers::note(Trainer& trainer, const std::string& name, double value) {
  trainer.note(name, value);
  noted_[name] = value;
}

Json GroupAnswers::state() const {
  Json out = rows_->state();
  for (const auto& [name, value] : noted_) {
    if (trainer_->notes().contains(name)) {
      out["noted"][name] = value;
    }
  }
  return out;
}

void GroupAnswers::restore(const Json& state) {
  rows_->restore(state);
  if (state.contains("noted")) {
    for (const auto& [name, value] : state["noted"].items()) {
      noted_[name] = state_number(state["noted"], name.c_str(), "answers");
    }
  }
}

void GroupAnswers::note_mismatch(Trainer& trainer, std::span<const float> log_probs) const {
  const Mismatch mismatch = mismatch_of(log_probs, drawn_, rows_->targets);
  trainer.note("mismatch_mean", mismatch.mean);
  trainer.note("mismatch_max", mismatch.max);
  trainer.note("mismatch_chi_square", mismatch.chi_square);
  if (options_.exact && mismatch.max > 0) {
    log_warning(
        "step {}: tokens were drawn by log-probabilities that are up to {} from the step's, which "
        "generation.exact promises not to happen",
        trainer.step() + 1, mismatch.max);
  }
}

void GroupAnswers::write(Trainer& trainer) {
  const GrpoConfig& grpo = options_.grpo;
  // Rows of checkpoints of before have data.seq_length tokens.
  const bool goes_on = trainer.step() % grpo.passes != 0 &&
                       std::ssize(rows_->tokens) == options_.rows * options_.seq;
  if (goes_on) {
    rows_->first = trainer.progress().samples;
    rows_->is_new = false;
  }
  if (goes_on && !is_measured(trainer)) {
    return;
  }
  const Params params = shared_ == nullptr ? trainer.params() : trainer.params_in_parts();
  Context context = for_inference();
  context.batch_invariant = options_.exact;
  const ContextScope inference(context);
  const LoraScope adapters(options_.lora ? &*options_.lora : nullptr);
  if (goes_on) {
    measure(trainer, params);
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  const int64_t step = trainer.step();
  const int64_t prompts = options_.rows / grpo.group;
  // Every step has prompts of its own, also those that take the place of others.
  const int64_t first = step / grpo.passes * prompts * (1 + grpo.resample);
  std::vector<Group> groups;
  std::vector<Group> even;
  double answers = 0, tokens = 0, cut = 0, alike = 0, replaced = 0;
  earned_.clear();
  earned_by_rule_.assign(grpo.rewards.size(), {});
  for (int64_t round = 0; round <= grpo.resample && std::ssize(groups) < prompts; ++round) {
    const uint64_t seed = hash_combine(hash_combine(options_.seed, static_cast<uint64_t>(step)),
                                       static_cast<uint64_t>(round));
    for (Group& group : write_groups(params, first + round * prompts, prompts, seed)) {
      answers += static_cast<double>(grpo.group);
      cut += static_cast<double>(std::count(group.is_cut.begin(), group.is_cut.end(), true));
      alike += group.is_even() ? static_cast<double>(grpo.group) : 0;
      for (const std::vector<int32_t>& answer : group.answers) {
        tokens += static_cast<double>(answer.size());
      }
      if (group.is_even()) {
        even.push_back(std::move(group));
      } else if (std::ssize(groups) < prompts) {
        groups.push_back(std::move(group));
        replaced += round > 0 ? 1 : 0;
      }
    }
  }
  if (groups.empty() && !options_.ppo && std::exchange(says_even_, false)) {
    log_warning(
        "step {}: the answers to each prompt earn the same, so no reward teaches anything; further "
        "such steps have an even_groups of 1 in metrics.jsonl",
        step + 1);
  }
  for (size_t i = 0; std::ssize(groups) < prompts; ++i) {
    groups.push_back(std::move(even[i]));
  }
  *rows_ = {.first = trainer.progress().samples,
            .tokens = std::vector<int32_t>(static_cast<size_t>(options_.rows * options_.seq), 0),
            .targets = std::vector<int32_t>(static_cast<size_t>(options_.rows * options_.seq),
                                            kIgnoreTarget),
            .advantages = std::vector<float>(static_cast<size_t>(options_.rows), 0.0F),
            .rewards = std::vector<float>(static_cast<size_t>(options_.rows), 0.0F)};
  drawn_.assign(rows_->tokens.size(), 0.0F);
  rows_->supports.assign(rows_->tokens.size() * static_cast<size_t>(grpo.generation.support()), -1);
  for (size_t row = 0; row < static_cast<size_t>(options_.rows); ++row) {
    const auto size = static_cast<size_t>(grpo.group);
    add_row(groups[row / size], row % size, static_cast<int64_t>(row));
  }
  if (std::all_of(rows_->targets.begin(), rows_->targets.end(),
                  [](int32_t target) { return target == kIgnoreTarget; })) {
    say_all_are_cut(step);
  }
  trainer.note("writing_seconds",
               std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  measure(trainer, params);
  note_rewards(trainer);
  note(trainer, "answer_tokens", tokens / answers);
  note(trainer, "cut_answers", cut / answers);
  if (!options_.ppo) {
    note(trainer, "even_groups", alike / answers);
  }
  if (grpo.resample > 0) {
    note(trainer, "replaced_prompts", replaced / static_cast<double>(prompts));
  }
}

void GroupAnswers::note_rewards(Trainer& trainer) {
  const auto mean = [](const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  const double of_all = mean(earned_);
  note(trainer, "reward", of_all);
  double squares = 0;
  for (const double each : earned_) {
    squares += (each - of_all) * (each - of_all);
  }
  note(trainer, "reward_deviation", std::sqrt(squares / static_cast<double>(earned_.size())));
  const std::vector<std::string> names = rewards_.names();
  for (size_t rule = 0; rule < names.size(); ++rule) {
    note(trainer, "reward/" + names[rule], mean(earned_by_rule_[rule]));
  }
}

void GroupAnswers::say_all_are_cut(int64_t step) const {
  const std::string what = fmt::format("step {}: no answer comes to an end within {} tokens",
                                       step + 1, options_.grpo.answer_tokens);
  check(step > 0, "{}; raise {}.answer_tokens, or leave out leave_out_cut", what,
        options_.ppo ? "objective.ppo" : "objective.grpo");
  log_warning("{}, so it teaches nothing", what);
}

void GroupAnswers::add_row(const Group& group, size_t answer, int64_t row) {
  if (group.is_cut[answer] && options_.grpo.leave_out_cut) {
    return;
  }
  const AnswerText& text = prompt(group.prompt);
  std::vector<int32_t> ids(text.ids.begin(),
                           text.ids.begin() + static_cast<ptrdiff_t>(text.answer));
  ids.insert(ids.end(), group.answers[answer].begin(), group.answers[answer].end());
  const auto at = static_cast<size_t>(row * options_.seq);
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    rows_->tokens[at + i] = ids[i];
    if (static_cast<int64_t>(i) + 1 >= text.answer) {
      rows_->targets[at + i] = ids[i + 1];
      const size_t token = i + 1 - static_cast<size_t>(text.answer);
      drawn_[at + i] = group.log_probs[answer][token];
      const auto width = static_cast<size_t>(options_.grpo.generation.support());
      std::copy_n(group.supports[answer].begin() + static_cast<ptrdiff_t>(token * width), width,
                  rows_->supports.begin() + static_cast<ptrdiff_t>((at + i) * width));
    }
  }
  rows_->advantages[static_cast<size_t>(row)] = static_cast<float>(group.advantages[answer]);
  rows_->rewards[static_cast<size_t>(row)] = static_cast<float>(group.rewards[answer]);
}

}  // namespace mstrain
