// One rank of a job under mpirun, for mpi_test.cc. What it learns of others' failures goes to FOLDER/rank-<r>, what it tells people to FOLDER/told-<r>.
//   mpi_ranks collectives | groups | large
//   mpi_ranks dies | stops | is_late | leaves | fails | lacks_memory FOLDER [ELEMENTS]    rank 1 does, while others add up so many
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <new>
#include <thread>

#include "core/comm/mpi_process.h"
#include "tests/core/comm/collectives.h"

namespace {

std::atomic<size_t> most_bytes = std::numeric_limits<size_t>::max();  // that there is memory for

}  // namespace

void* operator new(size_t bytes) {
  void* const out = bytes <= most_bytes ? std::malloc(bytes) : nullptr;
  return out != nullptr ? out : throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace mstrain {
namespace {

constexpr double kTimeout = 2;

void collectives(Communicator& world) {
  for (const Dtype dtype : kAllDtypes) {
    check_collectives(world, dtype);
    check_collectives(world, dtype, /*unit=*/size_of(dtype) == 4 ? 400000 : 3000);
  }
  for (int i = 0; i < 20; ++i) {
    check_collectives(world, Dtype::kF32);
  }
  if (world.size() > 1) {
    check_messages(world);
    check_many_under_way(world);
  }
}

void groups(MpiProcess& mpi) {
  Ranks ranks({{{"pipeline", 2}, {"data", mpi.size() / 2}}}, mpi.world(kTimeout * 30));
  check_groups(ranks);
  check_collectives(ranks.along("data"), Dtype::kF32);
  check_collectives(ranks.along("pipeline"), Dtype::kBF16);
}

// More bytes than an int counts.
void large(Communicator& world) {
  const int64_t count = (int64_t{1} << 31) + 5;
  std::vector<uint8_t> bytes(static_cast<size_t>(count) + 1,
                             static_cast<uint8_t>(7 + world.rank()));
  std::vector<int64_t> counts(static_cast<size_t>(world.size()), 0);
  counts[0] = count;
  counts[1] = 1;
  const int64_t mine = counts[static_cast<size_t>(world.rank())];
  world
      .all_gather({bytes.data() + (world.rank() == 0 ? 0 : count), mine, Dtype::kU8},
                  {bytes.data(), count + 1, Dtype::kU8}, counts, "large")
      .wait();
  for (const int64_t at : {int64_t{0}, int64_t{1} << 30, int64_t{1} << 31, count - 1}) {
    EXPECT_EQ(bytes[static_cast<size_t>(at)], 7);
  }
  EXPECT_EQ(bytes.back(), 8);
}

[[noreturn]] void sleep_on() {
  while (true) {
    pause();
  }
}

// Rank 1 does what the others are to be told of.
void misbehave(const std::string& how, MpiProcess& mpi, Communicator& world) {
  if (how == "dies") {
    raise(SIGKILL);
  } else if (how == "stops") {
    raise(SIGSTOP);
  } else if (how == "is_late") {
    sleep_on();
  } else if (how == "leaves") {
    _exit(0);
  } else if (how == "fails") {
    mpi.fail({1, "the disk is full"});
    _exit(1);
  } else if (how == "lacks_memory") {  // for what others send
    std::vector<float> in(1 << 20);
    std::vector<float> out(in.size());
    most_bytes = 1 << 20;
    world
        .all_reduce({in.data(), std::ssize(in), Dtype::kF32},
                    {out.data(), std::ssize(out), Dtype::kF32}, Reduction::kSum, "grad.3")
        .wait();
  }
}

void meet_failure(const std::string& how, MpiProcess& mpi, const std::string& folder,
                  size_t elements) {
  const auto path = [&](const char* name, int rank) {
    return folder + "/" + name + "-" + std::to_string(rank);
  };
  const auto world = mpi.world(kTimeout);
  std::vector<int64_t> pids(static_cast<size_t>(mpi.size()));
  int64_t pid = getpid();
  const std::vector<int64_t> ones(pids.size(), 1);
  world->all_gather({&pid, 1, Dtype::kI64}, {pids.data(), mpi.size(), Dtype::kI64}, ones, "pids")
      .wait();
  std::vector<float> x(elements, 1);
  const Elements all{x.data(), static_cast<int64_t>(x.size()), Dtype::kF32};
  for (int i = 0; i < 3; ++i) {
    world->all_reduce(all, all, Reduction::kSum, "warm").wait();
  }
  if (mpi.rank() != 1) {
    std::ofstream(path("warm", mpi.rank()));
  } else {
    for (int rank = 0; rank < mpi.size(); ++rank) {  // or one is told while it warms up
      while (rank != 1 && !std::filesystem::exists(path("warm", rank))) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    misbehave(how, mpi, *world);
  }
  for (int again = 0; again < 2; ++again) {
    try {
      world->all_reduce(all, all, Reduction::kSum, "grad.3").wait();
    } catch (const CommError& error) {
      std::ofstream(path("rank", mpi.rank())) << error.what() << "\n";
    }
  }
  const bool told = mpi.fail({1, "as the others"});
  if (mpi.rank() == 0) {
    kill(static_cast<pid_t>(pids[1]), SIGKILL);
  }
  std::fflush(nullptr);
  _exit(told ? 1 : 3);
}

int run(const std::string& how, const std::string& folder, size_t elements) {
  int rank = -1;
  MpiProcess mpi({.tell =
                      [&](const std::string& message) {
                        std::ofstream(folder + "/told-" + std::to_string(rank)) << message << "\n";
                      },
                  .is_interrupted = [] { return false; },
                  .interrupt = [] {}});
  rank = mpi.rank();
  try {
    if (how == "collectives") {
      collectives(*mpi.world(60));
    } else if (how == "groups") {
      groups(mpi);
    } else if (how == "large") {
      large(*mpi.world(300));
    } else {
      meet_failure(how, mpi, folder, elements);
    }
    mpi.finish();
  } catch (const CommError& error) {
    fmt::print(stderr, "rank {}: {}\n", rank, error.what());
    mpi.fail({1, error.what()});
    _exit(1);
  }
  return testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? 1 : 0;
}

}  // namespace
}  // namespace mstrain

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return mstrain::run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "",
                      argc > 3 ? std::stoul(argv[3]) : 100000);
}
