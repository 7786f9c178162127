#include "suites/reinforcement/train/live_line.h"

#include <unistd.h>

#include <cstdio>

namespace mstrain::reinforcement {
namespace {

constexpr auto kOnTerminal = std::chrono::milliseconds(100);
constexpr auto kElsewhere = std::chrono::seconds(2);

}  // namespace

LiveLine::LiveLine(bool speaks) : speaks_(speaks), live_(speaks && isatty(STDERR_FILENO) != 0) {
  if (live_) {
    previous_ = set_log_sink([this](LogLevel level, std::string_view message) {
      const std::lock_guard lock(mutex_);
      clear();
      previous_ ? previous_(level, message) : log_to_standard_error(level, message);
    });
  }
}

LiveLine::~LiveLine() {
  if (live_) {
    if (visible_) {
      std::fputc('\n', stderr);
    }
    set_log_sink(previous_);
  }
}

void LiveLine::clear() {
  if (visible_) {
    std::fputs("\r\x1b[K", stderr);
    visible_ = false;
  }
}

bool LiveLine::is_due(bool last) const {
  return speaks_ &&
         (last || std::chrono::steady_clock::now() - last_ >= (live_ ? kOnTerminal : kElsewhere));
}

void LiveLine::show(const std::string& line) {
  last_ = std::chrono::steady_clock::now();
  if (!live_) {
    log_info("{}", line);
    return;
  }
  const std::lock_guard lock(mutex_);
  clear();
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  visible_ = true;
}

}  // namespace mstrain::reinforcement
