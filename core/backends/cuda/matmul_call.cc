#include "core/backends/cuda/matmul_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "core/backends/cuda/device.h"
#include "core/backends/cuda/matmul_tuning.h"
#include "core/base/error.h"

namespace mstrain::cuda {
namespace {

using Choice = MatmulLibrary::Choice;

constexpr int kMostProposals = 32;
constexpr int kNoMemory = 3;           // CUBLAS_STATUS_ALLOC_FAILED
constexpr uint32_t kMostAligned = 64;  // what all tensors of a plan are at the least

int library_type(Dtype dtype) {
  return dtype == Dtype::kF32    ? MatmulLibrary::kF32
         : dtype == Dtype::kF64  ? MatmulLibrary::kF64
         : dtype == Dtype::kBF16 ? MatmulLibrary::kBF16
                                 : MatmulLibrary::kF16;
}

MatmulLibrary::Handle handle() {
  static const MatmulLibrary::Handle it = [] {
    bind_context();
    MatmulLibrary::Handle made = nullptr;
    check_matmul(matmul_library().create(&made), "cublasLtCreate");
    return made;
  }();
  return it;
}

uint32_t alignment(const void* at) {
  const auto bits = reinterpret_cast<uintptr_t>(at) | kMostAligned;
  return static_cast<uint32_t>(bits & (~bits + 1));
}

std::array<uint32_t, 4> alignments_of(const MatmulCall::Memory& memory) {
  return {alignment(memory.b), alignment(memory.a), alignment(memory.c), alignment(memory.d)};
}

// By the rates of the fastest cards: more is not claimed of it than that.
double least_seconds(const cpu::Product& p) {
  const auto size = [](int64_t n) { return static_cast<double>(n); };
  const double elements = size(p.m) * size(p.k) + size(p.k) * size(p.n) + size(p.m) * size(p.n);
  return size(p.batch.inner()) * std::max(2 * size(p.m) * size(p.n) * size(p.k) / 8e14,
                                          elements * size(size_of(p.dtype)) / 4e12);
}

// Of the card, for a while; null where there is not so much.
class Scratch {
 public:
  explicit Scratch(int64_t bytes) {
    at_ = driver().allocate(&at_, static_cast<size_t>(bytes)) == 0 ? at_ : 0;
  }
  ~Scratch() {
    if (at_ != 0) {
      driver().release(at_);
    }
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* at() const { return reinterpret_cast<void*>(at_); }

 private:
  Driver::Address at_ = 0;
};

}  // namespace

MatmulCall::MatmulCall(const cpu::Product& p, const After& after) : product_(p), after_(after) {
  const MatmulLibrary& lib = matmul_library();
  const bool wide = p.dtype == Dtype::kF64;
  what_ = fmt::format(
      "{}, {} x {} x {}, steps {} {} and {} {}, to {}, {} times with steps {} {} {}, epilogue "
      "{}{}{}",
      after.float8 ? fmt::format("types {}", fmt::join(*after.float8, " and "))
                   : std::string(name_of(p.dtype)),
      p.m, p.k, p.n, p.a_row, p.a_column, p.b_row, p.b_column, p.c_row, p.batch.inner(),
      p.batch.inner_stride(0), p.batch.inner_stride(1), p.batch.inner_stride(2), after.epilogue,
      after.bias ? ", bias" : "", after.addend ? ", addend" : "");
  check_matmul(lib.create_desc(&desc_, wide ? MatmulLibrary::kIn64 : MatmulLibrary::kIn32,
                               wide ? MatmulLibrary::kF64 : MatmulLibrary::kF32),
               "cublasLtMatmulDescCreate");
  const auto m = static_cast<uint64_t>(p.m), n = static_cast<uint64_t>(p.n),
             k = static_cast<uint64_t>(p.k);
  // The library's columns are dense, so that our product's b comes first, then its a.
  const bool turn_b = p.b_column != 1, turn_a = p.a_column != 1;
  set(MatmulLibrary::kTransA, int32_t{turn_b ? 1 : 0});  // CUBLAS_OP_T, CUBLAS_OP_N
  set(MatmulLibrary::kTransB, int32_t{turn_a ? 1 : 0});
  first_ = turn_b ? layout(k, n, p.b_column, 1) : layout(n, k, p.b_row, 1);
  second_ = turn_a ? layout(m, k, p.a_column, 0) : layout(k, m, p.a_row, 0);
  result_ = layout(n, m, p.c_row, 2);
  set(MatmulLibrary::kEpilogue,
      after.epilogue == 0 && !after.bias
          ? uint32_t{MatmulLibrary::kDefault}
          : after.epilogue | (after.bias ? MatmulLibrary::kWithBias : 0U));
  if ((after.epilogue & MatmulLibrary::kWithAux) != 0) {
    set(MatmulLibrary::kAuxLeading, p.c_row);
    set(MatmulLibrary::kAuxStride, p.batch.inner_stride(2));
  }
}

MatmulLibrary::Handle MatmulCall::layout(uint64_t rows, uint64_t columns, int64_t leading,
                                         int operand) const {
  const MatmulLibrary& lib = matmul_library();
  MatmulLibrary::Handle made = nullptr;
  const int type = !after_.float8 ? library_type(product_.dtype)
                   : operand == 2 ? library_type(product_.result)
                                  : (*after_.float8)[static_cast<size_t>(operand)];
  check_matmul(lib.create_layout(&made, type, rows, columns, leading),
               "cublasLtMatrixLayoutCreate");
  const auto count = static_cast<int32_t>(product_.batch.inner());
  const int64_t stride = product_.batch.inner_stride(operand);
  check_matmul(lib.set_layout(made, MatmulLibrary::kBatchCount, &count, sizeof(count)),
               "cublasLtMatrixLayoutSetAttribute");
  check_matmul(lib.set_layout(made, MatmulLibrary::kBatchStride, &stride, sizeof(stride)),
               "cublasLtMatrixLayoutSetAttribute");
  return made;
}

template <class T>
void MatmulCall::set(MatmulLibrary::DescAttribute attribute, const T& value) {
  check_matmul(matmul_library().set_desc(desc_, attribute, &value, sizeof(value)),
               "cublasLtMatmulDescSetAttribute");
}

int MatmulCall::multiply(const Memory& memory, const MatmulLibrary::Algorithm& algorithm,
                         Queue& queue, int64_t workspace) const {
  const double wide[] = {after_.scale, after_.addend ? 1.0 : 0.0};
  const float narrow[] = {static_cast<float>(wide[0]), static_cast<float>(wide[1])};
  const bool is_wide = product_.dtype == Dtype::kF64;
  return matmul_library().multiply(
      handle(), desc_, is_wide ? static_cast<const void*>(wide) : narrow, memory.b, first_,
      memory.a, second_, is_wide ? static_cast<const void*>(wide + 1) : narrow + 1, memory.c,
      result_, memory.d, result_, &algorithm, memory.workspace, static_cast<size_t>(workspace),
      stream_of(queue));
}

void MatmulCall::point_to(const Memory& memory) {
  if (memory.bias != nullptr) {
    set(MatmulLibrary::kBias, memory.bias);
  }
  if (memory.aux != nullptr) {
    set(MatmulLibrary::kAux, memory.aux);
  }
  if (after_.float8) {
    set(MatmulLibrary::kUnitOfFirst, memory.b_unit);
    set(MatmulLibrary::kUnitOfSecond, memory.a_unit);
  }
}

std::vector<Choice> MatmulCall::proposals(const Memory& memory, int most, int64_t workspace,
                                          MatmulLibrary::Reduction reduction) {
  point_to(memory);
  const MatmulLibrary& lib = matmul_library();
  MatmulLibrary::Handle preference = nullptr;
  check_matmul(lib.create_preference(&preference), "cublasLtMatmulPreferenceCreate");
  const auto prefer = [&](int attribute, const auto& value) {
    lib.set_preference(preference, attribute, &value, sizeof(value));
  };
  prefer(MatmulLibrary::kWorkspace, static_cast<uint64_t>(workspace));
  prefer(MatmulLibrary::kReduction, uint32_t{reduction});
  int place = MatmulLibrary::kAlignment;
  for (const uint32_t alignment : alignments_of(memory)) {
    prefer(place++, alignment);
  }
  std::vector<Choice> found(static_cast<size_t>(most));
  int count = 0;
  const int result = lib.choose(handle(), desc_, first_, second_, result_, result_, preference,
                                most, found.data(), &count);
  lib.destroy_preference(preference);
  found.resize(result == 0 ? static_cast<size_t>(count) : 0);
  return found;
}

MatmulCall::Choices& MatmulCall::choices(const Memory& memory, Queue& queue) {
  const Alignments alignments = alignments_of(memory);
  Choices& all = choices_[alignments];
  if (!all.empty()) {
    return all;
  }
  for (const int64_t workspace : {kMatmulWorkspace, int64_t{0}}) {
    // Parts of a sum are kept in f32, as kDotGeneral promises.
    for (const Choice& it :
         proposals(memory, kMostProposals, workspace, MatmulLibrary::kInComputeType)) {
      const auto is_same = [&](const Choice& other) {
        return std::memcmp(&it.algorithm, &other.algorithm, sizeof(it.algorithm)) == 0;
      };
      if (std::ranges::none_of(all, is_same)) {
        all.push_back(it);
      }
    }
  }
  check(!all.empty(), "cuBLASLt has no algorithm for a product of {}", what_);
  // What the product itself writes is written anew afterwards; what it adds to would be lost.
  const bool adds = memory.c == memory.d && after_.addend;
  const int64_t last = product_.batch.inner() - 1;
  const int64_t bytes = (last * product_.batch.inner_stride(2) + product_.m * product_.c_row) *
                        size_of(product_.dtype);
  std::optional<Scratch> scratch;
  const auto run = [&](const MatmulLibrary::Algorithm& algorithm) {
    Memory trial = memory;
    if (adds) {
      trial.d = scratch ? scratch->at() : scratch.emplace(bytes).at();
    }
    return trial.d == nullptr ? kNoMemory : multiply(trial, algorithm, queue);
  };
  const auto fastest = fastest_algorithm(
      {.name = fmt::format("{}, aligned to {}", what_, fmt::join(alignments, " ")),
       .seconds = least_seconds(product_),
       .queue = &queue,
       .run = run},
      std::vector<Choice>(all.begin(), all.end()));
  if (fastest) {
    all.push_front({.algorithm = *fastest});
  }
  return all;
}

void MatmulCall::run(const Memory& memory, Queue& queue) {
  point_to(memory);
  // The library proposes some that it then refuses: the next is taken, and kept.
  Choices& all = choices(memory, queue);
  int result = 0;
  for (; !all.empty(); all.pop_front()) {
    result = multiply(memory, all.front().algorithm, queue);
    if (result == 0) {
      return;
    }
  }
  fail("cublasLtMatmul says {} (cublasStatus_t) of a product of {}", result, what_);
}

}  // namespace mstrain::cuda
