// Matrix products by oneDNN's matmul primitive, which reads the operands where they lie, packing b piece by piece, or takes b
// packed as a whole. Its gemm driver serves where the primitive has no fast path: it packs into memory that it allocates.
// What is the fastest was measured for f32 on two cores with AVX-512, rows m from 256 to 4,096, matrices b of 0.2 to 150 MiB:
//   a packed b of which the packing does not count is the fastest, by up to 10 %, and far ahead at few rows;
//   packing b takes the time of 30 (not transposed) to 60 (transposed) rows of the product;
//   where a is transposed, or b is larger than the second cache, the primitive loses up to 35 % to gemm, and nothing
//   in parts of 384 columns or some more.
// Numbers do not depend on whether b is packed by the caller, or at all: a primitive sums up alike whichever it is given, but not alike for a
// part of the columns and for all of them. So what is made in parts is packed in parts.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "core/backends/cpu/onednn.h"
#include "core/backends/cpu/product.h"
#include "core/base/isa.h"

namespace mstrain::cpu {
namespace {

using dnnl::memory;

constexpr int64_t kLibraryRank = 12;
constexpr int64_t kLargeMatrix = (2 << 20) / sizeof(float);
constexpr int64_t kLargestPacked = (32 << 20) / sizeof(float);  // by a kernel itself
constexpr int64_t kPartOfMatrix = 1 << 20;                      // elements of b
constexpr int64_t kLeastColumns = 384;                          // of a part
constexpr int64_t kMostRows = 3072;                             // of a part, where a is transposed
constexpr int64_t kRowsToPack = 512;
constexpr int64_t kRowsToPackTransposed = 2048;
constexpr int64_t kLeastOfOwn = 4;  // rows and columns for our own loops, without AVX-512
// Multiply-adds, with the columns that a block of our loops fills up, up to which they are done, in 0.3 to 0.85 of the time (AVX2: 0.65),
// before the library has found its way to the code that it made for them.
constexpr int64_t kSmallProduct = 1 << 15;
constexpr int64_t kOwnColumns = 32;

void* at(void* base, int64_t offset) { return static_cast<std::byte*>(base) + offset; }

struct Parts {
  int64_t rows = 1, columns = 1;
};

// The parts that a single product is made in.
Parts parts_of(const Product& p) {
  const bool a_transposed = p.a_column != 1;
  const bool large = p.b_column == 1 && p.k * p.n >= kLargeMatrix;
  if (!a_transposed && !large) {
    return {};
  }
  const int64_t columns = std::max(kLeastColumns, kPartOfMatrix / p.k);
  return {a_transposed ? (p.m + kMostRows - 1) / kMostRows : 1, (p.n + columns - 1) / columns};
}

// Whether packing b pays for a single product.
bool worth_packing(const Product& p) {
  return p.k * p.n <= kLargestPacked &&
         p.m >= (p.b_column == 1 ? kRowsToPack : kRowsToPackTransposed);
}

dnnl::algorithm algorithm_of(std::string_view activation) {
  using dnnl::algorithm;
  return activation == "gelu"        ? algorithm::eltwise_gelu_erf
         : activation == "gelu_tanh" ? algorithm::eltwise_gelu_tanh
         : activation == "silu"      ? algorithm::eltwise_swish
                                     : algorithm::eltwise_relu;
}

dnnl::post_ops post_operations(const std::vector<Epilogue>& after) {
  dnnl::post_ops result;
  for (const Epilogue& epilogue : after) {
    if (epilogue.kind == Epilogue::Kind::kAdd) {
      result.append_sum(1.0F);
    } else if (epilogue.kind == Epilogue::Kind::kScale) {
      result.append_eltwise(1.0F, dnnl::algorithm::eltwise_linear,
                            static_cast<float>(epilogue.scale), 0.0F);
    } else {
      const dnnl::algorithm algorithm = algorithm_of(epilogue.activation->name);
      const bool swish = algorithm == dnnl::algorithm::eltwise_swish;
      result.append_eltwise(1.0F, algorithm, swish ? 1.0F : 0.0F, 0.0F);
    }
  }
  return result;
}

bool only_adds(const Product& p) {
  return std::all_of(p.after.begin(), p.after.end(), [](const Epilogue& epilogue) {
    return epilogue.kind == Epilogue::Kind::kAdd;
  });
}

// Adds at most what lies in c.
Kernel gemm(const Product& p, int threads) {
  const bool a_transposed = p.a_column != 1;
  const bool b_transposed = p.b_column != 1;
  const int64_t lda = a_transposed ? p.a_column : p.a_row;
  const int64_t ldb = b_transposed ? p.b_column : p.b_row;
  const float beta = p.after.empty() ? 0.0F : 1.0F;
  return {[=](const KernelMemory& memory) {
    const TeamSize team(threads);
    for (int64_t i = 0; i < p.batches(); ++i) {
      onednn_check(dnnl_sgemm(a_transposed ? 'T' : 'N', b_transposed ? 'T' : 'N', p.m, p.n, p.k,
                              1.0F, static_cast<const float*>(memory.inputs[0]) + p.offset(0, i),
                              lda, static_cast<const float*>(memory.inputs[1]) + p.offset(1, i),
                              ldb, beta, static_cast<float*>(memory.outputs[0]) + p.offset(2, i),
                              p.c_row));
    }
  }};
}

// b's way from where it lies into the layout that a primitive wants; absent where none is needed.
struct Packing {
  std::shared_ptr<OneDnnCall> call;
  int64_t bytes = 0;
  std::string layout;
};

std::string name_of(const memory::desc& desc) {
  const dnnl_memory_desc_t& d = desc.data;
  const dnnl_blocking_desc_t& blocks = d.format_desc.blocking;
  return fmt::format("{} {} {} {} {}", static_cast<int>(d.data_type),
                     fmt::join(d.padded_dims, d.padded_dims + d.ndims, ","),
                     fmt::join(blocks.strides, blocks.strides + d.ndims, ","),
                     fmt::join(blocks.inner_blks, blocks.inner_blks + blocks.inner_nblks, ","),
                     fmt::join(blocks.inner_idxs, blocks.inner_idxs + blocks.inner_nblks, ","));
}

Packing make_packing(const memory::desc& from, const memory::desc& to, int threads) {
  const dnnl::reorder::primitive_desc primitive(onednn_engine(), from, onednn_engine(), to,
                                                onednn_attributes());
  if (from == to || primitive.scratchpad_desc().get_size() > 0) {
    return {};
  }
  return {std::make_shared<OneDnnCall>(
              dnnl::reorder(primitive),
              std::vector<OneDnnArgument>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, threads),
          static_cast<int64_t>(to.get_size()), fmt::format("{} as {}", name_of(from), name_of(to))};
}

class Builder {
 public:
  Builder(const Product& product, int threads)
      : p_(product),
        threads_(threads),
        a_(describe(0, p_.m, p_.k, p_.a_row, p_.a_column)),
        b_(describe(1, p_.k, p_.n, p_.b_row, p_.b_column)),
        c_(describe(2, p_.m, p_.n, p_.c_row, 1)) {}

