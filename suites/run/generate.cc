#include <algorithm>

#include "core/base/error.h"
#include "core/base/log.h"
#include "suites/run/run.h"
#include "suites/run/stored_model.h"

namespace mstrain {
namespace {

// What ends a text: ids that were asked for, and the model's own.
std::vector<int32_t> stop_ids(const StoredModel& stored, const std::vector<int64_t>& asked) {
  std::vector<int32_t> out;
  const int64_t vocab = *stored.network->ids();
  for (const int64_t id : asked) {
    check(id >= 0 && id < vocab, "stop {}: the model has ids from 0 to {}", id, vocab - 1);
    out.push_back(static_cast<int32_t>(id));
  }
  const Json own = stored.description.value("eos_token_id", Json());  // one id or several
  for (const Json& id : own.is_array() ? own : Json::array({own})) {
    if (id.is_number_unsigned() && id.get<uint64_t>() < static_cast<uint64_t>(vocab)) {
      out.push_back(id.get<int32_t>());
    }
  }
  return out;
}

double megabytes(const Params& params) {
  int64_t bytes = 0;
  for (size_t i = 0; i < params.size(); ++i) {
    bytes += params.tensor(i).type().bytes();
  }
  return static_cast<double>(bytes) / 1e6;
}

double megabytes_as_f32(const Network& network) {
  int64_t bytes = 0;
  for (const ParamSpec& spec : network.specs()) {
    bytes += spec.type.bytes();
  }
  return static_cast<double>(bytes) / 1e6;
}

}  // namespace

void generate(FileSystem& files, const GenerateRequest& request, std::FILE* out) {
  check_sampling(request.sampling);
  check_beams(request.beams);
  check(request.tokens >= 1, "tokens {}: expected at least 1", request.tokens);
  const StoredModel stored = open_model(files, request.checkpoint);
  const auto tokenizer = stored_tokenizer(files, stored);
  const auto writer = stored.network->writer(tokenizer, Execution::kGraph);
  check(writer != nullptr, "{}: a {} writes no text", stored.folder, stored.type);
  check(request.beams.beams == 1 || writer->searches_beams(),
        "{}: a {} searches with one beam only", stored.folder, stored.type);
  if (tokenizer == nullptr) {
    load_tokenizer(files, stored.folder);  // says what it looks for
  }
  const WriteOptions options{request.tokens, request.sampling, stop_ids(stored, request.stop),
                             request.beams};
  const Params params = load_params(files, stored, request.weights);
  if (request.weights) {
    log_info("weights in {}: {:.1f} MB, {:.1f} MB as f32", name_of(*request.weights),
             megabytes(params), megabytes_as_f32(*stored.network));
  }
  const std::vector<std::string>& prompts = request.prompts;
  if (prompts.size() == 1) {
    fmt::print(out, "{}{}", prompts[0], writer->separator());
    writer->generate(params, prompts, options, [&](size_t, std::string_view piece) {
      fmt::print(out, "{}", piece);
      std::fflush(out);
    });
    fmt::print(out, "\n");
    return;
  }
  const std::vector<std::string> texts = writer->generate(params, prompts, options);
  for (size_t i = 0; i < prompts.size(); ++i) {
    print_sample(out, prompts[i] + std::string(writer->separator()), texts[i]);
  }
}

}  // namespace mstrain
