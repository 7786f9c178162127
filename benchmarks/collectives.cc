// How fast ranks exchange numbers, and what of it a step's products hide.
//
//   bench_collectives [--ranks N] [--mb MOST] [--rounds N]
//   mpirun -n N bench_collectives [--mb MOST] [--rounds N] [--plain 1] [--fastest 1]
//
// Under mpirun: the same among its processes, or, with --plain, by MPI's own collectives, called by the thread that waits for them; and
// nothing else (collectives_vs_mpi.py lets the two take turns). With --fastest, the fastest of rounds instead of their median: what is left
// of a machine that others use besides.
//
// First the collectives of ranks that are threads, by bytes of a rank's operand: GB/s of the operand, and the ratio to one
// thread's memcpy of as many bytes in the same run. Then a chain of products, each of which a weight is gathered for and whose
// gradient-like result is summed over ranks, on a link whose numbers travel as long as the products take: a step that waits for
// each exchange where it begins, and the step as it is planned.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include "benchmarks/run_main.h"
#include "core/comm/mpi_process.h"
#include "core/comm/recording_communicator.h"
#include "core/comm/thread_communicator.h"
#include "core/ops/build.h"
#include "core/ops/collective.h"
#include "core/ops/elementwise.h"
#include "core/ops/matmul.h"
#include "core/ops/random.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"

namespace mstrain {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  int ranks = 2;
  int64_t most_bytes = int64_t{64} << 20;
  int rounds = 7;
  bool plain = false;
  bool fastest = false;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

template <class F>
double median_seconds(int rounds, const F& f, bool fastest = false) {
  f();  // pages are touched
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = Clock::now();
    f();
    seconds.push_back(seconds_since(begin));
  }
  return fastest ? *std::min_element(seconds.begin(), seconds.end()) : median(seconds);
}

// One exchange of `bytes`, which all ranks begin together.
struct Collective {
  std::string_view name;
  void (*run)(Communicator& group, std::vector<float>& in, std::vector<float>& out);
};

Elements elements(std::vector<float>& values, size_t count) {
  return {values.data(), static_cast<int64_t>(count), Dtype::kF32};
}
Elements elements(std::vector<float>& values) { return elements(values, values.size()); }

std::vector<int64_t> equal_counts(const Communicator& group, const std::vector<float>& whole) {
  const auto ranks = static_cast<size_t>(group.size());
  return std::vector<int64_t>(ranks, static_cast<int64_t>(whole.size() / ranks));
}

constexpr Collective kCollectives[] = {
    {"all_reduce",
     [](Communicator& group, std::vector<float>& in, std::vector<float>& out) {
       group.all_reduce(elements(in), elements(out), Reduction::kSum, "all_reduce").wait();
     }},
    {"reduce_scatter",
     [](Communicator& group, std::vector<float>& in, std::vector<float>& out) {
       const auto counts = equal_counts(group, in);
       group
           .reduce_scatter(elements(in), elements(out, static_cast<size_t>(counts[0])), counts,
                           Reduction::kSum, "reduce_scatter")
           .wait();
     }},
    {"all_gather",
     [](Communicator& group, std::vector<float>& in, std::vector<float>& out) {
       const auto counts = equal_counts(group, out);
       group
           .all_gather(elements(in, static_cast<size_t>(counts[0])), elements(out), counts,
                       "all_gather")
           .wait();
     }},
    {"all_to_all",
     [](Communicator& group, std::vector<float>& in, std::vector<float>& out) {
       const auto counts = equal_counts(group, in);
       group.all_to_all(elements(in), elements(out), counts, counts, "all_to_all").wait();
     }},
    {"broadcast",
     [](Communicator& group, std::vector<float>& in, std::vector<float>&) {
       group.broadcast(elements(in), 0, "broadcast").wait();
     }},
    {"ring", [](Communicator& group, std::vector<float>& in, std::vector<float>& out) {
       const int next = (group.rank() + 1) % group.size();
       const int previous = (group.rank() + group.size() - 1) % group.size();
       const Event sent = group.send(elements(in), next, "send");
       group.receive(elements(out), previous, "receive").wait();
       sent.wait();
     }}};

