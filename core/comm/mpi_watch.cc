// What ranks know of each other beside what they exchange: who is late, stopped or dead, who failed, who tells people.
#include <algorithm>
#include <cstring>
#include <functional>

#include "core/comm/mpi_engine.h"

namespace mstrain {
namespace {

constexpr int kControlTag = 0;
constexpr double kAsk = 0.25;        // of the timeout, after which others are asked where they are
constexpr double kAskAgain = 0.1;    // of it, between two times
constexpr double kAnswered = 0.4;    // of it: who answered within it is there
constexpr double kGivenUp = 0.9;     // of it, after which a rank that does not answer is
constexpr double kForOthers = 2;     // seconds for those that wait themselves to say for whom
constexpr double kForAWait = 0.3;    // seconds until a death is told that nobody waits for
constexpr double kForTheTeller = 5;  // seconds

std::string_view verb(size_t ranks, std::string_view one, std::string_view many) {
  return ranks == 1 ? one : many;
}

}  // namespace

// Messages --------------------------------------------------------------------------------------------------------------------

void MpiEngine::listen() {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Irecv(&incoming_, sizeof incoming_, MPI_BYTE, MPI_ANY_SOURCE, kControlTag, control_,
                      &request),
            "MPI_Irecv");
  add(request, {nullptr, kHeard});
}

void MpiEngine::tell(int to, const Message& message) {
  Outgoing& kept = outgoing_.emplace_back(Outgoing{++told_messages_, to, message});
  kept.message.rank = rank();
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(
      MPI_Isend(&kept.message, sizeof kept.message, MPI_BYTE, to, kControlTag, control_, &request),
      "MPI_Isend");
  add(request, {nullptr, kept.token});
}

void MpiEngine::tell_others(const Message& message, const std::set<int>& but) {
  for (int i = 0; i < size(); ++i) {
    if (i != rank() && !but.contains(i)) {
      tell(i, message);
    }
  }
}

void MpiEngine::heed(const Message& message) {
  switch (message.kind) {
    case Message::Kind::kWhere: answer(message); break;
    case Message::Kind::kHere:
      answers_[static_cast<size_t>(message.rank)] = {clock_, message.group, message.begun,
                                                     message.text};
      break;
    case Message::Kind::kFailed: {
      std::set<int> culprits;
      for (const int32_t culprit : message.culprits) {
        if (culprit > 0) {
          culprits.insert(culprit - 1);
        }
      }
      // Also of a failure that this rank found by itself before: whoever told of one told of all.
      told_ = told_ || message.told != 0;
      fail_job({message.status, message.text, message.lost != 0}, std::move(culprits),
               message.told != 0 ? Origin::kTold : Origin::kElsewhere);
      break;
    }
    case Message::Kind::kTold: told_ = true; break;
    case Message::Kind::kInterrupt: hooks_.interrupt(); break;
  }
}

void MpiEngine::answer(const Message& question) {
  Message here{.kind = Message::Kind::kHere, .group = question.group};
  const auto group = groups_.find(question.group);
  here.begun = group == groups_.end() ? 0 : group->second->begun;
  if (const MpiOperation* operation = waited_for(); operation != nullptr) {
    set_text(here, operation->describe());
  }
  tell(question.rank, here);
}

void MpiEngine::set_text(Message& message, std::string_view text) {
  std::memcpy(message.text, text.data(), std::min(text.size(), sizeof message.text - 1));
}

// Looking ---------------------------------------------------------------------------------------------------------------------

void MpiEngine::look_after() {
  if (failed_ || finalized_) {
    return;
  }
  if (!interrupt_told_ && rank() > 0 && hooks_.is_interrupted()) {
    interrupt_told_ = true;
    tell(0, {.kind = Message::Kind::kInterrupt});
  }
  look_for_dead();
  for (size_t i = 0; i < active_.size() && !failed_; ++i) {
    look_for_late(*active_[i]);
  }
}

MpiOperation* MpiEngine::waited_for() const {
  for (const auto& operation : active_) {
    if (operation->waiters_ > 0) {
      return operation.get();
    }
  }
  return nullptr;
}

