#include "core/backends/cuda/matmul_tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "core/backends/cuda/device.h"
#include "core/backends/cuda/kept_files.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"

namespace mstrain::cuda {
namespace {

using Algorithm = MatmulLibrary::Algorithm;
using Choice = MatmulLibrary::Choice;

constexpr double kWorthwhile =
    4e-6;  // seconds of a product: shorter ones take as long as their launch
constexpr double kLongestLook =
    0.5;  // at the proposals for one product, but for those that are compared closely
constexpr double kLongest = 20;      // of a process: then the library's first are taken
constexpr double kLongestWait = 60;  // for another process
constexpr size_t kFinalists = 8;
constexpr float kFarOff = 1.3F;   // times the best: not compared closely
constexpr float kAsGood = 1.01F;  // times the best: an earlier proposal is taken
constexpr size_t kRounds = 15;
constexpr float kLongEnough = 0.1F;  // milliseconds between two events

double seconds_since(int64_t begin) {
  return static_cast<double>(nanoseconds_now() - begin) * 1e-9;
}

enum class Tuning { kNone, kWorthwhile, kAll };

std::atomic<bool> ranks_are_apart = false;

Tuning tuning() {
  const char* const said = std::getenv("MSTRAIN_CUDA_TUNE");
  const std::string_view value = said == nullptr ? "" : said;
  return value == "1"                      ? Tuning::kAll
         : value == "0" || ranks_are_apart ? Tuning::kNone
                                           : Tuning::kWorthwhile;
}

// Times between events of a stream, which run behind one another while the host goes on.
class Events {
 public:
  explicit Events(Driver::Handle stream) : stream_(stream) {}
  ~Events() {
    for (const Driver::Handle event : all_) {
      driver().destroy_event(event);
    }
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  void record() {
    all_.emplace_back();
    check_driver(driver().create_event(&all_.back(), 0), "cuEventCreate");
    check_driver(driver().record_event(all_.back(), stream_), "cuEventRecord");
  }
  // Milliseconds from each to the next, once all have come.
  std::vector<float> times() const {
    check_driver(driver().wait_event(all_.back()), "cuEventSynchronize");
    std::vector<float> result(all_.size() - 1);
    for (size_t i = 0; i < result.size(); ++i) {
      check_driver(driver().time_between(&result[i], all_[i], all_[i + 1]), "cuEventElapsedTime");
    }
    return result;
  }

 private:
  Driver::Handle stream_;
  std::vector<Driver::Handle> all_;
};

struct Candidate {
  size_t place = 0;  // among the proposals
  float milliseconds = 0;
  std::vector<float> rounds = {};
};

struct Timed {
  Algorithm algorithm;
  std::string how;  // it was found, for people
};

// Every proposal once, behind a run that loads it; those that the library then refuses are left out.
std::vector<Candidate> look(const MatmulTrial& trial, std::span<const Choice> proposals) {
  const int64_t begin = nanoseconds_now();
  std::vector<Candidate> found;
  for (size_t i = 0; i < proposals.size() && seconds_since(begin) < kLongestLook; ++i) {
    const Algorithm& algorithm = proposals[i].algorithm;
    if (trial.run(algorithm) != 0) {
      continue;
    }
    Events events(stream_of(*trial.queue));
    events.record();
    const int result = trial.run(algorithm);
    events.record();
    const float milliseconds = events.times()[0];
    if (result == 0) {
      found.push_back({i, milliseconds});
    }
  }
  return found;
}

// In turns, each round beginning with another, so that the card's clock, which falls under load, favours none. Their times become
// medians.
void compare(const MatmulTrial& trial, std::span<const Choice> proposals,
             std::vector<Candidate>& finalists) {
  const int runs =
      std::clamp(static_cast<int>(kLongEnough / std::max(finalists[0].milliseconds, 1e-3F)), 1, 8);
  for (size_t round = 0; round < kRounds; ++round) {
    Events events(stream_of(*trial.queue));
    trial.run(proposals[finalists[0].place].algorithm);  // the card has something to do
    events.record();
    std::ranges::rotate(finalists, finalists.begin() + 1);
    for (const Candidate& it : finalists) {
      for (int i = 0; i < runs; ++i) {
        trial.run(proposals[it.place].algorithm);
      }
      events.record();
    }
    const std::vector<float> times = events.times();
    for (size_t i = 0; i < times.size(); ++i) {
      finalists[i].rounds.push_back(times[i] / static_cast<float>(runs));
    }
  }
  for (Candidate& it : finalists) {
    std::ranges::nth_element(it.rounds, it.rounds.begin() + kRounds / 2);
    it.milliseconds = it.rounds[kRounds / 2];
  }
}

Timed time_proposals(const MatmulTrial& trial, std::span<const Choice> proposals) {
  std::vector<Candidate> found = look(trial, proposals);
  if (found.empty()) {
    return {proposals[0].algorithm, "the first proposal, since none could be timed"};
  }
  std::ranges::stable_sort(found, {}, &Candidate::milliseconds);
  const float far_off = kFarOff * found[0].milliseconds;
  const size_t looked_at = found.size();
  std::erase_if(found, [&](const Candidate& it) { return it.milliseconds > far_off; });
  found.resize(std::min(found.size(), kFinalists));
  compare(trial, proposals, found);
  const float best = std::ranges::min_element(found, {}, &Candidate::milliseconds)->milliseconds;
  std::ranges::sort(found, {}, &Candidate::place);
  const Candidate& taken = *std::ranges::find_if(
      found, [&](const Candidate& it) { return it.milliseconds <= kAsGood * best; });
  return {proposals[taken.place].algorithm,
          fmt::format("proposal {} of {}: {:.1f} us; the first of those compared: {:.1f} us",
                      taken.place + 1, looked_at, 1e3F * taken.milliseconds,
                      1e3F * found[0].milliseconds)};
}

// What a file holds: a product's name, the algorithm's words, how it was found.
std::string text_of(const std::string& name, const Timed& timed) {
  std::string text = name + "\n";
  for (const uint64_t word : timed.algorithm.data) {
    text += fmt::format("{:016x} ", word);
  }
  return text + "\n" + timed.how + "\n";
}
std::optional<Algorithm> algorithm_in(std::string_view text, const std::string& name) {
  if (!text.starts_with(name + "\n")) {
    return std::nullopt;
  }
  text.remove_prefix(name.size() + 1);
  Algorithm algorithm;
  for (uint64_t& word : algorithm.data) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), word, 16);
    if (error != std::errc() || end == text.data() + text.size()) {
      return std::nullopt;
    }
    text.remove_prefix(static_cast<size_t>(end - text.data()) + 1);
  }
  return algorithm;
}

