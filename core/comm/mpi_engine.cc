#include "core/comm/mpi_engine.h"

#include <sys/prctl.h>

#include <algorithm>
#include <csignal>
#include <future>

#include "core/base/clock.h"
#include "core/comm/mpi_near.h"

namespace mstrain {
namespace {

constexpr double kIdle = 0.02;           // seconds between two looks where nothing is under way
constexpr double kLazy = 50e-6;          // where nobody waits
constexpr double kFresh = 100e-6;        // where something was under way a moment ago
constexpr double kHelped = 500e-6;       // where others look: waking up takes from what they do
constexpr double kEager = 200e-6;        // for which a wait is looked after without sleep
constexpr double kEagerBytes = 2e9;      // a second: messages show nothing before their end
constexpr int kLooksATick = 8;           // of the clock, which costs as much as a look
constexpr double kShortestSleep = 1e-4;  // a look costs some microseconds
constexpr double kLongestSleep = 1e-3;
constexpr double kLengthened = 1.0 / 32;  // by which looks that come late make a wait longer
constexpr double kLongestTick = 0.25;     // of the clock: in what is more, this process did not run

}  // namespace

void check_mpi(int error, const char* call) {
  if (error != MPI_SUCCESS) {
    char text[MPI_MAX_ERROR_STRING]{};
    int length = 0;
    MPI_Error_string(error, text, &length);
    throw CommError(fmt::format("{}: {}", call, text));
  }
}

MpiEngine::MpiEngine(MpiProcess::Hooks hooks) : hooks_(std::move(hooks)) {
  std::promise<void> initialized;
  std::future<void> is_initialized = initialized.get_future();
  thread_ = std::thread([this, &initialized] {
    try {
      initialize();
    } catch (...) {
      initialized.set_exception(std::current_exception());
      return;
    }
    initialized.set_value();
    run();
  });
  try {
    is_initialized.get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

MpiEngine::~MpiEngine() {
  call([this] { ended_ = true; });
  thread_.join();
}

void MpiEngine::initialize() {
  sigset_t all;  // signals are the other threads', also those of MPI's own threads
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  prctl(PR_SET_TIMERSLACK, 1000UL);  // nanoseconds: sleeps here are short
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_FUNNELED) {
    throw CommError("this MPI does not let a program with threads call it");
  }
  any_thread_ = provided >= MPI_THREAD_SERIALIZED;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  world_ = std::make_shared<MpiGroup>();
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &world_->comm), "MPI_Comm_dup");
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &control_), "MPI_Comm_dup");
  int size = 0;
  MPI_Comm_rank(world_->comm, &world_->rank);
  MPI_Comm_size(world_->comm, &size);
  world_->id = 1;
  world_->name = "world";
  for (int i = 0; i < size; ++i) {
    world_->world.push_back(i);
  }
  groups_[world_->id] = world_;
  answers_.resize(static_cast<size_t>(size));

  int* most = nullptr;
  int has = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&most), &has);
  tags_ = has != 0 ? *most : 32767;

  const ProcessPlace mine = this_place();
  places_.resize(static_cast<size_t>(size));
  check_mpi(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, places_.data(), sizeof mine, MPI_BYTE,
                          world_->comm),
            "MPI_Allgather");
  peers_ = std::make_unique<MpiPeers>(places_, world_->rank);
  take_turns_ = peers_->take_turns();
  world_->near = NearMemory::make(*world_, places_);
  listen();
  ticked_ = progressed_ = Clock::now();
}

void MpiEngine::run() {
  while (!ended_) {
    double seconds = kHelped;
    if (helpers_ == 0) {
      const std::lock_guard turn(turn_);
      seconds = patience(look());
    }
    sleep(seconds);
  }
}

bool MpiEngine::look() {
  bool progressed = false;
  try {
    run_tasks();
    polled_ = {};
    for (int i = 0; i < kLooksATick && !progressed && !ended_ && can_call(); ++i) {
      progressed = poll();
    }
    tick(polled_ != Clock::time_point() ? polled_ : Clock::now());
    if (progressed) {  // in which MPI may have copied for long
      progressed_ = ticked_;
    }
    if (clock_ - looked_ >= kIdle) {
      looked_ = clock_;
      look_after();
    }
  } catch (const std::exception& error) {  // MPI's own, or memory that is not there
    fail_job({1, fmt::format("rank {}: {}", rank(), error.what()), true}, {}, Origin::kHere);
  }
  return progressed;
}

void MpiEngine::help(const MpiOperation& operation) {
  if (!any_thread_ || take_turns_) {
    return;
  }
  struct Counted {
    explicit Counted(std::atomic<int>& all) : count(all) { ++count; }
    ~Counted() { --count; }
    std::atomic<int>& count;
  };
  const Counted counted(helpers_);
  for (bool comes_on = true; !operation.done() && comes_on;) {
    const std::lock_guard turn(turn_);
    comes_on =
        look() || idle_seconds() < kEager + static_cast<double>(operation.bytes_) / kEagerBytes;
  }
}

