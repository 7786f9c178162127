#include "core/io/folder.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/log.h"

namespace mstrain {
namespace {

constexpr std::string_view kTemporaryMark = ".tmp-";
constexpr std::string_view kAsideMark = ".old-";
constexpr uint64_t kMaxManifestBytes = 16 << 20;
constexpr const char* kFormat = "mstrain-folder-1";
constexpr const char* kOfBytes = "sha256";
constexpr const char* kOfBlocks = "sha256_of_blocks";

// Large files that earlier versions wrote are known by the digest of their bytes.
bool has_digest(FileSystem& files, const std::string& path, const FileSummary& expected) {
  return expected.of_blocks || expected.size <= kDigestBlock
             ? summarize_file(files, path) == expected
             : sha256_hex(files.map(path)->bytes()) == expected.sha256;
}

// "step-7.old-0123456789abcdef" is "step-7" for the mark ".old-"; empty for other names.
std::string without_mark(const std::string& name, std::string_view mark) {
  const size_t at = name.rfind(mark);
  if (at == std::string::npos || at == 0 || name.size() - at - mark.size() != 16 ||
      name.find_first_not_of("0123456789abcdef", at + mark.size()) != std::string::npos) {
    return "";
  }
  return name.substr(0, at);
}

std::string aside_name(const std::string& path) {
  std::string name = temporary_name(path);
  return name.replace(name.rfind(kTemporaryMark), kTemporaryMark.size(), kAsideMark);
}

}  // namespace

// Counts and digests what passes to the file below.
class AtomicFolder::File final : public WritableFile {
 public:
  explicit File(std::unique_ptr<WritableFile> inner) : inner_(std::move(inner)) {}

  using WritableFile::append;
  void append(std::span<const std::byte> bytes) override {
    inner_->append(bytes);
    digest_.add(bytes);
  }
  void sync() override { inner_->sync(); }
  void close() override {
    if (!closed_) {
      inner_->sync();
      inner_->close();
      summary_ = digest_.finish();
      closed_ = true;
    }
  }
  const FileSummary& summary() const { return summary_; }

