// The terminal: lines in, text out, and a block of lines that is drawn over while the engine thinks.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mstrain::mcts::play {

void say(std::string_view text);  // to standard output, flushed

// The next line of standard input without its end and the spaces around it; nothing at its end.
std::optional<std::string> ask(std::string_view prompt);

// Shows text in the place of what it showed before. Where standard output is no terminal only the last text is kept, and
// written by the destructor.
class LiveText {
 public:
  LiveText();
  ~LiveText();
  LiveText(const LiveText&) = delete;
  LiveText& operator=(const LiveText&) = delete;
  void show(const std::string& text);

 private:
  bool is_terminal_;
  long lines_ = 0;
  std::string last_;
};

}  // namespace mstrain::mcts::play
