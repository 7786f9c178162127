#include "core/train/progress.h"

#include <unistd.h>

#include <cstdio>

#include "core/train/numbers.h"

namespace mstrain {
namespace {

constexpr auto kLiveInterval = std::chrono::milliseconds(100);
constexpr auto kPlainInterval = std::chrono::seconds(2);
constexpr const char* kClearLine = "\r\x1b[K";

}  // namespace

Progress::Progress(const TrainConfig& config, Units in_a_step, bool may_be_live)
    : config_(config),
      in_a_step_(std::move(in_a_step)),
      live_(may_be_live && isatty(STDERR_FILENO) != 0) {
  if (live_) {
    previous_ = set_log_sink([this](LogLevel level, std::string_view message) {
      const std::lock_guard lock(mutex_);
      clear();
      previous_ ? previous_(level, message) : log_to_standard_error(level, message);
    });
  }
}

Progress::~Progress() {
  if (live_) {
    if (visible_) {
      std::fputc('\n', stderr);
    }
    set_log_sink(previous_);
  }
}

void Progress::clear() {
  if (visible_) {
    std::fputs(kClearLine, stderr);
    visible_ = false;
  }
}

void Progress::print(const std::string& line) {
  if (live_) {
    const std::lock_guard lock(mutex_);
    std::fputs((kClearLine + line).c_str(), stderr);
    std::fflush(stderr);
    visible_ = true;
  } else {
    log_info("{}", line);
  }
}

void Progress::on_step(Trainer&, const StepMetrics& metrics) {
  // The first steps touch their memory for the first time, so that the mean starts short.
  const double weight = std::max(1.0 / static_cast<double>(++steps_), 0.05);
  step_seconds_ += weight * (metrics.seconds - step_seconds_);
  const int64_t total = config_.schedule.total_steps;
  const auto now = std::chrono::steady_clock::now();
  const bool last = metrics.step == total;
  const bool due = live_ ? now - last_ >= kLiveInterval
                         : (metrics.step % config_.log.interval == 0 || steps_ == 1) &&
                               now - last_ >= kPlainInterval;
  if (!due && !last) {
    return;
  }
  last_ = now;
  const double rate = static_cast<double>(in_a_step_.count) / step_seconds_;
  const double left = static_cast<double>(total - metrics.step) * step_seconds_;
  print(fmt::format("step {}/{}  loss {:.4f}  {} {}s/s  {} left", metrics.step, total, metrics.loss,
                    short_number(rate), in_a_step_.name, clock_text(left)));
}

void Progress::show(const std::string& activity) {
  const auto now = std::chrono::steady_clock::now();
  if (live_ && now - last_ >= kLiveInterval) {
    last_ = now;
    print(activity);
  }
}

}  // namespace mstrain
