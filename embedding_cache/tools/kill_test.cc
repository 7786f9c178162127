#include "embedding_cache/tools/kill_test.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/rng.h"
#include "embedding_cache/rehearsal.h"

extern char** environ;

namespace mstrain::embedding_cache {
namespace {

constexpr double kDeadline = 120;  // of one child

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Rehearsal rehearsal_of(uint64_t seed, uint64_t steps) {
  return {.seed = seed,
          .steps = steps,
          .commit_every = 8,
          .commit_behind = (seed >> 8) % 2 == 1,
          .evict_every = 16,
          .depth = static_cast<uint32_t>(seed % 4),
          .look_ahead = static_cast<uint32_t>(seed % 3),
          .vocabulary = 2000,
          .positions = 150};
}

// A child that rehearses, with its output on a pipe.
class Child {
 public:
  Child(const std::string& directory, const KillTest& test, uint64_t seed) {
    int ends[2];
    check(::pipe2(ends, O_CLOEXEC) == 0, "killtest: cannot make a pipe");
    output_ = ends[0];
    std::vector<std::string> words{"ec_tool",
                                   "rehearse",
                                   directory,
                                   "--seed",
                                   std::to_string(seed),
                                   "--steps",
                                   std::to_string(test.steps),
                                   "--store",
                                   test.store == StoreKind::kRocksdb  ? "rocksdb"
                                   : test.store == StoreKind::kMemory ? "memory"
                                                                      : "auto"};
    std::vector<char*> argv;
    for (std::string& word : words) {
      argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    const int error =
        ::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    check(error == 0, "killtest: cannot start a child");
  }
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(output_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Kills it `seconds` from now; false where it had ended before.
  bool kill_after(double seconds) {
    const double until = now() + seconds;
    pollfd ended{.fd = output_, .events = 0, .revents = 0};  // hangs up when the child ends
    while (now() < until) {
      if (::poll(&ended, 1, static_cast<int>(std::max(1.0, (until - now()) * 1000))) > 0) {
        break;
      }
    }
    ::kill(pid_, SIGKILL);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFSIGNALED(status);
  }
  // What it prints until it ends; empty where it fails or takes too long.
  std::string finish() {
    std::string out;
    std::array<char, 256> chunk{};
    const double until = now() + kDeadline;
    for (;;) {
      pollfd ready{.fd = output_, .events = POLLIN, .revents = 0};
      if (now() > until || ::poll(&ready, 1, 1000) < 0) {
        return "";
      }
      if (ready.revents == 0) {
        continue;
      }
      const ssize_t count = ::read(output_, chunk.data(), chunk.size());
      if (count <= 0) {
        break;
      }
      out.append(chunk.data(), static_cast<size_t>(count));
    }
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? out : "";
  }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

}  // namespace

int rehearse(const std::string& directory, StoreKind store, uint64_t seed, uint64_t steps) {
  const Rehearsal rehearsal = rehearsal_of(seed, steps);
  Cache cache = Cache::open(rehearsal.cache_options(directory, 0.1, store));
  rehearsal.run(cache);
  fmt::print("{}\n", cache.digest());
  return 0;
}

int run_kill_test(const KillTest& test) {
  namespace fs = std::filesystem;
  const fs::path scratch =
      test.directory.empty() ? fs::temp_directory_path() / fmt::format("ec-killtest-{}", ::getpid())
                             : fs::path(test.directory);
  fs::create_directories(scratch);
  uint64_t kills = 0;
  for (uint64_t round = 0; round < test.rounds; ++round) {
    const uint64_t seed = hash_combine(test.seed, round) >> 32;
    Rng rng(test.seed, round);
    const std::string golden_directory = (scratch / "golden").string();
    const std::string directory = (scratch / fmt::format("round-{}", round)).string();
    fs::remove_all(golden_directory);
    fs::remove_all(directory);
    const double start = now();
    const std::string golden = Child(golden_directory, test, seed).finish();
    const double seconds = now() - start;
    check(!golden.empty(), "killtest: round {}: the undisturbed run failed", round);
    uint64_t killed = 0;
    for (uint64_t deaths = 1 + rng.below(3); deaths > 0; --deaths) {
      killed += Child(directory, test, seed).kill_after(rng.uniform(0, seconds)) ? 1 : 0;
    }
    const std::string resumed = Child(directory, test, seed).finish();
    if (resumed != golden) {
      fmt::print(
          "round {} of --seed {} FAILED after {} kills: {} instead of {}; its directory is {}\n",
          round, test.seed, killed, resumed.empty() ? "no result\n" : resumed, golden, directory);
      return 1;
    }
    kills += killed;
    fs::remove_all(directory);
    fs::remove_all(golden_directory);
  }
  std::error_code ignored;  // a directory that the user named may hold other things
  fs::remove(scratch, ignored);
  fmt::print(
      "{} rounds of --seed {}, {} kills: every resumed run ends equal to an undisturbed one\n",
      test.rounds, test.seed, kills);
  return 0;
}

}  // namespace mstrain::embedding_cache
