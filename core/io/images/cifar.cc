#include "core/io/images/cifar.h"

#include "core/base/error.h"
#include "core/io/refuse.h"

namespace mstrain {

void read_cifar(FileSystem& files, const std::string& path, int classes, CifarImages& out) {
  constexpr size_t kArea = kCifarSide * kCifarSide;
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;
  const size_t labels = classes == 100 ? 2 : 1;
  const size_t record = labels + 3 * kArea;
  const std::string file = files.read(path, kMostBytes);
  if (file.empty() || file.size() % record != 0) {
    refuse(path, file.size(),
           fmt::format("no whole number of CIFAR-{}'s records of {} bytes", classes, record));
  }
  const auto* bytes = reinterpret_cast<const uint8_t*>(file.data());
  for (size_t at = 0; at < file.size(); at += record) {
    const size_t place = at + labels - 1;  // the fine label comes last
    if (bytes[place] >= classes) {
      refuse(path, place, fmt::format("label {}, expected below {}", bytes[place], classes));
    }
    out.labels.push_back(bytes[place]);
    const uint8_t* planes = bytes + at + labels;
    for (size_t i = 0; i < kArea; ++i) {
      for (size_t c = 0; c < 3; ++c) {
        out.pixels.push_back(planes[c * kArea + i]);
      }
    }
  }
}

}  // namespace mstrain
