#include "core/base/same_file.h"

#include <filesystem>

#include "core/base/config.h"
#include "core/base/error.h"

namespace mstrain {

void refuse_same_file(const std::string& input, const std::string& output,
                      const std::string& option) {
  std::error_code none;  // of paths where nothing is
  if (std::filesystem::equivalent(input, output, none)) {
    throw ConfigError(
        fmt::format("{} {}: is the input, which would be lost; name another file", option, output));
  }
}

}  // namespace mstrain
