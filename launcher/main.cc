// The mstrain command: signals, errors and exit statuses.
#include <fmt/core.h>

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/isa.h"
#include "launcher/commands.h"

namespace {

std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // as a signal handler needs

// The first signal asks for a checkpoint and an orderly end; the second one ends the process as usual.
void on_signal(int) { stop_requested = true; }

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM}) {
    sigaction(signal, &action, nullptr);
  }
}

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

int main(int argc, char** argv) {
  enum Status { kFailed = 1, kBadUsage = 2, kDoesNotFit = 3 };
  limit_spinning(argv);
  catch_signals();
  try {
    mstrain::isa();  // a machine that will not do says so before anything begins
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    return mstrain::launcher::run_command_line(arguments, stop_requested);
  } catch (const mstrain::ConfigError& error) {
    tell(error.what());
    return kBadUsage;
  } catch (const mstrain::PlanError& error) {
    tell(error.what());
    return kDoesNotFit;
  } catch (const std::bad_alloc&) {
    tell("memory ran out; mstrain --config FILE --dry-run says what a run needs");
  } catch (const std::exception& error) {
    tell(error.what());
  }
  return kFailed;
}
