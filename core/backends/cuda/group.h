// Groups of operations as CUDA text: the bodies of `fused`, and single operations that could be a member of one.
//
// The values of a body are walked as core/ops/fused.h says. Where something needs rows, a block takes a row at a time, its threads
// every so many columns; what a later pass over the row needs again stays in registers, so that memory is read and written
// once. Otherwise every thread takes elements. Sums over rows, or over everything, are made by block and then by a second
// kernel, in an order that the text fixes: results do not depend on the card.
#pragma once

#include <string>

#include "core/backends/cuda/text.h"
#include "core/ops/fused.h"

namespace mstrain::cuda {

// Rows that threads go over twice are kept by at most 1,024 threads in at most 16 registers for each value.
inline constexpr int64_t kLongestRow = 16384;

// Whether there is a text for a request: of `fused`, or of an elementwise operation, a reduction or an operation on rows.
bool has_group_text(const KernelRequest& request);

// Its kernels. has_group_text() holds.
KernelText print_group(const KernelRequest& request);

}  // namespace mstrain::cuda
