#include "core/backends/cuda/matmul.h"

#include <map>

#include "core/backends/cpu/product.h"  // how dims become matrices
#include "core/backends/cuda/device.h"
#include "core/backends/cuda/matmul_call.h"
#include "core/backends/cuda/matmul_tuning.h"
#include "core/backends/cuda/programs.h"

namespace mstrain::cuda {
namespace {

using EpilogueKind = Epilogue::Kind;

constexpr uint32_t kGradient = MatmulLibrary::kGeluGrad | MatmulLibrary::kWithAux;

int64_t aligned(int64_t bytes) { return ceil_div(bytes, kMatmulAlignment) * kMatmulAlignment; }

// What the library does of a product's epilogues, in this order; none: it has not all of them.
std::optional<After> after_of(const KernelRequest& request) {
  After after;
  bool scaled = false, keeps = false;
  for (const Epilogue& epilogue : epilogues_of(request.attrs)) {
    const bool open = after.epilogue == 0 && !keeps;
    const auto is = [&](std::string_view name) {
      return epilogue.activation != nullptr && epilogue.activation->name == name;
    };
    if (epilogue.kind == EpilogueKind::kScale && !scaled && !after.bias && !after.addend && open) {
      after.scale = epilogue.scale;
      scaled = true;
    } else if (epilogue.kind == EpilogueKind::kBias && !after.bias && open) {
      after.bias = epilogue.input;
    } else if (epilogue.kind == EpilogueKind::kAdd && !after.addend && open) {
      after.addend = epilogue.input;
    } else if (is("relu") && open) {
      after.epilogue = MatmulLibrary::kRelu;
    } else if (is("gelu_tanh") && after.epilogue == 0) {
      after.epilogue = MatmulLibrary::kGelu | (keeps ? MatmulLibrary::kWithAux : 0U);
    } else if (epilogue.kind == EpilogueKind::kKeep && open) {
      keeps = true;
    } else if (is("gelu_tanh_grad") && open && !after.bias && !after.addend) {
      after.epilogue = kGradient;
      after.at = epilogue.input;
    } else {
      return std::nullopt;
    }
  }
  const bool narrow = size_of(request.outputs[0].type.dtype) < 8;
  if ((keeps && after.epilogue == 0) || (!narrow && (after.bias || after.epilogue != 0))) {
    return std::nullopt;
  }
  return after;
}

// The letters of the dims of a tensor that has the last ones of `out`, but for those of size 1.
std::string letters_of(const Shape& shape, const std::string& out) {
  std::string letters;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] != 1) {
      letters.push_back(out[out.size() - static_cast<size_t>(shape.rank() - i)]);
    }
  }
  return letters;
}

// Whether the library does in this layout what is after the product: a second matrix lies as the result does.
bool fits(const KernelRequest& request, const After& after, const cpu::ProductLayout& layout) {
  if (!after.bias && !after.addend && after.epilogue == 0) {
    return true;
  }
  const cpu::Product& p = layout.product;
  const bool has_second = (after.epilogue & MatmulLibrary::kWithAux) != 0;
  return !layout.result &&
         (!after.bias || letters_of(request.inputs[*after.bias].type.shape,
                                    dot_dims(request.attrs).out) == layout.columns) &&
         (!has_second || (size_of(request.outputs[0].type.dtype) == 2 && p.n % 8 == 0 &&
                          p.c_row % 8 == 0 && p.batch.inner_stride(2) % 8 == 0));
}

// Where it fits dense operands alone, those that are not are copied.
cpu::ProductLayout layout_of(const KernelRequest& request, const After& after) {
  const DotDims dims = dot_dims(request.attrs);
  const ViewType &a = request.inputs[0], &b = request.inputs[1];
  const Shape& out = request.outputs[0].type.shape;
  cpu::ProductLayout layout = cpu::layout_of(dims, a, b, out, {false, false});
  if (fits(request, after, layout)) {
    return layout;
  }
  layout =
      cpu::layout_of(dims, ViewType::dense(a.type), ViewType::dense(b.type), out, {false, false});
  for (size_t i = 0; i < 2; ++i) {
    if (!request.inputs[i].contiguous() && !layout.copied[i]) {
      layout.copied[i] = i == 0 ? dims.a : dims.b;
    }
  }
  return layout;
}

// A dense copy of a view in another order of its dims.
CardKernel copy_in_order(const ViewType& view, const std::string& letters,
                         const std::string& order) {
  ViewType from{{view.type.dtype, {}}, {}};
  for (char letter : order) {
    const size_t at = letters.find(letter);
    if (at != std::string::npos) {  // else a dim of size 1
      from.type.shape.push_back(view.type.shape[static_cast<int>(at)]);
      from.strides.push_back(view.strides[static_cast<int>(at)]);
    }
  }
  return dense_copy(from);
}