// Held by the one process that times. Null where the folder cannot be written.
std::unique_ptr<FileLock> lock_of(FileSystem& files, const std::string& folder) {
  const int64_t begin = nanoseconds_now();
  const std::string path = join_path(folder, "timing.lock");
  try {
    files.create_directories(folder);
    while (true) {
      if (auto lock = files.try_lock(path)) {
        return lock;
      }
      if (seconds_since(begin) > kLongestWait) {
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  } catch (const Error& error) {
    log_warning(
        "products are made by the library's first proposals, since what is timed cannot be kept: "
        "{}",
        error.what());
    return nullptr;
  }
  fail("{} has been locked by another process for {} s; MSTRAIN_CUDA_TUNE=0 does without it", path,
       kLongestWait);
}

class Tuner {
 public:
  std::optional<Algorithm> find(const MatmulTrial& trial, std::span<const Choice> proposals) {
    const std::lock_guard guard(mutex_);
    const auto known = known_.find(trial.name);
    if (known != known_.end()) {
      return known->second;
    }
    if (!is_kept_) {
      return std::nullopt;
    }
    FileSystem& files = real_files();
    static const std::string common = [] {
      const auto card = static_cast<size_t>(chosen_card());
      return fmt::format("cuBLASLt {} on {}: ", matmul_library().version(),
                         look_for_devices().devices.at(card).name);
    }();
    const std::string name = common + trial.name;
    const std::string path = join_path(cache_folder(), to_string(hash_bytes(name)) + ".algorithm");
    std::optional<Algorithm> found = algorithm_in(kept_file(files, path), name);
    if (!found) {
      const bool captured = is_captured(*trial.queue);
      if (!captured) {
        trial.queue->record().settle();  // who holds the lock waits for no other rank
      }
      const auto lock = lock_of(files, cache_folder());
      if (lock != nullptr) {
        found = algorithm_in(kept_file(files, path), name);
      }
      if (lock != nullptr && !found) {
        const Timed timed = captured || seconds_ > kLongest
                                ? Timed{proposals[0].algorithm, "the first proposal, not timed"}
                                : time(trial, proposals);
        found = keep_file(files, path, text_of(name, timed)) ? std::optional(timed.algorithm)
                                                             : std::nullopt;
      }
      is_kept_ = found.has_value();
    }
    if (found) {
      known_.emplace(trial.name, *found);
    }
    return found;
  }

  void tell() {
    const std::lock_guard guard(mutex_);
    if (timed_ > 0) {
      log_info(
          "{} product{} the fastest of cuBLASLt's algorithms, timed in {:.1f} s and kept in "
          "{}",
          timed_.load(), timed_ == 1 ? " has" : "s have", seconds_, cache_folder());
      timed_ = 0;
    }
  }
  bool has_news() const { return timed_ > 0; }

 private:
  Timed time(const MatmulTrial& trial, std::span<const Choice> proposals) {
    const int64_t begin = nanoseconds_now();
    Timed timed = time_proposals(trial, proposals);
    seconds_ += seconds_since(begin);
    ++timed_;
    return timed;
  }

  std::mutex mutex_;
  std::map<std::string, Algorithm> known_;
  bool is_kept_ = true;         // what is found, for other processes: else nothing is timed
  double seconds_ = 0;          // of timing
  std::atomic<int> timed_ = 0;  // that nobody was told of
};

Tuner& tuner() {
  static Tuner* const it = new Tuner();
  return *it;
}

}  // namespace

std::optional<Algorithm> fastest_algorithm(const MatmulTrial& trial,
                                           std::span<const Choice> proposals) {
  const Tuning how = tuning();
  return how == Tuning::kNone || (how == Tuning::kWorthwhile && trial.seconds < kWorthwhile)
             ? std::nullopt
             : tuner().find(trial, proposals);
}

void take_first_algorithms() { ranks_are_apart = true; }

void tell_of_timing() {
  if (tuner().has_news()) {
    tuner().tell();
  }
}

}  // namespace mstrain::cuda
