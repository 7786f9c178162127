// The rules of core/ops/shape.cc: types in shape_infer.cc, derivatives and batches in shape_derive.cc, layouts in shape_layout.cc.
#pragma once

#include "core/ir/layout.h"
#include "core/ir/tensor.h"

namespace mstrain::shape_rules {

Types infer_broadcast(std::span<const TensorType> in, const Attrs& attrs);
Types infer_concat(std::span<const TensorType> in, const Attrs& attrs);
Types infer_copy(std::span<const TensorType> in, const Attrs& attrs);
Types infer_flip(std::span<const TensorType> in, const Attrs& attrs);
Types infer_pad(std::span<const TensorType> in, const Attrs& attrs);
Types infer_reshape(std::span<const TensorType> in, const Attrs& attrs);
Types infer_slice(std::span<const TensorType> in, const Attrs& attrs);
Types infer_split(std::span<const TensorType> in, const Attrs& attrs);
Types infer_transpose(std::span<const TensorType> in, const Attrs& attrs);

Tensors jvp_concat(const Application& node, std::span<const Tensor> tangents);
Tensors jvp_pad(const Application& node, std::span<const Tensor> tangents);
Tensors jvp_same(const Application& node, std::span<const Tensor> tangents);

Tensors vjp_broadcast(const Application& node, std::span<const Tensor> cotangents);
Tensors vjp_concat(const Application& node, std::span<const Tensor> cotangents);
Tensors vjp_copy(const Application& node, std::span<const Tensor> cotangents);
Tensors vjp_flip(const Application& node, std::span<const Tensor> cotangents);
Tensors vjp_pad(const Application& node, std::span<const Tensor> cotangents);
Tensors vjp_reshape(const Application& node, std::span<const Tensor> cotangents);
Tensors vjp_slice(const Application& node, std::span<const Tensor> cotangents);
Tensors vjp_split(const Application& node, std::span<const Tensor> cotangents);
Tensors vjp_transpose(const Application& node, std::span<const Tensor> cotangents);

Tensors batch_axis(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                   std::span<const bool> batched, int64_t size);
Tensors batch_broadcast(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                        std::span<const bool> batched, int64_t size);
Tensors batch_copy(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                   std::span<const bool> batched, int64_t size);
Tensors batch_flip(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                   std::span<const bool> batched, int64_t size);
Tensors batch_pad(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                  std::span<const bool> batched, int64_t size);
Tensors batch_reshape(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                      std::span<const bool> batched, int64_t size);
Tensors batch_slice(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                    std::span<const bool> batched, int64_t size);
Tensors batch_transpose(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                        std::span<const bool> batched, int64_t size);

std::vector<Way> layout_beside_axis(const LayoutRequest& request);
std::vector<Way> layout_broadcast(const LayoutRequest& request);
std::vector<Way> layout_copy(const LayoutRequest& request);
std::vector<Way> layout_flip(const LayoutRequest& request);
std::vector<Way> layout_pad(const LayoutRequest& request);
std::vector<Way> layout_reshape(const LayoutRequest& request);
std::vector<Way> layout_slice(const LayoutRequest& request);
std::vector<Way> layout_transpose(const LayoutRequest& request);

}  // namespace mstrain::shape_rules
