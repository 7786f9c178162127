#include "launcher/version.h"

#include <fmt/core.h>

#include "core/base/isa.h"
#include "core/base/version.h"
#include "core/data/unicode_class.h"
#include "core/ir/backend.h"
#include "core/train/machine.h"

namespace mstrain::launcher {

void print_version(std::FILE* out) {
  fmt::print(out, "mstrain {}\ncompiler {}\n", version(), this_machine().compiler);
  fmt::print(out, "instruction set {}{}\n", to_string(isa()),
             isa() == best_isa()
                 ? ""
                 : fmt::format(" by MSTRAIN_ISA; this machine has {}", to_string(best_isa())));
  fmt::print(out, "unicode {}\n", unicode_version());
  for (const Backend* backend : all_backends()) {
    if (!backend->computes) {
      continue;
    }
    const std::string missing = backend->missing == nullptr ? "" : backend->missing();
    const std::string what =
        missing.empty() ? fmt::format("{} kernels", backend->kernels.size()) : missing;
    const std::string links = backend->links == nullptr ? "" : "; " + backend->links();
    fmt::print(out, "backend {} ({}{})\n", backend->name, what, missing.empty() ? links : "");
  }
}

}  // namespace mstrain::launcher
