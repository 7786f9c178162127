#include "core/backends/cuda/float8_matmul.h"

#include <algorithm>

#include "core/backends/cuda/device.h"
#include "core/backends/cuda/matmul_call.h"
#include "core/backends/cuda/matmul_tuning.h"
#include "core/backends/cuda/programs.h"
#include "core/base/error.h"
#include "core/ops/float8.h"

namespace mstrain::cuda {
namespace {

constexpr int64_t kMultiple = 16;

// out[m, n] of x[m, k] and y[n, k], or of x[k, m], of y[k, n], which are turned.
struct Matrices {
  int64_t m = 1, n = 1, k = 1;
  size_t x = 0, y = 1;  // inputs
  bool turns_x = false, turns_y = false;
};

std::string letters_in(const std::string& letters, const std::string& others, bool wanted) {
  std::string out;
  for (const char letter : letters) {
    out.append((others.find(letter) != std::string::npos) == wanted ? 1 : 0, letter);
  }
  return out;
}

int64_t size_of_dims(const std::string& letters, const std::string& dims, const Shape& shape) {
  int64_t size = 1;
  for (const char letter : letters) {
    size *= shape[static_cast<int>(dims.find(letter))];
  }
  return size;
}

std::optional<Matrices> matrices_of(const KernelRequest& request) {
  const DotDims dims = dot_dims(request.attrs);
  if (dims.out.empty()) {
    return std::nullopt;
  }
  const bool swapped = dims.a.find(dims.out[0]) == std::string::npos;
  const std::string& x = swapped ? dims.b : dims.a;
  const std::string& y = swapped ? dims.a : dims.b;
  const std::string rows = letters_in(dims.out, y, false);
  const std::string columns = letters_in(dims.out, x, false);
  const std::string summed = letters_in(x, dims.out, false);
  Matrices out{.x = swapped ? 1U : 0U, .y = swapped ? 0U : 1U};
  out.turns_x = x != rows + summed;
  out.turns_y = y != columns + summed;
  if (dims.out != rows + columns || (out.turns_x && x != summed + rows) ||
      (out.turns_y && y != summed + columns)) {
    return std::nullopt;
  }
  out.m = size_of_dims(rows, x, request.inputs[out.x].type.shape);
  out.n = size_of_dims(columns, y, request.inputs[out.y].type.shape);
  out.k = size_of_dims(summed, x, request.inputs[out.x].type.shape);
  const bool fits = out.m % kMultiple == 0 && out.n % kMultiple == 0 && out.k % kMultiple == 0;
  return fits && out.m * out.n * out.k > 0 ? std::optional(out) : std::nullopt;
}

// [columns, rows] of [rows, columns].
CardKernel turn(int64_t rows, int64_t columns) {
  return dense_copy({{Dtype::kU8, {columns, rows}}, {1, columns}});
}

struct Float8Matmul {
  Matrices matrices;
  cpu::Product product;
  After after;
  struct Turned {
    CardKernel kernel;
    int64_t at = 0;  // in the workspace
  };
  std::optional<Turned> x, y;
  std::unique_ptr<MatmulCall> call;  // made when first run: planning needs no library

  void run(const KernelMemory& memory) {
    bind_context();
    if (call == nullptr) {
      call = std::make_unique<MatmulCall>(product, after);
    } else {
      tell_of_timing();
    }
    auto* const scratch = static_cast<std::byte*>(memory.workspace) +
                          (-reinterpret_cast<uintptr_t>(memory.workspace) % kMatmulAlignment);
    const auto operand = [&](size_t i, const std::optional<Turned>& turned) -> const void* {
      if (!turned) {
        return memory.inputs[i];
      }
      void* const to = scratch + turned->at;
      turned->kernel.launch(memory.inputs.subspan(i, 1), std::span(&to, 1), nullptr, *memory.queue);
      return to;
    };
    const void* const a = operand(matrices.x, x);
    const void* const b = operand(matrices.y, y);
    call->run({.a = a,
               .b = b,
               .c = memory.outputs[0],
               .d = memory.outputs[0],
               .a_unit = memory.inputs[2 + matrices.x],
               .b_unit = memory.inputs[2 + matrices.y],
               .workspace = scratch},
              *memory.queue);
  }
};

void check_card() {
  const DeviceFacts* const facts = chosen_facts();
  if (facts != nullptr && facts->major * 10 + facts->minor < 89) {
    throw PlanError(
        fmt::format("precision.products: fp8 needs a card of sm_89 or later, and {} is of sm_{}{}; "
                    "say params",
                    facts->name, facts->major, facts->minor));
  }
}

}  // namespace

bool has_float8_matmul(const KernelRequest& request) { return matrices_of(request).has_value(); }

Kernel prepare_float8_matmul(const KernelRequest& request) {
  check_card();
  auto matmul = std::make_shared<Float8Matmul>();
  const Matrices& it = matmul->matrices = *matrices_of(request);
  const auto format = [&](size_t input) {
    const Float8 found = float8_of(request.attrs, input == 0 ? "a" : "b");
    return found == Float8::kE4M3 ? MatmulLibrary::kE4M3 : MatmulLibrary::kE5M2;
  };
  matmul->after.float8 = {format(it.x), format(it.y)};
  cpu::Product& p = matmul->product;
  p = {.m = it.m,
       .n = it.n,
       .k = it.k,
       .batch = cpu::make_nest({}, std::array<Shape, 3>{}),
       .a_row = it.k,
       .a_column = 1,
       .b_row = 1,
       .b_column = it.k,
       .c_row = it.n,
       .dtype = Dtype::kU8,
       .result = Dtype::kBF16};
  int64_t bytes = kMatmulWorkspace;
  const auto turned = [&](bool turns, int64_t rows, int64_t columns) {
    std::optional<Float8Matmul::Turned> out;
    if (turns) {
      out = {turn(rows, columns), bytes};
      bytes += cpu::up_to(rows * columns, kMatmulAlignment);
    }
    return out;
  };
  matmul->x = turned(it.turns_x, it.k, it.m);
  matmul->y = turned(it.turns_y, it.k, it.n);
  return {.run = [matmul](const KernelMemory& memory) { matmul->run(memory); },
          .workspace_bytes = bytes + kMatmulAlignment};
}

}  // namespace mstrain::cuda