void MpiEngine::run_tasks() {
  while (has_tasks_) {
    std::function<void()> task;
    {
      const std::lock_guard lock(mutex_);
      task = std::move(tasks_.front());
      tasks_.pop_front();
      has_tasks_ = !tasks_.empty();
    }
    task();
  }
}

void MpiEngine::tick(Clock::time_point now) {
  const double passed =
      std::min(std::chrono::duration<double>(now - ticked_).count(), kLongestTick);
  ticked_ = now;
  if (std::exchange(is_fresh_, false)) {
    progressed_ = now;
  }
  clock_ += passed;
  for (const auto& operation : active_) {
    operation->waited_ += operation->waiters_ > 0 ? passed : 0;
  }
}

double MpiEngine::patience(bool progressed) {
  if (progressed) {
    return 0;
  }
  const double idle = idle_seconds();
  if (active_.empty()) {
    return std::clamp(idle / 8, kFresh, kIdle);
  }
  const bool waits = std::any_of(active_.begin(), active_.end(),
                                 [](const auto& operation) { return operation->waiters_ > 0; });
  if (waits) {  // first without even a yield, which may cost a slice of the scheduler, milliseconds
    return idle < kEager ? 0 : std::clamp(idle * kLengthened, kShortestSleep, kLongestSleep);
  }
  // A message that comes through memory comes without MPI.
  const bool only_looks = std::all_of(active_.begin(), active_.end(), [](const auto& operation) {
    return operation->looks_ && operation->is_point();
  });
  return only_looks ? kHelped : kLazy;
}

void MpiEngine::sleep(double seconds) {
  if (seconds == 0) {
    return;
  }
  sleeps_long_ = seconds > kHelped;  // too long for what begins meanwhile
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, std::chrono::duration<double>(seconds),
                 [this] { return !tasks_.empty() || hurries_; });
  hurries_ = sleeps_long_ = false;
}

double MpiEngine::idle_seconds() const {
  return std::chrono::duration<double>(ticked_ - progressed_).count();
}

std::vector<std::byte> MpiEngine::borrow(int64_t bytes) {
  std::vector<std::byte> out = std::move(lent_);
  if (out.size() < static_cast<size_t>(bytes)) {
    out.resize(static_cast<size_t>(bytes));
  }
  return out;
}

void MpiEngine::hurry() {
  {
    const std::lock_guard lock(mutex_);
    hurries_ = true;
  }
  wake_.notify_one();
}

void MpiEngine::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    has_tasks_ = true;
  }
  wake_.notify_one();
}

void MpiEngine::call(const std::function<void()>& work) {
  std::promise<void> ended;
  post([&] {
    try {
      work();
      ended.set_value();
    } catch (...) {
      ended.set_exception(std::current_exception());
    }
  });
  ended.get_future().get();
}

void MpiEngine::start(std::shared_ptr<MpiOperation> operation) {
  // Not where another thread works: what it has in hand may take long, and the caller has other work.
  if (any_thread_ && turn_.try_lock()) {
    const std::lock_guard turn(turn_, std::adopt_lock);
    run_tasks();
    begin(operation);
    if (sleeps_long_) {
      hurry();
    }
    return;
  }
  post([this, operation = std::move(operation)] { begin(operation); });
}

std::shared_ptr<MpiGroup> MpiEngine::make_group(const MpiGroup& parent,
                                                const std::vector<int>& ranks, uint64_t id,
                                                std::string name) {
  auto group = std::make_shared<MpiGroup>();
  group->id = id;
  group->name = std::move(name);
  for (const int each : ranks) {
    group->world.push_back(parent.world[static_cast<size_t>(each)]);
  }
  call([&] {
    if (failed_ || finalized_) {
      throw_failure();
    }
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group some = MPI_GROUP_NULL;
    check_mpi(MPI_Comm_group(parent.comm, &all), "MPI_Comm_group");
    check_mpi(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some),
              "MPI_Group_incl");
    check_mpi(MPI_Comm_create_group(parent.comm, some, /*tag=*/0, &group->comm),
              "MPI_Comm_create_group");
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    MPI_Comm_set_errhandler(group->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(group->comm, &group->rank);
    group->near = NearMemory::make(*group, places_);
    groups_[id] = group;
  });
  return group;
}

void MpiEngine::release(std::shared_ptr<MpiGroup> group) {
  post([this, group = std::move(group)] {
    groups_.erase(group->id);
    if (!failed_ && !finalized_) {
      MPI_Comm_free(&group->comm);
    }
  });
}

void MpiEngine::finish() {
  call([this] {
    if (failed_) {
      throw_failure();
    }
    for (MPI_Request& request : requests_) {
      MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
    finalized_ = true;
    check_mpi(MPI_Finalize(), "MPI_Finalize");
  });
}

}  // namespace mstrain
