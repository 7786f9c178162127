#include "suites/reinforcement/train/policy_programs.h"

#include <algorithm>

#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "suites/reinforcement/algorithms/sizes.h"

namespace mstrain::reinforcement {
namespace {

constexpr int64_t kRows = 8;  // of a call

// Rows from `begin` on of [n, width], as [8, width] with zeros behind the last.
Tensor eight_rows(std::span<const float> all, int64_t begin, int64_t width) {
  HostWrite out({Dtype::kF32, {kRows, width}});
  const std::span<const float> rest = all.subspan(count(begin * width));
  const std::span<const float> rows = rest.first(std::min(rest.size(), count(kRows * width)));
  const std::span<float> to = out.values<float>();
  std::ranges::fill(std::ranges::copy(rows, to.begin()).out, to.end(), 0.0F);
  return out.finish();
}

// Into rows from `begin` on of [n, width].
void copy_rows(const Tensor& from, int64_t begin, int64_t width, std::span<float> all) {
  const HostRead read(from);
  const std::span<float> to = all.subspan(count(begin * width));
  std::ranges::copy(read.values<float>().first(std::min(to.size(), count(kRows * width))),
                    to.begin());
}

}  // namespace

PolicyPrograms::PolicyPrograms(const ActorCritic& network, const Params& params)
    : network_(network), params_(params) {
  decide_ = jit([&network](const Params& p, const Tensor& observation,
                           const Tensor& noise) { return network.decide(p, observation, noise); },
                {.name = "decide"});
  value_ = jit([&network](const Params& p,
                          const Tensor& observation) { return network.value(p, observation); },
               {.name = "value"});
  best_action_ =
      jit([&network](const Params& p,
                     const Tensor& observation) { return network.best_action(p, observation); },
          {.name = "best_action"});
}

void PolicyPrograms::decide(std::span<const float> observations, std::span<const float> noise,
                            std::span<float> actions, std::span<float> log_probs,
                            std::span<float> values) {
  for (int64_t row = 0; row < static_cast<int64_t>(values.size()); row += kRows) {
    const Decision decision =
        decide_(params_, eight_rows(observations, row, network_.observation_size()),
                eight_rows(noise, row, network_.noise_size()));
    copy_rows(decision.action_nd, row, network_.action_size(), actions);
    copy_rows(decision.log_prob_n, row, 1, log_probs);
    copy_rows(decision.value_n, row, 1, values);
  }
}

void PolicyPrograms::value(std::span<const float> observations, std::span<float> values) {
  for (int64_t row = 0; row < static_cast<int64_t>(values.size()); row += kRows) {
    copy_rows(value_(params_, eight_rows(observations, row, network_.observation_size())), row, 1,
              values);
  }
}

void PolicyPrograms::act(std::span<const float> observations, std::span<float> actions) {
  const int64_t width = network_.observation_size();
  const auto rows = static_cast<int64_t>(observations.size()) / width;
  for (int64_t row = 0; row < rows; row += kRows) {
    copy_rows(best_action_(params_, eight_rows(observations, row, width)), row,
              network_.action_size(), actions);
  }
}

}  // namespace mstrain::reinforcement
