#include "launcher/program.h"

#include <fmt/core.h>

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/isa.h"
#include "core/base/processors.h"
#include "core/base/standard_output.h"
#include "core/runtime/device.h"
#include "launcher/commands.h"
#include "launcher/rank.h"

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

// Also where others failed.
int leave(Rank& rank, int status, const std::string& message, bool is_of_others = false) {
  return rank.leave({status, message}, is_of_others);
}

int run(Rank& rank, const std::vector<std::string>& arguments, const std::atomic<bool>& stop) {
  enum Status { kFailed = 1, kBadUsage = 2, kDoesNotFit = 3 };
  try {
    // A machine that will not do, or a device that is not there, says so before anything begins.
    isa();
    default_device();
    const int status = run_command_line(arguments, stop, rank);
    finish_output();
    return rank.finish(status);
  } catch (const ConfigError& error) {
    return leave(rank, kBadUsage, error.what());
  } catch (const PlanError& error) {
    return leave(rank, kDoesNotFit, error.what());
  } catch (const IoError& error) {
    const bool is_missing = error.error_number() == ENOENT;
    return leave(rank, is_missing ? kBadUsage : kFailed, error.what());
  } catch (const CommError& error) {
    return leave(rank, kFailed, error.what(), /*is_of_others=*/true);
  } catch (const std::bad_alloc&) {
    return leave(rank, kFailed,
                 "memory ran out; mstrain --config FILE --dry-run says what a run needs");
  } catch (const std::exception& error) {
    return leave(rank, kFailed, error.what());
  }
}

}  // namespace

int run_program(int argc, char** argv) {
  hold_interrupts();  // while the program starts itself once more
  const RankPlace place = rank_place();
  take_own_processors(place);  // before OpenMP counts them
  limit_spinning(argv);
  counted_processors();
  take_turns(place);
  const std::atomic<bool>& stop = catch_interrupts();
  try {
    Rank rank(place, stop);
    return run(rank, {argv + 1, argv + argc}, stop);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

}  // namespace mstrain::launcher
