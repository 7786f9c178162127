// Messages for people: one line each to standard error, whole lines even from several threads.
// Standard output is left to programs' results.
#pragma once

#include <fmt/core.h>

#include <functional>
#include <string_view>
#include <utility>

namespace mstrain {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Messages below this level are dropped; kInfo at the start. Thread-safe.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);

// Receives each message without prefix and line end; called by one thread at a time. An empty sink restores standard
// error, where lines read "warning: message" ("message" alone for kInfo). Returns the sink that was set before.
using LogSink = std::function<void(LogLevel, std::string_view)>;
LogSink set_log_sink(LogSink sink);

// What happens to messages where no sink is set.
void log_to_standard_error(LogLevel level, std::string_view message);
// "warning: "; nothing for kInfo.
std::string_view log_prefix(LogLevel level);

void log_line(LogLevel level, std::string_view message);

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kDebug)) {
    log_line(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kInfo)) {
    log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kWarning)) {
    log_line(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace mstrain
