// Reads a file front to back in bounded memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mstrain {

class ChunkReader {
 public:
  // Throws IoError with path and errno, here and below. `offset` is where reading begins; a file
  // shorter than that is an error.
  explicit ChunkReader(std::string path, int64_t offset = 0);
  ~ChunkReader();
  ChunkReader(const ChunkReader&) = delete;
  ChunkReader& operator=(const ChunkReader&) = delete;

  // What was read and not yet taken; valid until the next call of more() or take().
  std::string_view text() const { return std::string_view(buffer_).substr(begin_); }
  bool at_end() const { return at_end_; }  // nothing follows text()

  void more();                                // reads about a mebibyte more
  void take(size_t bytes);                    // from the front of text()
  int64_t offset() const { return offset_; }  // of text() in the file

 private:
  std::string path_;
  int fd_;
  std::string buffer_;
  size_t begin_ = 0;
  int64_t offset_ = 0;
  bool at_end_ = false;
};

}  // namespace mstrain
