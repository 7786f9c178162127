// The binary files of token ids that other programs write and read. All numbers are little-endian.
//
// - nanoGPT: ids of 16 bits and nothing else.
// - llm.c (dev/data/data_common.py): 256 numbers of 32 bits: magic, version, number of ids; then the
//   ids. Magic 20240520, version 1: 16 bits; magic 20240801, version 7: 32 bits.
// - Megatron (megatron/core/datasets/indexed_dataset.py): NAME.bin holds the ids, NAME.idx
//   "MMIDIDX\0\0", u64 version 1, u8 type code, u64 sequences, u64 documents + 1, then i32 lengths,
//   i64 offsets in bytes, i64 the index of the sequence that each document begins with, and the
//   number of sequences.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mstrain {

inline constexpr size_t kLlmcHeader = 256 * 4;
inline constexpr uint32_t kLlmcMagic16 = 20240520;
inline constexpr uint32_t kLlmcVersion16 = 1;
inline constexpr uint32_t kLlmcMagic32 = 20240801;
inline constexpr uint32_t kLlmcVersion32 = 7;

inline constexpr std::string_view kMegatronMagic{"MMIDIDX\0\0", 9};
inline constexpr size_t kMegatronHeader = 9 + 8 + 1 + 8 + 8;
enum MegatronType : uint8_t { kMegatronI32 = 4, kMegatronU16 = 8 };

// Beside NAME.bin.
inline std::string index_path(const std::string& path) {
  return (path.ends_with(".bin") ? path.substr(0, path.size() - 4) : path) + ".idx";
}

template <class T>
void append_little_endian(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
  }
}

// `bytes` holds at least sizeof(T).
template <class T>
T read_little_endian(const char* bytes) {
  uint64_t value = 0;
  for (size_t i = sizeof(T); i-- > 0;) {
    value = value << 8 | static_cast<uint8_t>(bytes[i]);
  }
  return static_cast<T>(value);
}

}  // namespace mstrain
