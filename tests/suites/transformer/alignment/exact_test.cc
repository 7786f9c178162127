// Log-probabilities of generation and of training steps are the same numbers in contexts that are batch invariant.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/compile/partition.h"
#include "core/compile/relayout.h"
#include "core/data/windows.h"
#include "core/ops/attention_form.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "core/train/tensor_parts.h"
#include "core/transform/grad.h"
#include "suites/transformer/alignment/answer_log_probs.h"
#include "suites/transformer/alignment/grpo_task.h"
#include "suites/transformer/gpt/model.h"
#include "suites/transformer/llama/model.h"
#include "suites/transformer/text/generate.h"
#include "suites/transformer/text/shared_model.h"
#include "tests/ranks.h"

namespace mstrain {
namespace {

constexpr int64_t kExactVocab = 301;
constexpr int64_t kExactPositions = 200;

// `is_shared`: ranks divide heads.
std::shared_ptr<const CausalModel> gpt_model(bool is_shared) {
  gpt::GptConfig config;
  config.vocab_size = kExactVocab;
  config.hidden_size = 168;  // its inner layer's sums are of 672 terms
  config.num_layers = 2;
  config.num_attention_heads = is_shared ? 4 : 3;
  config.max_position_embeddings = kExactPositions;
  config.dropout = {0, 0, 0};
  config.init.std = 0.2;
  return std::make_shared<gpt::Gpt>(config);
}

std::shared_ptr<const CausalModel> llama_model(bool is_shared) {
  llama::LlamaConfig config;
  config.vocab_size = kExactVocab;
  config.hidden_size = 72;
  config.num_layers = 2;
  config.num_attention_heads = is_shared ? 4 : 6;
  config.num_key_value_heads = 2;
  config.max_position_embeddings = kExactPositions;
  config.attention_bias = is_shared ? llama::AttentionBias::kNone : llama::AttentionBias::kQkv;
  config.qk_norm = is_shared;
  config.sliding_window = 19;
  config.full_attention_layers = 1;
  config.init.std = 0.2;
  return std::make_shared<llama::Llama>(config);
}

// Texts whose tokens after the first `prompt` ones are drawn.
struct Drawn {
  std::vector<std::vector<int32_t>> texts;
  std::vector<size_t> prompts;
  std::vector<std::vector<float>> log_probs;
};

Drawn draw(Decoder& decoder, const Params& params, size_t texts, int64_t tokens) {
  Drawn out;
  Rng rng(7);
  for (size_t i = 0; i < texts; ++i) {
    std::vector<int32_t> prompt;
    const int64_t length = 1 + (i == 0 ? 90 : rng.below(40));
    for (int64_t t = 0; t < length; ++t) {
      prompt.push_back(static_cast<int32_t>(rng.below(kExactVocab)));
    }
    out.prompts.push_back(prompt.size());
    out.texts.push_back(std::move(prompt));
  }
  DrawnTokens drawn;
  const auto more = continue_tokens(decoder, params, out.texts,
                                    {.tokens = tokens, .sampling = {.seed = 3}, .stop = {5}},
                                    kExactVocab, nullptr, 0, &drawn);
  out.log_probs = std::move(drawn.log_probs);
  for (size_t i = 0; i < texts; ++i) {
    out.texts[i].insert(out.texts[i].end(), more[i].begin(), more[i].end());
    if (std::ssize(more[i]) < tokens) {
      out.texts[i].push_back(5);
    }
  }
  return out;
}

Drawn draw(const std::shared_ptr<const CausalModel>& model, const Params& params, size_t texts,
           int64_t tokens) {
  Decoder decoder(model, Execution::kGraph);
  return draw(decoder, params, texts, tokens);
}

// How many of the tokens' log-probabilities are not the bits that `find` gives for rows of `rows` texts, padded to `seq`.
using Find = std::function<Tensor(const Tensor& tokens_bt, const Tensor& targets_bt)>;
int64_t differing(const Drawn& drawn, int64_t rows, int64_t seq, const Find& find) {
  int64_t count = 0;
  for (size_t first = 0; first < drawn.texts.size(); first += static_cast<size_t>(rows)) {
    std::vector<int32_t> tokens(static_cast<size_t>(rows * seq), 0);
    std::vector<int32_t> targets(tokens.size(), kIgnoreTarget);
    const size_t end = std::min(first + static_cast<size_t>(rows), drawn.texts.size());
    for (size_t i = first; i < end; ++i) {
      const auto& ids = drawn.texts[i];
      for (size_t t = 0; t + 1 < ids.size(); ++t) {
        tokens[(i - first) * static_cast<size_t>(seq) + t] = ids[t];
        if (t + 1 >= drawn.prompts[i]) {
          targets[(i - first) * static_cast<size_t>(seq) + t] = ids[t + 1];
        }
      }
    }
    const std::vector<float> found = to_vector<float>(
        find(tensor<int32_t>(tokens, {rows, seq}), tensor<int32_t>(targets, {rows, seq})));
    for (size_t i = first; i < end; ++i) {
      for (size_t t = drawn.prompts[i]; t < drawn.texts[i].size(); ++t) {
        const float trained = found[(i - first) * static_cast<size_t>(seq) + t - 1];
        count += trained != drawn.log_probs[i].at(t - drawn.prompts[i]) ? 1 : 0;
      }
    }
  }
  return count;
}

struct ExactModel {
  const char* name;
  std::shared_ptr<const CausalModel> (*make)(bool is_shared);
};

class Exact : public testing::TestWithParam<ExactModel> {};
INSTANTIATE_TEST_SUITE_P(Models, Exact,
                         testing::Values(ExactModel{"gpt", gpt_model},
                                         ExactModel{"llama", llama_model}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Exact, LogProbabilitiesOfGenerationAreThoseOfSteps) {
  const std::shared_ptr<const CausalModel> model = GetParam().make(/*is_shared=*/false);
  const Params params = init_params(model->specs(), 11);
  for (const int threads : {1, 2}) {
    Context context = current_context();
    context.threads = threads;
    context.batch_invariant = true;
    const ContextScope scope(context);
    for (const size_t texts : {1, 3, 21, 70}) {
      const Drawn drawn = draw(model, params, texts, texts == 3 ? 100 : 24);
      const auto read = jit([&](const Tensor& tokens, const Tensor& targets) {
        return answer_log_probs(*model, params, tokens, targets);
      });
      EXPECT_EQ(differing(drawn, static_cast<int64_t>(texts), kExactPositions, read), 0) << texts;
      EXPECT_EQ(differing(drawn, 2, 197, read), 0) << texts;
      // Where a step computes gradients besides, and weighs what it finds.
      // Where a step computes gradients besides, and weighs what it finds; with the head in parts, too.
      for (const int64_t chunks : {kAutoChunks, int64_t{3}}) {
        const auto step = jit(
            [&](const Tensor& tokens, const Tensor& targets) {
              Context training = current_context();
              training.training = true;
              const ContextScope inner(training);
              // Gradients are kept, or what is computed for them alone would not be there.
              return value_and_grad([&](const Params& p) {
                const Tensor log_prob_bt = answer_log_probs(*model, p, tokens, targets);
                return std::pair(sum(exp(log_prob_bt) * 0.5), log_prob_bt);
              })(params);
            },
            {.loss_chunks = chunks});
        const auto log_probs = [&](const Tensor& tokens, const Tensor& targets) {
          return step(tokens, targets).first.second;
        };
        EXPECT_EQ(differing(drawn, 4, kExactPositions, log_probs), 0) << texts << " " << chunks;
      }
    }
  }
}

// As a step: (parameters, tokens, targets) -> log-probabilities and gradients, which are kept, or what is computed for them alone would not
// be there.
struct TracedStep {
  TracedStep(const std::shared_ptr<const CausalModel>& model, int64_t rows) {
    const std::vector<ParamSpec> specs = model->specs();
    Types types;
    for (const ParamSpec& spec : specs) {
      types.push_back(spec.type);
    }
    types.resize(types.size() + 2, {Dtype::kI32, {rows, kExactPositions}});
    const auto step = [&](std::span<const Tensor> in) {
      Context training = current_context();
      training.training = true;
      const ContextScope inner(training);
      Params of;
      for (size_t i = 0; i < specs.size(); ++i) {
        of.set(specs[i].name, in[i]);
      }
      const auto [found, gradients] = value_and_grad([&](const Params& p) {
        const Tensor log_prob_bt =
            answer_log_probs(*model, p, in[specs.size()], in[specs.size() + 1]);
        return std::pair(sum(exp(log_prob_bt) * 0.5), log_prob_bt);
      })(of);
      Tensors out{found.second};
      for (size_t i = 0; i < gradients.size(); ++i) {
        out.push_back(gradients.tensor(i));
      }
      return out;
    };
    program = trace_program(types, step, &captures);
  }

  GraphPtr program;
  Tensors captures;
};

// Ranks that share each sequence compute every position as one rank does, where attention finds all keys on one of them.
TEST_P(Exact, LogProbabilitiesOfGenerationAreThoseOfStepsThatShareSequences) {
  const std::shared_ptr<const CausalModel> model = GetParam().make(/*is_shared=*/false);
  const std::vector<ParamSpec> specs = model->specs();
  const Params params = init_params(specs, 11);
  Context context = current_context();
  context.batch_invariant = true;
  const ContextScope scope(context);
  const Drawn drawn = draw(model, params, 6, 40);
  constexpr int64_t kRows = 6;
  const TracedStep step(model, kRows);
  const auto differing_by = [&](std::string_view way) {
    int64_t count = 0;
    const MeshAxis axis{"context", 2};
    const Mesh mesh{{axis}};
    PartitionOptions options;
    options.inputs.resize(specs.size());
    options.inputs.resize(specs.size() + 2, Layout{sharded(1)});
    options.outputs.assign(step.program->outputs().size(), Layout{kReplicated});
    options.way = way;
    const GraphPtr divided = partition(*step.program, mesh, options).program;
    run_ranks(mesh, [&](const std::shared_ptr<Ranks>& ranks) {
      const std::unique_ptr<Program> compiled = compile(*divided);
      const int64_t found = differing(
          drawn, kRows, kExactPositions, [&](const Tensor& tokens, const Tensor& targets) {
            Tensors inputs;
            for (const ParamSpec& spec : specs) {
              inputs.push_back(copy(*params.find(spec.name)));
            }
            for (const Tensor& x : {tokens, targets}) {
              inputs.push_back(copy(relayout(x, x.type(), kReplicated, sharded(1), axis)));
            }
            inputs.insert(inputs.end(), step.captures.begin(), step.captures.end());
            return compiled->run(inputs)[0];
          });
      count = ranks->rank() == 0 ? found : count;
    });
    return count;
  };
  EXPECT_EQ(differing_by(kExchangeWay), 0);
  EXPECT_EQ(differing_by(kGatherWay), 0);
  EXPECT_GT(differing_by(kRingWay), 0);  // which runs refuse
}

// Ranks that share layers add up the same parts of sums in both, also those with keys and values that several of them have.
TEST_P(Exact, LogProbabilitiesOfGenerationAreThoseOfStepsThatShareLayers) {
  const std::shared_ptr<const CausalModel> model = GetParam().make(/*is_shared=*/true);
  constexpr int64_t kRows = 6;
  TrainTask task;
  task.parameters = model->specs();
  task.positions = {kExactPositions};
  const Params whole = init_params(task.parameters, 11);
  Context context = current_context();
  context.batch_invariant = true;
  const ContextScope scope(context);
  const Drawn alone = draw(model, whole, kRows, 40);
  const TracedStep step(model, kRows);
  const auto check = [&](int64_t size, bool sequence_parallel, bool overlap) {
    TrainConfig config;
    config.parallel.sequence_parallel = sequence_parallel;
    config.parallel.overlap.tensor = overlap;
    run_ranks({{{std::string(kTensorAxis), size}}}, [&](const std::shared_ptr<Ranks>&) {
      const TensorParts parts(task, config, current_context());
      const auto shared = std::make_shared<SharedModel>(*model, parts);
      const Params params = parts.cut(whole);
      Decoder decoder(model, Execution::kGraph, 1, shared);
      const Drawn drawn = draw(decoder, params, kRows, 40);
      const std::unique_ptr<Program> program =
          compile(*parts.divided(step.program, {task.parameters.size(), 2, kRows}, 1));
      const Find find = [&](const Tensor& tokens, const Tensor& targets) {
        Tensors inputs = flatten_tree(params);
        inputs.insert(inputs.end(), {tokens, targets});
        inputs.insert(inputs.end(), step.captures.begin(), step.captures.end());
        return program->run(inputs)[0];
      };
      EXPECT_EQ(differing(drawn, kRows, kExactPositions, find), 0) << size << sequence_parallel;
      // Or this would tell nothing.
      EXPECT_GT(differing(alone, kRows, kExactPositions, find), 0);
    });
  };
  check(2, false, false);
  check(2, true, false);
  check(2, true, true);
  check(4, true, false);
}

// Texts that wait for others to end, that are moved to fewer sequences, and whose beginnings are forgotten.
TEST_P(Exact, TextsDoNotDependOnHowManyAreWrittenAtATime) {
  const std::shared_ptr<const CausalModel> model = GetParam().make(/*is_shared=*/false);
  const Params params = init_params(model->specs(), 11);
  Context context = current_context();
  context.batch_invariant = true;
  const ContextScope scope(context);
  Rng rng(5);
  std::vector<std::vector<int32_t>> prompts(37);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const bool begins_group = i >= 12 && i % 4 == 0;
    const int64_t length = i == 30 ? 150 : (begins_group ? 17 : 1) + rng.below(20);
    for (int64_t t = 0; t < length; ++t) {
      prompts[i].push_back(static_cast<int32_t>(rng.below(kExactVocab)));
    }
    if (i > 12 && i != 30 && !begins_group) {
      prompts[i] = prompts[i / 4 * 4];
    }
  }
  prompts[9] = prompts[4];
  std::vector<int32_t> stop;
  for (int32_t id = 0; id < 20; ++id) {
    stop.push_back(13 * id);
  }
  const auto check = [&](Execution execution, int64_t tokens, const std::vector<int32_t>& ends) {
    Decoder decoder(model, execution);
    DrawnTokens expected_drawn{.support = 7, .log_probs = {}, .supports = {}};
    const auto expected =
        continue_tokens(decoder, params, prompts,
                        {.tokens = tokens, .sampling = {.top_k = 7, .seed = 3}, .stop = ends},
                        kExactVocab, nullptr, 0, &expected_drawn);
    std::set<size_t> lengths;
    for (const auto& text : expected) {
      lengths.insert(text.size());
    }
    EXPECT_EQ(lengths.size() > 4, !ends.empty());
    for (const int64_t at_once : {1, 3, 17, 64}) {
      DrawnTokens drawn{.support = 7, .log_probs = {}, .supports = {}};
      std::vector<std::vector<int32_t>> told(prompts.size());
      const auto found = continue_tokens(
          decoder, params, prompts,
          {.tokens = tokens, .sampling = {.top_k = 7, .seed = 3}, .stop = ends, .at_once = at_once},
          kExactVocab, [&](size_t row, int32_t id) { told[row].push_back(id); }, 0, &drawn);
      EXPECT_EQ(found, expected) << at_once;
      EXPECT_EQ(told, expected) << at_once;
      EXPECT_EQ(drawn.log_probs, expected_drawn.log_probs) << at_once;
      EXPECT_EQ(drawn.supports, expected_drawn.supports) << at_once;
    }
  };
  check(Execution::kGraph, 120, stop);
  check(Execution::kGraph, 60, {});
  check(Execution::kEager, 9, stop);
}

TEST(ExactModels, DoNotTurnByTheLengthThatATextWillHave) {
  llama::LlamaConfig config;
  config.vocab_size = kExactVocab;
  config.max_position_embeddings = 32;
  EXPECT_FALSE(llama::Llama(config).turns_by_length(64));
  config.rope.type = RopeType::kDynamic;
  config.rope.factor = 4;
  EXPECT_TRUE(llama::Llama(config).turns_by_length(33));
  EXPECT_FALSE(llama::Llama(config).turns_by_length(32));
}

// Or the test above would tell nothing.
TEST_P(Exact, OtherContextsHaveOtherSums) {
  const std::shared_ptr<const CausalModel> model = GetParam().make(/*is_shared=*/false);
  const Params params = init_params(model->specs(), 11);
  const Drawn drawn = draw(model, params, 3, 60);
  const auto read = jit([&](const Tensor& tokens, const Tensor& targets) {
    return answer_log_probs(*model, params, tokens, targets);
  });
  EXPECT_GT(differing(drawn, 3, kExactPositions, read), 0);
}

}  // namespace
}  // namespace mstrain
