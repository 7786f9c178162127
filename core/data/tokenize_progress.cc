#include "core/data/tokenize_progress.h"

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/data/chunk_reader.h"

namespace mstrain {
namespace {

constexpr int64_t kTail = 4096;  // bytes before a position that must read as they did

// The bytes before `end`.
std::string tail_of(const std::string& path, int64_t end) {
  const int64_t begin = std::max<int64_t>(0, end - kTail);
  ChunkReader reader(path, begin);
  reader.more();
  return to_string(hash_bytes(reader.text().substr(0, static_cast<size_t>(end - begin))));
}

std::string identity_of(const TokenizeJob& job) {
  Hasher hasher;
  hasher.add(job.format).add(job.add_special).add(job.sources.size());
  for (const SourceFile& source : job.sources) {
    hasher.add(source.path).add(source.bytes).add(time_of_file(source.path));
  }
  for (const TokenizerFile& file : job.tokenizer->files()) {
    hasher.add(file.bytes);
  }
  return to_string(hasher.finish());
}

std::string digest_of(const Json& json) { return to_string(hash_bytes(json.dump())); }

}  // namespace

std::string progress_path(const TokenizeJob& job) { return beside_output(job.output, ".progress"); }

void save_progress(FileSystem& files, const TokenizeJob& job, const TokenizePlace& place) {
  const auto& position = place.position;
  Json json{{"format", "mstrain-tokenize"},
            {"version", 1},
            {"identity", identity_of(job)},
            {"source", place.source},
            {"offset", place.offset},
            {"line", place.line},
            {"in_document", place.in_document},
            {"state", {place.state.offset, place.state.in_segment ? 1 : 0}},
            {"bytes", position.bytes},
            {"tokens", position.tokens},
            {"documents", position.documents},
            {"document_tokens", position.document_tokens},
            {"input_tail", tail_of(job.sources[place.source].path, place.offset)},
            {"output_tail", tail_of(TokenWriter::partial_path(job.output), position.bytes)}};
  json["digest"] = digest_of(json);
  write_file_atomic(files, progress_path(job), json.dump(1) + "\n");
}

std::optional<TokenizePlace> load_progress(FileSystem& files, const TokenizeJob& job) {
  const std::string path = progress_path(job);
  if (!files.exists(path)) {
    return std::nullopt;
  }
  try {
    Json json = parse_json(files.read(path, 1 << 20), path);
    const std::string digest = json.at("digest").get<std::string>();
    json.erase("digest");
    if (digest != digest_of(json)) {
      return std::nullopt;
    }
    TokenizePlace place;
    place.source = json.at("source").get<size_t>();
    place.offset = json.at("offset").get<int64_t>();
    place.line = json.at("line").get<int64_t>();
    place.in_document = json.at("in_document").get<bool>();
    place.state = {json.at("state").at(0).get<int64_t>(), json.at("state").at(1).get<int>() != 0};
    place.position = {json.at("bytes").get<int64_t>(), json.at("tokens").get<int64_t>(),
                      json.at("documents").get<int64_t>(),
                      json.at("document_tokens").get<int64_t>()};
    const bool same =
        json.at("identity") == identity_of(job) && place.source < job.sources.size() &&
        json.at("input_tail") == tail_of(job.sources[place.source].path, place.offset) &&
        json.at("output_tail") ==
            tail_of(TokenWriter::partial_path(job.output), place.position.bytes);
    return same ? std::optional(place) : std::nullopt;
  } catch (const Error&) {  // of another job, or damaged: begin anew
    return std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace mstrain
