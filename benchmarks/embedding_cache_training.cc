// Waiting for rows while computing, and the pause of a commit.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <thread>

#include "benchmarks/embedding_cache_race.h"
#include "core/base/error.h"

namespace mstrain::embedding_cache {

namespace {

// Two threads of work that takes `target` seconds when nothing else runs.
class Compute {
 public:
  explicit Compute(double target) {
    double rate = 0;
    for (int i = 0; i < 2; ++i) {
      rate = 20'000'000 / seconds([] { spin(20'000'000); });
    }
    work_ = static_cast<uint64_t>(target * rate);
  }
  double run() const {
    return seconds([&] {
      std::thread other([&] { spin(work_); });
      spin(work_);
      other.join();
    });
  }

 private:
  static void spin(uint64_t n) {
    double x = 1;
    for (uint64_t i = 0; i < n; ++i) {
      x = x * 1.0000001 + 1e-9;
      asm volatile("" : "+x"(x));
    }
  }
  uint64_t work_;
};

void train_once(const std::string& directory, const std::vector<std::vector<Id>>& batches,
                const Compute& compute, uint32_t depth, int readers, size_t steps) {
  Options options = disk_options(directory, kVocabulary / 10);
  options.store.read_threads = readers;
  Cache cache = Cache::open(options);
  // Warm: the hottest rows, as they would be after a while.
  uint64_t step = cache.last_step();
  const uint64_t first_hot = kVocabulary / 10 - 1;
  for (uint64_t begin = 0; begin < first_hot; begin += 100'000) {
    std::vector<Id> ids;
    for (uint64_t rank = begin; rank < std::min(first_hot, begin + 100'000); ++rank) {
      ids.push_back(scatter(rank));
    }
    Ticket ticket = cache.prefetch(0, ids, ++step);
    cache.wait(ticket);
    cache.update(ticket, std::vector<float>(ids.size() * 81, 0.0F));
    cache.release(std::move(ticket));
  }
  std::deque<Ticket> open;
  size_t ahead = 0;
  std::vector<float> gradients;
  std::vector<float> out(256 * 81);
  const size_t warm = 3;
  double wait = 0;
  double total = 0;
  double busy = 0;
  Stats before;
  for (size_t s = 0; s < steps; ++s) {
    const double start = now();
    for (; ahead < std::min(steps, s + 1 + depth); ++ahead) {
      open.push_back(cache.prefetch(0, batches[ahead % batches.size()], ++step));
    }
    Ticket ticket = std::move(open.front());
    open.pop_front();
    const double waited = seconds([&] { cache.wait(ticket); });
    for (size_t p = 0; p < ticket.positions(); p += 256) {
      cache.gather(ticket, out.data(), 81, {.begin = p, .end = p + 256});
    }
    const double computed = compute.run();
    gradients.assign(ticket.ids().size() * 81, 0.001F);
    cache.update(ticket, gradients, GradientsOf::kDistinctIds);
    cache.release(std::move(ticket));
    if (s >= warm) {
      wait += waited;
      total += now() - start;
      busy += computed;
    } else if (s + 1 == warm) {
      before = cache.stats();
    }
  }
  const TableStats a = before.tables[0];
  const TableStats b = cache.stats().tables[0];
  const auto measured = static_cast<double>(steps - warm);
  fmt::print(
      "  depth {} readers {:>2}: step {:.3f} s, compute {:.3f} s, wait for rows {:.3f} s = {:.1f} "
      "% of the "
      "step; hits {:.1f} % per lookup, {:.1f} % per id, {:.0f} misses a batch\n",
      depth, readers, total / measured, busy / measured, wait / measured, 100 * wait / total,
      100 * static_cast<double>(b.position_hits - a.position_hits) /
          static_cast<double>(b.positions - a.positions),
      100 * static_cast<double>(b.id_hits - a.id_hits) / static_cast<double>(b.ids - a.ids),
      static_cast<double>((b.ids - b.id_hits) - (a.ids - a.id_hits)) / measured);
  if (depth == 2 && readers == 16) {
    verdict("wait for rows", 100 * wait / total, " % of the step", 5, false);
  }
}

}  // namespace

void bench_train(const std::string& directory) {
  const auto batches = make_batches(12, false);
  const Compute compute(1.1);
  fmt::print(
      "train: rows of 980 B, host cap 10 % ({} rows), direct I/O, batch {} lookups; compute alone "
      "{:.3f} s\n",
      kVocabulary / 10, batches[0].size(), compute.run());
  train_once(directory, batches, compute, 2, 16, 11);
  train_once(directory, batches, compute, 0, 16, 7);
  train_once(directory, batches, compute, 0, 1, 5);
}

namespace {

// The disk's own time for so many bytes: one file, large direct writes, synced.
double disk_write_seconds(const std::string& directory, uint64_t bytes) {
  const std::string path = directory + "/disk-limit";
  void* block = nullptr;
  constexpr size_t kBlock = 4 << 20;
  check(::posix_memalign(&block, 4096, kBlock) == 0, "no memory");
  std::memset(block, 1, kBlock);
  const double took = seconds([&] {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT, 0644);
    check(file >= 0, "{}: cannot open", path);
    for (uint64_t done = 0; done < bytes; done += kBlock) {
      check(::write(file, block, kBlock) == static_cast<ssize_t>(kBlock), "{}: cannot write", path);
    }
    check(::fdatasync(file) == 0, "{}: cannot sync", path);
    ::close(file);
  });
  std::free(block);
  std::filesystem::remove(path);
  return took;
}

// A step of training whose rows are all in memory.
void learn(Cache& cache, const std::vector<Id>& ids, uint64_t step) {
  Ticket ticket = cache.prefetch(0, ids, step);
  cache.wait(ticket);
  cache.update(ticket, std::vector<float>(ids.size() * 81, 0.01F), GradientsOf::kDistinctIds);
  cache.release(std::move(ticket));
}

}  // namespace

// 5 % of the rows change, then: the disk alone, a commit that the trainer waits for, and one that is written while it goes on.
void bench_commit(const std::string& directory) {
  const uint64_t dirty = kVocabulary / 20;
  Cache cache = Cache::open(disk_options(directory, dirty + 10));
  const uint64_t bytes = dirty * cache.layout(0).record_bytes();
  fmt::print("commit: {:.2f} GB of rows, {} changed ({:.0f} MB), direct I/O\n",
             static_cast<double>(kVocabulary) * cache.layout(0).record_bytes() / 1e9, dirty,
             static_cast<double>(bytes) / 1e6);
  std::vector<Id> ids;
  for (uint64_t i = 0; i < dirty; ++i) {
    ids.push_back(scatter(i));
  }
  const std::vector<Id> batch(ids.begin(), ids.begin() + 50'000);
  uint64_t step = cache.last_step();
  std::vector<double> plain_steps;
  std::vector<double> waited;
  std::vector<double> stopped;
  std::vector<double> slowed;
  for (int round = 0; round < 8; ++round) {
    learn(cache, ids, ++step);
    double disk = disk_write_seconds(directory, bytes);
    const double pause = seconds([&] { cache.commit_step(step); });
    fmt::print("  waited for: pause {:.3f} s, disk alone {:.3f} s\n", pause, disk);
    if (round > 0) {
      waited.push_back(pause / disk);
    } else {
      learn(cache, ids, ++step);
      const std::string file = directory + "/delta";
      ExportSummary some;
      const double took =
          seconds([&] { some = cache.export_delta(cache.last_commit(), file, false); });
      ExportSummary all;
      const double whole = seconds([&] { all = cache.export_delta(0, file, false); });
      std::filesystem::remove(file);
      fmt::print("  weights of the {} changed rows to a file {:.2f} s, of all {} rows {:.2f} s\n",
                 some.rows, took, all.rows, whole);
    }
    for (int i = 0; i < 5; ++i) {
      plain_steps.push_back(seconds([&] { learn(cache, batch, ++step); }));
    }
    learn(cache, ids, ++step);
    disk = disk_write_seconds(directory, bytes);
    const double begin = now();
    CommitId id = 0;
    double calls = seconds([&] { id = cache.start_commit(step); });
    double steps = 0;
    int count = 0;
    while (cache.last_commit() != id) {
      steps += seconds([&] { learn(cache, batch, ++step); });
      ++count;
    }
    const double durable = now() - begin;
    calls += seconds([&] { cache.commit(id); });
    const double slower = steps - count * median(plain_steps);
    fmt::print(
        "  behind:     stopped {:.3f} s, durable after {:.3f} s and {} steps, which took {:.3f} s "
        "longer; disk alone {:.3f} s\n",
        calls, durable, count, slower, disk);
    if (round > 0) {
      stopped.push_back(calls / disk);
      slowed.push_back((calls + slower) / disk);
    }
  }
  verdict("pause of a started commit over the disk's own time", median(stopped), "", 1.5, false);
  fmt::print("  with what the steps meanwhile took longer: {:.2f} of the disk's own time\n",
             median(slowed));
  verdict("pause of a commit that is waited for", median(waited), "", 1.5, false);
}

}  // namespace mstrain::embedding_cache
