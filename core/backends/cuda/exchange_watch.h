// Sees to it that exchanges between cards come to an end.
//
// No thread waits for what cards do among themselves, and a card waits for ever. So each exchange has a shadow: the same call on
// the host's communicator, of next to nothing, which is complete when all whom it takes have asked for it, and which names who
// is late, stopped or gone (core/comm). A thread looks at what is under way. Where a shadow fails, or an exchange lasts too long,
// NCCL's connections are ended, so that the card goes on, and whoever waits for the card is told why (spoil).
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/backends/cuda/nccl_library.h"
#include "core/comm/communicator.h"

namespace mstrain::cuda {

struct Shadow {
  Event met;
  std::shared_ptr<const void>
      memory;  // that it reads and writes; left to it where it is not complete
  Shadow(Event event, std::shared_ptr<const void> held)
      : met(std::move(event)), memory(std::move(held)) {}
  ~Shadow();
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;
};

struct Exchange {
  std::string what;  // "all_reduce loss of data"
  std::shared_ptr<const Shadow> shadow;
  Event begun = {}, ended = {};  // on the card
  int64_t since = 0;             // nanoseconds: when it was first seen begun
};

// Thread-safe.
class ExchangeWatch {
 public:
  // `job` fails when the ranks' job does, and is not complete before.
  ExchangeWatch(double timeout_s, Event job);
  ~ExchangeWatch();
  ExchangeWatch(const ExchangeWatch&) = delete;
  ExchangeWatch& operator=(const ExchangeWatch&) = delete;

  // From now on `comm` ends when anything fails. Exchanges of one connection end in the order in which they are added.
  void begin(NcclLibrary::Comm comm);
  void add(NcclLibrary::Comm comm, Exchange exchange);
  // Whether it has not been ended, and is the caller's to end.
  bool release(NcclLibrary::Comm comm);
  // Returns when NCCL, which said `result`, has begun what it was asked for. Throws CommError.
  void settle(NcclLibrary::Comm comm, int result, const char* function, const Exchange& exchange);
  // Ends everything, of which `why` says the reason.
  void fail(std::exception_ptr why);

 private:
  void run();
  bool is_any_under_way() const;  // under the mutex
  // The first exchange of each connection that the card has begun and not ended; whether anything is under way.
  bool find_begun(std::vector<std::pair<NcclLibrary::Comm, Exchange>>& begun);
  void look(NcclLibrary::Comm comm, const Exchange& exchange) const;
  // Throws where the shadow has failed, or waits for it where the exchange has waited for long.
  void look_at_shadow(const Exchange& exchange, double waited) const;

  const double timeout_s_;
  const Event job_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;
  std::map<NcclLibrary::Comm, std::deque<Exchange>> under_way_;
  std::thread thread_;
};

}  // namespace mstrain::cuda
