// What every program that links mstrain starts with: the table of operations, the kernels of each backend, eager
// evaluation and the compiler. An object of its own, because static libraries drop objects that nobody refers to.
#include "core/ops/all.h"
#include "core/backends/cpu/register.h"
#include "core/backends/cuda/register.h"
#include "core/backends/null/register.h"
#include "core/backends/reference/register.h"
#include "core/exec/execute.h"

namespace mstrain {
namespace {

[[maybe_unused]] const bool kInstalled = [] {
  register_all_ops();
  const Backend& reference = add_reference_backend();
  const Backend& cpu = add_cpu_backend(reference);
  add_null_backend(cpu);
  add_cuda_backend();
  install_default_backend(&cpu);
  install_execution();
  return true;
}();

}  // namespace
}  // namespace mstrain
