#include "suites/transformer/alignment/shared_prompts.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/data/windows.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "suites/transformer/text/key_value_cache.h"

namespace mstrain {
namespace {

// x[0, first:end, …] as [rows, (end - first) / rows, …].
Tensor part_in_rows(const Tensor& x, int64_t first, int64_t end, int64_t rows) {
  Shape shape = x.shape();
  shape[0] = rows;
  shape[1] = (end - first) / rows;
  return reshape(slice(x, 1, first, end), shape);
}

}  // namespace

int64_t AnswerGroups::shared_in(int64_t rows) const { return std::gcd(rows, size); }

bool AnswerGroups::pays(int64_t seq) const {
  constexpr double kWorthwhile = 0.9;
  const auto rows = static_cast<double>(size);
  const auto tokens =
      static_cast<double>(seq - answer_tokens) + rows * static_cast<double>(answer_tokens);
  return answer_tokens < seq && tokens <= kWorthwhile * rows * static_cast<double>(seq);
}

Shape AnswerGroups::stream(int64_t rows, int64_t seq) const {
  const int64_t shared = shared_in(rows);
  return shared == 1 ? Shape{rows, seq}
                     : Shape{1, rows / shared * (seq - answer_tokens) + rows * answer_tokens};
}

AnswerGroups groups_of_pairs(const AnswerCorpus& corpus, bool last_alone) {
  bool differ = false;
  for_each_sample(corpus, [&](const AnswerSample& sample) {
    const AnswerText &chosen = sample.texts.at(0), &rejected = sample.texts.at(1);
    const auto prompt = chosen.ids.begin() + chosen.answer;
    differ = differ || chosen.answer != rejected.answer ||
             !std::equal(chosen.ids.begin(), prompt, rejected.ids.begin());
  });
  const int64_t longest = longest_of(corpus).answer;
  return differ ? AnswerGroups()
                : AnswerGroups{.size = 2,
                               .answer_tokens = longest,
                               .before_target = last_alone ? longest - 1 : 0};
}

SharedPrompts::SharedPrompts(const Tensor& tokens_bt, const Tensor& targets_bt,
                             const AnswerGroups& groups)
    : rows_(tokens_bt.dim(0)), seq_(tokens_bt.dim(1)), answer_(groups.answer_tokens) {
  const int64_t shared = groups.shared_in(rows_);
  check(answer_ > 0 && answer_ < seq_, "answers of {} tokens in rows of {}", answer_, seq_);
  prompts_ = rows_ / shared;
  prompt_ = seq_ - answer_;
  // Where answers' first tokens are drawn: rows without an answer begin where others of their prompt do.
  const Tensor is_target_bt = cast(not_equal(targets_bt, kIgnoreTarget), Dtype::kI32);
  const Tensor first_ps = reshape(argmax(is_target_bt), {prompts_, shared});
  const Tensor with_answer_p = row_offsets(prompts_, shared) + argmax(first_ps);
  const Tensor last_p1 = max(first_ps, {1}, /*keep_dims=*/true);
  const Tensor start_p1 = clip(last_p1 - groups.before_target, 0, prompt_);
  const Tensor start_b1 = reshape(broadcast_to(start_p1, {prompts_, shared}), {rows_, 1});
  places_ba_ = start_b1 + iota({rows_, answer_}, 1);

  const Tensor prompts_pt = slice(gather(tokens_bt, with_answer_p, 0), 1, 0, prompt_);
  const Tensor in_order[] = {flatten(prompts_pt), flatten(of_answers(tokens_bt))};
  const Tensor places[] = {flatten(iota({prompts_, prompt_}, 1)), flatten(places_ba_)};
  const int64_t tokens = prompts_ * prompt_ + rows_ * answer_;
  tokens_1n_ = reshape(concat(in_order, 0), {1, tokens});
  positions_1n_ = reshape(concat(places, 0), {1, tokens});

  const Tensor key_bt = iota({rows_, seq_}, 1);
  const Tensor of_prompt_bt =
      reshape(
          broadcast_to(reshape(row_offsets(prompts_, prompt_), {prompts_, 1}), {prompts_, shared}),
          {rows_, 1}) +
      minimum(key_bt, prompt_ - 1);
  // Keys behind an answer's last token, which no query sees, are that token's.
  const Tensor of_answer_bt = reshape(row_offsets(rows_, answer_), {rows_, 1}) +
                              prompts_ * prompt_ + clip(key_bt - start_b1, 0, answer_ - 1);
  keys_bt_ = where(less(key_bt, start_b1), of_prompt_bt, of_answer_bt);
}

Tensor SharedPrompts::of_answers(const Tensor& x_bt) const {
  const Tensor at_ba = reshape(row_offsets(rows_, seq_), {rows_, 1}) + places_ba_;
  return gather(flatten(x_bt, 0, 1), at_ba, 0);
}

Tensor SharedPrompts::in_rows(const Tensor& x_ba) const {
  return scatter_add_along(zeros({x_ba.dtype(), {rows_, seq_}}), places_ba_, x_ba, 1);
}

Tensor SharedPrompts::features(const CausalModel& model, const Params& p) const {
  TokenView view{.positions_bt = positions_1n_,
                 .lengths_b = full({1}, static_cast<double>(seq_), Dtype::kI32)};
  view.is_pure = true;
  view.attend = [&](int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v) {
    return attend(model.attention_options(layer), q, k, v);
  };
  return answers_of(model.features(p, tokens_1n_, view));
}

Tensor SharedPrompts::prompts_of(const Tensor& x_1n) const {
  return part_in_rows(x_1n, 0, prompts_ * prompt_, prompts_);
}

Tensor SharedPrompts::answers_of(const Tensor& x_1n) const {
  return part_in_rows(x_1n, prompts_ * prompt_, x_1n.dim(1), rows_);
}

Tensor SharedPrompts::attend(const AttentionOptions& options, const Tensor& q_1nhd,
                             const Tensor& k_1nhd, const Tensor& v_1nhd) const {
  const auto keys = [&](const Tensor& x_1nhd) { return gather(select(x_1nhd, 0, 0), keys_bt_, 0); };
  const Tensor of_prompts =
      attention(prompts_of(q_1nhd), prompts_of(k_1nhd), prompts_of(v_1nhd), options);
  AttentionOptions behind = options;
  behind.start = select(places_ba_, 1, 0);
  const Tensor of_answers = attention(answers_of(q_1nhd), keys(k_1nhd), keys(v_1nhd), behind);
  const Tensor both[] = {flatten(of_prompts, 0, 1), flatten(of_answers, 0, 1)};
  return expand_dims(concat(both, 0), 0);
}

}  // namespace mstrain
