#include "core/backends/cpu/epilogues.h"

#include <cstring>

namespace mstrain::cpu {
namespace {

using Kind = Epilogue::Kind;

// The view as one of `shape`, repeated over leading dims.
ViewType repeated(const ViewType& view, const Shape& shape) {
  ViewType result{{view.type.dtype, shape}, Shape::filled(shape.rank(), 0)};
  const int missing = shape.rank() - view.type.shape.rank();
  for (int i = missing; i < shape.rank(); ++i) {
    result.strides[i] = view.strides[i - missing];
  }
  return result;
}

void store(double value, Dtype dtype, std::byte* to) {
  visit_dtype(dtype, [&]<class T>(T) {
    if constexpr (is_floating(dtype_of<T>)) {
      T number{};
      if constexpr (std::is_floating_point_v<T>) {
        number = static_cast<T>(value);
      } else {
        number = T(static_cast<float>(value));
      }
      std::memcpy(to, &number, sizeof number);
    } else {
      fail("a product of {} has no scale", name_of(dtype));
    }
  });
}

}  // namespace

EpilogueSteps::EpilogueSteps(const KernelRequest& request, std::span<const Epilogue> epilogues) {
  for (const Epilogue& epilogue : epilogues) {
    steps_.push_back(make(request, epilogue));
  }
}

EpilogueSteps::Step EpilogueSteps::make(const KernelRequest& request, const Epilogue& epilogue) {
  const ViewType& out = request.outputs[0];
  Step step;
  std::vector<ViewType> views{out};
  const OpDef* op = epilogue.activation;
  if (epilogue.kind == Kind::kScale) {
    op = find_op("mul");
    views.push_back(repeated({{out.type.dtype, {}}, {}}, out.type.shape));
    step.number = std::make_shared<std::array<std::byte, sizeof(double)>>();
    store(epilogue.scale, out.type.dtype, step.number->data());
  } else if (epilogue.kind != Kind::kActivation) {
    op = find_op("add");
    views.push_back(repeated(request.inputs[epilogue.input], out.type.shape));
    step.input = epilogue.input;
  }
  const Attrs none;
  step.kernel =
      find_kernel(&table(), *op)->prepare({*op, none, views, request.outputs, request.threads});
  return step;
}

int64_t EpilogueSteps::workspace_bytes() const {
  int64_t bytes = 0;
  for (const Step& step : steps_) {
    bytes = std::max(bytes, step.kernel.workspace_bytes);
  }
  return bytes;
}

void EpilogueSteps::run(const KernelMemory& memory, void* workspace) const {
  for (const Step& step : steps_) {
    void* const other = step.number ? step.number->data() : memory.inputs[step.input];
    const std::array<void*, 2> inputs{memory.outputs[0], other};
    const size_t count = step.number || step.input > 0 ? 2 : 1;
    step.kernel.run({std::span(inputs).first(count), memory.outputs, workspace});
  }
}

}  // namespace mstrain::cpu
