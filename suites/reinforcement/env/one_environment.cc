#include "suites/reinforcement/env/one_environment.h"

#include "suites/reinforcement/env/canvas.h"

namespace mstrain::reinforcement {

Image bars(const EnvSpec& spec, std::span<const float> observation) {
  constexpr double kHeight = 120;
  constexpr size_t kMost = 120;  // bars that fit
  const size_t count = std::min(observation.size(), kMost);
  const double width =
      std::clamp(240.0 / static_cast<double>(std::max<size_t>(count, 1)), 2.0, 40.0);
  Canvas canvas(std::max<int64_t>(64, static_cast<int64_t>(width * static_cast<double>(count))),
                static_cast<int64_t>(kHeight));
  canvas.line({0, kHeight / 2}, {static_cast<double>(canvas.width()), kHeight / 2}, 1, kGrey);
  const auto numbers = static_cast<size_t>(spec.observation.size());
  for (size_t k = 0; k < count; ++k) {
    double most = 1;
    if (!spec.observation.low.empty()) {
      const double low = spec.observation.low[k % numbers],
                   high = spec.observation.high[k % numbers];
      most = std::isfinite(low) && std::isfinite(high)
                 ? std::max({std::abs(low), std::abs(high), 1e-9})
                 : most;
    }
    const double size = std::clamp(observation[k] / most, -1.0, 1.0) * (kHeight / 2 - 4);
    const double left = static_cast<double>(k) * width + width * 0.15;
    canvas.rectangle({left, kHeight / 2}, {left + width * 0.7, kHeight / 2 - size},
                     k / numbers % 2 == 0 ? kBlue : kAmber);
  }
  return canvas.take();
}

}  // namespace mstrain::reinforcement
