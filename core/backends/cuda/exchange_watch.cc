#include "core/backends/cuda/exchange_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/backends/cuda/device.h"
#include "core/base/clock.h"

namespace mstrain::cuda {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
constexpr auto kBetweenTries = std::chrono::microseconds(50);
constexpr double kPatience = 0.1;  // seconds until the shadow is waited for, which costs processors
constexpr double kForShadows =
    1;  // seconds past the timeout, so that who can name the culprit does

double seconds_since(int64_t begin) { return static_cast<double>(nanoseconds_now() - begin) / 1e9; }

}  // namespace

Shadow::~Shadow() {
  if (!met.done()) {
    new std::shared_ptr<const void>(std::move(memory));
  }
}

ExchangeWatch::ExchangeWatch(double timeout_s, Event job)
    : timeout_s_(timeout_s), job_(std::move(job)), thread_([this] { run(); }) {}

ExchangeWatch::~ExchangeWatch() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void ExchangeWatch::begin(NcclLibrary::Comm comm) {
  const std::lock_guard lock(mutex_);
  under_way_[comm];
}

void ExchangeWatch::add(NcclLibrary::Comm comm, Exchange exchange) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = under_way_.find(comm);
    if (found == under_way_.end()) {
      return;  // ended by a failure
    }
    found->second.push_back(std::move(exchange));
  }
  wake_.notify_all();
}

bool ExchangeWatch::release(NcclLibrary::Comm comm) {
  const std::lock_guard lock(mutex_);
  return under_way_.erase(comm) > 0;
}

void ExchangeWatch::settle(NcclLibrary::Comm comm, int result, const char* function,
                           const Exchange& exchange) {
  const int64_t begin = nanoseconds_now();
  try {
    check_nccl(result, function);
    while (result == NcclLibrary::kInProgress) {
      std::this_thread::sleep_for(kBetweenTries);
      check_spoilt();
      look_at_shadow(exchange, seconds_since(begin));
      check_nccl(nccl().state(comm, &result), "ncclCommGetAsyncError");
      check_nccl(result, function);
    }
  } catch (const CommError&) {
    fail(std::current_exception());
    check_spoilt();
  }
}

void ExchangeWatch::fail(std::exception_ptr why) {
  spoil(std::move(why));
  bind_context();
  std::map<NcclLibrary::Comm, std::deque<Exchange>> ended;
  {
    const std::lock_guard lock(mutex_);
    ended.swap(under_way_);
  }
  for (const auto& [comm, exchanges] : ended) {
    // Of what cannot be ended either nothing more can be done, and the reason is known.
    nccl().abort(comm);
  }
}

bool ExchangeWatch::find_begun(std::vector<std::pair<NcclLibrary::Comm, Exchange>>& begun) {
  const std::lock_guard lock(mutex_);
  bool waits = false;
  for (auto& [comm, exchanges] : under_way_) {
    while (!exchanges.empty() && exchanges.front().ended.done()) {
      exchanges.pop_front();
    }
    waits = waits || !exchanges.empty();
    if (!exchanges.empty() && exchanges.front().begun.done()) {
      int64_t& since = exchanges.front().since;
      since = since == 0 ? nanoseconds_now() : since;
      begun.emplace_back(comm, exchanges.front());
    }
  }
  return waits;
}

void ExchangeWatch::run() {
  while (true) {
    bool waits = false;
    try {
      std::vector<std::pair<NcclLibrary::Comm, Exchange>> begun;
      waits = find_begun(begun);
      for (const auto& [comm, exchange] : begun) {
        look(comm, exchange);
      }
    } catch (const Error&) {
      fail(std::current_exception());
    }
    std::unique_lock lock(mutex_);
    if (waits) {
      wake_.wait_for(lock, kBetweenLooks, [this] { return ends_; });
    } else {
      wake_.wait(lock, [this] { return ends_ || is_any_under_way(); });
    }
    if (ends_) {
      return;
    }
  }
}

bool ExchangeWatch::is_any_under_way() const {
  return std::ranges::any_of(under_way_, [](const auto& each) { return !each.second.empty(); });
}

void ExchangeWatch::look(NcclLibrary::Comm comm, const Exchange& exchange) const {
  const double waited = seconds_since(exchange.since);
  look_at_shadow(exchange, waited);
  int result = NcclLibrary::kDone;
  check_nccl(nccl().state(comm, &result), "ncclCommGetAsyncError");
  check_nccl(result, exchange.what.c_str());
}

void ExchangeWatch::look_at_shadow(const Exchange& exchange, double waited) const {
  if (job_.done()) {
    job_.wait();
  }
  const Event& met = exchange.shadow->met;
  if (met.done() || waited > kPatience) {
    met.wait();
  }
  if (waited > timeout_s_ + kForShadows) {
    throw CommError(
        fmt::format("{}: its ranks have asked for it, and their cards do not end it in {:.0f} s "
                    "(parallel.timeout_s: {:g})",
                    exchange.what, waited, timeout_s_));
  }
}

}  // namespace mstrain::cuda
