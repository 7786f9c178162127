// The part of cuBLASLt that products need (cublasLt.h), looked for at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace mstrain::cuda {

struct MatmulLibrary {
  using Handle = void*;
  enum DescAttribute {
    kTransA = 3,
    kTransB = 4,
    kEpilogue = 7,
    kBias = 8,
    kAux = 11,
    kAuxLeading = 12,
    kAuxStride = 13,
    kUnitOfFirst = 17,  // addresses of what an operand's numbers are counted in
    kUnitOfSecond = 18
  };
  enum LayoutAttribute { kBatchCount = 5, kBatchStride = 6 };
  enum PreferenceAttribute {
    kWorkspace = 1,
    kReduction = 3,
    kAlignment = 5
  };  // of a, b, c, d: four in a row
  enum Reduction : uint32_t { kInComputeType = 2, kInAnyType = 7 };
  enum Epilogue : uint32_t {
    kDefault = 1,
    kRelu = 2,
    kWithBias = 4,
    kSumOfColumns = 16,  // of the result over its (the library's) columns
    kGelu = 32,
    kGeluGrad = 64,
    kWithAux = 128,  // what the activation is of: written by kGelu, read by kGeluGrad
    kSumOfA = 256    // of the first operand over what is summed
  };
  enum Type { kF32 = 0, kF64 = 1, kF16 = 2, kBF16 = 14, kE4M3 = 28, kE5M2 = 29 };  // cudaDataType
  enum Compute { kIn32 = 68, kIn64 = 70 };  // cublasComputeType_t
  struct Algorithm {
    uint64_t data[8];
  };
  struct Choice {  // cublasLtMatmulHeuristicResult_t
    Algorithm algorithm;
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
  };

  std::string missing;  // why it is not here
  size_t (*version)();
  int (*create)(Handle* handle);
  int (*create_desc)(Handle* desc, int compute, int scale_type);
  int (*set_desc)(Handle desc, int attribute, const void* value, size_t bytes);
  int (*create_layout)(Handle* layout, int type, uint64_t rows, uint64_t columns, int64_t leading);
  int (*set_layout)(Handle layout, int attribute, const void* value, size_t bytes);
  int (*create_preference)(Handle* preference);
  int (*set_preference)(Handle preference, int attribute, const void* value, size_t bytes);
  int (*destroy_preference)(Handle preference);
  int (*choose)(Handle handle, Handle desc, Handle a, Handle b, Handle c, Handle d,
                Handle preference, int wanted, Choice* choices, int* found);
  int (*multiply)(Handle handle, Handle desc, const void* alpha, const void* a, Handle a_layout,
                  const void* b, Handle b_layout, const void* beta, const void* c, Handle c_layout,
                  void* d, Handle d_layout, const Algorithm* algorithm, void* workspace,
                  size_t workspace_bytes, void* stream);
};

const MatmulLibrary& matmul_library();
// Throws Error with the library's number where `result` is no success.
void check_matmul(int result, const char* function);

}  // namespace mstrain::cuda
