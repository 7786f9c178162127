// Who calls MPI, and what is worked on. Private to core/comm/mpi_*.
//
// One thread at a time has its turn (turn_): the engine's own, which looks after all that is under way, or, where MPI lets any thread
// call it, one that begins an operation or waits for one. So what is waited for at once costs no other thread's wakeup.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/comm/mpi_peers.h"
#include "core/comm/mpi_process.h"

namespace mstrain {

class NearMemory;

// A communicator's ranks, as the engine keeps them.
struct MpiGroup {
  MPI_Comm comm = MPI_COMM_NULL;
  uint64_t id = 0;  // the same on all of its ranks, another for each group
  std::string name;
  int rank = 0;
  std::vector<int> world;            // by rank of the group: of the job
  int64_t begun = 0;                 // collectives, by this rank; counted in turns
  std::shared_ptr<NearMemory> near;  // mpi_near.h; null: not all are of this machine

  int size() const { return static_cast<int>(world.size()); }
};

// What was asked for, made of MPI's requests: complete when these are. What is not of Event is called by whoever has the turn.
class MpiOperation : public Event::State {
 public:
  enum class Kind : uint8_t { kCollective, kPoint };

  MpiOperation(MpiEngine& engine, std::shared_ptr<MpiGroup> group, std::string what,
               Kind kind = Kind::kCollective)
      : engine_(engine), group_(std::move(group)), what_(std::move(what)), kind_(kind) {}

  using Clock = std::chrono::steady_clock;

  bool done() const override { return state_ != kRunning; }
  void wait() override;
  int64_t ended() const override { return done() ? ended_ : 0; }

  // Begins the first requests.
  virtual void begin() = 0;
  // The request that was given `token` is complete; begins others.
  virtual void advance(int token) = 0;
  // Of one that looks on: at what no request tells of. Returns whether anything came on.
  virtual bool look() { return false; }
  // Adds the ranks of the group that it then waits for.
  virtual void await(std::set<int>& /*ranks*/) const {}

  void end(bool well, Clock::time_point now);
  const MpiGroup& group() const { return *group_; }
  // "all_reduce loss of data"
  std::string describe() const { return what_ + " of " + group_->name; }

 protected:
  void send(const void* data, int64_t bytes, int peer, int tag, int token);
  void receive(void* data, int64_t bytes, int peer, int tag, int token);
  // A collective of MPI itself, which waits for everybody.
  void collective(MPI_Request request, int token);
  // Between these it is not complete, and look() is called.
  void look_on();
  void look_no_more();
  // The tag of this operation's messages: of the first or second exchange of a collective; of a point, one for all.
  int tag(int exchange) const;

  bool is_point() const { return kind_ == Kind::kPoint; }

  MpiEngine& engine_;
  std::shared_ptr<MpiGroup> group_;

 private:
  friend class MpiEngine;
  enum State : int { kRunning, kDone, kFailed };

  std::string what_;
  Kind kind_;
  std::atomic<int> state_ = kRunning;
  std::atomic<int> waiters_ = 0;  // that sleep
  // Not std::atomic's own wait, whose yields may cost a slice of the scheduler, milliseconds.
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t ended_ = 0;     // written before state_ says so
  int64_t sequence_ = 0;  // in the group
  int64_t bytes_ = 0;     // of its messages until now
  int pending_ = 0;       // requests, and whether it looks on
  bool looks_ = false;
  double waited_ = 0;  // seconds in which somebody waited and nothing came
  double asked_ = 0;   // what waited_ was when others were asked where they are; 0: not yet
};

// Throws CommError with MPI's own words.
void check_mpi(int error, const char* call);

class MpiEngine {
 public:
  explicit MpiEngine(MpiProcess::Hooks hooks);
  ~MpiEngine();
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;

  int rank() const { return world_->rank; }
  int size() const { return world_->size(); }
  const std::shared_ptr<MpiGroup>& world() const { return world_; }
  void set_timeout(double seconds) { timeout_ = seconds; }

  // Any thread. After a failure the operation fails.
  void start(std::shared_ptr<MpiOperation> operation);
  // What ends where it begins needs no operation. Calls `work` in a turn, if it can have one at once; returns whether it has, and what it
  // returns.
  template <class F>
  bool at_once(const MpiGroup& group, std::string_view operation, std::string_view what, F&& work) {
    if (!any_thread_ || !turn_.try_lock()) {
      return false;
    }
    const std::lock_guard turn(turn_, std::adopt_lock);
    run_tasks();
    if (failed_ || finalized_ || !work()) {
      return false;
    }
    note_last(operation, what, group);
    return true;
  }
  // Works on all that is under way until `operation` is done, or has not come on for a while.
  void help(const MpiOperation& operation);
  // Somebody waits from now on.
  void hurry();
  // The group of those ranks of `parent` (its ranks), which all call this.
  std::shared_ptr<MpiGroup> make_group(const MpiGroup& parent, const std::vector<int>& ranks,
                                       uint64_t id, std::string name);
  void release(std::shared_ptr<MpiGroup> group);
  // In turns: memory of that size or more, which is kept when it is given back.
  std::vector<std::byte> borrow(int64_t bytes);
  void give_back(std::vector<std::byte> memory) { lent_ = std::move(memory); }

  // As those of MpiProcess; finish() when all ranks have come to it.
  void finish();
  bool fail(const RankEnd& end, const std::function<void()>& tell);
  std::optional<RankEnd> failure() const;
  bool told() const { return told_; }
  [[noreturn]] void throw_failure() const;

