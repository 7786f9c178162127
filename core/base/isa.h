// The vector instructions that this process uses: one choice, for our own kernels and for the libraries below them.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace mstrain {

// Each holds those before it. kBaseline is what the compiler assumes anyway: for processors that are not x86-64.
enum class Isa : uint8_t {
  kBaseline,
  kAvx2,        // AVX2, FMA, F16C
  kAvx512,      // AVX-512 F, BW, DQ, VL
  kAvx512Bf16,  // products of bf16
  kAmx,         // tiles of bf16
};

// "avx2", "avx512", "avx512_bf16", "amx"; "baseline".
std::string_view to_string(Isa isa);

// Whether the processor and the system can run the code of `isa`.
bool has_isa(Isa isa);

// The best set that the machine has.
Isa best_isa();

// The set to use: the best one, or the lesser one that MSTRAIN_ISA in the environment names, read once. Thread-safe.
// Throws ConfigError for a value that is unknown or that the machine lacks, and on an x86-64 processor without AVX2.
Isa isa();

// The rule of isa(): `asked` is the variable's value, null where it is not set; `has` is the machine.
Isa choose_isa(const char* asked, const std::function<bool(Isa)>& has);

}  // namespace mstrain
