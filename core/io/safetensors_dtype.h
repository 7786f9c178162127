// The element types of safetensors, in the order by which the reference writer sorts.
#pragma once

#include <optional>
#include <string_view>

#include "core/runtime/dtype.h"

namespace mstrain {

struct SafetensorsType {
  std::string_view name;
  int bytes;
  std::optional<Dtype> dtype;
};

inline constexpr SafetensorsType kSafetensorsTypes[] = {{"BOOL", 1, Dtype::kBool},
                                                        {"U8", 1, Dtype::kU8},
                                                        {"I8", 1, Dtype::kI8},
                                                        {"F8_E5M2", 1, std::nullopt},
                                                        {"F8_E4M3", 1, std::nullopt},
                                                        {"F8_E8M0", 1, std::nullopt},
                                                        {"F8_E4M3FNUZ", 1, std::nullopt},
                                                        {"F8_E5M2FNUZ", 1, std::nullopt},
                                                        {"I16", 2, std::nullopt},
                                                        {"U16", 2, Dtype::kU16},
                                                        {"F16", 2, Dtype::kF16},
                                                        {"BF16", 2, Dtype::kBF16},
                                                        {"I32", 4, Dtype::kI32},
                                                        {"U32", 4, Dtype::kU32},
                                                        {"F32", 4, Dtype::kF32},
                                                        {"C64", 8, std::nullopt},
                                                        {"F64", 8, Dtype::kF64},
                                                        {"I64", 8, Dtype::kI64},
                                                        {"U64", 8, std::nullopt}};

constexpr int safetensors_rank(Dtype dtype) {
  int rank = 0;
  for (const SafetensorsType& type : kSafetensorsTypes) {
    if (type.dtype == dtype) {
      return rank;
    }
    ++rank;
  }
  return -1;
}

}  // namespace mstrain
