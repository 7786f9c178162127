// Answers that share prompts are learnt from as if each had its own.
#include <gtest/gtest.h>

#include <cmath>

#include "core/data/windows.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "core/transform/grad.h"
#include "suites/transformer/alignment/grpo_task.h"
#include "suites/transformer/gpt/model.h"
#include "suites/transformer/llama/model.h"

namespace mstrain {
namespace {

constexpr int64_t kVocab = 31, kSeq = 90, kAnswer = 23, kGroup = 3, kPrompts = 4;
constexpr int64_t kRows = kPrompts * kGroup;

std::shared_ptr<const CausalModel> gpt_model(Recompute recompute) {
  gpt::GptConfig config;
  config.vocab_size = kVocab;
  config.hidden_size = 24;
  config.num_layers = 2;
  config.num_attention_heads = 3;
  config.max_position_embeddings = kSeq;
  config.dropout = {0, 0, 0};
  config.init.std = 0.3;
  return std::make_shared<gpt::Gpt>(config, recompute);
}

// With a window that ends within answers, within prompts, and before them.
std::shared_ptr<const CausalModel> llama_model(Recompute recompute) {
  llama::LlamaConfig config;
  config.vocab_size = kVocab;
  config.hidden_size = 24;
  config.num_layers = 3;
  config.num_attention_heads = 6;
  config.num_key_value_heads = 2;
  config.max_position_embeddings = kSeq;
  config.attention_bias = llama::AttentionBias::kQkv;
  config.sliding_window = 17;
  config.full_attention_layers = 1;
  config.init.std = 0.3;
  return std::make_shared<llama::Llama>(config, recompute);
}

struct Rows {
  Tensor tokens_bt, targets_bt, support_btk;
};

// Prompts of 1 token, of all that have room, and between; answers of all lengths, and rows without one, the first ones of their group among them.
Rows rows_of(uint64_t seed) {
  Rng rng(seed);
  constexpr int64_t kSupport = 5;
  std::vector<int32_t> tokens(kRows * kSeq), targets(kRows * kSeq, kIgnoreTarget),
      support(kRows * kSeq * kSupport, -1);
  const auto any = [&] { return static_cast<int32_t>(rng.below(kVocab)); };
  for (int64_t p = 0; p < kPrompts; ++p) {
    const int64_t most = kSeq - kAnswer + 1;
    const int64_t length = p == 0 ? 1 : p == 1 ? most : 1 + rng.below(most);
    std::vector<int32_t> prompt(static_cast<size_t>(length));
    std::ranges::generate(prompt, any);
    for (int64_t g = 0; g < kGroup; ++g) {
      const bool has_answer = p == 3 ? g == 2 : p != 2 || g != 0;
      std::vector<int32_t> ids = prompt;
      const int64_t more = g == 1 ? kAnswer : 1 + rng.below(kAnswer);
      for (int64_t i = 0; has_answer && i < more; ++i) {
        ids.push_back(any());
      }
      const int64_t row = p * kGroup + g;
      for (int64_t i = 0; has_answer && i + 1 < std::ssize(ids); ++i) {
        const auto at = static_cast<size_t>(row * kSeq + i);
        tokens[at] = ids[static_cast<size_t>(i)];
        if (i + 1 >= length) {
          targets[at] = ids[static_cast<size_t>(i) + 1];
          for (size_t k = 0; k < kSupport; ++k) {
            support[at * kSupport + k] = k == 2 ? targets[at] : static_cast<int32_t>(k);
          }
        }
      }
    }
  }
  return {tensor<int32_t>(tokens, {kRows, kSeq}), tensor<int32_t>(targets, {kRows, kSeq}),
          tensor<int32_t>(support, {kRows, kSeq, kSupport})};
}

struct SharedModelCase {
  const char* name;
  std::shared_ptr<const CausalModel> (*make)(Recompute recompute);
};

class SharedPrompts : public testing::TestWithParam<SharedModelCase> {};
INSTANTIATE_TEST_SUITE_P(Models, SharedPrompts,
                         testing::Values(SharedModelCase{"gpt", gpt_model},
                                         SharedModelCase{"llama", llama_model}),
                         [](const auto& info) { return std::string(info.param.name); });

// Log-probabilities, and gradients of a sum of them in which each has another weight.
std::pair<Params, Tensor> step(const CausalModel& model, const Params& params, const Rows& rows,
                               const AnswerGroups& groups, bool on_support) {
  const auto run = jit([&](const Params& all, const Tensor& tokens, const Tensor& targets,
                           const Tensor& support) {
    Context training = current_context();
    training.training = true;
    const ContextScope inner(training);
    const auto [found, gradients] = value_and_grad([&](const Params& p) {
      const DrawnFrom from{on_support ? 0.7 : 1.0, on_support ? support : Tensor()};
      const Tensor log_prob_bt = answer_log_probs(model, p, tokens, targets, from, groups);
      return std::pair(sum(exp(log_prob_bt) * sin(cast(tokens, log_prob_bt.dtype()))), log_prob_bt);
    })(all);
    return std::pair(gradients, found.second);
  });
  return run(params, rows.tokens_bt, rows.targets_bt, rows.support_btk);
}

Params of_dtype(const Params& params, Dtype dtype) {
  Params out;
  for (size_t i = 0; i < params.size(); ++i) {
    out.set(params.name(i), cast(params.tensor(i), dtype));
  }
  return out;
}

double greatest_difference(const Tensor& a, const Tensor& b) { return item(max(abs(a - b))); }

TEST_P(SharedPrompts, GiveTheGradientsOfWholeRows) {
  const Rows rows = rows_of(5);
  for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
    const std::shared_ptr<const CausalModel> model = GetParam().make(recompute);
    const Params params = of_dtype(init_params(model->specs(), 11), Dtype::kF64);
    for (const bool on_support : {false, true}) {
      const auto [expected, log_prob_bt] = step(*model, params, rows, {}, on_support);
      const auto [found, shared_bt] = step(*model, params, rows, {kGroup, kAnswer}, on_support);
      EXPECT_LT(greatest_difference(shared_bt, log_prob_bt), 1e-12);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_LT(greatest_difference(found.tensor(i), expected.tensor(i)), 1e-11)
            << expected.name(i);
      }
    }
  }
}

