// A folder of files that exists when its MANIFEST.json does: the form of checkpoints and other state on disk.
// Everything is written into a temporary sibling; the manifest (size and SHA-256 of each file) is written last, files
// and directories are synced, and one rename puts the folder in place. What is inside depends on the data alone.
//
//   AtomicFolder folder(files, "checkpoints/step-00001000");
//   folder.write("state.json", text);
//   SafetensorsWriter weights(folder.create("model.safetensors"), entries); ... weights.finish();
//   folder.commit();
//
// The digest of a file of more than 64 MiB is that of the digests of its blocks of 64 MiB (core/io/digest.h).
//
// On any error, or without commit, what existed under the name before is untouched.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/files.h"
#include "core/io/atomic_file.h"

namespace mstrain {

inline constexpr const char* kManifestName = "MANIFEST.json";

using Manifest = std::map<std::string, FileSummary>;  // by file name

class AtomicFolder {
 public:
  // In place of `path`, or of what it links to.
  AtomicFolder(FileSystem& files, const std::string& path);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // A new file of the folder, valid as long as the folder is open; its close() syncs it. commit() closes what is open.
  // `name` is one plain component and new.
  WritableFile& create(const std::string& name);
  void write(const std::string& name, std::span<const std::byte> bytes);
  void write(const std::string& name, std::string_view text) { write(name, as_bytes(text)); }

  // A new file of `size` bytes that others write: PlacedFiles at path_of(name), which they sync. describe() it before the commit.
  void reserve(const std::string& name, uint64_t size);
  std::string path_of(const std::string& name) const { return join_path(temporary_, name); }
  void describe(const std::string& name, FileSummary summary);

  // Returns when the folder is durable under its name. A folder that was there is replaced in one step where the file
  // system can (Linux local ones), else moved aside first (clean_folders() restores it after a crash in between).
  Manifest commit();

 private:
  class File;
  void check_new(const std::string& name) const;
  void put_in_place();

  FileSystem& files_;
  std::string path_;
  std::string temporary_;
  std::map<std::string, std::unique_ptr<File>> open_;
  Manifest reserved_;
  bool committed_ = false;
};

std::string print_manifest(const Manifest& manifest);
// Throws IoError naming `name` for anything but a manifest; names that are not plain components are refused.
Manifest parse_manifest(std::string_view text, const std::string& name);
Manifest read_manifest(FileSystem& files, const std::string& folder);

// What is wrong with a folder, one line each, starting with its path; empty when every file has its size and digest. Files of more
// bytes than `digested` are not read.
std::vector<std::string> verify_folder(FileSystem& files, const std::string& folder,
                                       uint64_t digested = std::numeric_limits<uint64_t>::max());

// Removes a folder such that a crash leaves it whole or gone.
void remove_folder(FileSystem& files, const std::string& folder);

// Removes what interrupted writers left among the entries of `parent`, and restores a folder that a commit had moved
// aside. Only where no writer is at work (hold a lock). Returns the names removed or restored.
std::vector<std::string> clean_folders(FileSystem& files, const std::string& parent);

}  // namespace mstrain
