#include "suites/run/writing.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "suites/run/stop_ids.h"

namespace mstrain {
namespace {

// What ends a text: ids that were asked for, and the model's own.
std::vector<int32_t> all_stops(FileSystem& files, const StoredModel& stored,
                               const std::vector<int64_t>& asked) {
  std::vector<int32_t> out = stop_ids(files, stored);
  const int64_t vocab = *stored.network->ids();
  for (const int64_t id : asked) {
    check(id >= 0 && id < vocab, "stop {}: the model has ids from 0 to {}", id, vocab - 1);
    out.push_back(static_cast<int32_t>(id));
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

Writing open_writing(FileSystem& files, const GenerateRequest& request) {
  check_sampling(request.sampling);
  check_beams(request.beams);
  check(request.tokens >= 1, "tokens {}: expected at least 1", request.tokens);
  Writing out;
  out.stored = open_model(files, request.checkpoint);
  const StoredModel& stored = out.stored;
  out.tokenizer = stored_tokenizer(files, stored);
  out.writer = stored.network->writer(out.tokenizer, Execution::kGraph);
  check(out.writer != nullptr, "{}: a {} writes no text", stored.folder,
        stored.network->scores_texts() ? "model of scores" : stored.type);
  check(request.beams.beams == 1 || out.writer->searches_beams(),
        "{}: a {} draws its tokens or takes the likeliest (--greedy), and searches with no beams; "
        "a t5 does: leave out --beams",
        stored.folder, stored.description.value("model_type", stored.type));
  check(!request.chat || out.writer->conversation_tokens() > 0, "{}: a {} answers no conversations",
        stored.folder, stored.type);
  if (out.tokenizer == nullptr) {
    load_tokenizer(files, stored.folder);  // says what it looks for
  }
  out.options = {request.tokens, request.sampling, all_stops(files, stored, request.stop),
                 request.beams};
  out.params = load_params(files, stored, request.weights);
  if (request.weights) {
    log_info("weights in {}: {:.1f} MB, {:.1f} MB as f32", name_of(*request.weights),
             megabytes(out.params), megabytes_as_f32(*stored.network));
  }
  return out;
}

}  // namespace mstrain