// A whole kernel: copies of what cannot be read as it lies, calls for each matrix of the outer batch, and the result in its order.
struct Matmul {
  cpu::Product product;
  bool swapped = false;
  After after;
  struct Copy {
    CardKernel kernel;
    int64_t at = 0;  // in the workspace
  };
  std::map<size_t, Copy> copies;  // of inputs
  std::optional<CardKernel> reorder;
  int64_t result_at = 0;
  std::unique_ptr<MatmulCall> call;  // made when first run: planning needs no library

  void run(const KernelMemory& memory) {
    bind_context();
    if (call == nullptr) {
      call = std::make_unique<MatmulCall>(product, after);
    } else {
      tell_of_timing();
    }
    auto* const scratch =
        reinterpret_cast<std::byte*>(aligned(reinterpret_cast<int64_t>(memory.workspace)));
    const auto input = [&](size_t i) {
      const auto copy = copies.find(i);
      return copy == copies.end() ? static_cast<const std::byte*>(memory.inputs[i])
                                  : scratch + copy->second.at;
    };
    for (const auto& [i, copy] : copies) {
      void* const to = scratch + copy.at;
      copy.kernel.launch(memory.inputs.subspan(i, 1), std::span(&to, 1), nullptr, *memory.queue);
    }
    auto* const result = reorder ? scratch + result_at : static_cast<std::byte*>(memory.outputs[0]);
    const auto* const addend = after.addend ? input(*after.addend) : result;
    const bool keeps = (after.epilogue & MatmulLibrary::kWithAux) != 0 && !after.at;
    const void* const bias = after.bias ? input(*after.bias) : nullptr;
    const auto* const aux = after.at ? input(*after.at)
                            : keeps  ? static_cast<const std::byte*>(memory.outputs[1])
                                     : nullptr;
    const int64_t size = size_of(product.dtype);
    for (int64_t row = 0; row < product.batches() / product.batch.inner(); ++row) {
      const auto at = [&](int operand) { return product.batch.row_offset(operand, row) * size; };
      call->run({.a = input(swapped ? 1 : 0) + at(0),
                 .b = input(swapped ? 0 : 1) + at(1),
                 .c = addend + at(2),
                 .d = result + at(2),
                 .bias = bias,
                 .aux = aux == nullptr ? nullptr : aux + at(2),
                 .workspace = scratch},
                *memory.queue);
    }
    if (reorder) {
      void* const from = result;
      reorder->launch(std::span(&from, 1), memory.outputs, nullptr, *memory.queue);
    }
  }
};

}  // namespace

std::string missing_matmul() { return matmul_library().missing; }

bool has_matmul(const KernelRequest& request) {
  const ViewType& out = request.outputs[0];
  if (!is_floating(out.type.dtype) || out.type.elements() == 0 ||
      request.inputs[0].type.elements() == 0 || !after_of(request)) {
    return false;
  }
  const After after = *after_of(request);
  return fits(request, after, layout_of(request, after));
}

Kernel prepare_matmul(const KernelRequest& request) {
  const DotDims dims = dot_dims(request.attrs);
  const After after = *after_of(request);
  const cpu::ProductLayout layout = layout_of(request, after);
  auto matmul = std::make_shared<Matmul>();
  matmul->product = layout.product;
  matmul->product.dtype = request.outputs[0].type.dtype;
  matmul->swapped = layout.swapped;
  matmul->after = after;
  int64_t bytes = kMatmulWorkspace;
  const auto copy = [&](size_t i, const std::string& letters, const std::string& order) {
    matmul->copies[i] = {copy_in_order(request.inputs[i], letters, order), bytes};
    bytes += aligned(request.inputs[i].type.bytes());
  };
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const Shape& shape = request.inputs[i].type.shape;
    if (i < 2 && layout.copied[i]) {
      copy(i, i == 0 ? dims.a : dims.b, *layout.copied[i]);
    } else if (i >= 2 && !request.inputs[i].contiguous()) {
      const std::string letters =
          dims.out.substr(dims.out.size() - static_cast<size_t>(shape.rank()));
      copy(i, letters, letters);
    }
  }
  if (layout.result) {
    ViewType made{{request.outputs[0].type.dtype, {}}, {}};
    for (char letter : *layout.result) {
      made.type.shape.push_back(
          request.outputs[0].type.shape[static_cast<int>(dims.out.find(letter))]);
    }
    made = ViewType::dense(made.type);
    matmul->reorder = copy_in_order(made, *layout.result, dims.out);
    matmul->result_at = bytes;
    bytes += aligned(made.type.bytes());
  }
  Kernel kernel{.run = [matmul](const KernelMemory& memory) { matmul->run(memory); },
                .workspace_bytes = bytes + kMatmulAlignment};
  if (after.addend) {
    kernel.in_place = {{0, static_cast<int>(*after.addend)}};
  }
  return kernel;
}

}  // namespace mstrain::cuda
