#include "core/train/log_file.h"

#include <chrono>

#include "core/base/error.h"
#include "core/train/numbers.h"

namespace mstrain {

struct LogFile::State {
  std::unique_ptr<WritableFile> file;
  LogSink before;
  std::string last;

  void pass_on(LogLevel level, std::string_view message) const {
    before ? before(level, message) : log_to_standard_error(level, message);
  }

  void write(LogLevel level, std::string_view message) {
    if (file == nullptr) {
      return;
    }
    const double now =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    last = message;
    try {
      file->append(fmt::format("{}  {}{}\n", utc_text(now), log_prefix(level), message));
    } catch (const IoError& error) {
      file.reset();
      pass_on(LogLevel::kWarning, fmt::format("{}; the log ends here", error.what()));
    }
  }
};

LogFile::LogFile(FileSystem& files, const std::string& path)
    : state_(std::make_unique<State>(State{files.open(path, WriteMode::kAppend), {}})) {
  state_->before = set_log_sink([state = state_.get()](LogLevel level, std::string_view message) {
    state->pass_on(level, message);
    state->write(level, message);
  });
}

LogFile::~LogFile() { set_log_sink(state_->before); }

void LogFile::note(LogLevel level, std::string_view message) {
  if (message != state_->last) {
    state_->write(level, message);
  }
}

std::string log_tail(FileSystem& files, const std::string& path) {
  constexpr size_t kMostShown = 64 << 10;
  if (!files.exists(path)) {
    return "";
  }
  std::string text = files.read(path);
  if (text.size() > kMostShown) {
    const size_t line = text.find('\n', text.size() - kMostShown);
    text.erase(0, line == std::string::npos ? text.size() : line + 1);
  }
  return text;
}

}  // namespace mstrain
