// A folder of its own for a test, removed with it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

#include "core/base/files.h"
#include "tests/core/base/message_of.h"

namespace mstrain {

class Scratch {
 public:
  Scratch() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    root_ = temporary_name((std::filesystem::temp_directory_path() /
                            (std::string(test->test_suite_name()) + "." + test->name()))
                               .string());
    std::filesystem::create_directories(root_);
  }
  ~Scratch() { std::filesystem::remove_all(root_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& root() const { return root_; }
  std::string path(const std::string& name) const { return join_path(root_, name); }
  std::string write(const std::string& name, std::string_view contents) const {
    const std::string file = path(name);
    std::filesystem::create_directories(parent_path(file));
    std::ofstream(file, std::ios::binary) << contents;
    return file;
  }

 private:
  std::string root_;
};

// The folder of real data; empty where it is not there, and the test should skip.
inline std::string real_data(const std::string& file) {
  const char* given = std::getenv("MSTRAIN_TEST_DATA");
  const std::string folder = given != nullptr ? given : MSTRAIN_SOURCE_DIR "/../shared/data";
  const std::string path = join_path(folder, file);
  return std::filesystem::exists(path) ? path : "";
}

inline uint32_t crc32_of_bytes(std::string_view bytes) {
  uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ (crc & 1U ? 0xEDB88320U : 0U);
    }
  }
  return ~crc;
}

// CRC-32 of ids as 16 bits each, little-endian.
inline uint32_t crc32_of_u16(std::span<const int32_t> ids) {
  std::string bytes;
  for (const int32_t id : ids) {
    bytes.push_back(static_cast<char>(id));
    bytes.push_back(static_cast<char>(id >> 8));
  }
  return crc32_of_bytes(bytes);
}

}  // namespace mstrain
