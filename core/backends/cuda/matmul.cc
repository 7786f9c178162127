#include "core/backends/cuda/matmul.h"

#include <fmt/format.h>

#include <deque>
#include <map>

#include "core/backends/cpu/product.h"  // how dims become matrices
#include "core/backends/cuda/device.h"
#include "core/backends/cuda/matmul_library.h"
#include "core/backends/cuda/programs.h"

namespace mstrain::cuda {
namespace {

using EpilogueKind = Epilogue::Kind;

constexpr int64_t kWorkspace = int64_t{32} << 20;  // what the library recommends for Hopper
constexpr int64_t kAligned = 256;

int64_t aligned(int64_t bytes) { return ceil_div(bytes, kAligned) * kAligned; }

int library_type(Dtype dtype) {
  return dtype == Dtype::kF32    ? MatmulLibrary::kF32
         : dtype == Dtype::kF64  ? MatmulLibrary::kF64
         : dtype == Dtype::kBF16 ? MatmulLibrary::kBF16
                                 : MatmulLibrary::kF16;
}

// What the library does after a product.
struct After {
  double scale = 1;
  std::optional<size_t> bias, addend;  // inputs
  uint32_t activation = 0;
};

std::optional<After> after_of(const KernelRequest& request) {
  After after;
  bool scaled = false;
  for (const Epilogue& epilogue : epilogues_of(request.attrs)) {
    const bool open = after.activation == 0;
    if (epilogue.kind == EpilogueKind::kScale && !scaled && !after.bias && !after.addend && open) {
      after.scale = epilogue.scale;
      scaled = true;
    } else if (epilogue.kind == EpilogueKind::kBias && !after.bias && open) {
      after.bias = epilogue.input;
    } else if (epilogue.kind == EpilogueKind::kAdd && !after.addend && open) {
      after.addend = epilogue.input;
    } else if (epilogue.kind == EpilogueKind::kActivation && open &&
               (epilogue.activation->name == "relu" || epilogue.activation->name == "gelu_tanh")) {
      after.activation =
          epilogue.activation->name == "relu" ? MatmulLibrary::kRelu : MatmulLibrary::kGelu;
    } else {
      return std::nullopt;
    }
  }
  const bool narrow = size_of(request.outputs[0].type.dtype) < 8;
  return narrow || (!after.bias && after.activation == 0) ? std::optional(after) : std::nullopt;
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

// The operands of one call, the library's way: columns are dense, so that our product's b comes first, then its a.
class Call {
 public:
  Call(const cpu::Product& p, const After& after) {
    const MatmulLibrary& lib = matmul_library();
    const bool wide = p.dtype == Dtype::kF64;
    what_ = fmt::format(
        "of {}, {} x {} x {}, steps {} {} and {} {}, to {}, {} times with steps {} {} {}{}{}",
        name_of(p.dtype), p.m, p.k, p.n, p.a_row, p.a_column, p.b_row, p.b_column, p.c_row,
        p.batch.inner(), p.batch.inner_stride(0), p.batch.inner_stride(1), p.batch.inner_stride(2),
        after.bias ? ", bias" : "", after.addend ? ", addend" : "");
    check_matmul(lib.create_desc(&desc_, wide ? MatmulLibrary::kIn64 : MatmulLibrary::kIn32,
                                 wide ? MatmulLibrary::kF64 : MatmulLibrary::kF32),
                 "cublasLtMatmulDescCreate");
    const int type = library_type(p.dtype);
    const auto layout = [&](uint64_t rows, uint64_t columns, int64_t leading, int operand) {
      MatmulLibrary::Handle made = nullptr;
      check_matmul(lib.create_layout(&made, type, rows, columns, leading),
                   "cublasLtMatrixLayoutCreate");
      const auto count = static_cast<int32_t>(p.batch.inner());
      const int64_t stride = p.batch.inner_stride(operand);
      check_matmul(lib.set_layout(made, MatmulLibrary::kBatchCount, &count, sizeof(count)),
                   "cublasLtMatrixLayoutSetAttribute");
      check_matmul(lib.set_layout(made, MatmulLibrary::kBatchStride, &stride, sizeof(stride)),
                   "cublasLtMatrixLayoutSetAttribute");
      return made;
    };
    const auto m = static_cast<uint64_t>(p.m), n = static_cast<uint64_t>(p.n),
               k = static_cast<uint64_t>(p.k);
    const bool turn_b = p.b_column != 1, turn_a = p.a_column != 1;
    set_turned(MatmulLibrary::kTransA, turn_b);
    set_turned(MatmulLibrary::kTransB, turn_a);
    first_ = turn_b ? layout(k, n, p.b_column, 1) : layout(n, k, p.b_row, 1);
    second_ = turn_a ? layout(m, k, p.a_column, 0) : layout(k, m, p.a_row, 0);
    result_ = layout(n, m, p.c_row, 2);
    const uint32_t epilogue = after.activation == 0 && !after.bias
                                  ? uint32_t{MatmulLibrary::kDefault}
                                  : after.activation | (after.bias ? MatmulLibrary::kWithBias : 0U);
    set(MatmulLibrary::kEpilogue, epilogue);
  }

  void run(const void* a, const void* b, const void* c, void* d, const void* bias,
           const void* alpha, const void* beta, void* workspace, Driver::Handle stream) {
    const MatmulLibrary& lib = matmul_library();
    if (bias != nullptr) {
      set(MatmulLibrary::kBias, bias);
    }
    // The library proposes some that it then refuses: the next is taken, and kept.
    std::deque<MatmulLibrary::Choice>& choices =
        chosen({alignment(b), alignment(a), alignment(c), alignment(d)});
    int result = 0;
    for (; !choices.empty(); choices.pop_front()) {
      result = lib.multiply(handle(), desc_, alpha, b, first_, a, second_, beta, c, result_, d,
                            result_, &choices.front().algorithm, workspace,
                            static_cast<size_t>(kWorkspace), stream);
      if (result == 0) {
        return;
      }
    }
    fail("cublasLtMatmul says {} (cublasStatus_t) of a product {}", result, what_);
  }

 private:
  using Alignments = std::array<uint32_t, 4>;

  static MatmulLibrary::Handle handle() {
    static const MatmulLibrary::Handle it = [] {
      bind_context();
      MatmulLibrary::Handle made = nullptr;
      check_matmul(matmul_library().create(&made), "cublasLtCreate");
      return made;
    }();
    return it;
  }
  static uint32_t alignment(const void* at) {
    const auto bits = reinterpret_cast<uintptr_t>(at) | kAligned;
    return static_cast<uint32_t>(bits & (~bits + 1));
  }
  template <class T>
  void set(MatmulLibrary::DescAttribute attribute, const T& value) {
    check_matmul(matmul_library().set_desc(desc_, attribute, &value, sizeof(value)),
                 "cublasLtMatmulDescSetAttribute");
  }
  void set_turned(MatmulLibrary::DescAttribute attribute, bool turned) {
    set(attribute, int32_t{turned ? 1 : 0});  // CUBLAS_OP_T, CUBLAS_OP_N
  }

  // The library's proposals, the best first: always the same for the same product on the same card.
  std::deque<MatmulLibrary::Choice>& chosen(const Alignments& alignments) {
    constexpr int kMostChoices = 8;
    const auto [known, fresh] = choices_.try_emplace(alignments);
    if (fresh) {
      const MatmulLibrary& lib = matmul_library();
      MatmulLibrary::Handle preference = nullptr;
      check_matmul(lib.create_preference(&preference), "cublasLtMatmulPreferenceCreate");
      const auto workspace = static_cast<uint64_t>(kWorkspace);
      lib.set_preference(preference, MatmulLibrary::kWorkspace, &workspace, sizeof(workspace));
      for (int i = 0; i < 4; ++i) {
        lib.set_preference(preference, MatmulLibrary::kAlignment + i,
                           &alignments[static_cast<size_t>(i)], sizeof(uint32_t));
      }
      int found = 0;
      MatmulLibrary::Choice proposed[kMostChoices] = {};
      const int result = lib.choose(handle(), desc_, first_, second_, result_, result_, preference,
                                    kMostChoices, proposed, &found);
      lib.destroy_preference(preference);
      known->second.assign(proposed, proposed + found);
      if (result != 0 || found == 0) {
        choices_.erase(known);
        fail("cuBLASLt has no algorithm for a product {} (cublasStatus_t {})", what_, result);
      }
    }
    return known->second;
  }

  MatmulLibrary::Handle desc_ = nullptr, first_ = nullptr, second_ = nullptr, result_ = nullptr;
  std::map<Alignments, std::deque<MatmulLibrary::Choice>> choices_;
  std::string what_;  // for errors
};

// A whole kernel: copies of what cannot be read as it lies, calls for each matrix of the outer batch, and the result in its order.
struct Matmul {
  cpu::Product product;
  bool swapped = false;
  After after;
  std::array<std::optional<CardKernel>, 2> copies;  // of operands
  std::array<int64_t, 2> copy_at{};                 // in the workspace
  std::optional<CardKernel> reorder;
  int64_t result_at = 0;
  std::unique_ptr<Call> call;  // made when first run: planning needs no library

  void run(const KernelMemory& memory) {
    bind_context();
    if (call == nullptr) {
      call = std::make_unique<Call>(product, after);
    }
    auto* const scratch = static_cast<std::byte*>(memory.workspace);
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
    const double wide[] = {after.scale, after.addend ? 1.0 : 0.0};
    const float narrow[] = {static_cast<float>(wide[0]), static_cast<float>(wide[1])};
    const bool is_wide = product.dtype == Dtype::kF64;
    const void* const alpha = is_wide ? static_cast<const void*>(wide) : narrow;
    const void* const beta = is_wide ? static_cast<const void*>(wide + 1) : narrow + 1;
    const int64_t size = size_of(product.dtype);
    for (int64_t row = 0; row < product.batches() / product.batch.inner(); ++row) {
      const auto at = [&](int operand) { return product.batch.row_offset(operand, row) * size; };
      call->run(operands[0] + at(0), operands[1] + at(1), addend + at(2), result + at(2), bias,
                alpha, beta, scratch, stream_of(*memory.queue));
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
  if (!after.bias && !after.addend && after.activation == 0) {
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
  int64_t bytes = kWorkspace;
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
                .workspace_bytes = bytes};
  if (matmul->after.addend) {
    kernel.in_place = {{0, static_cast<int>(*matmul->after.addend)}};
  }
  return kernel;
}

}  // namespace mstrain::cuda
