// Which run has the rows of a directory that runs can name.
#include <fmt/format.h>

#include <filesystem>
#include <regex>

#include "core/base/error.h"
#include "core/io/atomic_file.h"
#include "suites/recommender/embedding/rows.h"

namespace mstrain::recommender {
namespace {

constexpr const char* kClaim = ".run";  // beside a directory that was named: which run has it

}  // namespace

bool RowsLayout::is_suffix(const std::string& suffix) {
  static const std::regex of_layout(R"((\.\d+)?(\.\d+-of-\d+(-by-table)?)?)");
  return std::regex_match(suffix, of_layout);
}

std::string Rows::run() const {
  const std::filesystem::path home = std::filesystem::absolute(how_.run).lexically_normal();
  return (home.has_filename() ? home : home.parent_path()).string();
}

std::optional<std::string> Rows::claim_of(const std::string& directory) const {
  constexpr uint64_t kMostBytes = 1 << 16;
  const std::string path = directory + kClaim;
  return files_.exists(path) ? std::optional(files_.read(path, kMostBytes)) : std::nullopt;
}

bool Rows::is_claimed() const {
  if (how_.run.empty()) {
    return true;
  }
  const std::optional<std::string> other = claim_of(base_);
  if (other && *other != run() && files_.exists(join_path(*other, "checkpoints"))) {
    throw ConfigError(
        fmt::format("embedding_cache.directory: {} has the rows of the run {}; name another one, "
                    "or leave it at auto",
                    base_, *other));
  }
  return other.has_value();
}

void Rows::claim() {
  if (!how_.run.empty() && rank() == 0) {
    write_file_atomic(files_, base_ + kClaim, run());
  }
}

bool Rows::is_anothers(const std::string& directory) const {
  const std::filesystem::path path(directory);
  const std::string name = path.filename().string();
  const std::string own = std::filesystem::path(base_).filename().string();
  for (size_t end = name.size(); end != 0 && end != std::string::npos;
       end = name.rfind('.', end - 1)) {
    const std::string base = name.substr(0, end);
    if (base == own || !RowsLayout::is_suffix(name.substr(end))) {
      continue;
    }
    const std::optional<std::string> claim = claim_of((path.parent_path() / base).string());
    if (claim && (how_.run.empty() || *claim != run())) {
      return true;
    }
  }
  return false;
}

int64_t Rows::next_change(int64_t changes) const {
  RowsLayout layout = layout_;
  const auto is_taken = [&] {
    for (size_t rank = 0; rank < layout.ranks; ++rank) {
      if (is_anothers(layout.directory(base_, rank))) {
        return true;
      }
    }
    return false;
  };
  layout.changes = changes + 1;
  while (is_taken()) {
    ++layout.changes;
  }
  if (group_ != nullptr) {  // rank 0's, whose machine has the claims
    group_->broadcast({&layout.changes, 1, Dtype::kI64}, 0, "rows.layout").wait();
  }
  return layout.changes;
}

}  // namespace mstrain::recommender
