// NumPy's .npy files, versions 1 to 3 (numpy/lib/_format_impl.py): one array each.
// Read: little-endian or single-byte f8 f4 f2 i8 i4 i1 u4 u2 u1 b1, row- or column-major. Refused by name: objects
// (pickles can run code), structures, big-endian and other types. Written: version 1, row-major, data at a multiple of 64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/runtime/dtype.h"

namespace mstrain {

struct NpyArray {
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;  // row-major
};

// An array where it lies in a file, row by row.
struct NpyView {
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
};
// As parse_npy(), without a copy; a file of several columns that lies column by column is refused.
NpyView view_npy(std::span<const std::byte> file, const std::string& name);

// Throws IoError that starts with the path. `max_bytes` bounds the file.
NpyArray read_npy(FileSystem& files, const std::string& path,
                  uint64_t max_bytes = uint64_t{1} << 34);
NpyArray parse_npy(std::span<const std::byte> file, const std::string& name);

// bf16 has no NumPy type: an error. The header is what comes before the data.
std::string npy_header(Dtype dtype, std::span<const int64_t> shape);
std::string print_npy(Dtype dtype, std::span<const int64_t> shape, std::span<const std::byte> data);
void write_npy(FileSystem& files, const std::string& path, Dtype dtype,
               std::span<const int64_t> shape, std::span<const std::byte> data);

}  // namespace mstrain
