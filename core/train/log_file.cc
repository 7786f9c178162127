#include "core/train/log_file.h"

#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/train/numbers.h"

namespace mstrain {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

struct Message {
  double time;
  LogLevel level;
  std::string text;
};

constexpr size_t kMostEarly = 1000;  // messages: where no log is opened

struct Early {
  std::mutex mutex;
  bool keeps = false;
  std::vector<Message> messages;

  void keep(LogLevel level, std::string_view message) {
    const std::scoped_lock lock(mutex);
    if (keeps && messages.size() < kMostEarly) {
      messages.push_back({now(), level, std::string(message)});
    }
  }
  // Keeps others from here on, or none.
  std::vector<Message> take(bool and_keep) {
    const std::scoped_lock lock(mutex);
    keeps = and_keep;
    return std::exchange(messages, {});
  }
};
Early& early() {
  static auto* const instance = new Early;  // never destroyed, as the sink
  return *instance;
}

}  // namespace

EarlyMessages::EarlyMessages() {
  early().take(/*and_keep=*/true);
  before_ = set_log_sink({});
  set_log_sink([before = before_](LogLevel level, std::string_view message) {
    early().keep(level, message);
    before ? before(level, message) : log_to_standard_error(level, message);
  });
}

EarlyMessages::~EarlyMessages() {
  set_log_sink(before_);
  early().take(/*and_keep=*/false);
}

struct LogFile::State {
  std::unique_ptr<WritableFile> file;
  LogSink before;
  std::string last;

  void pass_on(LogLevel level, std::string_view message) const {
    before ? before(level, message) : log_to_standard_error(level, message);
  }

  void write(double time, LogLevel level, std::string_view message) {
    if (file == nullptr) {
      return;
    }
    last = message;
    try {
      file->append(fmt::format("{}  {}{}\n", utc_text(time), log_prefix(level), message));
    } catch (const IoError& error) {
      file.reset();
      pass_on(LogLevel::kWarning, fmt::format("{}; the log ends here", error.what()));
    }
  }
};

LogFile::LogFile(FileSystem& files, const std::string& path)
    : state_(std::make_unique<State>(State{files.open(path, WriteMode::kAppend), {}})) {
  for (const Message& message : early().take(/*and_keep=*/false)) {
    state_->write(message.time, message.level, message.text);
  }
  state_->before = set_log_sink([state = state_.get()](LogLevel level, std::string_view message) {
    state->pass_on(level, message);
    state->write(now(), level, message);
  });
}

LogFile::~LogFile() { set_log_sink(state_->before); }

void LogFile::note(LogLevel level, std::string_view message) {
  if (message != state_->last) {
    state_->write(now(), level, message);
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
