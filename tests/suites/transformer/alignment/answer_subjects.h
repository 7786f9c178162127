// Small language models, a few answers, and what the models say of them, worked out from logits in double precision.
#pragma once

#include <cmath>

#include "core/tensor/host.h"
#include "suites/transformer/alignment/answer_rows.h"
#include "suites/transformer/gpt/gpt_run.h"
#include "suites/transformer/llama/llama_run.h"

namespace mstrain {

inline constexpr int64_t kVocab = 11;
inline constexpr int64_t kSeq = 8;

struct Subject {
  std::shared_ptr<const CausalModel> model;
  std::shared_ptr<const Network> network;
};

inline Subject gpt_subject(HeadType head = HeadType::kNextToken) {
  gpt::GptConfig config;
  config.vocab_size = kVocab;
  config.hidden_size = 12;
  config.num_layers = 2;
  config.num_attention_heads = 3;
  config.max_position_embeddings = kSeq;
  config.init.std = 0.4;
  config.head = head;
  return {std::make_shared<gpt::Gpt>(config), std::make_shared<gpt::GptNetwork>(config)};
}

inline Subject llama_subject(HeadType head = HeadType::kNextToken) {
  llama::LlamaConfig config;
  config.vocab_size = kVocab;
  config.hidden_size = 12;
  config.num_layers = 2;
  config.num_attention_heads = 3;
  config.num_key_value_heads = 1;
  config.ffn_hidden_size = 20;
  config.max_position_embeddings = kSeq;
  config.init.std = 0.4;
  config.head = head;
  return {std::make_shared<llama::Llama>(config), std::make_shared<llama::LlamaNetwork>(config)};
}

inline Subject subject_with(bool is_llama, HeadType head) {
  return is_llama ? llama_subject(head) : gpt_subject(head);
}

inline AnswerText text(std::vector<int32_t> ids, int64_t answer) {
  return {std::move(ids), answer};
}

inline Tensors batch_of(const AnswerRows& rows, int64_t count) {
  std::vector<std::vector<int32_t>> parts(
      static_cast<size_t>(tensors_of(rows.kind())),
      std::vector<int32_t>(static_cast<size_t>(count * rows.seq())));
  for (int64_t row = 0; row < count; ++row) {
    rows.write(row, parts, row);
  }
  Tensors out;
  for (const auto& part : parts) {
    out.push_back(tensor<int32_t>(part, {count, rows.seq()}));
  }
  return out;
}

// The sum over an answer's tokens, one text at a time.
inline double log_prob(const Subject& subject, const Params& params, const AnswerText& text) {
  const auto length = static_cast<int64_t>(text.ids.size()) - 1;
  const std::vector<int32_t> given(text.ids.begin(), text.ids.end() - 1);
  const std::vector<double> logits =
      to_doubles((*subject.model)(params, tensor<int32_t>(given, {1, length})));
  double total = 0;
  for (int64_t i = text.answer - 1; i < length; ++i) {
    const double* const row = logits.data() + i * kVocab;
    double sum = 0;
    for (int64_t v = 0; v < kVocab; ++v) {
      sum += std::exp(row[v]);
    }
    total += row[text.ids[static_cast<size_t>(i) + 1]] - std::log(sum);
  }
  return total;
}

inline double tokens_of(const AnswerText& text) {
  return static_cast<double>(static_cast<int64_t>(text.ids.size()) - text.answer);
}

inline const std::vector<AnswerSample> kTexts{
    {{text({1, 2, 3, 4}, 2)}}, {{text({5, 6, 7}, 1)}}, {{text({8, 1, 9, 2, 10, 3}, 4)}}};
inline const std::vector<AnswerSample> kPairs{{{text({1, 2, 3, 4}, 2), text({1, 2, 5, 6, 7}, 2)}},
                                              {{text({4, 9, 9, 1, 3}, 1), text({4, 2, 3}, 1)}}};

}  // namespace mstrain
