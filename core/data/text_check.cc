#include "core/data/text_check.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/log.h"

namespace mstrain {
namespace {

constexpr size_t kBytes = 8000;  // of a file
constexpr size_t kFiles = 200;

bool begins_as_text(FileSystem& files, const std::string& path) {
  const auto mapped = files.map(path);
  const std::span<const std::byte> bytes = mapped->bytes();
  const auto begin = bytes.first(std::min(kBytes, bytes.size()));
  return std::find(begin.begin(), begin.end(), std::byte{0}) == begin.end();
}

}  // namespace

void check_is_text(FileSystem& files, std::span<const SourceFile> sources, std::string_view choice,
                   std::string_view otherwise) {
  const size_t count = std::min(sources.size(), kFiles);
  double all = 0;
  double binary = 0;
  size_t none = 0;
  std::string first;
  for (size_t i = 0; i < count; ++i) {
    const SourceFile& file = sources[i * sources.size() / count];  // evenly over them
    all += static_cast<double>(file.bytes);
    if (!begins_as_text(files, file.path)) {
      binary += static_cast<double>(file.bytes);
      first = none++ == 0 ? file.path : first;
    }
  }
  if (none == 0) {
    return;
  }
  std::string what = fmt::format("{}: is no text: it holds zero bytes", first);
  if (none > 1) {
    what += fmt::format(", and so do {} of the {} files looked at", none, count);
  }
  if (2 * binary > all) {
    throw IoError(fmt::format("{}; {}, {}", what, choice, otherwise));
  }
  log_warning("{}; {}", what, choice);
}

}  // namespace mstrain
