// Elements as unsigned words of their size, for what moves or orders them whatever they are.
#pragma once

#include <cstdint>
#include <type_traits>

namespace mstrain::cpu {

template <int64_t bytes>
using Word = std::conditional_t<
    bytes == 1, uint8_t,
    std::conditional_t<bytes == 2, uint16_t, std::conditional_t<bytes == 4, uint32_t, uint64_t>>>;

// f(T()) with the word T of 1, 2, 4 or 8 bytes.
template <class F>
auto with_word(int bytes, F&& f) {
  switch (bytes) {
    case 1: return f(Word<1>());
    case 2: return f(Word<2>());
    case 4: return f(Word<4>());
    default: return f(Word<8>());
  }
}

}  // namespace mstrain::cpu
