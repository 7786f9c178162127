// What every program that links mstrain starts with: the table of operations, the kernels of each backend, eager
// evaluation and the compiler. An object of its own, because static libraries drop objects that nobody refers to.
#ifdef MSTRAIN_WITH_CPU
#include "core/backends/cpu/backend.h"
#endif
#include "core/backends/reference/register.h"
#include "core/exec/execute.h"
#include "core/ops/all.h"

namespace mstrain {
namespace {

[[maybe_unused]] const bool kInstalled = [] {
  register_all_ops();
  register_reference_kernels();
#ifdef MSTRAIN_WITH_CPU
  register_cpu_kernels();
#endif
  install_execution();
  return true;
}();

}  // namespace
}  // namespace mstrain
