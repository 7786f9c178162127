#include "core/base/interrupt.h"

#include <unistd.h>

#include <csignal>

namespace mstrain {
namespace {

constexpr int kStatus = 130;
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

std::atomic<bool> requested = false;
std::atomic<bool> signalled = false;
std::atomic<int> heeded = 0;
// As a signal handler needs them.
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void on_signal(int signal) {
  if (heeded == 0 || (signal != SIGHUP && signalled.exchange(true))) {
    _exit(kStatus);
  }
  requested = true;
}

sigset_t interrupts() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kSignals) {
    sigaddset(&set, signal);
  }
  return set;
}

bool is_ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

void hold_interrupts() {
  const sigset_t set = interrupts();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

const std::atomic<bool>& catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : kSignals) {
    if (signal != SIGHUP || !is_ignored(signal)) {
      sigaction(signal, &action, nullptr);
    }
  }
  const sigset_t set = interrupts();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  return requested;
}

void request_interrupt() { requested = true; }

void outlive_output() { std::signal(SIGPIPE, SIG_IGN); }

HeedInterrupts::HeedInterrupts() { ++heeded; }
HeedInterrupts::~HeedInterrupts() { --heeded; }

}  // namespace mstrain
