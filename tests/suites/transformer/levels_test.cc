// Loss and gradients of a small GPT at every level of optimisation, with every rule of recomputation, on one and two
// threads, with its loss whole and in chunks: all against the reference backend. Sequences lie at and beside the edges of
// the tiles that kernels work in.
#include <cmath>

#include "core/base/rng.h"
#include "core/ir/backend.h"
#include "core/runtime/context.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "core/transform/accumulate.h"
#include "core/transform/grad.h"
#include "suites/transformer/gpt/model.h"
#include "tests/core/transform/support.h"

namespace mstrain::gpt {
namespace {

struct ShortExample {
  Tensor tokens, targets;
  template <class V>
  void fields(V& v) {
    v("tokens", tokens);
    v("targets", targets);
  }
};

constexpr int64_t kRows = 2;

class Levels : public testing::TestWithParam<int64_t> {
 protected:
  Levels() {
    config_.vocab_size = 67;
    config_.hidden_size = 40;
    config_.num_layers = 2;
    config_.num_attention_heads = 2;
    config_.max_position_embeddings = 65;
    Rng rng(static_cast<uint64_t>(GetParam()));
    std::vector<int32_t> ids(static_cast<size_t>(kRows * (GetParam() + 1)));
    for (int32_t& id : ids) {
      id = static_cast<int32_t>(rng.below(67));
    }
    const Tensor all = tensor<int32_t>(ids, {kRows, GetParam() + 1});
    example_ = {dense(slice(all, 1, 0, GetParam())), dense(slice(all, 1, 1, GetParam() + 1))};
    params_ = init_params(Gpt(config_).specs(), 7);
  }

  // Sums over two micro-batches of loss and gradients.
  Tensors step(Recompute recompute, int level, int64_t chunks) const {
    const Gpt model(config_, recompute);
    const auto f = [&](const Params& p, const ShortExample& e) {
      const auto one = [&](const ShortExample& micro) {
        const auto [loss, gradient] = value_and_grad(
            [&](const Params& q) { return model.loss(q, micro.tokens, micro.targets); })(p);
        return std::pair(loss, gradient);
      };
      return accumulate(2, one)(e);
    };
    return flatten_tree(jit(f, {.level = level, .loss_chunks = chunks})(params_, example_));
  }

  GptConfig config_;
  Params params_;
  ShortExample example_;
};

TEST_P(Levels, AgreeWithTheReference) {
  Tensors expected;
  {
    Context context;
    context.backend = backend_named("reference");
    const ContextScope scope(context);
    expected = step(Recompute::kNone, 0, 1);
  }
  for (const int threads : {1, 2}) {
    Context context;
    context.threads = threads;
    const ContextScope scope(context);
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      for (const int level : {0, 1, 2}) {
        for (const int64_t chunks : {1, 3}) {
          if (level == 0 && chunks > 1) {
            continue;
          }
          SCOPED_TRACE(fmt::format("{} threads, recompute {}, level {}, {} chunks", threads,
                                   static_cast<int>(recompute), level, chunks));
          const Tensors actual = step(recompute, level, chunks);
          ASSERT_EQ(actual.size(), expected.size());
          EXPECT_NEAR(item(actual[0]), item(expected[0]), 1e-5 * item(expected[0]));
          for (size_t i = 1; i < expected.size(); ++i) {
            // Sums of hundreds of f32 terms that cancel: relative to the largest of a gradient. Those of key biases are
            // zero but for rounding, hence the floor.
            double scale = 1e-3;
            const std::vector<double> wanted = to_doubles(expected[i]);
            for (double value : wanted) {
              scale = std::max(scale, std::abs(value));
            }
            const std::vector<double> got = to_doubles(actual[i]);
            for (size_t j = 0; j < wanted.size(); ++j) {
              ASSERT_NEAR(got[j], wanted[j], 2e-5 * scale) << "gradient " << i << ", element " << j;
            }
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sequence, Levels, testing::Values(1, 12, 63, 64, 65));

}  // namespace
}  // namespace mstrain::gpt
