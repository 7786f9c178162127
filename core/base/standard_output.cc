#include "core/base/standard_output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/base/error.h"

namespace mstrain {

void finish_output() {
  errno = 0;
  const bool was_lost = std::ferror(stdout) != 0;
  if ((std::fflush(stdout) != 0 || was_lost) && errno != EPIPE) {
    throw IoError(fmt::format("standard output: cannot write{}",
                              errno != 0 ? fmt::format(": {}", std::strerror(errno)) : ""),
                  errno);
  }
}

}  // namespace mstrain
