#include "suites/run/writing.h"

namespace mstrain {

void generate(FileSystem& files, const GenerateRequest& request, std::FILE* out) {
  const Writing writing = open_writing(files, request);
  TextWriter& writer = *writing.writer;
  const std::vector<std::string>& prompts = request.prompts;
  if (prompts.size() == 1) {
    fmt::print(out, "{}{}", prompts[0], writer.separator());
    writer.generate(writing.params, prompts, writing.options, [&](size_t, std::string_view piece) {
      fmt::print(out, "{}", piece);
      std::fflush(out);
    });
    fmt::print(out, "\n");
    std::fflush(out);
    tell_cut(writer, 1, writing.options);
    return;
  }
  const std::vector<std::string> texts = writer.generate(writing.params, prompts, writing.options);
  for (size_t i = 0; i < prompts.size(); ++i) {
    print_sample(out, prompts[i] + std::string(writer.separator()), texts[i]);
  }
  std::fflush(out);
  tell_cut(writer, prompts.size(), writing.options);
}

}  // namespace mstrain