  // Neither gives a run function where the library has no fast path.
  Kernel plain() const {
    const dnnl::matmul::primitive_desc primitive = make(b_);
    if (is_slow(primitive)) {
      return {};
    }
    return {[call = call(primitive), with_bias = p_.bias](const KernelMemory& memory) {
              run(*call, memory, memory.inputs[1], memory.workspace, with_bias);
            },
            scratch_bytes(primitive)};
  }

  Kernel packed(bool by_caller) const {
    const memory::desc any({p_.k, p_.n}, type_of(p_.dtype), memory::format_tag::any);
    const dnnl::matmul::primitive_desc primitive = make(any);
    if (is_slow(primitive)) {
      return {};
    }
    const Packing packing = make_packing(b_, primitive.weights_desc(), threads_);
    if (packing.call == nullptr) {
      return {};
    }
    const auto product = call(primitive);
    const bool with_bias = p_.bias;
    if (by_caller) {
      return {[product, with_bias](const KernelMemory& memory) {
                run(*product, memory, memory.packed, memory.workspace, with_bias);
              },
              scratch_bytes(primitive),
              {},
              {1, packing.bytes, packing.layout, [packing](const void* b, void* to) {
                 packing.call->run({const_cast<void*>(b), to});
               }}};
    }
    const int64_t room = (packing.bytes + 63) / 64 * 64;
    return {[product, packing, room, with_bias](const KernelMemory& memory) {
              packing.call->run({memory.inputs[1], memory.workspace});
              run(*product, memory, memory.workspace, at(memory.workspace, room), with_bias);
            },
            room + scratch_bytes(primitive)};
  }