std::vector<int> MpiEngine::missing(const MpiOperation& operation) const {
  std::set<int> out;
  const std::vector<int>& world = operation.group().world;
  for (const Request& request : meanings_) {
    if (request.operation != &operation) {
      continue;
    }
    if (request.peer != kEverybody) {
      out.insert(world[static_cast<size_t>(request.peer)]);
    } else {
      out.insert(world.begin(), world.end());
    }
  }
  std::set<int> looked_for;
  if (operation.looks_) {
    operation.await(looked_for);
  }
  for (const int each : looked_for) {
    out.insert(world[static_cast<size_t>(each)]);
  }
  out.erase(rank());
  return {out.begin(), out.end()};
}

std::string MpiEngine::waiting_in(const MpiOperation& operation,
                                  const std::set<int>& culprits) const {
  std::vector<int> waiting;
  if (operation.is_point()) {
    waiting.push_back(rank());
  } else {
    for (const int each : operation.group().world) {
      if (!culprits.contains(each)) {
        waiting.push_back(each);
      }
    }
  }
  return fmt::format("{}, which {} {} in", operation.describe(), describe_ranks(waiting),
                     verb(waiting.size(), "waits", "wait"));
}

std::string MpiEngine::describe_culprits(const std::set<int>& culprits) const {
  const std::vector<int> ranks(culprits.begin(), culprits.end());
  return ranks.size() == 1 ? peers_->describe(ranks.front()) : describe_ranks(ranks);
}

void MpiEngine::look_for_dead() {
  std::vector<int> dead = peers_->dead();
  if (dead.empty()) {
    return;
  }
  while (poll()) {  // what they had to say before
  }
  if (failed_) {
    return;
  }
  if (!death_) {
    death_ = clock_;
  }
  const MpiOperation* operation = waited_for();
  if (operation == nullptr && clock_ - *death_ < kForAWait) {
    return;
  }
  const std::set<int> culprits(dead.begin(), dead.end());
  fail_job(
      {1,
       fmt::format("{} {} died: {}", describe_culprits(culprits), verb(dead.size(), "has", "have"),
                   operation != nullptr ? waiting_in(*operation, culprits) + ", cannot end"
                                        : fmt::format("rank {} was past {}", rank(),
                                                      last_.empty() ? "nothing yet" : last_)),
       true},
      culprits, Origin::kHere);
}

void MpiEngine::look_for_late(MpiOperation& operation) {
  const double timeout = timeout_;
  if (operation.waited_ < kAsk * timeout) {
    return;
  }
  const std::vector<int> awaited = missing(operation);
  if (operation.asked_ == 0 || operation.waited_ - operation.asked_ > kAskAgain * timeout) {
    operation.asked_ = operation.waited_;
    for (const int each : awaited) {
      tell(each, {.kind = Message::Kind::kWhere, .group = operation.group().id});
    }
  }
  if (operation.waited_ < kGivenUp * timeout) {
    return;
  }
  std::set<int> silent, late, waiting;
  for (const int each : awaited) {
    const Answer& answer = answers_[static_cast<size_t>(each)];
    const bool entered = !operation.is_point() && answer.group == operation.group().id &&
                         answer.begun > operation.sequence_;
    if (answer.at < clock_ - kAnswered * timeout) {
      silent.insert(each);
    } else if (!entered) {
      (answer.waits_in.empty() ? late : waiting).insert(each);
    }
  }
  if (!silent.empty()) {
    const bool stopped = std::all_of(silent.begin(), silent.end(),
                                     [this](int each) { return peers_->is_stopped(each); });
    fail_job({1,
              fmt::format("{} {}: {}", describe_culprits(silent),
                          stopped ? verb(silent.size(), "is stopped", "are stopped")
                                  : verb(silent.size(), "does not answer", "do not answer"),
                          not_entered(operation, silent)),
              true},
             silent, Origin::kHere);
    return;
  }
  if (operation.waited_ < timeout || (late.empty() && operation.waited_ < timeout + kForOthers)) {
    return;
  }
  if (late.empty()) {
    late = waiting.empty() ? std::set<int>(awaited.begin(), awaited.end()) : waiting;
  }
  std::string text =
      fmt::format("{} {} {:.0f} s late: {}", describe_culprits(late),
                  verb(late.size(), "is", "are"), operation.waited_, not_entered(operation, late));
  const std::string& elsewhere = answers_[static_cast<size_t>(*late.begin())].waits_in;
  if (!elsewhere.empty()) {
    text += fmt::format("; rank {} waits in {}", *late.begin(), elsewhere);
  }
  fail_job({1, std::move(text), true}, {}, Origin::kHere);
}

