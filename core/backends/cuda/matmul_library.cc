#include "core/backends/cuda/matmul_library.h"

#include "core/backends/cuda/libraries.h"
#include "core/base/error.h"

namespace mstrain::cuda {

const MatmulLibrary& matmul_library() {
  static const MatmulLibrary it = [] {
    MatmulLibrary f{};
    try {
      const SharedLibrary library = nvidia_library("cublasLt", {"13", "12"});
      library.find("cublasLtGetVersion", f.version);
      library.find("cublasLtCreate", f.create);
      library.find("cublasLtMatmulDescCreate", f.create_desc);
      library.find("cublasLtMatmulDescSetAttribute", f.set_desc);
      library.find("cublasLtMatrixLayoutCreate", f.create_layout);
      library.find("cublasLtMatrixLayoutSetAttribute", f.set_layout);
      library.find("cublasLtMatmulPreferenceCreate", f.create_preference);
      library.find("cublasLtMatmulPreferenceSetAttribute", f.set_preference);
      library.find("cublasLtMatmulPreferenceDestroy", f.destroy_preference);
      library.find("cublasLtMatmulAlgoGetHeuristic", f.choose);
      library.find("cublasLtMatmul", f.multiply);
    } catch (const Error& error) {
      f.missing = error.what();
    }
    return f;
  }();
  return it;
}

void check_matmul(int result, const char* function) {
  check(result == 0, "{} says {} (cublasStatus_t)", function, result);
}

}  // namespace mstrain::cuda
