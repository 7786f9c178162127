#include "core/forecast/here.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <thread>

#include "core/base/clock.h"
#include "core/base/processors.h"
#include "core/comm/thread_communicator.h"
#include "core/forecast/measured_layers.h"
#include "core/train/machine.h"
#include "core/train/machine_limits.h"

namespace mstrain {
namespace {

constexpr int64_t kExchanged = int64_t{4} << 20;
constexpr int kExchanges = 20;

// Keeps a processor of this thread busy as long as it lives, as a rank would that shares it.
class Company {
 public:
  explicit Company(bool is_there) {
    if (is_there) {
      thread_ = std::thread([this] {
        while (!stop_.load(std::memory_order_relaxed)) {
        }
      });
    }
  }
  ~Company() {
    stop_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  Company(const Company&) = delete;
  Company& operator=(const Company&) = delete;

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// Seconds of an exchange of so many bytes of each rank, by all of them.
double exchange_seconds(Communicator& world, int64_t bytes) {
  const auto ranks = static_cast<size_t>(world.size());
  const std::vector<int64_t> counts(ranks, bytes / static_cast<int64_t>(sizeof(float) * ranks));
  std::vector<float> part(static_cast<size_t>(counts[0]), 1);
  std::vector<float> whole(part.size() * ranks, 1);
  const Elements mine{part.data(), counts[0], Dtype::kF32};
  const Elements all{whole.data(), static_cast<int64_t>(whole.size()), Dtype::kF32};
  int64_t begin = 0;
  for (int i = 0; i < kExchanges + 2; ++i) {
    if (i == 2) {  // pages are touched
      world.barrier("exchanges");
      begin = nanoseconds_now();
    }
    world.reduce_scatter(all, mine, counts, Reduction::kSum, "reduce_scatter").wait();
    world.all_gather(mine, all, counts, "all_gather").wait();
  }
  return static_cast<double>(nanoseconds_now() - begin) / 1e9 / (2 * kExchanges);
}

// The mean over the ranks that worked, on all of them.
double mean(Communicator& world, double value, bool worked) {
  std::array<double, 2> sums{worked ? value : 0, worked ? 1.0 : 0.0};
  const Elements both{sums.data(), 2, Dtype::kF64};
  world.all_reduce(both, both, Reduction::kSum, "rates").wait();
  return sums[0] / sums[1];
}

// Leaves this thread, and those that it starts, what a run leaves its rank of so many.
void take_processors(int rank, int ranks) {
  if (ranks <= processors_here()) {
    const cpu_set_t mine = share_of(own_processors(), rank, ranks);
    sched_setaffinity(0, sizeof mine, &mine);
  }
}

// That the ranks may use together: each sees its own alone.
int64_t processors_of(Communicator& world) {
  const cpu_set_t mine = own_processors();
  std::array<int32_t, CPU_SETSIZE> bits{};
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    bits[static_cast<size_t>(i)] = CPU_ISSET(i, &mine) ? 1 : 0;
  }
  const Elements all{bits.data(), CPU_SETSIZE, Dtype::kI32};
  world.all_reduce(all, all, Reduction::kMax, "processors").wait();
  return std::count(bits.begin(), bits.end(), 1);
}

double rounded(double value) { return std::stod(fmt::format("{:.4g}", value)); }

}  // namespace

Cluster measure_here(const Context& context, Communicator& world) {
  const UncountedMemory uncounted;
  Context own = context;
  own.ranks = nullptr;
  const ContextScope scope(own);
  const Machine machine = this_machine();
  const int threads = own.num_threads();
  const int64_t processors = std::max<int64_t>(1, processors_of(world) / threads);
  const bool works = world.rank() < processors;
  const auto meet = [&] { world.barrier("rates"); };
  meet();
  MachineLimits limits;
  double bf16 = 0;
  if (works) {
    limits = measure_limits(own);
    bf16 = product_rate(own, Dtype::kBF16);
  }
  meet();
  const LayerTimes times = measure_layers(world, works, limits.flops_per_second);
  const auto of_ranks = [&](double value) { return mean(world, value, works); };
  const auto ranks = static_cast<double>(world.size());
  Cluster out;
  out.gpus_per_node = world.size();
  const double products = of_ranks(times.products.sums);
  const double of_byte = of_ranks(times.products.operands ? 1 / *times.products.operands : 0);
  const double attention = of_ranks(1 / times.attention.of_operation);
  const double memory = of_ranks(times.memory);
  ClusterDevice& device = out.device;
  device.name = fmt::format("{}, {} thread{}", machine.processor, threads, threads == 1 ? "" : "s");
  device.memory_gb = rounded(static_cast<double>(machine.memory_bytes) / 1e9 / ranks);
  const double peak = std::max(of_ranks(limits.flops_per_second), products);
  const double copied = std::max(of_ranks(limits.bytes_per_second), memory);
  device.peak_tflops = {.fp32 = rounded(peak / 1e12), .bf16 = rounded(of_ranks(bf16) / 1e12)};
  device.memory_gbps = rounded(copied / 1e9);
  if (of_byte > 0) {
    device.operand_gbps = rounded(1 / of_byte / 1e9);
  }
  if (const double seconds = of_ranks(times.attention.of_score); seconds > 0) {
    device.scores_gps = rounded(1 / seconds / 1e9);
  }
  device.launch_us = rounded(of_ranks(times.launch) * 1e6);
  device.achieved = {.products = rounded(products / peak),
                     .attention = rounded(std::min(1.0, attention / peak)),
                     .memory = rounded(memory / copied),
                     .links = 1};
  out.intra = {device.memory_gbps, 0};
  if (world.size() > 1) {
    const double small = [&] {
      // Where ranks take turns, who is sent something may have to wait for its own.
      const Company company(works && processors < world.size());
      return exchange_seconds(world, static_cast<int64_t>(ranks) * 1024);
    }();
    const double large = exchange_seconds(world, kExchanged);
    const double moved = (ranks - 1) / ranks * static_cast<double>(kExchanged);
    const double latency = mean(world, small, true) / (ranks - 1);
    const double seconds = mean(world, large, true) - latency * (ranks - 1);
    out.intra = {rounded(moved / std::max(seconds, 1e-6) / 1e9), rounded(latency * 1e6)};
    if (processors < world.size()) {
      out.processors = processors;
    }
  }
  out.inter = out.intra;
  return out;
}

Cluster measure_here(int ranks) {
  Context context = current_context();
  context.threads = std::max(1, context.num_threads() / ranks);
  auto world = thread_communicators(ranks);
  std::vector<Cluster> found(world.size());
  std::vector<std::exception_ptr> errors(world.size());
  std::vector<std::thread> running;
  for (size_t r = 0; r < world.size(); ++r) {
    running.emplace_back([&, r] {
      try {
        // As the processes of a run have.
        take_processors(static_cast<int>(r), ranks);
        Context own = context;
        own.allocator = std::make_shared<Allocator>();
        found[r] = measure_here(own, *world[r]);
      } catch (...) {
        errors[r] = std::current_exception();
      }
      world[r].reset();  // so that none waits for one that failed
    });
  }
  for (std::thread& thread : running) {
    thread.join();
  }
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) {
      std::rethrow_exception(error);
    }
  }
  return found[0];
}

}  // namespace mstrain
