#include "core/optim/loss_scale.h"

#include <limits>

#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

using ::testing::HasSubstr;

// What happens step by step: whether the gradient overflows, and the scale that the next step has.
struct ScaleStep {
  bool overflows;
  double scale;
  int64_t taken;
};
struct ScaleTrace {
  const char* name;
  double init, growth, backoff, min;
  int64_t interval;
  std::vector<ScaleStep> steps;
};

class LossScaleOf : public testing::TestWithParam<ScaleTrace> {};

TEST_P(LossScaleOf, FollowsTheTable) {
  const ScaleTrace& trace = GetParam();
  PrecisionConfig config;
  config.params = FloatType::kFp16;
  config.loss_scale_init = trace.init;
  config.loss_scale_growth = trace.growth;
  config.loss_scale_backoff = trace.backoff;
  config.loss_scale_min = trace.min;
  config.loss_scale_interval = trace.interval;
  LossScaleState state = first_loss_scale_state(config);
  const auto next = [&](const LossScaleState& s, const Tensor& norm) {
    return next_loss_scale(config, s, is_finite(norm));
  };
  const auto compiled = jit(next);
  EXPECT_EQ(item(state.scale), trace.init);
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    const ScaleStep& step = trace.steps[i];
    const double infinity = std::numeric_limits<double>::infinity();
    const Tensor norm = scalar(!step.overflows ? 3.5 : i % 2 == 0 ? infinity : std::nan(""));
    const LossScaleState graph = compiled(state, norm);
    state = next(state, norm);
    EXPECT_EQ(item(state.scale), step.scale) << "after step " << i;
    EXPECT_EQ(item(state.taken), step.taken) << "after step " << i;
    EXPECT_EQ(item(graph.scale), step.scale) << "after step " << i;
    EXPECT_EQ(item(graph.taken), step.taken) << "after step " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of, LossScaleOf,
    testing::Values(
        ScaleTrace{"grows",
                   8,
                   2,
                   0.5,
                   1,
                   3,
                   {{false, 8, 1},
                    {false, 8, 2},
                    {false, 16, 0},
                    {false, 16, 1},
                    {false, 16, 2},
                    {false, 32, 0}}},
        ScaleTrace{"an_overflow_begins_the_count_anew",
                   8,
                   2,
                   0.5,
                   1,
                   3,
                   {{false, 8, 1},
                    {false, 8, 2},
                    {true, 4, 0},
                    {false, 4, 1},
                    {false, 4, 2},
                    {false, 8, 0}}},
        ScaleTrace{"falls_to_the_least",
                   16,
                   2,
                   0.25,
                   2,
                   100,
                   {{true, 4, 0}, {true, 2, 0}, {true, 2, 0}, {false, 2, 1}}},
        ScaleTrace{"grows_every_step",
                   1,
                   4,
                   0.5,
                   1,
                   1,
                   {{false, 4, 0}, {false, 16, 0}, {true, 8, 0}, {false, 32, 0}}},
        ScaleTrace{"stays_finite",
                   0x1p126,
                   4,
                   0.5,
                   1,
                   1,
                   {{false, 0x1p126, 0}, {true, 0x1p125, 0}, {false, 0x1p127, 0}}},
        ScaleTrace{
            "never_grows", 32, 1, 0.5, 1, 1, {{false, 32, 0}, {true, 16, 0}, {false, 16, 0}}}),
    [](const auto& info) { return info.param.name; });

TEST(PrecisionSection, IsCheckedAsAWhole) {
  const auto message = [](const auto& change) {
    PrecisionConfig config;
    change(config);
    return error_of([&] { check_precision_config(config); });
  };
  EXPECT_THAT(message([](auto& c) { c.grads = FloatType::kBf16; }), HasSubstr("precision.grads"));
  EXPECT_THAT(message([](auto& c) {
                c.params = FloatType::kFp16;
                c.master = MasterType::kNone;
              }),
              HasSubstr("fp16 parameters need one"));
  EXPECT_THAT(message([](auto& c) { c.master = MasterType::kNone; }),
              HasSubstr("their own master"));
  EXPECT_THAT(message([](auto& c) { c.loss_scale_init = 8; }),
              HasSubstr("precision.loss_scale: dynamic only"));
  EXPECT_THAT(message([](auto& c) {
                c.params = FloatType::kFp16;
                c.loss_scale_init = 0.5;
              }),
              HasSubstr("more than precision.loss_scale_init 0.5"));
  for (const double scale : {1e39, 1e-46}) {
    EXPECT_THAT(message([&](auto& c) {
                  c.params = FloatType::kFp16;
                  c.loss_scale = LossScale(NoneOr<OrWord<double, DynamicWord>>(scale));
                }),
                HasSubstr("precision.loss_scale: "));
    EXPECT_THAT(message([&](auto& c) {
                  c.params = FloatType::kFp16;
                  c.loss_scale_min = std::min(scale, 1.0);
                  c.loss_scale_init = scale;
                }),
                HasSubstr("precision.loss_scale_init: "));
  }
  EXPECT_EQ(message([](auto& c) {
              c.params = FloatType::kBf16;
              c.grads = FloatType::kBf16;
              c.master = MasterType::kNone;
            }),
            "no error");
}

}  // namespace
}  // namespace mstrain