// Prints a row for every collective and size. Every rank of the group calls it.
void measure(Communicator& group, const Options& options) {
  const auto ranks = static_cast<size_t>(group.size());
  if (group.rank() == 0) {
    std::printf("%-16s %12s %12s %10s %14s\n", "collective", "bytes", "us", "GB/s", "of memcpy");
  }
  for (int64_t bytes = 4096; bytes <= options.most_bytes; bytes *= 4) {
    const auto rounds =
        static_cast<int>(options.rounds * std::clamp<int64_t>((1 << 20) / bytes, 1, 64));
    const size_t count = static_cast<size_t>(bytes) / sizeof(float) / ranks * ranks;
    std::vector<float> in(count, 1);
    std::vector<float> out(count, 0);
    const auto copy = [&] { std::memcpy(out.data(), in.data(), count * sizeof(float)); };
    const double copied = group.rank() > 0 ? 0 : median_seconds(rounds, copy, options.fastest);
    for (const Collective& collective : kCollectives) {
      const auto exchange = [&] {
        group.barrier("round");
        collective.run(group, in, out);
      };
      const double seconds = median_seconds(rounds, exchange, options.fastest);
      if (group.rank() == 0) {
        std::printf("%-16.*s %12lld %12.1f %10.2f %13.2fx\n",
                    static_cast<int>(collective.name.size()), collective.name.data(),
                    static_cast<long long>(bytes), seconds * 1e6,
                    static_cast<double>(bytes) / seconds * 1e-9, copied / seconds);
      }
    }
  }
}

