#include "core/base/hash.h"

#include <fmt/core.h>

namespace mstrain {
namespace {

// Little-endian whatever the machine.
uint64_t load(const std::byte* bytes, size_t count) {
  uint64_t word = 0;
  for (size_t i = 0; i < count; ++i) {
    word |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  }
  return word;
}

}  // namespace

std::string to_string(const Hash128& hash) {
  return fmt::format("{:016x}{:016x}", hash.hi, hash.lo);
}

Hasher& Hasher::add(std::span<const std::byte> bytes) {
  word(bytes.size());
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    word(load(bytes.data() + i, 8));
  }
  if (i < bytes.size()) {
    word(load(bytes.data() + i, bytes.size() - i));
  }
  return *this;
}

Hash128 hash_bytes(std::span<const std::byte> bytes, uint64_t seed) {
  return Hasher(seed).add(bytes).finish();
}

}  // namespace mstrain
