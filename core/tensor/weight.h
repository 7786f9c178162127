// Weights that products read: numbers, or codes of fewer bits in their place (core/ops/weight_code.h).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/ir/tensor.h"
#include "core/ops/weight_code.h"

namespace mstrain {

// How a product reads a weight: as a matrix, what comes out by what is summed over.
struct MatrixForm {
  int in_dims = 1;        // how many dims are summed over
  bool out_first = true;  // the weight is [out..., in...], else [in..., out...]
  friend bool operator==(const MatrixForm&, const MatrixForm&) = default;
};

struct Weight {
  Tensor values;  // of `shape`, or, in codes, u8[outs, code_row_bytes()]
  Shape shape;
  MatrixForm form;
  std::optional<WeightCode> code = {};

  Shape in() const;
  Shape out() const;
};

// The name of a parameter in codes.
std::string coded_name(const std::string& name, WeightCode code);

// Reads `count` numbers from the number `first` on, in the order in which a weight lies.
using NumberReader = std::function<void(int64_t first, int64_t count, float* to)>;

// The rows of codes of a weight of `shape`, which never exists as f32 besides `read`'s own memory. Works on all threads of
// the current context, so that `read` is called on several. Throws Error, beginning with `name`, for a number that the code
// has no place for: one that is not finite, or beyond kLargestCoded.
Tensor encode_weight(WeightCode code, const std::string& name, const Shape& shape,
                     const MatrixForm& form, const NumberReader& read);

}  // namespace mstrain
