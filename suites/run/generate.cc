#include <algorithm>

#include "core/base/log.h"
#include "suites/run/writing.h"

namespace mstrain {
namespace {

void warn_of_long_prompts(const Writing& writing, const std::vector<std::string>& prompts) {
  const int64_t seen = writing.writer->conversation_tokens();
  if (seen == 0) {
    return;
  }
  int64_t longest = 0;
  int64_t cut = 0;
  for (const std::string& prompt : prompts) {
    const auto tokens = std::ssize(writing.tokenizer->encode_beginning(prompt));
    longest = std::max(longest, tokens);
    cut += tokens > seen ? 1 : 0;
  }
  if (cut > 0) {
    log_warning("{} {} tokens, and the model sees {}: only the last {} are read",
                prompts.size() == 1
                    ? "the prompt has"
                    : fmt::format("{} of {} prompts have up to", cut, prompts.size()),
                longest, seen, seen);
  }
}

}  // namespace

void generate(FileSystem& files, const GenerateRequest& request, std::FILE* out) {
  const Writing writing = open_writing(files, request);
  TextWriter& writer = *writing.writer;
  const std::vector<std::string>& prompts = request.prompts;
  warn_of_long_prompts(writing, prompts);
  if (prompts.size() == 1) {
    fmt::print(out, "{}{}", prompts[0], writer.separator());
    writer.generate(writing.params, prompts, writing.options, [&](size_t, std::string_view piece) {
      fmt::print(out, "{}", piece);
      std::fflush(out);
    });
    fmt::print(out, "\n");
    std::fflush(out);
    tell_cut(writer, 1, writing.options);
    warn_of_outgrown(writer);
    return;
  }
  const std::vector<std::string> texts = writer.generate(writing.params, prompts, writing.options);
  for (size_t i = 0; i < prompts.size(); ++i) {
    print_sample(out, prompts[i] + std::string(writer.separator()), texts[i]);
  }
  std::fflush(out);
  tell_cut(writer, prompts.size(), writing.options);
  warn_of_outgrown(writer);
}

}  // namespace mstrain
