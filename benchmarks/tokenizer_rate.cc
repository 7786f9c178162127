// Encodes a text on one thread, once for each line of standard input, and prints seconds, ids and
// the CRC-32 of the ids as 16 bits little-endian. Made for tokenizers_vs_python.py.
//
//   tokenizer_rate TOKENIZER TEXT
#include <fmt/core.h>

#include <chrono>
#include <cstdio>

#include "core/base/error.h"
#include "core/data/tokenizer.h"

namespace {

uint32_t crc32_of(const std::vector<int32_t>& ids) {
  uint32_t crc = ~0U;
  for (const int32_t id : ids) {
    for (const int shift : {0, 8}) {
      crc ^= (static_cast<uint32_t>(id) >> shift) & 0xFFU;
      for (int bit = 0; bit < 8; ++bit) {
        crc = crc >> 1 ^ (crc & 1U ? 0xEDB88320U : 0U);
      }
    }
  }
  return ~crc;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: tokenizer_rate TOKENIZER TEXT\n");
    return 2;
  }
  try {
    const auto tokenizer = mstrain::load_tokenizer(mstrain::real_files(), argv[1]);
    const std::string text = mstrain::real_files().read(argv[2]);
    fmt::print("ready\n");
    std::fflush(stdout);
    while (std::getchar() != EOF) {
      const auto begin = std::chrono::steady_clock::now();
      const std::vector<int32_t> ids = tokenizer->encode(text);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
      fmt::print("{:.9f} {} 0x{:08X}\n", taken.count(), ids.size(), crc32_of(ids));
      std::fflush(stdout);
    }
  } catch (const mstrain::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
