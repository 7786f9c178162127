#include "core/base/crash_notice.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace mstrain {
namespace {

constexpr std::array kFatal = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
std::array<struct sigaction, kFatal.size()> former_actions;

thread_local const char* current_library = nullptr;
thread_local const char* current_function = nullptr;

// Nothing but what a handler of signals may call.
void write_text(const char* text) {
  const size_t size = std::strlen(text);
  if (write(STDERR_FILENO, text, size) < 0) {
    return;  // there is nobody to tell
  }
}

void tell(int signal, siginfo_t* /*info*/, void* /*context*/) {
  if (current_library != nullptr) {
    write_text("mstrain: ");
    write_text(current_library);
    write_text(" crashed in ");
    write_text(current_function);
    write_text("(): ");
    write_text(signal == SIGABRT  ? "it called abort()"
               : signal == SIGFPE ? "arithmetic that is not defined"
               : signal == SIGILL ? "an instruction that this processor lacks"
                                  : "it touched memory that is not its own");
    write_text("\n");
    current_library = nullptr;
  }
  // The signal comes again, to whoever was asked before.
  for (size_t i = 0; i < kFatal.size(); ++i) {
    if (kFatal[i] == signal) {
      sigaction(signal, &former_actions[i], nullptr);
    }
  }
  if (signal == SIGABRT) {
    raise(signal);
  }
}

void tell_of_exit() {
  if (current_library != nullptr) {
    write_text("mstrain: ");
    write_text(current_library);
    write_text(" ended the process in ");
    write_text(current_function);
    write_text("(): it called exit()\n");
    _exit(EXIT_FAILURE);
  }
}

bool listen() {
  std::atexit(tell_of_exit);
  for (size_t i = 0; i < kFatal.size(); ++i) {
    struct sigaction action {};
    action.sa_sigaction = tell;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(kFatal[i], &action, &former_actions[i]);
  }
  return true;
}

}  // namespace

CrashNotice::CrashNotice(const char* library, const char* function) {
  static const bool kListens = listen();
  current_library = kListens ? library : nullptr;
  current_function = function;
}

CrashNotice::~CrashNotice() { current_library = nullptr; }

}  // namespace mstrain
