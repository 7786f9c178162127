#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/base/error.h"
#include "core/schedule/schedule.h"

namespace mstrain {
namespace {

constexpr int kMostRanks = 65536;
constexpr int kMost = 1 << 20;

// A text in words, line by line.
class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  // The next line that says anything.
  bool next_line() {
    while (!text_.empty()) {
      const size_t end = std::min(text_.find('\n'), text_.size());
      line_ = text_.substr(0, std::min(end, text_.find('#')));
      text_.remove_prefix(std::min(end + 1, text_.size()));
      ++number_;
      if (line_.find_first_not_of(kBlank) != std::string_view::npos) {
        return true;
      }
    }
    return false;
  }

  // The next word of the line; empty at its end.
  std::string_view word() {
    const size_t begin = std::min(line_.find_first_not_of(kBlank), line_.size());
    line_.remove_prefix(begin);
    const size_t end = std::min(line_.find_first_of(kBlank), line_.size());
    const std::string_view out = line_.substr(0, end);
    line_.remove_prefix(end);
    return out;
  }

  int number(std::string_view text, std::string_view what, int least, int most) const {
    int out = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error != std::errc() || end != text.data() + text.size() || out < least || out > most) {
      fail_here(fmt::format("expected {}, an integer from {} to {}, found '{}'", what, least, most,
                            shown(text)));
    }
    return out;
  }

  void end_line() {
    if (const std::string_view more = word(); !more.empty()) {
      fail_here(fmt::format("'{}' is one word too many", shown(more)));
    }
  }

  [[noreturn]] void fail_here(const std::string& message) const {
    throw ConfigError(fmt::format("{}:{}: {}", name_, number_, message));
  }

  static std::string shown(std::string_view text) {
    constexpr size_t kShown = 40;
    std::string out(text.substr(0, kShown));
    std::replace_if(
        out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    return text.size() > kShown ? out + "…" : out;
  }

 private:
  static constexpr std::string_view kBlank = " \t\r";
  std::string_view text_, line_;
  const std::string& name_;
  int number_ = 0;
};

Action parse_action(const Reader& reader, std::string_view word, const Schedule& schedule,
                    int rank) {
  if (word == "U") {
    return {rank, Work::kUpdate, 0, 0};
  }
  const size_t work = std::string_view("FBW").find(word[0]);
  const size_t dot = word.find('.');
  if (work == std::string_view::npos || dot == std::string_view::npos) {
    reader.fail_here(
        fmt::format("expected U, or F, B or W with chunk and micro-batch as in F0.3, found '{}'",
                    Reader::shown(word)));
  }
  return {rank, static_cast<Work>(work),
          reader.number(word.substr(1, dot - 1), "a chunk", 0, schedule.chunks - 1),
          reader.number(word.substr(dot + 1), "a micro-batch", 0, schedule.micro_batches - 1)};
}

}  // namespace

std::string to_text(const Schedule& schedule) {
  std::string out =
      fmt::format("schedule {}\nranks {}\nchunks {}\nmicro_batches {}\n", schedule.name,
                  schedule.ranks, schedule.chunks, schedule.micro_batches);
  const auto ranks = schedule.by_rank();
  for (size_t r = 0; r < ranks.size(); ++r) {
    out += fmt::format("rank {}:", r);
    for (const Action& action : ranks[r]) {
      out += ' ' + to_string(action);
    }
    out += '\n';
  }
  return out;
}

Schedule parse_schedule(std::string_view text, const std::string& name) {
  Reader reader(text, name);
  Schedule out;
  const auto header = [&](std::string_view key) {
    if (!reader.next_line() || reader.word() != key) {
      reader.fail_here(fmt::format("expected '{}' and its value", key));
    }
    const std::string_view value = reader.word();
    reader.end_line();
    return value;
  };
  out.name = header("schedule");
  if (out.name.empty()) {
    reader.fail_here("expected a name behind 'schedule'");
  }
  out.ranks = reader.number(header("ranks"), "a number of ranks", 1, kMostRanks);
  out.chunks =
      reader.number(header("chunks"), "a number of chunks, at least one a rank", out.ranks, kMost);
  out.micro_batches = reader.number(header("micro_batches"), "a number of micro-batches", 1, kMost);
  for (int rank = 0; rank < out.ranks; ++rank) {
    const std::string label = fmt::format("{}:", rank);
    if (!reader.next_line() || reader.word() != "rank" || reader.word() != label) {
      reader.fail_here(fmt::format("expected 'rank {}' and what it does", label));
    }
    for (std::string_view word = reader.word(); !word.empty(); word = reader.word()) {
      out.actions.push_back(parse_action(reader, word, out, rank));
    }
  }
  if (reader.next_line()) {
    reader.fail_here(fmt::format("there are {} ranks, which have been listed", out.ranks));
  }
  return out;
}

}  // namespace mstrain