std::string MpiEngine::not_entered(const MpiOperation& operation,
                                   const std::set<int>& culprits) const {
  return fmt::format("{} not entered {} (parallel.timeout_s: {:g})",
                     verb(culprits.size(), "it has", "they have"), waiting_in(operation, culprits),
                     timeout_.load());
}

// Failing ---------------------------------------------------------------------------------------------------------------------

void MpiEngine::throw_failure() const {
  const auto end = failure();
  throw CommError(end ? end->message : "this rank has finished its part of the job");
}

std::optional<RankEnd> MpiEngine::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

bool MpiEngine::is_teller() const {
  int lowest = 0;
  while (culprits_.contains(lowest)) {
    ++lowest;
  }
  return lowest == rank();
}

void MpiEngine::fail_job(RankEnd end, std::set<int> culprits, Origin origin) {
  culprits_.insert(culprits.begin(), culprits.end());
  if (failed_) {
    return;
  }
  {
    const std::lock_guard lock(failure_mutex_);
    failure_ = end;
  }
  failed_ = true;
  told_ = told_ || origin == Origin::kTold || origin == Origin::kToldHere;
  try {
    if (origin == Origin::kHere || origin == Origin::kToldHere) {
      Message message{.kind = Message::Kind::kFailed,
                      .status = end.status,
                      .told = told_ ? 1 : 0,
                      .lost = end.lost_ranks ? 1 : 0};
      size_t at = 0;
      for (const int each : culprits_) {
        if (at < std::size(message.culprits)) {
          message.culprits[at++] = each + 1;
        }
      }
      set_text(message, end.message);
      tell_others(message, culprits_);
    }
    // What every rank finds by itself, a mistake in the configuration, rank 0 says where it finds it.
    if (is_teller() && !told_ && end.status == 1) {
      say(end.message);
    }
    settle(kForTheTeller, [&] { return told_ || (is_teller() && end.status != 1); });
    if (!told_ && end.status == 1) {
      say(end.message);  // whoever should have told is not there
    }
  } catch (const std::exception&) {  // MPI or memory fails as well: others find that out
  }
  for (const auto& operation : active_) {
    operation->end(false, Clock::now());
  }
  abandoned_ = std::move(active_);
  active_.clear();
}

void MpiEngine::say(const std::string& message) {
  hooks_.tell(message);
  told_ = true;
  tell_others({.kind = Message::Kind::kTold}, culprits_);
}

void MpiEngine::settle(double seconds, const std::function<bool()>& done) {
  const double end = clock_ + seconds;
  const auto is_sent = [&] {
    return std::all_of(outgoing_.begin(), outgoing_.end(),
                       [&](const Outgoing& each) { return culprits_.contains(each.to); });
  };
  while (clock_ < end && !(done() && is_sent())) {
    if (!poll()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    tick(Clock::now());
  }
}

bool MpiEngine::can_call() const {
  // After a failure of a run memory is freed that messages were to be received into. Before there is one nothing is under way.
  return !finalized_ && (!failed_ || failure()->status != 1);
}

bool MpiEngine::fail(const RankEnd& end, const std::function<void()>& tell) {
  call([&] {
    if (!failed_) {
      const bool tells_itself = rank() == 0;
      if (tells_itself) {
        tell();
      }
      const bool is_own = rank() > 0 && end.status == 1;
      fail_job({end.status, is_own ? fmt::format("rank {}: {}", rank(), end.message) : end.message,
                end.lost_ranks},
               {}, tells_itself ? Origin::kToldHere : Origin::kHere);
    }
    if (told_ || !can_call()) {
      return;
    }
    try {
      if (is_teller()) {
        tell();
        told_ = true;
        tell_others({.kind = Message::Kind::kTold}, culprits_);
      }
      settle(timeout_, [&] { return told_.load(); });
    } catch (const CommError&) {
    }
  });
  return told_;
}

}  // namespace mstrain
