#include "core/base/log.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <string>

namespace mstrain {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};

struct Sink {
  std::mutex mutex;
  LogSink sink;
};
Sink& sink() {
  static auto* const instance =
      new Sink;  // never destroyed: threads may log while the process exits
  return *instance;
}

}  // namespace

void set_log_level(LogLevel level) { g_level = level; }
bool log_enabled(LogLevel level) { return level >= g_level.load(std::memory_order_relaxed); }

LogSink set_log_sink(LogSink next) {
  const std::lock_guard lock(sink().mutex);
  return std::exchange(sink().sink, std::move(next));
}

std::string_view log_prefix(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "debug: ";
    case LogLevel::kInfo: return "";
    case LogLevel::kWarning: return "warning: ";
    case LogLevel::kError: return "error: ";
  }
  __builtin_unreachable();
}

void log_line(LogLevel level, std::string_view message) {
  if (!log_enabled(level)) {
    return;
  }
  const std::lock_guard lock(sink().mutex);
  sink().sink ? sink().sink(level, message) : log_to_standard_error(level, message);
}

void log_to_standard_error(LogLevel level, std::string_view message) {
  const std::string line = fmt::format("{}{}\n", log_prefix(level), message);
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t count = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (count < 0 && errno != EINTR) {
      return;  // standard error is gone: nobody is left to tell
    }
    rest.remove_prefix(count > 0 ? static_cast<size_t>(count) : 0);
  }
}

}  // namespace mstrain
