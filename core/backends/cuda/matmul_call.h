// One product as the library has it: descriptions of its matrices, and algorithms.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/backends/cpu/product.h"
#include "core/backends/cuda/matmul_library.h"

namespace mstrain::cuda {

// What the library does after a product.
struct After {
  double scale = 1;
  std::optional<size_t> bias, addend, at;  // inputs; at: of a derivative
  uint32_t epilogue = 0;  // MatmulLibrary::Epilogue, but for kDefault and kWithBias
  // Of the product's a and b, where these are bytes, and c is bf16.
  std::optional<std::array<MatmulLibrary::Type, 2>> float8 = {};
};

// Scratch memory that a call may use, at an address that is a multiple of kMatmulAlignment.
inline constexpr int64_t kMatmulWorkspace = int64_t{32}
                                            << 20;  // what the library recommends for Hopper
inline constexpr int64_t kMatmulAlignment = 256;

// Made when it is first run: planning needs no library. One thread at a time.
class MatmulCall {
 public:
  struct Memory {
    const void *a = nullptr, *b = nullptr, *c = nullptr;  // c: the addend, or d
    void* d = nullptr;
    const void* bias = nullptr;  // read, or written where the epilogue is a sum; null: none
    const void* aux = nullptr;   // null: none
    const void *a_unit = nullptr, *b_unit = nullptr;  // of bytes: f32, on the card
    void* workspace = nullptr;
  };

  // Of p.batch.inner() products. Throws Error with what the library says.
  MatmulCall(const cpu::Product& p, const After& after);
  void run(const Memory& memory, Queue& queue);

  // The library's proposals for that many bytes of workspace, in its order: always the same for the same product on the same card.
  std::vector<MatmulLibrary::Choice> proposals(const Memory& memory, int most, int64_t workspace,
                                               MatmulLibrary::Reduction reduction);
  // By one of them. The library's result.
  int multiply(const Memory& memory, const MatmulLibrary::Algorithm& algorithm, Queue& queue,
               int64_t workspace = kMatmulWorkspace) const;

 private:
  using Alignments = std::array<uint32_t, 4>;
  using Choices = std::deque<MatmulLibrary::Choice>;

  template <class T>
  void set(MatmulLibrary::DescAttribute attribute, const T& value);
  MatmulLibrary::Handle layout(uint64_t rows, uint64_t columns, int64_t leading, int operand) const;
  // Attributes of desc_ that are addresses.
  void point_to(const Memory& memory);
  // The best first.
  Choices& choices(const Memory& memory, Queue& queue);

  cpu::Product product_;
  After after_;
  MatmulLibrary::Handle desc_ = nullptr, first_ = nullptr, second_ = nullptr, result_ = nullptr;
  std::map<Alignments, Choices> choices_;
  std::string what_;
};

}  // namespace mstrain::cuda
