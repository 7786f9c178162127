#include "launcher/program.h"

#include <fmt/core.h>

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/isa.h"
#include "launcher/commands.h"

namespace mstrain::launcher {
namespace {

// OpenMP's threads spin where they wait for each other, by default for milliseconds: on a machine that does anything else
// besides, a step then takes five to ten times as long. libgomp reads its settings when it is loaded, so the program
// starts itself once more with a short spin. Settings of the user's own stay.
void limit_spinning(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") == nullptr && std::getenv("OMP_WAIT_POLICY") == nullptr &&
      setenv("GOMP_SPINCOUNT", "1000", 1) == 0) {
    execv("/proc/self/exe",
          argv);  // returns only where it failed: then things are slower, not wrong
  }
}

// The first line says what to do; no prefix before the file and line that it begins with.
void tell(const char* message) { fmt::print(stderr, "{}\n", message); }

}  // namespace

int run_program(int argc, char** argv) {
  enum Status { kFailed = 1, kBadUsage = 2, kDoesNotFit = 3 };
  hold_interrupts();  // while the program starts itself once more
  limit_spinning(argv);
  const std::atomic<bool>& stop = catch_interrupts();
  try {
    isa();  // a machine that will not do says so before anything begins
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    return run_command_line(arguments, stop);
  } catch (const ConfigError& error) {
    tell(error.what());
    return kBadUsage;
  } catch (const PlanError& error) {
    tell(error.what());
    return kDoesNotFit;
  } catch (const std::bad_alloc&) {
    tell("memory ran out; mstrain --config FILE --dry-run says what a run needs");
  } catch (const std::exception& error) {
    tell(error.what());
  }
  return kFailed;
}

}  // namespace mstrain::launcher
