// Matrix products by oneDNN. Its matmul primitive reads the operands where they lie, or packs b; its older gemm driver
// packs both (a few MiB that it allocates itself), which is faster by 5 to 25 % where a is transposed or b is far larger
// than the second cache.
#include <string_view>

#include "core/backends/cpu/onednn.h"
#include "core/backends/cpu/product.h"

namespace mstrain::cpu {
namespace {

using dnnl::memory;

constexpr int64_t kLibraryRank = 12;
constexpr int64_t kLargeMatrix = (2 << 20) / sizeof(float);

bool prefers_gemm(const Product& p) {
  const bool a_transposed = p.a_column != 1;
  const bool b_transposed = p.b_column != 1;
  return a_transposed || (!b_transposed && p.k * p.n >= kLargeMatrix);
}

// GELU, ReLU and SiLU are post-operations of the library.
void append_activation(dnnl::post_ops& after, std::string_view name) {
  using dnnl::algorithm;
  const algorithm kind = name == "gelu"        ? algorithm::eltwise_gelu_erf
                         : name == "gelu_tanh" ? algorithm::eltwise_gelu_tanh
                         : name == "silu"      ? algorithm::eltwise_swish
                                               : algorithm::eltwise_relu;
  after.append_eltwise(1.0F, kind, name == "silu" ? 1.0F : 0.0F, 0.0F);
}

Kernel gemm(const Product& p, int threads) {
  const bool a_transposed = p.a_column != 1;
  const bool b_transposed = p.b_column != 1;
  const int64_t lda = a_transposed ? p.a_column : p.a_row;
  const int64_t ldb = b_transposed ? p.b_column : p.b_row;
  const float beta = p.accumulate ? 1.0F : 0.0F;
  return {[=](const KernelMemory& memory) {
    const TeamSize team(threads);
    onednn_check(dnnl_sgemm(a_transposed ? 'T' : 'N', b_transposed ? 'T' : 'N', p.m, p.n, p.k, 1.0F,
                            static_cast<const float*>(memory.inputs[0]), lda,
                            static_cast<const float*>(memory.inputs[1]), ldb, beta,
                            static_cast<float*>(memory.outputs[0]), p.n));
  }};
}

}  // namespace

Kernel onednn_product(const Product& p, Dtype dtype, int threads) {
  const bool one = p.batches() == 1;
  const bool gemm_serves = dtype == Dtype::kF32 && one && !p.bias && p.activation.empty();
  if (gemm_serves && prefers_gemm(p)) {
    return gemm(p, threads);
  }
  const auto type = dtype == Dtype::kF32 ? memory::data_type::f32 : memory::data_type::bf16;
  const int batch_rank = one ? 0 : p.batch.rank;
  if (batch_rank + 2 > kLibraryRank) {
    return {};
  }
  // A batch stride of zero is a dim of size 1 to oneDNN.
  const auto describe = [&](int operand, int64_t rows, int64_t columns, int64_t row,
                            int64_t column) {
    memory::dims dims, strides;
    for (int d = 0; d < batch_rank; ++d) {
      const int64_t stride = p.batch.strides[static_cast<size_t>(operand)][static_cast<size_t>(d)];
      dims.push_back(stride == 0 ? 1 : p.batch.dims[static_cast<size_t>(d)]);
      strides.push_back(stride == 0 ? rows * columns : stride);
    }
    dims.insert(dims.end(), {rows, columns});
    strides.insert(strides.end(), {row, column});
    return memory::desc(dims, type, strides);
  };
  const memory::desc a = describe(0, p.m, p.k, p.a_row, p.a_column);
  const memory::desc b = describe(1, p.k, p.n, p.b_row, p.b_column);
  const memory::desc c = describe(2, p.m, p.n, p.n, 1);
  memory::dims ones(static_cast<size_t>(batch_rank) + 1, 1);
  ones.push_back(p.n);
  memory::dims bias_strides(static_cast<size_t>(batch_rank) + 1, p.n);
  bias_strides.push_back(1);
  const memory::desc bias(ones, type, bias_strides);
  const TeamSize team(threads);
  try {
    const dnnl::matmul::desc desc =
        p.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
    dnnl::primitive_attr attributes = onednn_attributes();
    dnnl::post_ops after;
    if (p.accumulate) {
      after.append_sum(1.0F);
    }
    if (!p.activation.empty()) {
      append_activation(after, p.activation);
    }
    attributes.set_post_ops(after);
    const dnnl::matmul::primitive_desc primitive(desc, attributes, onednn_engine());
    if (std::string_view(primitive.impl_info_str()).find("ref") != std::string_view::npos) {
      return gemm_serves ? gemm(p, threads) : Kernel{};
    }
    std::vector<OneDnnArgument> arguments = {
        {DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}};
    const memory::desc scratch = primitive.scratchpad_desc();
    const auto scratch_bytes = static_cast<int64_t>(scratch.get_size());
    if (p.bias) {
      arguments.push_back({DNNL_ARG_BIAS, bias});
    }
    if (scratch_bytes > 0) {
      arguments.push_back({DNNL_ARG_SCRATCHPAD, scratch});
    }
    auto call = std::make_shared<OneDnnCall>(dnnl::matmul(primitive), arguments, threads);
    return {
        [call, with_bias = p.bias](const KernelMemory& memory) {
          if (with_bias) {
            call->run({memory.inputs[0], memory.inputs[1], memory.outputs[0], memory.inputs[2],
                       memory.workspace});
          } else {
            call->run({memory.inputs[0], memory.inputs[1], memory.outputs[0], memory.workspace});
          }
        },
        scratch_bytes};
  } catch (const dnnl::error&) {
    return {};
  }
}

}  // namespace mstrain::cpu
