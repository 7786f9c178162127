#include "suites/run/text_writer.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/log.h"

namespace mstrain {

std::string TextWriter::reply(const Params&, std::span<const int32_t>, const WriteOptions&,
                              const OnText&) {
  fail("this model answers no conversations");
}

void TextWriter::count_cut(std::span<const std::vector<int32_t>> texts, int64_t most) {
  cut_ = std::count_if(texts.begin(), texts.end(), [&](const std::vector<int32_t>& text) {
    return static_cast<int64_t>(text.size()) >= most;
  });
}

void tell_cut(const TextWriter& writer, size_t texts, const WriteOptions& options) {
  if (writer.cut() > 0 && !options.stop.empty()) {
    log_info("{} cut before the end, at {} tokens (--tokens)",
             texts == 1 ? "the text is" : fmt::format("{} of {} texts are", writer.cut(), texts),
             options.tokens);
  }
}

void warn_of_outgrown(const TextWriter& writer) {
  const int64_t seen = writer.conversation_tokens();
  if (writer.outgrown() > 0) {
    log_warning(
        "prompt and text have {} tokens, and the model sees {}: whenever these were full, all but "
        "the newest {} were forgotten",
        writer.outgrown(), seen, std::max<int64_t>(seen / 2, 1));
  }
}

void print_sample(std::FILE* out, const std::string& prompt, const std::string& text) {
  fmt::print(out, "---- generated after {} ----\n{}{}\n----\n",
             Json(prompt).dump(-1, ' ', false, Json::error_handler_t::replace), prompt, text);
}

}  // namespace mstrain