 private:
  static void run(OneDnnCall& call, const KernelMemory& memory, void* b, void* scratch,
                  bool with_bias) {
    if (with_bias) {
      call.run({memory.inputs[0], b, memory.outputs[0], memory.inputs[2], scratch});
    } else {
      call.run({memory.inputs[0], b, memory.outputs[0], scratch});
    }
  }

  static int64_t scratch_bytes(const dnnl::matmul::primitive_desc& primitive) {
    return static_cast<int64_t>(primitive.scratchpad_desc().get_size());
  }

  static bool is_slow(const dnnl::matmul::primitive_desc& primitive) {
    return std::string_view(primitive.impl_info_str()).find("ref") != std::string_view::npos;
  }

  static memory::data_type type_of(Dtype dtype) {
    return dtype == Dtype::kF32 ? memory::data_type::f32 : memory::data_type::bf16;
  }

  int batch_rank() const { return p_.batches() == 1 ? 0 : p_.batch.rank; }

  // A batch stride of zero is a dim of size 1 to oneDNN.
  memory::desc describe(int operand, int64_t rows, int64_t columns, int64_t row,
                        int64_t column) const {
    memory::dims dims, strides;
    for (int d = 0; d < batch_rank(); ++d) {
      const int64_t stride = p_.batch.strides[static_cast<size_t>(operand)][static_cast<size_t>(d)];
      dims.push_back(stride == 0 ? 1 : p_.batch.dims[static_cast<size_t>(d)]);
      strides.push_back(stride == 0 ? rows * columns : stride);
    }
    dims.insert(dims.end(), {rows, columns});
    strides.insert(strides.end(), {row, column});
    return {dims, type_of(operand == 2 ? p_.result : p_.dtype), strides};
  }

  memory::desc bias() const {
    memory::dims ones(static_cast<size_t>(batch_rank()) + 1, 1);
    ones.push_back(p_.n);
    memory::dims strides(static_cast<size_t>(batch_rank()) + 1, p_.n);
    strides.push_back(1);
    return {ones, type_of(p_.result), strides};
  }

  dnnl::matmul::primitive_desc make(const memory::desc& b) const {
    dnnl::primitive_attr attributes = onednn_attributes();
    attributes.set_post_ops(post_operations(p_.after));
    return {p_.bias ? dnnl::matmul::desc(a_, b, bias(), c_) : dnnl::matmul::desc(a_, b, c_),
            attributes, onednn_engine()};
  }

  std::shared_ptr<OneDnnCall> call(const dnnl::matmul::primitive_desc& primitive) const {
    std::vector<OneDnnArgument> arguments = {
        {DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, primitive.weights_desc()}, {DNNL_ARG_DST, c_}};
    if (p_.bias) {
      arguments.push_back({DNNL_ARG_BIAS, bias()});
    }
    if (scratch_bytes(primitive) > 0) {
      arguments.push_back({DNNL_ARG_SCRATCHPAD, primitive.scratchpad_desc()});
    }
    return std::make_shared<OneDnnCall>(dnnl::matmul(primitive), arguments, threads_);
  }

