// fused{body, rows, n}: a program that a backend may run in one pass over memory, tile by tile.
//
// Its values are walked as `rows` rows of `n` elements in the order of memory. A value has an element for each (full), or
// one number a row; parameters of norms have one a column. What a member of the body does with them is its role; that
// every member has one is all that makes a body legal. Made by compilers (core/compile/fuse.h), never by users.
#pragma once

#include <optional>

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> fused_ops();
const OpDef& fused_op();

struct FusedExtent {
  int64_t rows = 1, n = 1;
  int64_t elements() const { return rows * n; }
  friend bool operator==(const FusedExtent&, const FusedExtent&) = default;
};

enum class FusedRole : uint8_t {
  kMap,          // elementwise, on full values or on one number a row
  kMove,         // a reshape or broadcast that leaves every element in its place
  kSpread,       // one number a row, repeated along it
  kConstant,     // one number everywhere
  kFoldRow,      // a reduction of each row to a number
  kFoldColumns,  // a sum over rows; its result can only leave the body
  kFoldAll,      // a sum over everything; its result can only leave the body
  kRow           // norms and softmax, forward and backward, on whole rows
};

// The extent that a member asks for; none where it follows its neighbours. Rows of more than `longest` elements are none that a
// member may go over twice.
std::optional<FusedExtent> fused_extent(const OpDef& op, const Attrs& attrs,
                                        std::span<const TensorType> inputs, int64_t longest);

// What an application does in a body of this extent; none where it cannot be a member.
std::optional<FusedRole> fused_role(const OpDef& op, const Attrs& attrs,
                                    std::span<const TensorType> inputs,
                                    std::span<const TensorType> outputs, const FusedExtent& extent,
                                    int64_t longest);

// Whether input `i` of an operation of role kRow is a parameter of n elements.
bool is_fused_parameter(const OpDef& op, size_t i);
// Whether its output `i` is a sum over rows, as of kFoldColumns.
bool is_fused_column_sum(const OpDef& op, size_t i);

Tensors fused_program(const GraphPtr& body, const FusedExtent& extent,
                      std::span<const Tensor> inputs);

// "add + layer_norm": the members that compute, in order, each name once.
std::string fused_name(const Graph& body);

}  // namespace mstrain