TEST_P(SharedPrompts, GiveTheBitsOfWholeRowsWhereContextsAreBatchInvariant) {
  const Rows rows = rows_of(6);
  const std::shared_ptr<const CausalModel> model = GetParam().make(Recompute::kNone);
  const Params params = init_params(model->specs(), 11);
  Context context = current_context();
  context.batch_invariant = true;
  const ContextScope scope(context);
  const Tensor log_prob_bt = step(*model, params, rows, {}, false).second;
  const Tensor shared_bt = step(*model, params, rows, {kGroup, kAnswer}, false).second;
  EXPECT_EQ(to_vector<float>(shared_bt), to_vector<float>(log_prob_bt));
  // As micro-batches of whole groups, and of rows of which two share a prompt at most.
  const auto part = [&](int64_t first, int64_t count, int64_t group) {
    const auto of = [&](const Tensor& x_bt) { return slice(x_bt, 0, first, first + count); };
    const AnswerGroups groups{group, kAnswer};
    return to_vector<float>(
        answer_log_probs(*model, params, of(rows.tokens_bt), of(rows.targets_bt), {}, groups));
  };
  EXPECT_EQ(part(6, 3, kGroup), to_vector<float>(slice(log_prob_bt, 0, 6, 9)));
  EXPECT_EQ(part(10, 2, 4), to_vector<float>(slice(log_prob_bt, 0, 10, 12)));
}

TEST(AnswerGroups, AreSharedAsFarAsPartsOfBatchesReach) {
  const AnswerGroups groups{.size = 8, .answer_tokens = 4};
  EXPECT_EQ(groups.shared_in(32), 8);
  EXPECT_EQ(groups.shared_in(4), 4);
  EXPECT_EQ(groups.shared_in(12), 4);
  EXPECT_EQ(groups.shared_in(9), 1);
}

TEST(AnswerGroups, AreOfPairsThatBeginAlike) {
  const auto text = [](int64_t prompt, int64_t answer, int32_t first) {
    AnswerText out{std::vector<int32_t>(static_cast<size_t>(prompt + answer), first), prompt};
    return out;
  };
  AnswerCorpus corpus;
  corpus.train = {{{text(9, 3, 1), text(9, 4, 1)}}, {{text(2, 1, 5), text(2, 2, 5)}}};
  EXPECT_EQ(groups_of_pairs(corpus, false).size, 2);
  EXPECT_EQ(groups_of_pairs(corpus, false).answer_tokens, 4);
  EXPECT_EQ(groups_of_pairs(corpus, false).before_target, 0);
  EXPECT_EQ(groups_of_pairs(corpus, true).before_target, 3);
  corpus.valid = {{"", {{{text(3, 16, 1), text(3, 2, 1)}}}}};
  EXPECT_EQ(groups_of_pairs(corpus, false).answer_tokens, 16);
  EXPECT_TRUE(groups_of_pairs(corpus, false).pays(20));
  EXPECT_FALSE(groups_of_pairs(corpus, false).pays(18));  // 34 tokens for 36
  corpus.valid[0].samples[0].texts[0].answer = 2;
  EXPECT_EQ(groups_of_pairs(corpus, false).size, 1);
  corpus.valid.clear();
  corpus.train[1].texts[1].ids[1] = 6;
  EXPECT_EQ(groups_of_pairs(corpus, false).size, 1);
}

}  // namespace
}  // namespace mstrain
