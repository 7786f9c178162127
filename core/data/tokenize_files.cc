#include "core/data/tokenize_files.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/data/documents.h"
#include "core/data/utf8.h"

namespace mstrain {
namespace {

constexpr int64_t kTail = 4096;  // bytes before a position that must read as they did

// Where a job stands: what a progress file holds.
struct Place {
  size_t source = 0;
  int64_t offset = 0;  // in the source
  int64_t line = 0;    // lines before it, of JSON lines
  bool in_document = false;
  EncodeState state;
  TokenWriter::Position position;
};

std::string progress_path(const TokenizeJob& job) { return job.output + ".progress"; }

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
    std::error_code error;
    const auto time = std::filesystem::last_write_time(source.path, error);
    hasher.add(source.path)
        .add(source.bytes)
        .add(static_cast<int64_t>(error ? 0 : time.time_since_epoch().count()));
  }
  for (const TokenizerFile& file : job.tokenizer->files()) {
    hasher.add(file.bytes);
  }
  return to_string(hasher.finish());
}

void save(FileSystem& files, const TokenizeJob& job, const Place& place) {
  const auto& position = place.position;
  const OrderedJson json{
      {"format", "mstrain-tokenize"},
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
  write_file_atomic(files, progress_path(job), json.dump(1) + "\n");
}

// Where an earlier run of the same job left off; none: there was none, or something has changed.
std::optional<Place> resume(FileSystem& files, const TokenizeJob& job) {
  const std::string path = progress_path(job);
  if (!files.exists(path)) {
    return std::nullopt;
  }
  try {
    const Json json = parse_json(files.read(path, 1 << 20), path);
    Place place;
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

class Run {
 public:
  Run(FileSystem& files, const TokenizeJob& job, const std::atomic<bool>& stop,
      TokenizeProgress& progress)
      : files_(files),
        job_(job),
        stop_(stop),
        progress_(progress),
        saves_(job.output != "-"),
        place_(saves_ ? resume(files, job).value_or(Place{}) : Place{}),
        special_(job.add_special ? job.tokenizer->special() : SpecialIds{}),
        writer_(files, job.output, job.format, job.tokenizer->vocab_size(), place_.position) {
    for (size_t i = 0; i < job.sources.size(); ++i) {
      progress_.total_bytes += job.sources[i].bytes;
      before_ += i < place_.source ? job.sources[i].bytes : 0;
    }
    saved_at_ = before_ + place_.offset;
  }

  bool operator()() {
    for (; place_.source < job_.sources.size(); ++place_.source) {
      const SourceFile& source = job_.sources[place_.source];
      try {
        if (!(is_json_lines(source.path) ? encode_lines(source) : encode_text(source))) {
          save_now();
          return false;
        }
      } catch (const IoError&) {
        throw;
      } catch (const Error& error) {
        throw IoError(fmt::format("{}: {}", source.path, error.what()));
      }
      before_ += source.bytes;
      place_.offset = place_.line = 0;
    }
    writer_.finish();
    tell();
    if (saves_ && files_.exists(progress_path(job_))) {
      files_.remove(progress_path(job_));
    }
    return true;
  }

 private:
  bool encode_lines(const SourceFile& source) {
    JsonLines lines(source.path, place_.offset, place_.line);
    std::string text;
    while (lines.next(text)) {
      begin_document();
      job_.tokenizer->encode_some(text, /*last=*/true, place_.state, ids_);
      end_document();
      place_.offset = lines.offset();
      place_.line = lines.line();
      if (!pause()) {
        return false;
      }
    }
    return true;
  }

  bool encode_text(const SourceFile& source) {
    ChunkReader reader(source.path, place_.offset);
    size_t wanted = 1;
    for (;;) {
      while (reader.text().size() < wanted && !reader.at_end()) {
        reader.more();
      }
      if (!place_.in_document) {
        begin_document();
      }
      const size_t size = reader.text().size();
      const size_t taken =
          job_.tokenizer->encode_some(reader.text(), reader.at_end(), place_.state, ids_);
      reader.take(taken);
      // Text without a place to cut is looked at again when there is twice as much.
      wanted = taken == 0 ? 2 * size : size - taken + 1;
      place_.offset = reader.offset();
      if (reader.at_end()) {
        end_document();
        return true;
      }
      flush();
      if (!pause()) {
        return false;
      }
    }
  }

  void begin_document() {
    place_.in_document = true;
    place_.state = {};
    ids_ = special_.before;
  }
  void end_document() {
    ids_.insert(ids_.end(), special_.after.begin(), special_.after.end());
    flush();
    writer_.end_document();
    place_.in_document = false;
  }
  void flush() {
    writer_.add(ids_);
    ids_.clear();
  }

  // Between two parts of the input: reports, saves now and then. False where the job is to stop.
  bool pause() {
    const int64_t done = before_ + place_.offset;
    if (done - told_at_ >= 1 << 20) {
      tell();
    }
    if (done - saved_at_ >= job_.bytes_between_saves) {
      save_now();
    }
    return !stop_;
  }
  void tell() {
    progress_.bytes = before_ + place_.offset;
    progress_.position = writer_.position();
    told_at_ = progress_.bytes;
    if (job_.report) {
      job_.report(progress_);
    }
  }
  void save_now() {
    saved_at_ = before_ + place_.offset;
    place_.position = writer_.sync();
    progress_.position = place_.position;
    if (saves_) {
      save(files_, job_, place_);
    }
  }

  FileSystem& files_;
  const TokenizeJob& job_;
  const std::atomic<bool>& stop_;
  TokenizeProgress& progress_;
  bool saves_;
  Place place_;
  SpecialIds special_;
  TokenWriter writer_;
  std::vector<int32_t> ids_;
  int64_t before_ = 0;  // bytes of the sources before this one
  int64_t told_at_ = 0;
  int64_t saved_at_ = 0;
};

}  // namespace

bool tokenize_files(FileSystem& files, const TokenizeJob& job, const std::atomic<bool>& stop,
                    TokenizeProgress& progress) {
  return Run(files, job, stop, progress)();
}

std::vector<char32_t> characters_of(const std::vector<SourceFile>& sources) {
  std::vector<bool> seen(0x110000);
  const auto see = [&](std::string_view text, bool last) {
    size_t at = 0;
    while (at < text.size() && (last || text.size() - at >= 4)) {
      const Utf8Character character = decode_utf8(text, at);
      if (character.length == 0) {
        break;
      }
      seen[character.code] = true;
      at += character.length;
    }
    return at;
  };
  for (const SourceFile& source : sources) {
    const auto refuse = [&](int64_t offset) {
      throw IoError(fmt::format("{}: not valid UTF-8 at byte {}; the tokenizer byte takes any file",
                                source.path, offset));
    };
    if (is_json_lines(source.path)) {
      JsonLines lines(source.path);
      for (std::string text; lines.next(text);) {
        see(text, /*last=*/true);
      }
      continue;
    }
    ChunkReader reader(source.path);
    do {
      reader.more();
      reader.take(see(reader.text(), reader.at_end()));
      if (reader.text().size() >= 4 || (reader.at_end() && !reader.text().empty())) {
        refuse(reader.offset());
      }
    } while (!reader.at_end());
  }
  std::vector<char32_t> characters;
  for (char32_t code = 0; code < seen.size(); ++code) {
    if (seen[code]) {
      characters.push_back(code);
    }
  }
  return characters;
}

}  // namespace mstrain
