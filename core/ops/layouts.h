// Layout rules that families of operations share, and the tools that others are made of. core/ir/layout.h says what a rule is.
#pragma once

#include "core/ir/layout.h"
#include "core/ir/tensor.h"

namespace mstrain::layout {

// Dim d of every input and output that is listed with one. A number stands for a sharded dim, kWhole for a replica.
inline constexpr int kWhole = -1;

// A way by dims, one for each input and output.
Way by_dims(const LayoutRequest& request, std::span<const int> inputs,
            std::span<const int> outputs);
inline Way by_dims(const LayoutRequest& request, std::initializer_list<int> inputs,
                   std::initializer_list<int> outputs) {
  return by_dims(request, std::span(inputs.begin(), inputs.size()),
                 std::span(outputs.begin(), outputs.size()));
}
// The way of an operation that is linear in its inputs `linear` (bit i) together: of partial sums to partial sums. Nothing
// where a type has no sums.
std::vector<Way> sums(const LayoutRequest& request, uint32_t linear);

// Rules.

// Each rank computes everything: said, not forgotten.
std::vector<Way> whole(const LayoutRequest& request);
// Elementwise operations; sums as core/ops/elementwise_table.inc says.
std::vector<Way> elementwise(const LayoutRequest& request);
// Tensors of one shape are shared alike, scalars are replicas.
std::vector<Way> alike(const LayoutRequest& request);
// All dims but the last `kept` ones of the first input, which all others lead with.
template <int kept>
std::vector<Way> leading(const LayoutRequest& request);
// All dims but the attribute `axis`, which outputs may lack.
std::vector<Way> beside_axis(const LayoutRequest& request);
// Operations on rows, as OpDef::rows says. Sums over rows are linear in the first input.
std::vector<Way> rows(const LayoutRequest& request);
// Products of the first two inputs, as the attribute `dims` of dot_general says; all others are replicas.
std::vector<Way> letters(const LayoutRequest& request);

// The part of x along `dim` that belongs to this rank; filled up with zeros where the ranks do not divide the dim.
Tensor own_part(const Tensor& x, int dim, const MeshAxis& axis);
// i32 []: the index in the whole dim of this rank's first element, where each has `part` of them.
Tensor first_of_part(int64_t part, const MeshAxis& axis);
// x, this rank's part of `whole` along `dim`, with `instead` in place of what fills it up.
Tensor without_filling(const Tensor& x, int dim, int64_t whole, const MeshAxis& axis,
                       double instead = 0);
// i32 [rank]: `at` (i32 []) at dim `dim`, 0 elsewhere.
Tensor offset_along(const Tensor& at, int dim, int rank);

}  // namespace mstrain::layout
