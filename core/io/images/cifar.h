// CIFAR-10 and CIFAR-100 as their authors' binary files hold them (cs.toronto.edu/~kriz/cifar.html): records of a label (of
// CIFAR-100 a coarse and a fine one) and 32 x 32 pixels, all red ones, then green, then blue.
#pragma once

#include <string>
#include <vector>

#include "core/io/images/image.h"

namespace mstrain {

struct CifarImages {
  std::vector<uint8_t> pixels;  // [n, 32, 32, 3]
  std::vector<int32_t> labels;  // fine ones
};
inline constexpr int64_t kCifarSide = 32;

// Appends the records of one file. `classes`: 10 or 100. Throws IoError with the path, and the offset of what is wrong: no
// whole number of records, labels that are not below `classes`.
void read_cifar(FileSystem& files, const std::string& path, int classes, CifarImages& out);

}  // namespace mstrain
