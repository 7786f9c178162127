#include "core/compile/widen.h"

#include <algorithm>

#include "core/ir/fallback.h"
#include "core/ops/accumulation.h"

namespace mstrain {
namespace {

TensorType wide(TensorType type) {
  type.dtype = is_short(type.dtype) ? accumulation_dtype(type.dtype) : type.dtype;
  return type;
}

std::vector<ViewType> dense_views(std::span<const TensorType> types) {
  std::vector<ViewType> views;
  for (const TensorType& type : types) {
    views.push_back(ViewType::dense(type));
  }
  return views;
}

bool has_wide_kernel(const OpDef& op, const Attrs& attrs, const Types& inputs,
                     std::span<const TensorType> outputs, const Backend* backend) {
  const bool holds_program = std::ranges::any_of(attrs.items(), [](const auto& item) {
    return std::holds_alternative<GraphPtr>(item.second);  // which names its types
  });
  if (holds_program) {
    return false;
  }
  Types results;
  for (const TensorType& type : outputs) {
    results.push_back(wide(type));
  }
  try {
    if (op.infer(inputs, attrs) != results) {
      return false;
    }
  } catch (const Error&) {  // the attributes ask for these types
    return false;
  }
  return has_kernel(backend, op, attrs, inputs, results);
}

}  // namespace

bool has_kernel(const Backend* backend, const OpDef& op, const Attrs& attrs,
                std::span<const TensorType> inputs, std::span<const TensorType> outputs) {
  return usable_kernel(backend, {op, attrs, dense_views(inputs), dense_views(outputs), 1}) !=
         nullptr;
}

std::optional<Tensors> apply_widened(const OpDef& op, std::span<const Tensor> inputs,
                                     const Attrs& attrs, std::span<const TensorType> outputs,
                                     const Backend* backend, const SourceLocation& where) {
  Types types;
  bool any = false;
  for (const Tensor& input : inputs) {
    types.push_back(wide(input.type()));
    any = any || is_short(input.dtype());
  }
  if (!any || !has_wide_kernel(op, attrs, types, outputs, backend)) {
    return std::nullopt;
  }
  Tensors widened;
  for (size_t i = 0; i < inputs.size(); ++i) {
    widened.push_back(cast(inputs[i], types[i].dtype));
  }
  Tensors results = apply(op, widened, attrs, where);
  for (size_t i = 0; i < results.size(); ++i) {
    results[i] = cast(results[i], outputs[i].dtype);
  }
  return results;
}

}  // namespace mstrain
