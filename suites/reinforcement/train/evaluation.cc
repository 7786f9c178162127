#include "suites/reinforcement/train/evaluation.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace mstrain::reinforcement {
namespace {

constexpr int64_t kLongest = 1'000'000;           // steps of an episode
constexpr uint64_t kEvaluationSeed = 0x6576616c;  // apart from training's

}  // namespace

double Evaluated::mean_return() const {
  double sum = 0;
  for (const Episode& each : episodes) {
    sum += each.total;
  }
  return sum / static_cast<double>(episodes.size());
}

double Evaluated::mean_length() const {
  double sum = 0;
  for (const Episode& each : episodes) {
    sum += static_cast<double>(each.length);
  }
  return sum / static_cast<double>(episodes.size());
}

double Evaluated::quantile(double q) const {
  std::vector<double> totals;
  for (const Episode& each : episodes) {
    totals.push_back(each.total);
  }
  std::ranges::sort(totals);
  const double place = q * static_cast<double>(totals.size() - 1);
  const auto low = static_cast<size_t>(place);
  const size_t high = std::min(low + 1, totals.size() - 1);
  return totals[low] + (place - static_cast<double>(low)) * (totals[high] - totals[low]);
}

std::optional<Evaluated> evaluate(const EnvConfig& config, int64_t episodes, uint64_t seed,
                                  Player& player, const VectorEnv* statistics,
                                  const std::atomic<bool>& stop, Spectator* spectator) {
  EnvGroup group(config, episodes, seed ^ (kEvaluationSeed << 32), 0, statistics);
  group.env().set_learning(false);
  const int64_t width = group.spec().action.size();
  std::vector<float> actions(static_cast<size_t>(group.rows() * width));
  std::vector<uint8_t> done(static_cast<size_t>(episodes));
  Evaluated out;
  out.episodes.resize(done.size());
  std::vector<float> values(static_cast<size_t>(group.rows()));
  if (spectator != nullptr) {
    spectator->begin(group);
  }
  player.begin(group.rows());
  // An environment whose episode is over begins another one, which nobody looks at.
  for (int64_t step = 1; std::ranges::find(done, 0) != done.end(); ++step) {
    if (stop) {
      return std::nullopt;
    }
    check(step <= kLongest,
          "environment.time_limit: null, and an episode of {} in an evaluation does not end within "
          "{} steps; say how many it may have",
          group.spec().name, kLongest);
    player.act(group.observations(), group.legal(), actions, values);
    group.step(actions);
    if (spectator != nullptr) {
      spectator->step(group, actions, values, done);
    }
    player.end(group.terminated(), group.truncated());
    size_t finished = 0;
    for (size_t env = 0; env < done.size(); ++env) {
      if (group.terminated()[env] != 0 || group.truncated()[env] != 0) {
        if (done[env] == 0) {
          out.episodes[env] = group.finished()[finished];
        }
        done[env] = 1;
        ++finished;
      }
    }
  }
  return out;
}

}  // namespace mstrain::reinforcement
