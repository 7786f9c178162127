#include "core/data/chunk_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.h"

namespace mstrain {
namespace {

constexpr size_t kChunk = size_t{1} << 20;

[[noreturn]] void fail_errno(const std::string& path, const char* what) {
  throw IoError(fmt::format("{}: {}: {}", path, what, std::strerror(errno)), errno);
}

}  // namespace

ChunkReader::ChunkReader(std::string path, int64_t offset)
    : path_(std::move(path)),
      fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)),
      offset_(offset) {
  if (fd_ < 0) {
    fail_errno(path_, "open");
  }
  const off_t size = offset == 0 ? 0 : ::lseek(fd_, 0, SEEK_END);
  if (offset > 0 && (size < offset || ::lseek(fd_, offset, SEEK_SET) != offset)) {
    ::close(fd_);
    throw IoError(fmt::format("{}: ends at byte {}, before byte {}", path_, size, offset));
  }
}

ChunkReader::~ChunkReader() { ::close(fd_); }

void ChunkReader::more() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const size_t old = buffer_.size();
  buffer_.resize(old + kChunk);
  size_t got = 0;
  while (got < kChunk && !at_end_) {
    const ssize_t n = ::read(fd_, buffer_.data() + old + got, kChunk - got);
    if (n < 0 && errno != EINTR) {
      fail_errno(path_, "read");
    }
    at_end_ = n == 0;
    got += static_cast<size_t>(n < 0 ? 0 : n);
  }
  buffer_.resize(old + got);
}

void ChunkReader::take(size_t bytes) {
  begin_ += bytes;
  offset_ += static_cast<int64_t>(bytes);
}

}  // namespace mstrain
