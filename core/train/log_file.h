// log.txt of a run directory: what the run said, a line a message, with the time.
#pragma once

#include <memory>
#include <string>

#include "core/base/files.h"
#include "core/base/log.h"

namespace mstrain {

inline constexpr const char* kLogFile = "log.txt";

// As long as it lives, messages are kept as well as passed on, so that what a run says before it has opened its log stands there too. The
// next log takes them. One at a time.
class EarlyMessages {
 public:
  EarlyMessages();
  ~EarlyMessages();
  EarlyMessages(const EarlyMessages&) = delete;
  EarlyMessages& operator=(const EarlyMessages&) = delete;

 private:
  LogSink before_;
};

// As long as it lives, messages go to the file as well as where they went before. Where the file cannot be written, it says so
// once and goes on without.
class LogFile {
 public:
  // Appends to `path`.
  LogFile(FileSystem& files, const std::string& path);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // Writes a message to the file alone, unless it was the last one there: somebody else tells it.
  void note(LogLevel level, std::string_view message);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The last lines of the log at `path`, some tens of kilobytes at most; empty where there is none.
std::string log_tail(FileSystem& files, const std::string& path);

}  // namespace mstrain
