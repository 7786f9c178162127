// Writes ids as they come, in bounded memory, such that the file appears whole under its name or
// not at all, and a writer that was killed can be followed by another from its last sync().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/files.h"

namespace mstrain {

enum class TokenFormat { kNanogpt, kLlmc, kMegatron, kJsonl };

// Whose values follow TokenFormat: for command lines.
extern const std::vector<std::string> kTokenFormatNames;

// Throws ConfigError where `path` can be no file of ids in that format: ids as numbers end in .bin, by which readers know them,
// and "-" is standard output, to which nanogpt and jsonl alone can go.
void check_token_output(FileSystem& files, const std::string& path, TokenFormat format);

// The file in which something of an output that is not whole yet is kept. Its name begins with a dot: a folder that is the
// input as well, or is trained on, does not take it in.
std::string beside_output(const std::string& path, std::string_view ending);

// How far an output has come; the default is its beginning.
struct TokenPosition {
  int64_t bytes = 0;  // of the file of ids
  int64_t tokens = 0;
  int64_t documents = 0;        // that have ended
  int64_t document_tokens = 0;  // of the one that has not
  bool operator==(const TokenPosition&) const = default;
};

class TokenWriter {
 public:
  using Position = TokenPosition;

  // `path` is one that check_token_output() passes; of Megatron's pair it is the file of ids, NAME.bin.
  // Ids are below `vocab_size`; ConfigError where they do not fit the format.
  // A `resume` other than the beginning goes on with what partial_path() holds, which is cut back
  // to it; IoError where it holds less.
  TokenWriter(FileSystem& files, std::string path, TokenFormat format, int64_t vocab_size,
              const Position& resume = {});

  void add(std::span<const int32_t> ids);
  void end_document();

  // Makes what was added durable; returns the position after it.
  Position sync();

  // Ends the file and puts it in place. Nothing may follow.
  void finish();

  const Position& position() const { return position_; }
  static std::string partial_path(const std::string& path) {
    return beside_output(path, ".partial");
  }

 private:
  void append(std::string_view bytes);
  void write_index();
  std::string lengths_path() const { return beside_output(path_, ".lengths"); }

  FileSystem& files_;
  std::string path_;
  TokenFormat format_;
  int width_;  // bytes of an id; 0: text
  bool to_output_;
  Position position_;
  std::unique_ptr<WritableFile> file_;
  std::unique_ptr<WritableFile> lengths_;  // of Megatron's documents, i32
  std::string buffer_;
  std::string length_buffer_;
};

}  // namespace mstrain
