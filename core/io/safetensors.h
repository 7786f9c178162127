// safetensors: named tensors in one file (github.com/huggingface/safetensors, "Format"):
//   u64 little-endian N | N bytes of JSON | data
// The JSON maps a name to {"dtype", "shape", "data_offsets": [begin, end)}, offsets within the data; "__metadata__" maps
// text to text. Tensors are row-major and little-endian, lie without holes or overlap, and fill the file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/files.h"
#include "core/io/atomic_file.h"
#include "core/runtime/dtype.h"

namespace mstrain {

struct TensorEntry {
  std::string name;
  std::string dtype_name;      // as in the file: "F32", "BF16", "F8_E4M3", ...
  std::optional<Dtype> dtype;  // none for element types that this library has no tensors of
  std::vector<int64_t> shape;
  uint64_t offset = 0;  // of the first byte within the file's data section
  uint64_t bytes = 0;
};

// "F32" for kF32, and so on; none for a name that is no dtype of ours.
std::string_view safetensors_name(Dtype dtype);
std::optional<Dtype> parse_safetensors_dtype(std::string_view name);

// Reads a file that nobody has checked. Everything is verified before the constructor returns; memory use is in
// proportion to the header, which is at most 100 MB. Throws IoError that starts with the path. Reading is thread-safe.
class SafetensorsFile {
 public:
  SafetensorsFile(FileSystem& files, const std::string& path);
  // A file in memory that outlives this object; `name` is used in errors.
  SafetensorsFile(std::span<const std::byte> file, std::string name);

  const std::string& name() const { return name_; }                     // as errors call it
  const std::vector<TensorEntry>& entries() const { return entries_; }  // in the order of the data
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  bool contains(std::string_view name) const { return by_name_.contains(name); }
  const TensorEntry& at(std::string_view name) const;  // the error suggests the nearest name

  // The tensor's bytes, valid while this object lives. Not always aligned to the element size. Throws for a dtype that
  // this library has no tensors of.
  std::span<const std::byte> data(const TensorEntry& entry) const;
  std::span<const std::byte> data(std::string_view name) const { return data(at(name)); }

 private:
  void parse();

  std::string name_;
  std::unique_ptr<MappedFile> mapped_;
  std::span<const std::byte> file_;
  std::span<const std::byte> data_;
  std::vector<TensorEntry> entries_;
  std::map<std::string, size_t, std::less<>> by_name_;
  std::map<std::string, std::string> metadata_;
};

// Where a file has what. It depends on names, dtypes, shapes and metadata alone: entries are sorted by dtype (wide ones first, for
// alignment) and name, as the reference writer sorts them.
struct SafetensorsLayout {
  struct Tensor {
    std::string name;
    Dtype dtype;
    std::vector<int64_t> shape;
  };
  explicit SafetensorsLayout(const std::vector<Tensor>& tensors,
                             const std::map<std::string, std::string>& metadata = {});

  std::string header;  // all that comes before the data
  std::vector<TensorEntry> entries;

  uint64_t size() const;  // of the file
};

// Writes tensors one after the other without holding them.
class SafetensorsWriter {
 public:
  using Tensor = SafetensorsLayout::Tensor;

  SafetensorsWriter(WritableFile& out, SafetensorsLayout layout);
  // Writes into `out`, which the caller closes (an AtomicFile or a file of an AtomicFolder knows its digest then).
  SafetensorsWriter(WritableFile& out, const std::vector<Tensor>& tensors,
                    const std::map<std::string, std::string>& metadata = {});
  // Writes the file at `path`, which appears with finish().
  SafetensorsWriter(FileSystem& files, const std::string& path, const std::vector<Tensor>& tensors,
                    const std::map<std::string, std::string>& metadata = {});

  // The order in which data must be appended.
  const std::vector<TensorEntry>& entries() const { return layout_.entries; }

  // The next bytes of tensor `name`; several calls may make up one tensor. A tensor begins when the one before it in
  // entries() is complete; empty tensors need no call.
  void append(std::string_view name, std::span<const std::byte> bytes);

  // Fails unless every byte of every tensor was appended.
  void finish();

 private:
  std::unique_ptr<AtomicFile> own_;
  WritableFile& out_;
  SafetensorsLayout layout_;
  size_t current_ = 0;    // entry being written
  uint64_t written_ = 0;  // bytes of it
};

}  // namespace mstrain
