// Conversations with a model that has a chat template.
#include <unistd.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/data/chat_template.h"
#include "suites/run/writing.h"

namespace mstrain {
namespace {

// None at the end of the file.
std::optional<std::string> next_line(std::FILE* in) {
  std::string line;
  int c = std::fgetc(in);
  if (c == EOF) {
    return std::nullopt;
  }
  for (; c != EOF && c != '\n'; c = std::fgetc(in)) {
    line += static_cast<char>(c);
  }
  return line;
}

class Chat {
 public:
  Chat(const Writing& writing, const ChatTemplate& form, std::optional<std::string> system,
       std::FILE* out)
      : writing_(writing), form_(form), options_(writing.options), out_(out) {
    if (const auto end = form.end_of_turn()) {
      options_.stop.push_back(*end);
    }
    begin(std::move(system));
  }

  // Forgets what was said.
  void begin(std::optional<std::string> system) {
    system_ = std::move(system);
    said_.clear();
    if (system_) {
      said_.push_back({"system", *system_});
    }
  }
  void begin() { begin(system_); }

  // Prints the answer as it comes.
  void answer(const std::string& text) {
    said_.push_back({"user", text});
    try {
      const std::vector<int32_t> tokens = fitting_tokens();
      std::string reply = writing_.writer->reply(writing_.params, tokens, options_,
                                                 [&](size_t, std::string_view piece) {
                                                   fmt::print(out_, "{}", piece);
                                                   std::fflush(out_);
                                                 });
      fmt::print(out_, "\n");
      std::fflush(out_);
      tell_cut(*writing_.writer, 1, options_);
      said_.push_back({"assistant", std::move(reply)});
      ++options_.sampling.seed;  // other draws in the next turn
    } catch (const Error&) {
      said_.pop_back();  // of what was not answered nothing is kept
      throw;
    }
  }

 private:
  // Of the conversation; of one that leaves too little room for an answer the oldest turns are forgotten.
  std::vector<int32_t> fitting_tokens() {
    const int64_t most = writing_.writer->conversation_tokens();
    const int64_t room = std::min(options_.tokens, std::max<int64_t>(most / 2, 1));
    const ptrdiff_t first = system_ ? 1 : 0;
    int forgotten = 0;
    std::vector<int32_t> tokens = form_.tokens(said_);
    while (static_cast<int64_t>(tokens.size()) + room > most &&
           static_cast<ptrdiff_t>(said_.size()) > first + 2) {
      said_.erase(said_.begin() + first, said_.begin() + first + 2);
      ++forgotten;
      tokens = form_.tokens(said_);
    }
    check(!tokens.empty(), "the chat template writes nothing for a conversation");
    check(static_cast<int64_t>(tokens.size()) <= most,
          "what was said has {} tokens; the model sees {}", tokens.size(), most);
    if (forgotten > 0) {
      log_info("the model sees {} tokens: the oldest {} of the conversation forgotten", most,
               forgotten == 1 ? "turn is" : fmt::format("{} turns are", forgotten));
    }
    return tokens;
  }

  const Writing& writing_;
  const ChatTemplate& form_;
  WriteOptions options_;
  std::FILE* out_;
  std::optional<std::string> system_;
  std::vector<ChatMessage> said_;
};

void talk(Chat& chat, std::FILE* in, std::FILE* out) {
  constexpr std::string_view kSystem = "/system ";
  log_info("Ctrl-D ends, /reset forgets what was said, /system TEXT begins anew with TEXT");
  while (true) {
    fmt::print(out, "> ");
    std::fflush(out);
    const std::optional<std::string> line = next_line(in);
    if (!line) {
      fmt::print(out, "\n");
      return;
    }
    if (*line == "/reset") {
      chat.begin();
    } else if (line->starts_with(kSystem)) {
      chat.begin(line->substr(kSystem.size()));
    } else if (line->starts_with('/')) {
      log_warning("{}: expected /reset or /system TEXT", line->substr(0, line->find(' ')));
    } else if (!line->empty()) {
      try {
        chat.answer(*line);
      } catch (const Error& error) {
        log_error("{}", error.what());
      }
    }
  }
}

}  // namespace

void chat(FileSystem& files, const GenerateRequest& request, std::FILE* in, std::FILE* out) {
  const Writing writing = open_writing(files, request);
  const ChatTemplate form(files, tokenizer_folder(files, writing.stored), writing.tokenizer);
  Chat chat(writing, form, request.system, out);
  for (const std::string& prompt : request.prompts) {
    chat.answer(prompt);
  }
  if (!request.prompts.empty()) {
    return;
  }
  if (isatty(fileno(in)) == 1) {
    talk(chat, in, out);
    return;
  }
  while (const std::optional<std::string> line = next_line(in)) {
    if (!line->empty()) {
      chat.answer(*line);
    }
  }
}

}  // namespace mstrain
