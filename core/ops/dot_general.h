// The one product of tensors: whatever multiplies and sums is this operation.
//
//   dot_general(x, w, b) {dims="abc,cdef->abdef", epilogue="bias"}
//
// The attribute `dims` gives a letter to every dim of the two operands and of the result, in any order. A letter that all
// three have is a batch dim; one that both operands have, and the result has not, is summed over; one of a single operand
// and the result is a free dim. So every dim stays what it is (heads, positions, features), and a derivative, a batch or
// another order of dims is the same operation with other letters.
//
// The attribute `epilogue`, where there is one, says what happens to each element of the product, from left to right:
//   scale                       times the attribute `scale`
//   bias                        plus the next input, which has the last dims of the result and repeats over the others
//   add                         plus the next input, which has the result's shape
//   gelu gelu_tanh relu silu    the elementwise operation of that name
//   gelu_grad gelu_tanh_grad    times that one's derivative at the next input, which has the result's shape
//   keep                        what it is so far is a further result, too
//
// Further results stand in their order. The result has the operands' type. Sums of 16-bit numbers are made in f32.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> dot_general_ops();
extern const OpDef& kDotGeneral;

struct DotDims {
  std::string a, b, out;
  friend bool operator==(const DotDims&, const DotDims&) = default;
};

// The product of a and b, without epilogues. Which letters are used does not matter.
Tensor dot_general(const Arg& a, const Arg& b, const DotDims& dims);

// The dims of an application. Throws ShapeError where the text is none.
DotDims dot_dims(const Attrs& attrs);
// "abc,cd->abd": letters in the order in which they are met first.
std::string to_text(const DotDims& dims);

struct Epilogue {
  enum class Kind : uint8_t { kScale, kBias, kAdd, kActivation, kGradient, kKeep };
  Kind kind = Kind::kScale;
  size_t input = 0;                   // kBias, kAdd, kGradient: its place among the inputs
  double scale = 1;                   // kScale
  const OpDef* activation = nullptr;  // kActivation, kGradient: the operation of its name
};

bool has_epilogue(const Attrs& attrs);
// The epilogues of an application. Throws ShapeError for an unknown one.
std::vector<Epilogue> epilogues_of(const Attrs& attrs);
// `attrs` with one more; its input, where it has one, is the application's new last.
Attrs with_epilogue(const Attrs& attrs, std::string_view name);
// Whether the operation may be an epilogue by its name: of one input; of what a derivative is taken at, and the product.
bool is_product_activation(const OpDef& op);
bool is_product_gradient(const OpDef& op);

}  // namespace mstrain
