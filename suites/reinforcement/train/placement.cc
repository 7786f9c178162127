#include "suites/reinforcement/train/placement.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/comm/thread_communicator.h"

namespace mstrain::reinforcement {
namespace {

constexpr int64_t kTwo = 2;
constexpr auto kPatience = std::chrono::milliseconds(200);  // with threads, when one has failed

std::shared_ptr<Ranks> learners(std::unique_ptr<Communicator> world) {
  Mesh mesh{.axes = {{std::string(kDataAxis), world->size()}}};
  return std::make_shared<Ranks>(std::move(mesh), std::move(world));
}

// Ranks as threads. What the first one finds is the result; where several fail, the first failure is told.
Finished train_on_threads(const RunRequest& request, const Config& config, int64_t ranks,
                          std::optional<int64_t> until) {
  auto worlds = thread_communicators(static_cast<int>(ranks),
                                     {.timeout_seconds = config.distribution.timeout_s});
  std::vector<Finished> results(worlds.size());
  std::vector<std::exception_ptr> failures(worlds.size());
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable changed;
  size_t at_work = worlds.size();
  // The failure that is told, and whose: of whom others have not left alone, of the first of them, whoever is sooner.
  std::string failed;
  std::pair teller{true, worlds.size()};
  for (size_t i = 0; i < worlds.size(); ++i) {
    threads.emplace_back([&, i] {
      std::string why;
      bool left_alone = false;
      try {
        results[i] = train_agent(request, config, learners(std::move(worlds[i])), until);
      } catch (const std::exception& error) {
        failures[i] = std::current_exception();
        why = error.what();
        left_alone = dynamic_cast<const CommError*>(&error) != nullptr;
      }
      const std::lock_guard lock(mutex);
      --at_work;
      if (!why.empty() && std::pair(left_alone, i) < teller) {
        failed = why;
        teller = {left_alone, i};
      }
      changed.notify_all();
    });
  }
  {  // A thread that hangs cannot be ended: people learn what they wait for.
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return at_work == 0 || !failed.empty(); });
    if (!changed.wait_for(lock, kPatience, [&] { return at_work == 0; })) {
      log_error("{}; waiting for what other threads are at", failed);
    }
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  // A rank whose peer is gone says so; the peer says why.
  std::exception_ptr told;
  for (const std::exception_ptr& failure : failures) {
    if (failure == nullptr) {
      continue;
    }
    try {
      std::rethrow_exception(failure);
    } catch (const CommError&) {
      told = told == nullptr ? failure : told;
    } catch (...) {
      throw;
    }
  }
  if (told != nullptr) {
    std::rethrow_exception(told);
  }
  return results.front();
}

}  // namespace

int64_t threads_of(const Config& config) {
  return config.distribution.policy == Placement::kSingle
             ? 1
             : config.distribution.actors.value_or(kTwo);
}

void check_placement(const Config& config, const YamlNode& tree, int64_t ranks) {
  const Placement policy = config.distribution.policy;
  const AutoOr<int64_t>& actors = config.distribution.actors;
  if (policy == Placement::kSingle && actors.value_or(1) != 1) {
    config_fail(tree, "distribution.actors",
                fmt::format("{}, and distribution.policy: single is of one", *actors.value));
  }
  if (policy != Placement::kCentral && policy != Placement::kAsyncActors &&
      config.distribution.max_staleness > 0) {
    config_fail(
        tree, "distribution.max_staleness",
        fmt::format("{}, and distribution.policy is {}: expected 0, or central or async_actors",
                    config.distribution.max_staleness, kPlacements[static_cast<size_t>(policy)]));
  }
  if (actors.value_or(ranks) != ranks) {
    config_fail(tree, "distribution.actors",
                fmt::format("{}, and there are {} ranks (--ranks)", *actors.value, ranks));
  }
  if (policy == Placement::kSingle && ranks > 1) {
    config_fail(tree, "distribution.policy",
                fmt::format("single is of one rank, and there are {}; multi_learner shares the run",
                            ranks));
  }
  if (policy != Placement::kSingle && ranks < 2) {
    config_fail(tree, "distribution.policy",
                fmt::format("{} is of two ranks or more, and there is {}: give --ranks or "
                            "distribution.actors",
                            kPlacements[static_cast<size_t>(policy)], ranks));
  }
}

Finished train_placed(const RunRequest& request, const Config& config,
                      std::unique_ptr<Communicator> world, std::optional<int64_t> until) {
  const int64_t ranks = world != nullptr ? world->size() : threads_of(config);
  check_placement(config, request.tree, ranks);
  if (world != nullptr) {
    return train_agent(request, config, ranks > 1 ? learners(std::move(world)) : nullptr, until);
  }
  return ranks > 1 ? train_on_threads(request, config, ranks, until)
                   : train_agent(request, config, nullptr, until);
}

}  // namespace mstrain::reinforcement
