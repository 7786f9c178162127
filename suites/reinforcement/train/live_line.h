// Where a run stands: one live line on a terminal, plain lines elsewhere, on standard error.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "core/base/log.h"

namespace mstrain::reinforcement {

class LiveLine {
 public:
  explicit LiveLine(bool speaks);
  ~LiveLine();
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  // On a terminal ten times a second, elsewhere every two seconds; the last one always.
  bool is_due(bool last) const;
  void show(const std::string& line);

 private:
  void clear();

  bool speaks_, live_;
  std::mutex mutex_;
  bool visible_ = false;
  std::chrono::steady_clock::time_point last_{};
  LogSink previous_;
};

}  // namespace mstrain::reinforcement
