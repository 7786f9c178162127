#include "suites/reinforcement/train/episodes.h"

namespace mstrain::reinforcement {

double EpisodeLog::mean_return() const {
  double sum = 0;
  for (const Episode& each : last_) {
    sum += each.total;
  }
  return sum / static_cast<double>(last_.size());
}

double EpisodeLog::mean_length() const {
  double sum = 0;
  for (const Episode& each : last_) {
    sum += static_cast<double>(each.length);
  }
  return sum / static_cast<double>(last_.size());
}

void EpisodeLog::save(ByteWriter& to) const {
  to.put(count_);
  to.put_all(std::vector<Episode>(last_.begin(), last_.end()));
}

void EpisodeLog::load(ByteReader& from) {
  count_ = from.get<int64_t>();
  const auto kept = std::min<size_t>(kLast, static_cast<size_t>(std::max<int64_t>(count_, 0)));
  const auto episodes = from.get_all<Episode>(kept);
  last_.assign(episodes.begin(), episodes.end());
}

}  // namespace mstrain::reinforcement
