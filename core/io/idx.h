// IDX files (MNIST, Fashion-MNIST), plain or gzipped: bytes 0 0 type ndim, then ndim big-endian u32 sizes, then
// big-endian data. Types: 08 u8, 09 i8, 0C i32, 0D f32, 0E f64 (0B, i16, is refused by name).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/runtime/dtype.h"

namespace mstrain {

struct IdxArray {
  Dtype dtype = Dtype::kU8;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;  // row-major, in the machine's byte order
};

// Throws IoError that starts with the path and the offset (of the inflated data, where it says so) for a wrong magic, 0 or
// more than 8 dimensions, sizes that overflow or exceed `max_bytes`, data shorter or longer than the sizes say, and
// damaged gzip streams. A gzip stream is inflated no further than its header says.
IdxArray read_idx(FileSystem& files, const std::string& path,
                  uint64_t max_bytes = uint64_t{1} << 30);
IdxArray parse_idx(std::span<const std::byte> file, const std::string& name,
                   uint64_t max_bytes = uint64_t{1} << 30);

struct LabeledImages {
  IdxArray images;  // u8 [n, height, width]
  IdxArray labels;  // u8 [n], each below `classes`
};
LabeledImages read_labeled_images(FileSystem& files, const std::string& images_path,
                                  const std::string& labels_path, int classes);

}  // namespace mstrain
