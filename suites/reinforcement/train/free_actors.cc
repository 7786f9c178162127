#include "suites/reinforcement/train/free_actors.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "suites/reinforcement/algorithms/sizes.h"
#include "suites/reinforcement/train/central.h"
#include "suites/reinforcement/train/messages.h"

namespace mstrain::reinforcement {
namespace {

constexpr const char* kTrajectories = "trajectories";
constexpr const char* kParameters = "parameters";
constexpr double kReassured = 1.0 / 16;  // of the timeout, after which those who wait are told so
constexpr auto kBreath = std::chrono::microseconds(50);  // between two looks for who is ready

enum class Word : uint8_t { kCalledIn, kActs, kWaitsOn };

double seconds_from(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Where a run fails, a message that nobody will complete may still be looked at by whatever carries it: its memory stays.
template <class T>
void outlive(const Event& event, std::unique_ptr<T>& memory) {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<T>> kept;
  if (!event.done()) {
    const std::lock_guard lock(mutex);
    kept.push_back(std::move(memory));
  }
}

}  // namespace

FreeLearner::FreeLearner(Communicator& ranks, Rollout like, int64_t bound, double timeout)
    : ranks_(ranks),
      like_(std::move(like)),
      bound_(bound),
      timeout_(timeout),
      actors_(count(ranks.size() - 1)) {
  all_are_idle();
}

FreeLearner::~FreeLearner() {
  for (Actor& each : actors_) {
    outlive(each.brings, each.size);
    outlive(each.takes, each.sent);
  }
}

void FreeLearner::all_are_idle() {
  idle_.resize(actors_.size());
  std::iota(idle_.begin(), idle_.end(), 0);
}

void FreeLearner::take_in(int actor) {
  Actor& from = actors_[count(actor)];
  from.brings.wait();
  std::string bytes(count(*from.size), '\0');
  ranks_.receive(octets(bytes), actor + 1, kTrajectories).wait();
  ByteReader in(bytes, "a rollout of another rank");
  Brought brought{like_, actor + 1, in.get<int64_t>()};
  unpack(in.get_text(), brought.rollout);
  in.expect_end();
  queue_.push_back(std::move(brought));
  from.acts = false;
  idle_.push_back(actor);
}

void FreeLearner::take_in_all() {
  const double passed = std::min(seconds_from(std::exchange(looked_, Clock::now())), timeout_ / 4);
  for (int actor = 0; actor < std::ssize(actors_); ++actor) {
    Actor& each = actors_[count(actor)];
    if (each.acts && each.brings.done()) {
      take_in(actor);
    } else if (each.acts && (each.silent += passed) >= timeout_) {
      throw CommError(fmt::format(
          "rank {} has brought no {} within {:g} s (distribution.timeout_s): it is stopped, or "
          "slower than that",
          actor + 1, kTrajectories, timeout_));
    }
  }
}

// Size and text, as receive_text() wants them, which it does at once.
void FreeLearner::give(int actor, std::string message) {
  Actor& to = actors_[count(actor)];
  to.takes.wait();
  *to.sent = std::move(message);
  int64_t size = static_cast<int64_t>(to.sent->size());
  ranks_.send({&size, 1, Dtype::kI64}, actor + 1, kParameters).wait();
  to.takes = ranks_.send(octets(*to.sent), actor + 1, kParameters);
}

void FreeLearner::give_out(const Params& params) {
  std::string message;
  while (!idle_.empty() && std::ssize(queue_) + acting() <= bound_) {
    const int actor = idle_.front();
    if (message.empty()) {
      ByteWriter out;
      out.put(Word::kActs);
      out.put(version_);
      out.put_all(flat_of(params));
      message = out.take();
    }
    give(actor, message);
    idle_.pop_front();
    Actor& to = actors_[count(actor)];
    to.acts = true;
    to.silent = 0;
    to.brings = ranks_.receive({to.size.get(), 1, Dtype::kI64}, actor + 1, kTrajectories);
  }
}

// An idle one waits as many iterations as others are before it, and no single wait for a message takes as long.
void FreeLearner::reassure() {
  if (seconds_from(reassured_) < timeout_ * kReassured) {
    return;
  }
  reassured_ = Clock::now();
  ByteWriter out;
  out.put(Word::kWaitsOn);
  const std::string message = out.take();
  for (const int actor : idle_) {
    give(actor, message);
  }
}

FreeLearner::Next FreeLearner::next(const Params& params) {
  Next out;
  const Clock::time_point began = Clock::now();
  for (;; std::this_thread::sleep_for(kBreath)) {
    take_in_all();
    give_out(params);
    reassure();
    while (!queue_.empty()) {
      Brought first = std::move(queue_.front());
      queue_.pop_front();
      const std::vector<Episode>& finished = first.rollout.finished;
      out.finished.insert(out.finished.end(), finished.begin(), finished.end());
      out.staleness = version_ - first.version;
      if (out.staleness <= bound_) {
        out.rollout = std::move(first.rollout);
        out.actor = first.actor;
        out.waited = seconds_from(began);
        return out;
      }
      ++out.dropped;
    }
  }
}

void FreeLearner::call_in(int64_t env_steps) {
  while (acting() > 0) {
    take_in_all();
    reassure();
    std::this_thread::sleep_for(kBreath);
  }
  ByteWriter out;
  out.put(Word::kCalledIn);
  out.put(env_steps);
  const std::string message = out.take();
  for (int actor = 0; actor < std::ssize(actors_); ++actor) {
    give(actor, message);
    actors_[count(actor)].takes.wait();
  }
  all_are_idle();
}

void FreeLearner::save(ByteWriter& to) const {
  to.put(version_);
  to.put<uint64_t>(queue_.size());
  for (const Brought& each : queue_) {
    to.put(each.actor);
    to.put(each.version);
    to.put_text(pack(each.rollout));
  }
}

void FreeLearner::load(ByteReader& from) {
  version_ = from.get<int64_t>();
  queue_.clear();
  for (auto n = from.get<uint64_t>(); n > 0; --n) {
    Brought brought{like_, from.get<int>(), from.get<int64_t>()};
    unpack(from.get_text(), brought.rollout);
    queue_.push_back(std::move(brought));
  }
}

bool FreeActor::may_act(Params& params) {
  std::string bytes;
  Word word = Word::kWaitsOn;
  while (word == Word::kWaitsOn) {
    bytes = receive_text(ranks_, 0, kParameters);
    word = ByteReader(bytes, kParameters).get<Word>();
  }
  ByteReader in(bytes, "parameters of the learner");
  const bool acts = in.get<Word>() == Word::kActs;
  (acts ? version_ : env_steps_) = in.get<int64_t>();
  if (acts) {
    from_flat(in.get_all<float>(flat_of(params).size()), params);
  }
  in.expect_end();
  return acts;
}

void FreeActor::bring(const Rollout& rollout) {
  ByteWriter out;
  out.put(version_);
  out.put_text(pack(rollout));
  send_text(ranks_, out.take(), 0, kTrajectories);
}

}  // namespace mstrain::reinforcement
