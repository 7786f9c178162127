#include "mcts/play/terminal.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace mstrain::mcts::play {

void say(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

std::optional<std::string> ask(std::string_view prompt) {
  say(prompt);
  std::string line;
  int c = 0;
  while ((c = std::getchar()) != EOF && c != '\n') {
    line += static_cast<char>(c);
  }
  if (c == EOF && line.empty()) {
    return std::nullopt;
  }
  const size_t first = line.find_first_not_of(" \t\r");
  if (first == std::string::npos) {
    return std::string();
  }
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

LiveText::LiveText() : is_terminal_(isatty(STDOUT_FILENO) == 1) {}

LiveText::~LiveText() {
  if (!is_terminal_) {
    say(last_);
  }
}

void LiveText::show(const std::string& text) {
  if (is_terminal_) {
    say((lines_ > 0 ? fmt::format("\033[{}A\033[J", lines_) : std::string()) + text);
    lines_ = std::count(text.begin(), text.end(), '\n');
  } else {
    last_ = text;
  }
}

}  // namespace mstrain::mcts::play
