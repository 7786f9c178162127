// What held-out prompts are answered with, and what that earns.
#include "core/base/error.h"
#include "suites/transformer/alignment/ended_answer.h"
#include "suites/transformer/alignment/group_answers.h"
#include "suites/transformer/text/generate.h"

namespace mstrain {

Earned GroupAnswers::earned(const Params& params, std::span<const AnswerSample> prompts) {
  if (!decoder_) {  // nothing is trained
    decoder_.emplace(model_, options_.execution);
  }
  Context context = for_inference();
  context.batch_invariant = options_.exact;
  const ContextScope inference(context);
  const LoraScope adapters(options_.lora ? &*options_.lora : nullptr);
  std::vector<std::vector<int32_t>> given;
  for (const AnswerSample& sample : prompts) {
    const AnswerText& text = sample.texts[0];
    given.emplace_back(text.ids.begin(), text.ids.begin() + static_cast<ptrdiff_t>(text.answer));
  }
  const GrpoConfig& grpo = options_.grpo;
  const WriteOptions how{.tokens = grpo.answer_tokens,
                         .sampling = {.top_k = 1},  // at any temperature
                         .stop = {corpus_->end},
                         .at_once = grpo.generation.rows.value};
  auto written = continue_tokens(*decoder_, shared_ == nullptr ? params : parts_->cut(params),
                                 given, how, corpus_->tokenizer->vocab_size());
  std::vector<WrittenAnswer> answers;
  for (size_t i = 0; i < written.size(); ++i) {
    answers.push_back(ended_answer(*corpus_, prompts[i].texts[0], written[i], grpo.answer_tokens));
  }
  const std::vector<double> rewards = rewards_.of(answers);
  Earned out;
  for (size_t i = 0; i < answers.size(); ++i) {
    out.sum += rewards[i];
    out.texts.push_back({std::move(answers[i].prompt), std::move(answers[i].text), rewards[i]});
  }
  return out;
}

}  // namespace mstrain
