#include "launcher/start_ranks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/log.h"
#include "core/base/processors.h"
#include "core/comm/mpi_peers.h"
#include "launcher/absent_ranks.h"
#include "launcher/commands.h"
#include "launcher/rank_link.h"
#include "launcher/rank_place.h"

namespace mstrain::launcher {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr int kLook = 50;                // milliseconds between two looks at mpirun
constexpr seconds kOthersMayTake{30};    // from the first failure to the last rank's end
constexpr seconds kLastWordsMayTake{2};  // of that, where ranks cannot find out by themselves
constexpr seconds kMpirunMayTake{5};     // to end after its last rank, and when it is asked to

std::string find_mpirun() {
  const char* path = std::getenv("PATH");
  std::string rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const size_t end = rest.find(':');
    const std::string candidate = rest.substr(0, end) + "/mpirun";
    if (access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
  }
  fail(
      "--ranks: mpirun is not on PATH; it comes with Open MPI: apt-get install openmpi-bin, or "
      "scripts/deps.sh");
}

// What Open MPI needs to start on one machine, as any user, without a network or ssh, and without a word; what the user's
// environment says goes first.
void prepare_environment(const std::string& link) {
  const std::pair<const char*, const char*> settings[] = {
      {"OMPI_MCA_plm", "isolated"},
      {"OMPI_MCA_ras", "^slurm,tm,lsf,gridengine"},
      {"OMPI_MCA_pml", "ob1"},
      {"OMPI_MCA_btl", "self,vader"},
      {"OMPI_MCA_orte_enable_recovery", "1"},  // whoever is left tells why, and ends by itself
      {"OMPI_MCA_btl_base_warn_component_unused", "0"},
      {"OMPI_MCA_mpi_warn_on_fork", "0"},
      {"HWLOC_HIDE_ERRORS", "2"}};
  for (const auto& [name, value] : settings) {
    setenv(name, value, /*overwrite=*/0);
  }
  // Containers may forbid processes to read each other's memory; Open MPI finds that out with an error message for each message.
  char byte = 0;
  const iovec local{&byte, 1};
  if (process_vm_readv(getpid(), &local, 1, &local, 1, 0) != 1) {
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", /*overwrite=*/0);
  }
  setenv(kLinkVariable, link.c_str(), 1);
}

std::vector<std::string> mpirun_command(const RanksToStart& job) {
  std::vector<std::string> out{find_mpirun()};
  if (geteuid() == 0) {
    out.emplace_back("--allow-run-as-root");
  }
  out.insert(out.end(), {"--oversubscribe", "--bind-to", "none", "-n", std::to_string(job.ranks),
                         std::filesystem::read_symlink("/proc/self/exe").string()});
  out.insert(out.end(), job.arguments.begin(), job.arguments.end());
  return out;
}

// A process whose output is kept aside, in a session of its own: the terminal's signals are not for it.
class Mpirun {
 public:
  explicit Mpirun(const std::vector<std::string>& command) {
    std::vector<char*> argv;
    for (const std::string& word : command) {
      argv.push_back(const_cast<char*>(word.c_str()));
    }
    argv.push_back(nullptr);
    output_ = memfd_create("mpirun", MFD_CLOEXEC);
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const pid_t starter = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);  // on which it ends its ranks
      setsid();
      dup2(nothing, STDIN_FILENO);
      dup2(output_, STDOUT_FILENO);
      dup2(output_, STDERR_FILENO);
      if (getppid() == starter) {
        execv(argv[0], argv.data());
      }
      _exit(127);
    }
    close(nothing);
    check(pid_ > 0, "--ranks: mpirun cannot be started: {}", std::strerror(errno));
  }
  ~Mpirun() {
    if (!ended()) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(output_);
  }
  Mpirun(const Mpirun&) = delete;
  Mpirun& operator=(const Mpirun&) = delete;

  bool ended() {
    ended_ = ended_ || waitpid(pid_, &status_, WNOHANG) == pid_;
    return ended_;
  }
  // That it was not asked to end by.
  std::optional<int> ending_signal() const {
    const bool was_killed = ended_ && !asked_ && WIFSIGNALED(status_);
    return was_killed ? std::optional(WTERMSIG(status_)) : std::nullopt;
  }
  // Asks it to end, and ends it where it does not for long: to be called until it has ended.
  void terminate() {
    if (!asked_) {
      asked_ = Clock::now();
      kill(pid_, SIGTERM);
    } else if (Clock::now() - *asked_ > kMpirunMayTake) {
      kill(pid_, SIGKILL);
    }
  }
  std::string output() const {
    std::string out(static_cast<size_t>(std::max<off_t>(0, lseek(output_, 0, SEEK_END))), '\0');
    const ssize_t count = pread(output_, out.data(), out.size(), 0);
    out.resize(static_cast<size_t>(std::max<ssize_t>(0, count)));
    return out;
  }

 private:
  int output_ = -1;
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
  std::optional<Clock::time_point> asked_;
};

