#include "core/data/tokenize_files.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/data/documents.h"
#include "core/data/tokenize_progress.h"
#include "core/data/utf8.h"

namespace mstrain {
namespace {

std::unique_ptr<FileLock> lock_output(FileSystem& files, const std::string& output) {
  std::unique_ptr<FileLock> lock = files.try_lock(beside_output(output, ".lock"));
  if (lock == nullptr) {
    throw IoError(fmt::format(
        "{}: another process writes ids to it; wait for it or choose another file", output));
  }
  return lock;
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
        lock_(saves_ ? lock_output(files, job.output) : nullptr),
        place_(saves_ ? load_progress(files, job).value_or(TokenizePlace{}) : TokenizePlace{}),
        special_(job.add_special ? job.tokenizer->special() : SpecialIds{}),
        writer_(files, job.output, job.format, job.tokenizer->vocab_size(), place_.position) {
    for (size_t i = 0; i < job.sources.size(); ++i) {
      progress_.total_bytes += job.sources[i].bytes;
      before_ += i < place_.source ? job.sources[i].bytes : 0;
    }
    saved_at_ = progress_.resumed_bytes = before_ + place_.offset;
  }

  bool operator()() {
    while (place_.source < job_.sources.size()) {
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
      ++place_.source;
      place_.offset = place_.line = 0;
      if (place_.source < job_.sources.size() && !pause()) {
        save_now();
        return false;
      }
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
      save_progress(files_, job_, place_);
    }
  }

  FileSystem& files_;
  const TokenizeJob& job_;
  const std::atomic<bool>& stop_;
  TokenizeProgress& progress_;
  bool saves_;
  std::unique_ptr<FileLock> lock_;  // before the others, which read and write what it keeps
  TokenizePlace place_;
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
