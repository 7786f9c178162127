#include "core/backends/cuda/matmul.h"

#include "core/backends/cpu/product.h"  // how dims become matrices
#include "core/backends/cuda/device.h"
#include "core/backends/cuda/matmul_call.h"
#include "core/backends/cuda/matmul_tuning.h"
#include "core/backends/cuda/programs.h"

namespace mstrain::cuda {
namespace {

using EpilogueKind = Epilogue::Kind;

int64_t aligned(int64_t bytes) { return ceil_div(bytes, kMatmulAlignment) * kMatmulAlignment; }

std::optional<After> after_of(const KernelRequest& request) {
  After after;
  bool scaled = false;
  for (const Epilogue& epilogue : epilogues_of(request.attrs)) {
    const bool open = after.epilogue == 0;
    if (epilogue.kind == EpilogueKind::kScale && !scaled && !after.bias && !after.addend && open) {
      after.scale = epilogue.scale;
      scaled = true;
    } else if (epilogue.kind == EpilogueKind::kBias && !after.bias && open) {
      after.bias = epilogue.input;
    } else if (epilogue.kind == EpilogueKind::kAdd && !after.addend && open) {
      after.addend = epilogue.input;
    } else if (epilogue.kind == EpilogueKind::kActivation && open &&
               (epilogue.activation->name == "relu" || epilogue.activation->name == "gelu_tanh")) {
      after.epilogue =
          epilogue.activation->name == "relu" ? MatmulLibrary::kRelu : MatmulLibrary::kGelu;
    } else {
      return std::nullopt;
    }
  }
  const bool narrow = size_of(request.outputs[0].type.dtype) < 8;
  return narrow || (!after.bias && after.epilogue == 0) ? std::optional(after) : std::nullopt;
}

cpu::ProductLayout layout_of(const KernelRequest& request) {
  return cpu::layout_of(dot_dims(request.attrs), request.inputs[0], request.inputs[1],
                        request.outputs[0].type.shape, {false, false});
}

bool is_of_columns(const KernelRequest& request, size_t bias, const cpu::ProductLayout& layout) {
  const Shape& shape = request.inputs[bias].type.shape;
  const std::string out = dot_dims(request.attrs).out;
  std::string letters;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] != 1) {
      letters.push_back(out[out.size() - static_cast<size_t>(shape.rank() - i)]);
    }
  }
  return letters == layout.columns;
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
  const ViewType to = ViewType::dense(from.type);
  const Attrs none;
  const OpDef& copy = *find_op("copy");
  const TextEntry& entry = *std::ranges::find(text_entries(), copy.name, &TextEntry::op);
  return CardKernel(entry.print({copy, none, std::span(&from, 1), std::span(&to, 1)}));
}

// A whole kernel: copies of what cannot be read as it lies, calls for each matrix of the outer batch, and the result in its order.
struct Matmul {
  cpu::Product product;
  bool swapped = false;
  After after;
  std::array<std::optional<CardKernel>, 2> copies;  // of operands
  std::array<int64_t, 2> copy_at{};                 // in the workspace
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
    std::array<const std::byte*, 2> operands{};
    for (size_t i = 0; i < 2; ++i) {
      operands[i] = static_cast<const std::byte*>(memory.inputs[i]);
      if (copies[i]) {
        void* const to = scratch + copy_at[i];
        copies[i]->launch(memory.inputs.subspan(i, 1), std::span(&to, 1), nullptr, *memory.queue);
        operands[i] = scratch + copy_at[i];
      }
    }
    if (swapped) {
      std::swap(operands[0], operands[1]);
    }
    auto* const result = reorder ? scratch + result_at : static_cast<std::byte*>(memory.outputs[0]);
    const auto* const addend =
        after.addend ? static_cast<const std::byte*>(memory.inputs[*after.addend]) : result;
    const void* const bias = after.bias ? memory.inputs[*after.bias] : nullptr;
    const int64_t size = size_of(product.dtype);
    for (int64_t row = 0; row < product.batches() / product.batch.inner(); ++row) {
      const auto at = [&](int operand) { return product.batch.row_offset(operand, row) * size; };
      call->run({.a = operands[0] + at(0),
                 .b = operands[1] + at(1),
                 .c = addend + at(2),
                 .d = result + at(2),
                 .bias = bias,
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
  if (!after.bias && !after.addend && after.epilogue == 0) {
    return true;
  }
  const cpu::ProductLayout layout = layout_of(request);
  return !layout.result && (!after.bias || is_of_columns(request, *after.bias, layout));
}

Kernel prepare_matmul(const KernelRequest& request) {
  const DotDims dims = dot_dims(request.attrs);
  const cpu::ProductLayout layout = layout_of(request);
  auto matmul = std::make_shared<Matmul>();
  matmul->product = layout.product;
  matmul->product.dtype = request.outputs[0].type.dtype;
  matmul->swapped = layout.swapped;
  matmul->after = *after_of(request);
  int64_t bytes = kMatmulWorkspace;
  for (size_t i = 0; i < 2; ++i) {
    if (layout.copied[i]) {
      matmul->copies[i] =
          copy_in_order(request.inputs[i], i == 0 ? dims.a : dims.b, *layout.copied[i]);
      matmul->copy_at[i] = bytes;
      bytes += aligned(request.inputs[i].type.bytes());
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
  if (matmul->after.addend) {
    kernel.in_place = {{0, static_cast<int>(*matmul->after.addend)}};
  }
  return kernel;
}

}  // namespace mstrain::cuda