struct JobEnd {
  int status = 0;
  bool lost_ranks = false;
  bool cleared = false;  // what an earlier run had written
};

// One start of the job.
class Job {
 public:
  Job(const RanksToStart& job, const std::atomic<bool>& stop)
      : job_(job), stop_(stop), absent_(links_.name(), job.ranks, job.timeout_s) {
    prepare_environment(links_.name());
    mpirun_.emplace(mpirun_command(job));
  }

  JobEnd watch() {
    while (!mpirun_->ended()) {
      links_.listen(kLook);
      pass_on_interrupt();
      end_what_is_incomplete();
      end_what_hangs();
      end_mpirun();
    }
    for (int i = 0; i < job_.ranks; ++i) {
      links_.listen(0);  // last words
    }
    kill_ranks();
    return result();
  }

 private:
  const std::vector<StartedRank>& ranks() const { return links_.ranks(); }
  const StartedRank* rank_zero() const {
    const auto zero = std::find_if(ranks().begin(), ranks().end(),
                                   [](const StartedRank& each) { return each.rank == 0; });
    return zero == ranks().end() ? nullptr : &*zero;
  }

  // Rank 0 alone: it decides what becomes of the run, and tells the others.
  void pass_on_interrupt() {
    if (!stop_) {
      return;
    }
    const StartedRank* zero = rank_zero();
    if (!interrupted_) {
      interrupted_ = true;
      links_.tell_interrupted();
      if (zero == nullptr) {
        mpirun_->terminate();
      } else if (zero->socket >= 0) {
        kill(zero->pid, SIGINT);
      }
    }
    if (zero != nullptr && zero->socket < 0 && !zero->ended) {
      kill_ranks();  // nothing was to be saved yet
    }
  }

  bool all_came() const { return static_cast<int>(ranks().size()) == job_.ranks; }

  // Where some never meet the others, these wait in MPI for ever.
  void end_what_is_incomplete() {
    const auto has_joined = [](const StartedRank& rank) { return rank.joined; };
    if (all_came() && std::all_of(ranks().begin(), ranks().end(), has_joined)) {
      return;
    }
    fault_ = absent_.look(ranks());
    if (!fault_.empty()) {
      kill_ranks();
      for (const auto& [rank, pid] : absent_.processes()) {
        kill(pid, SIGKILL);
      }
      mpirun_->terminate();
    }
  }

  // After a failure ranks end by themselves, but for those that cannot.
  void end_what_hangs() {
    bool failed = false;
    bool any_died = false;
    bool all_hang = true;
    for (const StartedRank& rank : ranks()) {
      const bool died = rank.socket < 0 && !rank.ended && !killed_.contains(rank.pid);
      any_died = any_died || died;
      failed = failed || died || (rank.ended && rank.status != 0);
      all_hang = all_hang && (rank.socket < 0 || is_stopped(rank.pid));
    }
    if (!failed) {
      return;
    }
    const auto now = Clock::now();
    failed_at_ = failed_at_.value_or(now);
    if ((all_hang && all_came()) || now - *failed_at_ > kOthersMayTake) {
      kill_ranks();
      if (!all_came()) {
        mpirun_->terminate();
      }
    } else if (any_died && now - *failed_at_ > kLastWordsMayTake) {
      // MPI neither begins nor ends without it: those that wait there hear of nothing.
      kill_ranks(/*among_others=*/false);
      if (!all_came()) {
        mpirun_->terminate();
      }
    }
  }

