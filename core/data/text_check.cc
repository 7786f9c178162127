#include "core/data/text_check.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/log.h"

namespace mstrain {
namespace {

constexpr size_t kBytes = 8000;  // of a file
constexpr size_t kFiles = 200;

struct Signature {
  std::string_view begin, what;
};
constexpr Signature kSignatures[] = {
    {"\xFF\xFE", "is UTF-16: expected UTF-8"},
    {"\xFE\xFF", "is UTF-16: expected UTF-8"},
    {"\x1F\x8B", "is compressed by gzip: unpack it"},
    {"\x28\xB5\x2F\xFD", "is compressed by zstd: unpack it"},
    {"\xFD"
     "7zXZ",
     "is compressed by xz: unpack it"},
    {"BZh", "is compressed by bzip2: unpack it"},
    {"PK\x03\x04", "is a zip archive: unpack it"},
};

// Why `path` is no text; nothing where it begins as one.
std::string no_text(FileSystem& files, const std::string& path) {
  const auto mapped = files.map(path);
  const std::string_view begin = as_text(mapped->bytes()).substr(0, kBytes);
  if (begin.find('\0') == begin.npos) {
    return "";
  }
  for (const Signature& signature : kSignatures) {
    if (begin.starts_with(signature.begin)) {
      return std::string(signature.what);
    }
  }
  return "holds zero bytes";
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
    if (const std::string why = no_text(files, file.path); !why.empty()) {
      binary += static_cast<double>(file.bytes);
      first = none++ == 0 ? fmt::format("{}: is no text: it {}", file.path, why) : first;
    }
  }
  if (none == 0) {
    return;
  }
  std::string what = first;
  if (none > 1) {
    what += fmt::format("; {} of the {} files looked at are no text", none, count);
  }
  if (2 * binary > all) {
    throw IoError(fmt::format("{}; {}, {}", what, choice, otherwise));
  }
  log_warning("{}; {}", what, choice);
}

}  // namespace mstrain