 private:
  friend class MpiOperation;
  using Clock = MpiOperation::Clock;

  static constexpr int kEverybody = -1;
  static constexpr int kHeard = 0;  // the token of the message that is listened for

  // What one of MPI's requests is for.
  struct Request {
    MpiOperation* operation = nullptr;  // null: a message about the job
    int token = 0;
    int peer = kEverybody;  // of the group
  };
  // What ranks tell each other about the job.
  struct Message {
    enum class Kind : int32_t { kWhere, kHere, kFailed, kTold, kInterrupt };
    Kind kind = Kind::kWhere;
    int32_t rank = 0;        // of the sender
    int32_t status = 0;      // kFailed
    int32_t told = 0;        // kFailed: people know
    int32_t lost = 0;        // kFailed: RankEnd::lost_ranks
    uint64_t group = 0;      // kWhere, kHere
    int64_t begun = 0;       // kHere: collectives of the group
    int32_t culprits[16]{};  // kFailed: rank + 1; 0: none
    char text[1792]{};       // kHere: what is waited in; kFailed: why
  };
  struct Outgoing {
    int token = 0;
    int to = 0;
    Message message;
  };
  // The last one of a rank.
  struct Answer {
    double at = -1e9;  // by the engine's clock
    uint64_t group = 0;
    int64_t begun = 0;
    std::string waits_in;
  };
  enum class Origin : uint8_t { kHere, kToldHere, kElsewhere, kTold };

  void initialize();
  void run();
  void post(std::function<void()> task);
  // Runs `work` on the engine's thread and returns when it has ended; throws what it throws.
  void call(const std::function<void()>& work);
  // What a turn is for. Returns whether anything came on.
  bool look();
  void run_tasks();
  void tick(Clock::time_point now);
  // Seconds until the next look is due.
  double patience(bool progressed);
  double idle_seconds() const;  // at the last look, since something came on
  void sleep(double seconds);
  bool poll();
  bool look_on();
  bool can_call() const;
  void begin(const std::shared_ptr<MpiOperation>& operation);
  void note_last(std::string_view operation, std::string_view what, const MpiGroup& group);
  void add(MPI_Request request, Request meaning);
  void end_if_complete(MpiOperation* operation);

  // mpi_watch.cc
  void listen();
  void tell(int to, const Message& message);
  void tell_others(const Message& message, const std::set<int>& but);
  void heed(const Message& message);
  void answer(const Message& question);
  static void set_text(Message& message, std::string_view text);
  void look_after();
  void look_for_dead();
  void look_for_late(MpiOperation& operation);
  MpiOperation* waited_for() const;
  std::vector<int> missing(const MpiOperation& operation) const;  // ranks of the job
  std::string waiting_in(const MpiOperation& operation, const std::set<int>& culprits) const;
  std::string not_entered(const MpiOperation& operation, const std::set<int>& culprits) const;
  std::string describe_culprits(const std::set<int>& culprits) const;
  void fail_job(RankEnd end, std::set<int> culprits, Origin origin);
  bool is_teller() const;
  void say(const std::string& message);
  // Attends to messages about the job alone, until `done` and all are sent that can be, or for so many seconds.
  void settle(double seconds, const std::function<bool()>& done);

  MpiProcess::Hooks hooks_;
  std::atomic<double> timeout_ = 30;
  std::shared_ptr<MpiGroup> world_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  std::atomic<bool> has_tasks_ = false;
  bool hurries_ = false;

  mutable std::mutex failure_mutex_;
  std::optional<RankEnd> failure_;
  std::atomic<bool> told_ = false;  // people know

  std::atomic<int> helpers_ = 0;           // threads that look instead of the engine's
  std::atomic<bool> sleeps_long_ = false;  // the engine's
  std::atomic<bool> ended_ = false;
  bool any_thread_ = false;  // may call MPI, one at a time
  bool take_turns_ = false;  // MpiPeers::take_turns(): a wait leaves its processor to others

  std::mutex turn_;  // guards what follows, and calls of MPI
  MPI_Comm control_ = MPI_COMM_NULL;
  std::unique_ptr<MpiPeers> peers_;
  std::vector<ProcessPlace> places_;  // by rank
  int tags_ = 0;                      // the highest tag
  std::vector<MPI_Request> requests_;
  std::vector<Request> meanings_;  // of requests_
  std::vector<int> indices_;       // of those that are complete, as MPI_Testsome gives them
  std::vector<MPI_Status> statuses_;
  std::vector<std::shared_ptr<MpiOperation>> active_;
  int looking_ = 0;                                       // of these, how many look on
  std::vector<std::shared_ptr<MpiOperation>> abandoned_;  // by a failure: requests still name them
  std::map<uint64_t, std::shared_ptr<MpiGroup>> groups_;
  Message incoming_;
  std::list<Outgoing> outgoing_;
  int told_messages_ = kHeard;
  std::vector<Answer> answers_;  // by rank
  std::string last_;             // operation that was begun
  double clock_ = 0;             // seconds in which this process could run
  double looked_ = 0;            // when others were looked after
  Clock::time_point ticked_, progressed_;
  Clock::time_point polled_;     // the last end of this look
  bool is_fresh_ = false;        // something was begun since
  std::vector<Request> spare_;   // memory for poll()
  std::vector<std::byte> lent_;  // and for operations
  std::optional<double> death_;
  std::set<int> culprits_;
  bool failed_ = false;
  bool finalized_ = false;
  bool interrupt_told_ = false;

  std::thread thread_;
};

}  // namespace mstrain