void measure_threads(const Options& options) {
  auto communicators = thread_communicators(options.ranks);
  std::vector<std::thread> threads;
  std::printf("%d ranks that are threads\n", options.ranks);
  for (auto& communicator : communicators) {
    threads.emplace_back([&] { measure(*communicator, options); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// MPI as a program without a thread for it would call it. f32 alone.
class PlainMpi final : public Communicator {
 public:
  PlainMpi() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view name() const override { return "world"; }

  Event all_reduce(Elements in, Elements out, Reduction, std::string_view) override {
    MPI_Allreduce(in.data, out.data, count(in), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return {};
  }
  Event reduce_scatter(Elements in, Elements out, std::span<const int64_t> counts, Reduction,
                       std::string_view) override {
    MPI_Reduce_scatter(in.data, out.data, ints(counts).data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return {};
  }
  Event all_gather(Elements in, Elements out, std::span<const int64_t> counts,
                   std::string_view) override {
    MPI_Allgatherv(in.data, count(in), MPI_FLOAT, out.data, ints(counts).data(),
                   places(counts).data(), MPI_FLOAT, MPI_COMM_WORLD);
    return {};
  }
  Event all_to_all(Elements in, Elements out, std::span<const int64_t> sends,
                   std::span<const int64_t> receives, std::string_view) override {
    MPI_Alltoallv(in.data, ints(sends).data(), places(sends).data(), MPI_FLOAT, out.data,
                  ints(receives).data(), places(receives).data(), MPI_FLOAT, MPI_COMM_WORLD);
    return {};
  }
  Event broadcast(Elements inout, int root, std::string_view) override {
    MPI_Bcast(inout.data, count(inout), MPI_FLOAT, root, MPI_COMM_WORLD);
    return {};
  }
  Event send(Elements in, int peer, std::string_view) override {
    auto sent = std::make_shared<Sent>();
    MPI_Isend(in.data, count(in), MPI_FLOAT, peer, 0, MPI_COMM_WORLD, &sent->request);
    return Event(std::move(sent));
  }
  Event receive(Elements out, int peer, std::string_view) override {
    MPI_Recv(out.data, count(out), MPI_FLOAT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return {};
  }
  void barrier(std::string_view) override { MPI_Barrier(MPI_COMM_WORLD); }
  std::unique_ptr<Communicator> split(int, std::string) override { fail("there is one group"); }

 private:
  struct Sent : Event::State {
    bool done() const override { return false; }
    void wait() override { MPI_Wait(&request, MPI_STATUS_IGNORE); }
    MPI_Request request = MPI_REQUEST_NULL;
  };
  static int count(const Elements& elements) { return static_cast<int>(elements.count); }
  static std::vector<int> ints(std::span<const int64_t> counts) {
    return {counts.begin(), counts.end()};
  }
  static std::vector<int> places(std::span<const int64_t> counts) {
    std::vector<int> out(counts.size(), 0);
    for (size_t i = 1; i < counts.size(); ++i) {
      out[i] = out[i - 1] + static_cast<int>(counts[i - 1]);
    }
    return out;
  }

  int rank_ = 0, size_ = 1;
};

void measure_processes(const Options& options) {
  if (options.plain) {
    MPI_Init(nullptr, nullptr);
    PlainMpi world;
    measure(world, options);
    MPI_Finalize();
    return;
  }
  MpiProcess process(
      {.tell = [](const std::string& message) { std::fprintf(stderr, "%s\n", message.c_str()); },
       .is_interrupted = [] { return false; },
       .interrupt = [] {}});
  measure(*process.world(30), options);
  process.finish();
}

constexpr int kLayers = 8;
constexpr int64_t kWidth = 512;

// Weights come from shards; each layer's result is summed over ranks, and nobody waits for the sum but the end.
Tensors layers(const std::vector<Tensor>& shards, const Tensor& x, const MeshAxis& axis) {
  Tensor y = x;
  Tensors sums;
  for (const Tensor& shard : shards) {
    y = matmul(y, all_gather(shard, axis, 0));
    sums.push_back(all_reduce(y, axis));
  }
  sums.push_back(y);
  return sums;
}

// Seconds of a step on one rank of `axis`, whose exchanges take `travel` seconds each.
double step_seconds(const MeshAxis& axis, double travel, bool blocking, const Options& options) {
  const auto recording = std::make_shared<Recording>();
  recording->seconds = [&](const Exchange&) {
    if (blocking) {
      std::this_thread::sleep_for(std::chrono::duration<double>(travel));
      return 0.0;
    }
    return travel;
  };
  Context context = current_context();
  context.threads = 1;
  const Mesh mesh{{axis}};
  context.ranks = std::make_shared<Ranks>(mesh, recording_communicator(mesh, 0, recording));
  const ContextScope scope(context);
  std::vector<Tensor> shards;
  for (int i = 0; i < kLayers; ++i) {
    shards.push_back(normal(rng_key(static_cast<uint64_t>(i)), {kWidth / axis.size, kWidth},
                            {.site = "weight"}) *
                     0.04);
  }
  const Tensor x = normal(rng_key(99), {kWidth, kWidth}, {.site = "x"});
  const auto step = jit([&](const std::vector<Tensor>& weights, const Tensor& input) {
    return layers(weights, input, axis);
  });
  return median_seconds(options.rounds * 3, [&] { step(shards, x); });
}

void measure_overlap(const Options& options) {
  const MeshAxis axis{"data", 2};
  const double bare = step_seconds(axis, 0, false, options);
  const double travel = bare / (2 * kLayers);  // two exchanges a layer: as long as its product
  const double blocking = step_seconds(axis, travel, true, options);
  const double planned = step_seconds(axis, travel, false, options);
  const auto exposed = [&](double step) { return 100 * (step - bare) / bare; };
  std::printf("\n%d layers of width %lld; exchanges that take as long as their products\n", kLayers,
              static_cast<long long>(kWidth));
  std::printf("%-28s %10.2f ms\n", "no time to exchange", bare * 1e3);
  std::printf("%-28s %10.2f ms  exposed %5.1f %%\n", "waited for where begun", blocking * 1e3,
              exposed(blocking));
  std::printf("%-28s %10.2f ms  exposed %5.1f %%  %.2fx\n", "as planned", planned * 1e3,
              exposed(planned), blocking / planned);
}

int run(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view key = argv[i];
    check(i + 1 < argc, "{}: a number is expected", key);
    const int value = std::atoi(argv[i + 1]);
    check(value > 0, "{} {}: a positive number is expected", key, argv[i + 1]);
    if (key == "--ranks") {
      options.ranks = value;
    } else if (key == "--mb") {
      options.most_bytes = int64_t{value} << 20;
    } else if (key == "--rounds") {
      options.rounds = value;
    } else if (key == "--plain") {
      options.plain = true;
    } else if (key == "--fastest") {
      options.fastest = true;
    } else {
      fail("{}: one of --ranks, --mb, --rounds, --plain, --fastest is expected", key);
    }
  }
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) {
    measure_processes(options);
    return 0;
  }
  measure_threads(options);
  measure_overlap(options);
  return 0;
}

}  // namespace
}  // namespace mstrain

int main(int argc, char** argv) { return mstrain::run_main(mstrain::run, argc, argv); }