 private:
  std::unique_ptr<WritableFile> inner_;
  FileDigest digest_;
  FileSummary summary_;
  bool closed_ = false;
};

AtomicFolder::AtomicFolder(FileSystem& files, const std::string& path)
    : files_(files), path_(follow_links(path)), temporary_(temporary_name(path_)) {
  create_directories_durably(files_, temporary_);
}

AtomicFolder::~AtomicFolder() {
  if (committed_) {
    return;
  }
  open_.clear();
  try {
    files_.remove_all(temporary_);
  } catch (const IoError&) {
    // The error that kept the folder from being committed is the one to report; clean_folders() removes the rest.
  }
}

void AtomicFolder::check_new(const std::string& name) const {
  check(!committed_, "{}: committed already", path_);
  check(is_plain_name(name) && name != kManifestName, "{}: \"{}\" cannot be a file of a folder",
        path_, name);
  check(!open_.contains(name) && !reserved_.contains(name), "{}: {} is written twice", path_, name);
}

WritableFile& AtomicFolder::create(const std::string& name) {
  check_new(name);
  auto file = std::make_unique<File>(files_.open(path_of(name), WriteMode::kTruncate));
  return *(open_[name] = std::move(file));
}

void AtomicFolder::reserve(const std::string& name, uint64_t size) {
  check_new(name);
  files_.open(path_of(name), WriteMode::kTruncate)->close();
  files_.truncate(path_of(name), size);
  reserved_[name] = {};
}

void AtomicFolder::describe(const std::string& name, FileSummary summary) {
  reserved_.at(name) = std::move(summary);
}

void AtomicFolder::write(const std::string& name, std::span<const std::byte> bytes) {
  WritableFile& file = create(name);
  file.append(bytes);
  file.close();
}

Manifest AtomicFolder::commit() {
  check(!committed_, "{}: committed already", path_);
  Manifest manifest = reserved_;
  for (const auto& [name, summary] : reserved_) {
    check(!summary.sha256.empty(), "{}: {} was not described", path_, name);
  }
  for (const auto& [name, file] : open_) {
    file->close();
    manifest[name] = file->summary();
  }
  const auto file = files_.open(join_path(temporary_, kManifestName), WriteMode::kTruncate);
  file->append(print_manifest(manifest));
  file->sync();
  file->close();
  files_.sync_directory(temporary_);
  put_in_place();
  return manifest;
}

// The name must be durable before the old folder goes.
void AtomicFolder::put_in_place() {
  const std::string parent = parent_path(path_);
  if (!files_.exists(path_)) {
    files_.rename(temporary_, path_);
    committed_ = true;
    files_.sync_directory(parent);
    return;
  }
  std::string old = temporary_;
  if (!files_.exchange(temporary_, path_)) {
    old = aside_name(path_);
    files_.rename(path_, old);
    try {
      files_.rename(temporary_, path_);
    } catch (...) {
      files_.rename(old, path_);
      throw;
    }
  }
  committed_ = true;
  files_.sync_directory(parent);
  try {
    files_.remove_all(old);
  } catch (const IoError& error) {
    log_warning("{}; the new folder is in place, what it replaced can be deleted", error.what());
  }
}

std::string print_manifest(const Manifest& manifest) {
  OrderedJson files = OrderedJson::object();
  for (const auto& [name, summary] : manifest) {
    files[name] = {{"size", summary.size},
                   {summary.of_blocks ? kOfBlocks : kOfBytes, summary.sha256}};
  }
  return OrderedJson{{"format", kFormat}, {"files", std::move(files)}}.dump(2) + "\n";
}

Manifest parse_manifest(std::string_view text, const std::string& name) {
  const auto require = [&](bool condition, std::string_view what) {
    if (!condition) {
      throw IoError(fmt::format("{}: not a manifest: {}", name, what));
    }
  };
  const Json json = parse_json(text, name, 8);
  require(json.is_object() && json.size() == 2 && json.contains("format") && json.contains("files"),
          "expected the keys format and files");
  require(json["format"] == kFormat, fmt::format("expected format {}", kFormat));
  require(json["files"].is_object(), "files is no map");
  Manifest manifest;
  for (const auto& [file, entry] : json["files"].items()) {
    require(is_plain_name(file) && file != kManifestName,
            fmt::format("{} is no plain file name", OrderedJson(file).dump()));
    require(entry.is_object() && entry.size() == 2 && entry.contains("size") &&
                entry["size"].is_number_unsigned(),
            fmt::format("{} lacks size or digest", file));
    FileSummary summary{entry["size"].get<uint64_t>(), "", entry.contains(kOfBlocks)};
    const auto digest = entry.find(summary.of_blocks ? kOfBlocks : kOfBytes);
    require(digest != entry.end() && digest->is_string(),
            fmt::format("{} lacks size or digest", file));
    summary.sha256 = digest->get<std::string>();
    require(summary.sha256.size() == 64 &&
                summary.sha256.find_first_not_of("0123456789abcdef") == std::string::npos,
            fmt::format("the digest of {} is no SHA-256", file));
    manifest[file] = std::move(summary);
  }
  return manifest;
}

Manifest read_manifest(FileSystem& files, const std::string& folder) {
  const std::string path = join_path(folder, kManifestName);
  return parse_manifest(files.read(path, kMaxManifestBytes), path);
}

std::vector<std::string> verify_folder(FileSystem& files, const std::string& folder,
                                       uint64_t digested) {
  Manifest manifest;
  try {
    if (!files.exists(join_path(folder, kManifestName))) {
      return {fmt::format("{}: has no {}", folder, kManifestName)};
    }
    manifest = read_manifest(files, folder);
  } catch (const IoError& error) {
    return {error.what()};
  }
  std::vector<std::string> problems;
  for (const auto& [name, expected] : manifest) {
    const std::string path = join_path(folder, name);
    try {
      if (!files.exists(path)) {
        problems.push_back(fmt::format("{}: {} is missing", folder, name));
      } else if (const uint64_t size = files.file_size(path); size != expected.size) {
        problems.push_back(
            fmt::format("{}: {} has {} bytes instead of {}", folder, name, size, expected.size));
      } else if (size <= digested && !has_digest(files, path, expected)) {
        problems.push_back(fmt::format("{}: {} does not match its digest", folder, name));
      }
    } catch (const IoError& error) {
      problems.push_back(fmt::format("{}: {}", folder, error.what()));
    }
  }
  return problems;
}

void remove_folder(FileSystem& files, const std::string& folder) {
  const std::string temporary = temporary_name(folder);
  files.rename(folder, temporary);
  files.sync_directory(parent_path(folder));
  files.remove_all(temporary);
}

std::vector<std::string> clean_folders(FileSystem& files, const std::string& parent) {
  std::vector<std::string> cleaned;
  for (const std::string& name : files.list(parent)) {
    const std::string path = join_path(parent, name);
    if (const std::string original = without_mark(name, kAsideMark); !original.empty()) {
      const std::string target = join_path(parent, original);
      if (files.exists(target)) {
        files.remove_all(path);
      } else {
        files.rename(path, target);
      }
      cleaned.push_back(name);
    } else if (!without_mark(name, kTemporaryMark).empty()) {
      files.remove_all(path);
      cleaned.push_back(name);
    }
  }
  if (!cleaned.empty()) {
    files.sync_directory(parent);
  }
  return cleaned;
}

}  // namespace mstrain
