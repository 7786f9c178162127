// What the operations whose attributes hold programs share: the pieces of their lists of tensors, and each one's rules.
#pragma once

#include "core/ops/build.h"
#include "core/ops/control.h"

namespace mstrain::control {

// Throws ShapeError where the types differ; `what`: what the tensors are.
void expect_types(std::string_view what, std::span<const TensorType> expected,
                  std::span<const TensorType> given);

// A list of tensors with its parts, to take them apart again.
struct Parts {
  Tensors all;
  void add(std::span<const Tensor> tensors) {
    all.insert(all.end(), tensors.begin(), tensors.end());
  }
};

// Indices of the floating tensors: those that have derivatives.
std::vector<size_t> floating(std::span<const Tensor> tensors);
Tensors pick(std::span<const Tensor> tensors, const std::vector<size_t>& which);
// `values` at the places `which` of a list of `count` empty tensors.
Tensors place(std::span<const Tensor> values, const std::vector<size_t>& which, size_t count);
// Records `f` of values like `inputs`; what it uses from outside must be among the inputs.
GraphPtr closed_program(const Types& types,
                        const std::function<Tensors(std::span<const Tensor>)>& f);
// The type with a leading dim.
TensorType stacked(TensorType type, int64_t length);

extern const OpDef& kScan;

Types infer_scan(std::span<const TensorType> in, const Attrs& attrs);
Tensors jvp_scan(const Application& node, std::span<const Tensor> given);
Tensors vjp_scan(const Application& node, std::span<const Tensor> given);
Tensors batch_scan(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                   std::span<const bool> batched, int64_t size);
// keep_carries: the carries that enter each step follow the ys, stacked.
Tensors scan_with(const GraphPtr& body, const Tensors& inputs, size_t carries, size_t constants,
                  int64_t length, bool reverse, bool keep);

Types infer_while(std::span<const TensorType> in, const Attrs& attrs);
Tensors jvp_while(const Application& node, std::span<const Tensor> given);
Tensors vjp_while(const Application& node, std::span<const Tensor> given);
Tensors batch_while(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                    std::span<const bool> batched, int64_t size);

Types infer_recompute(std::span<const TensorType> in, const Attrs& attrs);
Tensors replay_body(const Attrs& attrs, std::span<const Tensor> in);
Tensors vjp_recompute(const Application& node, std::span<const Tensor> ct);

Types infer_custom(std::span<const TensorType> in, const Attrs& attrs);
Tensors jvp_custom(const Application& node, std::span<const Tensor> given);
Tensors vjp_custom(const Application& node, std::span<const Tensor> ct);
Tensors batch_custom(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                     std::span<const bool> batched, int64_t size);

Types infer_barrier(std::span<const TensorType> in, const Attrs& attrs);
Tensors derive_barrier(const Application& node, std::span<const Tensor> given);

}  // namespace mstrain::control