  // It ends with its ranks, unless it hangs itself.
  void end_mpirun() {
    const auto now = Clock::now();
    const bool is_alone =
        all_came() && std::none_of(ranks().begin(), ranks().end(),
                                   [](const StartedRank& rank) { return rank.socket >= 0; });
    alone_since_ = is_alone ? alone_since_ : now;
    if (is_alone && now - alone_since_ > kMpirunMayTake) {
      mpirun_->terminate();
    }
  }

  void kill_ranks(bool among_others = true) {
    for (const StartedRank& rank : ranks()) {
      if (rank.socket >= 0 && (among_others || !rank.joined || rank.leaving)) {
        if (kill(rank.pid, SIGKILL) == 0) {
          killed_.insert(rank.pid);
        }
      }
    }
  }

  std::string mpirun_words() const {
    const std::string said = mpirun_->output();
    const std::optional<int> signal = mpirun_->ending_signal();
    return signal         ? fmt::format("and was ended by signal {}", *signal)
           : said.empty() ? "and does not say why"
                          : "and says:\n" + said;
  }

  JobEnd result() const {
    const StartedRank* zero = rank_zero();
    if (interrupted_ && (zero == nullptr || !zero->ended)) {
      return {kInterrupted};
    }
    if (ranks().empty()) {
      fail("--ranks: mpirun did not start them, {}", mpirun_words());
    }
    if (!fault_.empty()) {
      log_error("{}", fault_);
      return {1, true};
    }
    JobEnd end;
    bool told = false;
    std::string dead;
    for (const StartedRank& rank : ranks()) {
      told = told || rank.told;
      end.lost_ranks = end.lost_ranks || !rank.ended || rank.lost_ranks;
      end.cleared = end.cleared || rank.cleared;
      const int status = rank.ended ? rank.status : 1;
      end.status = end.status == 0 || (&rank == zero && status != 0) ? status : end.status;
      if (!rank.ended && !killed_.contains(rank.pid)) {
        dead += fmt::format("{}rank {} (pid {})", dead.empty() ? "" : ", ", rank.rank, rank.pid);
      }
    }
    const bool nobody_says_why = end.status == 0 || (!told && dead.empty());
    if (nobody_says_why && !all_came()) {
      fail("--ranks: mpirun did not start all of them, {}", mpirun_words());
    }
    if (end.status != 0 && !told) {
      log_error("{}", !dead.empty()              ? dead + " died"
                      : mpirun_->ending_signal() ? "mpirun is gone, " + mpirun_words()
                                                 : "the job failed without a word");
    }
    return end;
  }

  const RanksToStart& job_;
  const std::atomic<bool>& stop_;
  RankLinks links_;
  AbsentRanks absent_;
  std::string fault_;  // of those
  std::optional<Mpirun> mpirun_;
  bool interrupted_ = false;
  std::optional<Clock::time_point> failed_at_;
  Clock::time_point alone_since_ = Clock::now();
  std::set<pid_t> killed_;  // here, which says nothing about them
};

// As many as have processors of their own, if those that began had and the run can be shared by fewer.
int ranks_left(const RanksToStart& job, int processors_then) {
  if (job.ranks <= processors_then) {
    for (int ranks = std::min(job.ranks, processors_here()); ranks > 0; --ranks) {
      if (job.fits(ranks)) {
        return ranks;
      }
    }
  }
  return job.ranks;
}

}  // namespace

int start_ranks(const RanksToStart& given, const std::atomic<bool>& stop) {
  outlive_output();
  const HeedInterrupts heeds;
  RanksToStart job = given;
  const int processors = processors_here();
  for (int start = 0;; ++start) {
    const JobEnd end = Job(job, stop).watch();
    if (!end.lost_ranks || start == given.restarts || stop) {
      return end.status;
    }
    if (end.cleared) {
      std::erase(job.arguments, "--restart");  // what this run wrote is to be gone on with
    }
    const bool anew = std::ranges::find(job.arguments, "--restart") != job.arguments.end();
    job.ranks = ranks_left(given, processors);
    log_warning(
        "starting {} rank{} again {}, {} of {} times", job.ranks, job.ranks == 1 ? "" : "s",
        anew ? "with --restart, which had removed nothing yet" : "from the newest checkpoint",
        start + 1, given.restarts);
  }
}

}  // namespace mstrain::launcher
