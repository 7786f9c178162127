// Including this puts temporary folders into memory where the system has a place there: syncing to a disk, hundreds of
// times, is most of the time that these tests would take.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace mstrain {

inline const bool kOnMemoryDisk = [] {
  const bool there = std::filesystem::is_directory("/dev/shm");
  if (there) {
    setenv("TMPDIR", "/dev/shm", /*overwrite=*/0);
  }
  return there;
}();

}  // namespace mstrain
