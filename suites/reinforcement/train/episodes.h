// Episodes that came to an end, and what the last hundred of them were like.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "suites/reinforcement/env/bytes.h"

namespace mstrain::reinforcement {

struct Episode {
  double total = 0;  // its rewards, undiscounted; of several agents their mean
  int64_t length = 0;
};

class EpisodeLog {
 public:
  void add(const Episode& episode) {
    last_.push_back(episode);
    if (last_.size() > kLast) {
      last_.pop_front();
    }
    ++count_;
  }
  int64_t count() const { return count_; }
  bool empty() const { return last_.empty(); }
  double mean_return() const;
  double mean_length() const;

  void save(ByteWriter& to) const;
  void load(ByteReader& from);

 private:
  static constexpr size_t kLast = 100;
  std::deque<Episode> last_;
  int64_t count_ = 0;
};

}  // namespace mstrain::reinforcement
