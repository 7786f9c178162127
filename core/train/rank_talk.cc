#include "core/train/rank_talk.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <thread>

#include "core/base/error.h"
#include "core/runtime/context.h"

namespace mstrain {
namespace {

constexpr std::chrono::milliseconds kPause(20);

}  // namespace

bool is_first(const Ranks* ranks) { return ranks == nullptr || ranks->rank() == 0; }

int64_t told(Ranks* ranks, int64_t value, std::string_view what) {
  if (ranks != nullptr) {
    ranks->world().broadcast({&value, 1, Dtype::kI64}, 0, what).wait();
  }
  return value;
}

std::string told(Communicator& group, const std::string& text, std::string_view what) {
  auto size = static_cast<int64_t>(text.size());
  group.broadcast({&size, 1, Dtype::kI64}, 0, what).wait();
  std::string out = text;
  out.resize(static_cast<size_t>(size));
  if (!out.empty()) {
    group.broadcast({out.data(), size, Dtype::kU8}, 0, what).wait();
  }
  return out;
}

std::string told(Ranks* ranks, const std::string& text, std::string_view what) {
  return ranks == nullptr ? text : told(ranks->world(), text, what);
}

int64_t least(Ranks* ranks, int64_t value, std::string_view what) {
  if (ranks != nullptr) {
    const Elements one{&value, 1, Dtype::kI64};
    ranks->world().all_reduce(one, one, Reduction::kMin, what).wait();
  }
  return value;
}

std::vector<double> gathered(Ranks* ranks, std::span<const double> values, std::string_view what) {
  std::vector<double> own(values.begin(), values.end());
  if (ranks == nullptr) {
    return own;
  }
  Communicator& group = ranks->along(kDataAxis);
  const auto count = static_cast<int64_t>(own.size());
  const std::vector<int64_t> counts(static_cast<size_t>(group.size()), count);
  std::vector<double> all(static_cast<size_t>(count * group.size()));
  group
      .all_gather({own.data(), count, Dtype::kF64}, {all.data(), count * group.size(), Dtype::kF64},
                  counts, what)
      .wait();
  return all;
}

std::vector<std::string> told_to_first(Ranks* ranks, std::string text, std::string_view what) {
  std::vector<std::string> out;
  if (ranks == nullptr) {
    out.push_back(std::move(text));
    return out;
  }
  Communicator& world = ranks->world();
  auto size = static_cast<int64_t>(text.size());
  std::vector<int64_t> sizes(static_cast<size_t>(world.size()));
  const std::vector<int64_t> counts(sizes.size(), 1);
  world.all_gather({&size, 1, Dtype::kI64}, {sizes.data(), world.size(), Dtype::kI64}, counts, what)
      .wait();
  if (!is_first(ranks)) {
    world.send({text.data(), size, Dtype::kU8}, 0, what).wait();
    return out;
  }
  out.push_back(std::move(text));
  for (int rank = 1; rank < world.size(); ++rank) {
    std::string& theirs =
        out.emplace_back(static_cast<size_t>(sizes[static_cast<size_t>(rank)]), '\0');
    world.receive({theirs.data(), sizes[static_cast<size_t>(rank)], Dtype::kU8}, rank, what).wait();
  }
  return out;
}

void meet(Ranks* ranks, std::string_view what) {
  if (ranks != nullptr) {
    ranks->world().barrier(what);
  }
}

void work_together(Ranks* ranks, std::string_view what, const std::function<void()>& work) {
  if (ranks == nullptr) {
    work();
  } else {
    work_together(ranks->world(), what, work);
  }
}

void work_together(Communicator& group, std::string_view what, const std::function<void()>& work) {
  std::future<void> done = std::async(std::launch::async, [&, &context = current_context()] {
    const ContextScope scope(context);
    work();
  });
  std::exception_ptr failure;
  // Whether this rank works, and which one failed, counted from 1; of all ranks the greatest.
  std::array<int64_t, 2> state{1, 0};
  while (state[0] == 1 && state[1] == 0) {
    state[0] = 1;
    if (!done.valid()) {
      state[0] = 0;
      std::this_thread::sleep_for(kPause);
    } else if (done.wait_for(kPause) == std::future_status::ready) {
      try {
        done.get();
      } catch (...) {
        failure = std::current_exception();
        state[1] = group.rank() + 1;
      }
      state[0] = 0;
    }
    const Elements words{state.data(), 2, Dtype::kI64};
    group.all_reduce(words, words, Reduction::kMax, what).wait();
  }
  if (failure != nullptr) {
    std::rethrow_exception(failure);
  }
  if (done.valid()) {
    try {
      done.get();
    } catch (const CommError&) {
      if (state[1] == 0) {
        throw;
      }
    }
  }
  check(state[1] == 0, "rank {} failed: {}", state[1] - 1, what);
}

int64_t ranks_here(Ranks* ranks) { return ranks == nullptr ? 1 : ranks_here(ranks->world()); }

int64_t ranks_here(Communicator& world) {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  auto own = static_cast<int64_t>(std::hash<std::string_view>()(name.data()));
  std::vector<int64_t> all(static_cast<size_t>(world.size()));
  const std::vector<int64_t> counts(all.size(), 1);
  world
      .all_gather({&own, 1, Dtype::kI64}, {all.data(), world.size(), Dtype::kI64}, counts,
                  "machines")
      .wait();
  return std::count(all.begin(), all.end(), own);
}

}  // namespace mstrain
