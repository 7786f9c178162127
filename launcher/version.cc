#include "launcher/version.h"

#include <fmt/core.h>

#include "core/base/isa.h"
#include "core/base/version.h"
#include "core/data/unicode_class.h"
#include "core/ir/kernel.h"
#include "core/train/machine.h"

namespace mstrain::launcher {
namespace {

size_t kernels_of(Backend backend) {
  size_t count = 0;
  for (const OpDef* op : all_ops()) {
    count += find_kernel(backend, *op) != nullptr ? 1 : 0;
  }
  return count;
}

}  // namespace

void print_version(std::FILE* out) {
  fmt::print(out, "mstrain {}\ncompiler {}\n", version(), this_machine().compiler);
  fmt::print(out, "instruction set {}{}\n", to_string(isa()),
             isa() == best_isa()
                 ? ""
                 : fmt::format(" by MSTRAIN_ISA; this machine has {}", to_string(best_isa())));
  fmt::print(out, "unicode {}\n", unicode_version());
  constexpr std::pair<const char*, Backend> kBackends[] = {{"reference", Backend::kReference},
                                                           {"cpu", Backend::kCpu}};
  for (const auto& [name, backend] : kBackends) {
    if (const size_t kernels = kernels_of(backend); kernels > 0) {
      fmt::print(out, "backend {} ({} kernels)\n", name, kernels);
    }
  }
}

}  // namespace mstrain::launcher