  const Product& p_;
  int threads_;
  memory::desc a_, b_, c_;
};

int64_t part_size(int64_t size, int64_t parts) {
  constexpr int64_t kMultiple = 64;
  return (size + parts * kMultiple - 1) / (parts * kMultiple) * kMultiple;
}

// An f32 product part by part, one after the other, of a b that is packed by the caller or lies as it is; no run function where the
// library has no fast path.
Kernel in_parts(const Product& p, int threads, const Parts& parts, bool packed) {
  struct Part {
    Kernel kernel;
    int64_t a, b, c, bias;  // bytes from where they begin
    int64_t packed;
  };
  constexpr int64_t kElement = sizeof(float);
  const int64_t rows = part_size(p.m, parts.rows);
  const int64_t columns = part_size(p.n, parts.columns);
  std::map<std::pair<int64_t, int64_t>, Kernel> kernels;  // by size
  std::vector<Part> made;
  int64_t scratch = 0;
  PackedInput all;
  for (int64_t i = 0; i < p.m; i += rows) {
    for (int64_t j = 0; j < p.n; j += columns) {
      Product part = p;
      part.m = std::min(rows, p.m - i);
      part.n = std::min(columns, p.n - j);
      Kernel& kernel = kernels[{part.m, part.n}];
      if (!kernel.run) {
        const Builder builder(part, threads);
        kernel = packed ? builder.packed(/*by_caller=*/true) : builder.plain();
      }
      if (!kernel.run) {
        return {};
      }
      scratch = std::max(scratch, kernel.workspace_bytes);
      made.push_back({kernel, i * p.a_row * kElement, j * p.b_column * kElement,
                      (i * p.c_row + j) * kElement, j * kElement, all.bytes});
      all.bytes += (kernel.packed.bytes + 63) / 64 * 64;
      all.layout += kernel.packed.layout + "; ";
    }
  }
  if (packed) {
    all.input = 1;
    all.pack = [made](const void* b, void* to) {
      for (const Part& part : made) {
        part.kernel.packed.pack(static_cast<const std::byte*>(b) + part.b, at(to, part.packed));
      }
    };
  } else {
    all = {};
  }
  return {[made = std::move(made)](const KernelMemory& memory) {
            for (const Part& part : made) {
              const std::array<void*, 3> inputs = {
                  at(memory.inputs[0], part.a), at(memory.inputs[1], part.b),
                  memory.inputs.size() > 2 ? at(memory.inputs[2], part.bias) : nullptr};
              void* const output = at(memory.outputs[0], part.c);
              part.kernel.run({std::span(inputs).first(memory.inputs.size()), std::span(&output, 1),
                               memory.workspace, at(memory.packed, part.packed)});
            }
          },
          scratch,
          {},
          std::move(all)};
}

}  // namespace

Kernel onednn_product(const Product& p, int threads, bool b_is_kept) {
  const bool one = p.batches() == 1;
  const bool floats = p.dtype == Dtype::kF32;
  if (!floats && isa() < Isa::kAvx512Bf16) {
    return {};  // they would go through the gemm driver, too
  }
  if (p.batch_invariant && floats) {
    return batch_invariant_product(p, threads, one && b_is_kept);
  }
  if (is_few_rows(p)) {
    return few_rows_product(p, threads);
  }
  if (is_narrow(p)) {
    return narrow_product(p);
  }
  if (one && p.m * std::max(p.n, kOwnColumns) * p.k <= kSmallProduct) {
    if (Kernel kernel = small_product(p); kernel.run) {
      return kernel;
    }
  }
  // Without AVX-512 the library has only its gemm driver, which allocates and packs b anew each time.
  const bool without_path = isa() < Isa::kAvx512 && p.m >= kLeastOfOwn && p.n >= kLeastOfOwn;
  if (without_path) {
    if (Kernel kernel = packed_product(p, threads, one && b_is_kept); kernel.run) {
      return kernel;
    }
  }
  // Nor has it packed ones there: what it calls so sums up in another order than its gemm.
  const bool can_pack = one && p.a_column == 1 && isa() >= Isa::kAvx512;
  const bool by_caller = can_pack && b_is_kept;
  if (!one && p.batch.rank + 2 > kLibraryRank) {
    return {};
  }
  const TeamSize team(threads);
  try {
    const Builder builder(p, threads);
    const Parts parts = one && floats ? parts_of(p) : Parts{};
    const bool in_several = parts.rows * parts.columns > 1;
    const bool packs_whole = can_pack && worth_packing(p);
    if (by_caller || packs_whole) {
      if (Kernel kernel = in_several && !packs_whole ? in_parts(p, threads, parts, /*packed=*/true)
                                                     : builder.packed(by_caller);
          kernel.run) {
        return kernel;
      }
    }
    if (Kernel kernel =
            in_several ? in_parts(p, threads, parts, /*packed=*/false) : builder.plain();
        kernel.run) {
      return kernel;
    }
    return floats && !p.bias && only_adds(p) ? gemm(p, threads) : Kernel{};
  } catch (const dnnl::error&) {
    return {};
  }
}

}  // namespace mstrain::cpu
