// matmul and matmul_bias: f32 and bf16 through oneDNN, f16 (and bf16 where the processor lacks it) as f32, f64 through
// Eigen, integers by plain loops. Operands that no library takes as they lie are made dense first.
#include <cstring>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/parallel.h"
#include "core/backends/cpu/product.h"
#include "core/ops/matmul.h"

namespace mstrain::cpu {
namespace {

int64_t padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// An operand as it is given, or what replaces it: a dense copy at `offset` of the workspace.
struct Operand {
  ViewType view;
  Kernel convert;
  int64_t offset = -1;

  void* address(const KernelMemory& memory, size_t input) const {
    return offset < 0 ? memory.inputs[input] : static_cast<std::byte*>(memory.workspace) + offset;
  }
};

// Whether the last two dims are a matrix with one dense dim, and batches do not run backwards.
bool is_matrix(const ViewType& view) {
  const Shape& dims = view.type.shape;
  const int rank = dims.rank();
  const auto dense_along = [&](int inner, int outer) {
    return (view.strides[inner] == 1 || dims[inner] == 1) &&
           (view.strides[outer] >= dims[inner] || dims[outer] == 1);
  };
  for (int d = 0; d < rank - 2; ++d) {
    if (view.strides[d] < 0) {
      return false;
    }
  }
  return dense_along(rank - 1, rank - 2) || dense_along(rank - 2, rank - 1);
}

Kernel prepare_in(const KernelRequest& request, Dtype dtype, bool accumulate = false,
                  std::string_view activation = {}) {
  const Dtype given = request.inputs[0].type.dtype;
  int64_t workspace = 0;
  const auto reserve = [&](int64_t bytes) {
    const int64_t offset = workspace;
    workspace += padded(bytes);
    return offset;
  };
  int64_t scratch_bytes = 0;  // of conversions, which take turns
  std::vector<Operand> operands;
  for (const ViewType& view : request.inputs) {
    Operand operand{view, {}, -1};
    const bool fits = view.type.shape.rank() == 1 ? view.contiguous() : is_matrix(view);
    if (given != dtype || !fits) {
      operand.convert = given == dtype ? copy_kernel(view, request.threads)
                                       : cast_kernel(view, dtype, request.threads);
      operand.view = ViewType::dense({dtype, view.type.shape});
      operand.offset = reserve(operand.view.type.bytes());
      scratch_bytes = std::max(scratch_bytes, operand.convert.workspace_bytes);
    }
    operands.push_back(std::move(operand));
  }
  const TensorType& out = request.outputs[0].type;
  Product product = make_product(operands[0].view, request.attrs.flag("transpose_a"),
                                 operands[1].view, request.attrs.flag("transpose_b"), out.shape);
  product.bias = operands.size() == 3;
  product.accumulate = accumulate;
  product.activation = activation;
  const bool b_is_kept = (request.kept >> 1 & 1) != 0 && operands[1].offset < 0;
  Kernel kernel;
  if (dtype == Dtype::kF32 || dtype == Dtype::kBF16) {
    kernel = onednn_product(product, dtype, request.threads, b_is_kept);
    if (!kernel.run) {
      return kernel;
    }
  } else if (dtype == Dtype::kF64) {
    kernel = eigen_product(product, request.threads);
  } else {
    kernel = integer_product(product, dtype, request.threads);
  }
  Kernel restore;
  int64_t result = -1;
  if (given != dtype) {
    result = reserve(out.elements() * size_of(dtype));
    restore = cast_kernel(ViewType::dense({dtype, out.shape}), given, request.threads);
    scratch_bytes = std::max(scratch_bytes, restore.workspace_bytes);
  }
  const int64_t scratch = reserve(scratch_bytes);
  const int64_t inner_workspace = reserve(kernel.workspace_bytes);
  if (workspace == inner_workspace && inner_workspace == 0) {
    return kernel;
  }
  return {[=](const KernelMemory& memory) {
            std::byte* const base = static_cast<std::byte*>(memory.workspace);
            void* inputs[3] = {};
            for (size_t i = 0; i < operands.size(); ++i) {
              inputs[i] = operands[i].address(memory, i);
              if (operands[i].offset >= 0) {
                run_unary(operands[i].convert, memory.inputs[i], inputs[i], base + scratch);
              }
            }
            void* output = result < 0 ? memory.outputs[0] : base + result;
            kernel.run({std::span(inputs, operands.size()), std::span(&output, 1),
                        base + inner_workspace, memory.packed});
            if (result >= 0) {
              run_unary(restore, output, memory.outputs[0], base + scratch);
            }
          },
          workspace,
          {},
          kernel.packed};
}

Kernel nothing_to_multiply(const KernelRequest& request) {
  const TensorType& out = request.outputs[0].type;
  const int64_t n = out.shape.back();
  const int64_t rows = n == 0 ? 0 : out.elements() / n;
  if (request.inputs.size() == 2) {
    return {[bytes = static_cast<size_t>(out.bytes())](const KernelMemory& memory) {
      if (bytes > 0) {  // what is empty has no address
        std::memset(memory.outputs[0], 0, bytes);
      }
    }};
  }
  // An empty sum leaves the bias in every row.
  ViewType bias = request.inputs[2];
  bias.type.shape = {rows, n};
  bias.strides = {0, bias.strides[0]};
  return {[copy = copy_kernel(bias, 1)](const KernelMemory& memory) {
    run_unary(copy, memory.inputs[2], memory.outputs[0]);
  }};
}

Kernel prepare(const KernelRequest& request) {
  const Dtype dtype = request.inputs[0].type.dtype;
  if (request.outputs[0].type.elements() == 0 || request.inputs[0].type.elements() == 0) {
    return nothing_to_multiply(request);
  }
  if (dtype == Dtype::kF16) {
    return prepare_in(request, Dtype::kF32);
  }
  Kernel kernel = prepare_in(request, dtype);
  return kernel.run ? kernel : prepare_in(request, Dtype::kF32);
}

// Sums are made where the addend lies: its own memory, or a copy of it in the result's.
bool can_add(const KernelRequest& request) {
  const TensorType& out = request.outputs[0].type;
  return out.dtype == Dtype::kF32 && out.shape.rank() == 2 && out.elements() > 0 &&
         request.inputs[0].type.elements() > 0;
}

Kernel prepare_add(const KernelRequest& request) {
  const size_t addend = request.inputs.size() - 1;
  KernelRequest rest = request;
  rest.inputs = request.inputs.first(addend);
  const Kernel product = prepare_in(rest, Dtype::kF32, true);
  check(product.run != nullptr, "{}: no product adds to {}", request.op.name,
        to_string(request.outputs[0].type));
  return {
      [product, addend,
       copy = copy_kernel(request.inputs[addend], request.threads)](const KernelMemory& memory) {
        if (memory.inputs[addend] != memory.outputs[0]) {
          run_unary(copy, memory.inputs[addend], memory.outputs[0]);
        }
        product.run({memory.inputs.first(addend), memory.outputs, memory.workspace, memory.packed});
      },
      product.workspace_bytes,
      {},
      product.packed};
}

bool can_activate(const KernelRequest& request) {
  return request.outputs[0].type.dtype == Dtype::kF32 && request.outputs[0].type.elements() > 0 &&
         request.inputs[0].type.elements() > 0;
}

// The library's post-operation, or the activation after the product where it has none for these layouts.
Kernel prepare_activation(const KernelRequest& request) {
  const std::string& text = request.attrs.text("activation");
  const std::string_view name =
      *std::find(std::begin(kProductActivations), std::end(kProductActivations), text);
  if (Kernel joined = prepare_in(request, Dtype::kF32, false, name); joined.run) {
    return joined;
  }
  const Kernel product = prepare(request);
  const Attrs none;
  const ViewType& out = request.outputs[0];
  const Kernel activation = find_kernel(Backend::kCpu, *find_op(name))
                                ->prepare({*find_op(name), none, std::span(&out, 1),
                                           std::span(&out, 1), request.threads});
  return {[product, activation](const KernelMemory& memory) {
            product.run(memory);
            run_unary(activation, memory.outputs[0], memory.outputs[0], memory.workspace);
          },
          std::max(product.workspace_bytes, activation.workspace_bytes),
          {},
          product.packed};
}

}  // namespace

Product make_product(const ViewType& a, bool transpose_a, const ViewType& b, bool transpose_b,
                     const Shape& out) {
  const int rank = out.rank();
  Product p;
  p.m = out[rank - 2];
  p.n = out[rank - 1];
  p.k = a.type.shape[transpose_a ? rank - 2 : rank - 1];
  p.a_row = a.strides[transpose_a ? rank - 1 : rank - 2];
  p.a_column = a.strides[transpose_a ? rank - 2 : rank - 1];
  p.b_row = b.strides[transpose_b ? rank - 1 : rank - 2];
  p.b_column = b.strides[transpose_b ? rank - 2 : rank - 1];
  Shape batch;
  std::array<Shape, 3> strides;
  const Shape dense = contiguous_strides(out);
  for (int d = 0; d < rank - 2; ++d) {
    batch.push_back(out[d]);
    strides[0].push_back(a.strides[d]);
    strides[1].push_back(b.strides[d]);
    strides[2].push_back(dense[d]);
  }
  p.batch = make_nest(batch, strides);
  if (p.batch.constant(1)) {
    batch.push_back(p.m);
    strides[0].push_back(p.a_row);
    strides[1].push_back(0);
    strides[2].push_back(p.n);
    const Nest rows = make_nest(batch, strides);
    if (rows.rank == 1) {
      p.m = rows.inner();
      p.a_row = rows.inner_stride(0);
      p.batch = make_nest({}, strides);
    }
  }
  // A dim of size 1 may have any stride; libraries want one that fits.
  const auto normalise = [](int64_t rows, int64_t columns, int64_t& row, int64_t& column) {
    if (columns == 1) {
      column = row == 1 ? std::max<int64_t>(rows, 1) : 1;
    }
    if (rows == 1) {
      row = column == 1 ? columns : 1;
    }
  };
  normalise(p.m, p.k, p.a_row, p.a_column);
  normalise(p.k, p.n, p.b_row, p.b_column);
  return p;
}

void register_matmul() {
  register_kernel(Backend::kCpu, "matmul", {.prepare = prepare, .strided_inputs = true});
  register_kernel(Backend::kCpu, "matmul_bias", {.prepare = prepare, .strided_inputs = true});
  register_kernel(
      Backend::kCpu, "matmul_bias_activation",
      {.prepare = prepare_activation, .supports = can_activate, .strided_inputs = true});
  const auto add = [](std::string_view op, int addend) {
    register_kernel(Backend::kCpu, op,
                    {.prepare = prepare_add,
                     .supports = can_add,
                     .strided_inputs = true,
                     .in_place = {{0, addend}}});
  };
  add("matmul_add", 2);
  add("matmul_bias_add", 3);
}

}  // namespace mstrain::cpu
