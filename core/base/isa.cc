#include "core/base/isa.h"

#include <fmt/ranges.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace mstrain {
namespace {

constexpr std::string_view kNames[] = {"baseline", "avx2", "avx512", "avx512_bf16", "amx"};
#if defined(__x86_64__)
constexpr Isa kLeast = Isa::kAvx2;
constexpr Isa kMost = Isa::kAmx;
#else
constexpr Isa kLeast = Isa::kBaseline;
constexpr Isa kMost = Isa::kBaseline;
#endif

Isa next(Isa isa) { return static_cast<Isa>(static_cast<int>(isa) + 1); }

// The best set for which `has` holds for it and all below it.
Isa best_of(const std::function<bool(Isa)>& has) {
  if (!has(kLeast)) {
    throw ConfigError(
        "this processor lacks AVX2, FMA or F16C, which mstrain needs (x86-64 processors have them "
        "since 2013 to 2015)");
  }
  Isa best = kLeast;
  while (best < kMost && has(next(best))) {
    best = next(best);
  }
  return best;
}

}  // namespace

std::string_view to_string(Isa isa) { return kNames[static_cast<int>(isa)]; }

bool has_isa(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::kBaseline: return true;
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("f16c");
    case Isa::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case Isa::kAvx512Bf16: return __builtin_cpu_supports("avx512bf16");
    case Isa::kAmx: return __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16");
  }
  return false;
#else
  return isa == Isa::kBaseline;
#endif
}

Isa best_isa() { return best_of(has_isa); }

Isa choose_isa(const char* asked, const std::function<bool(Isa)>& has) {
  const Isa best = best_of(has);
  if (asked == nullptr || *asked == '\0') {
    return best;
  }
  std::vector<std::string> known;
  for (Isa isa = kLeast; isa <= kMost; isa = next(isa)) {
    known.emplace_back(to_string(isa));
    if (asked == known.back()) {
      if (isa > best) {
        throw ConfigError(
            fmt::format("MSTRAIN_ISA={}: this machine lacks it; the best that it has is {}", asked,
                        to_string(best)));
      }
      return isa;
    }
  }
  throw ConfigError(fmt::format("MSTRAIN_ISA={}: unknown instruction set{}; one of {}", asked,
                                did_you_mean(asked, known), fmt::join(known, ", ")));
}

Isa isa() {
  static const Isa chosen = choose_isa(std::getenv("MSTRAIN_ISA"), has_isa);
  return chosen;
}

}  // namespace mstrain
