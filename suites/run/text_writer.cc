#include "suites/run/text_writer.h"

#include <fmt/core.h>

#include "core/base/error.h"
#include "core/base/json.h"

namespace mstrain {

std::string TextWriter::reply(const Params&, std::span<const int32_t>, const WriteOptions&,
                              const OnText&) {
  fail("this model answers no conversations");
}

void print_sample(std::FILE* out, const std::string& prompt, const std::string& text) {
  fmt::print(out, "---- generated after {} ----\n{}{}\n----\n",
             Json(prompt).dump(-1, ' ', false, Json::error_handler_t::replace), prompt, text);
}

}  // namespace mstrain
