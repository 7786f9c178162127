// Steps of a small GPT in 16 bits: the same in both modes, near those of f32, and in checkpoints under their name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/rng.h"
#include "core/ops/build.h"
#include "core/runtime/deferred_device.h"
#include "core/tensor/host.h"
#include "core/train/session.h"
#include "suites/transformer/gpt/gpt_run.h"
#include "tests/core/base/temporary_folder.h"

namespace mstrain {
namespace {

using Overrides = std::vector<std::string>;

gpt::GptRun config_of(const Overrides& overrides) {
  YamlNode tree = parse_yaml(
      "model: {type: gpt, vocab_size: 60, hidden_size: 32, num_layers: 2,\n"
      "        num_attention_heads: 4, max_position_embeddings: 16, dropout: {hidden: 0.1}}\n"
      "data: {train: none.txt, seq_length: 16}\n"
      "batch: {global: 4, micro: 4}\n"
      "run: {threads: 2}\n",
      "step.yaml");
  apply_overrides(tree, overrides);
  gpt::GptRun config;
  config.read(tree);
  return config;
}

struct Steps {
  std::vector<double> losses;
  Tensors state;
};

Steps run_steps(Overrides overrides, const std::string& more) {
  overrides.push_back(more);
  const gpt::GptRun config = config_of(overrides);
  const TrainTask task = config.task();
  const Context context = make_context(config.train);
  const ContextScope scope(context);
  const StepProgram program(task, config.train, *config.train.batch.micro.value, context);
  TrainState state = program.first_state(init_params(task.parameters, 1));
  Steps result;
  for (int64_t step = 0; step < 4; ++step) {
    std::vector<int32_t> ids(4 * 17);
    Rng rng(1, static_cast<uint64_t>(step));
    for (int32_t& id : ids) {
      id = static_cast<int32_t>(rng.below(60));
    }
    const Tensor tokens = tensor<int32_t>(std::span(ids).first(64), {4, 16});
    const Tensor targets = tensor<int32_t>(std::span(ids).subspan(1, 64), {4, 16});
    StepResult next =
        program.run(std::move(state), {tokens, targets}, {.lr = 1e-3, .seed = 7, .step = step});
    result.losses.push_back(item(next.loss));
    state = std::move(next.state);
  }
  result.state = flatten_tree(state);
  return result;
}

class GptPrecision : public testing::TestWithParam<Overrides> {};

TEST_P(GptPrecision, StepsAgreeInAllModesAndWithF32) {
  const Steps eager = run_steps(GetParam(), "run.execution=eager");
  const Steps exact = run_steps(GetParam(), "fusion.level=O0");
  const Steps fused = run_steps(GetParam(), "fusion.level=O2");
  const Steps wide = run_steps({}, "fusion.level=O2");
  EXPECT_EQ(exact.losses, eager.losses);
  for (size_t i = 0; i < eager.state.size(); ++i) {
    ASSERT_EQ(to_doubles(exact.state[i]), to_doubles(eager.state[i])) << "leaf " << i;
  }
  for (size_t i = 0; i < wide.losses.size(); ++i) {
    EXPECT_NEAR(fused.losses[i], eager.losses[i], 0.005) << "step " << i;
    EXPECT_NEAR(fused.losses[i], wide.losses[i], 0.02) << "step " << i;
  }
}

TEST_P(GptPrecision, StepsOnADeviceThatRunsLateAreThoseOfTheHost) {
  for (const char* how : {"fusion.level=O2", "run.execution=eager"}) {
    const Steps expected = run_steps(GetParam(), how);
    Context late;
    late.allocator = std::make_shared<Allocator>(Allocator::kCacheLimit, make_deferred_device({}));
    const ContextScope scope(late);
    const Steps steps = run_steps(GetParam(), how);
    EXPECT_EQ(steps.losses, expected.losses) << how;
    for (size_t i = 0; i < expected.state.size(); ++i) {
      ASSERT_EQ(to_doubles(steps.state[i]), to_doubles(expected.state[i])) << how << ", leaf " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of, GptPrecision,
    testing::Values(Overrides{"precision={params: bf16}"},
                    Overrides{"precision={params: bf16}", "memory.recompute=full"},
                    Overrides{"precision={params: bf16, grads: bf16, moments: int8}",
                              "memory.recompute=selective"},
                    Overrides{"precision={params: bf16, grads: bf16, master: none, moments: bf16}"},
                    Overrides{"precision={params: fp16, loss_scale_init: 1024}"}));

TEST(GptConfigJson, NamesTheTypeOfTheWeights) {
  const TemporaryFolder folder;
  const std::string text = folder / "text.txt";
  write_file_atomic(real_files(), text, std::string(200, 'a') + std::string(200, 'b'));
  for (const auto& [type, name] :
       {std::pair("fp32", "float32"), {"bf16", "bfloat16"}, {"fp16", "float16"}}) {
    gpt::GptRun config = config_of({fmt::format("precision.params={}", type), "data.train=" + text,
                                    "data.tokenizer={type: char}"});
    config.open_data(real_files(), YamlNode(), {});
    const TrainData data = config.samples();
    ASSERT_EQ(data.checkpoint_files.at(0).first, "config.json");
    EXPECT_EQ(parse_json(data.checkpoint_files.at(0).second, "config.json")["dtype"], name);
  }
}

}  // namespace
}  // namespace mstrain
