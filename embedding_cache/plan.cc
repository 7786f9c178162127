#include "embedding_cache/plan.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "embedding_cache/row.h"
#include "embedding_cache/row_store.h"

namespace mstrain::embedding_cache {
namespace {

constexpr uint64_t kExactRanks = 4096;  // summed one by one; the tail by the integral over slices

// Sum of f(rank) over ranks [first, last], f smooth and falling: exact for the head, then the midpoint of ever wider slices.
template <class F>
double sum_over_ranks(uint64_t first, uint64_t last, F&& f) {
  double sum = 0;
  uint64_t rank = first;
  for (; rank <= last && rank <= kExactRanks; ++rank) {
    sum += f(static_cast<double>(rank));
  }
  while (rank <= last) {
    const uint64_t width = std::min(std::max<uint64_t>(rank / 512, 1), last - rank + 1);
    const double middle = static_cast<double>(rank) + (static_cast<double>(width) - 1) / 2;
    sum += static_cast<double>(width) * f(middle);
    if (last - rank < width) {
      break;
    }
    rank += width;
  }
  return sum;
}

// What RocksDB keeps in memory for each row of its files: filter bits, and its share of the index, which has one key for each block.
double index_and_filter_bytes(const StoreOptions& options, uint64_t record_bytes) {
  constexpr double kRowOverhead = 21;  // beside the record: key, sequence number, lengths
  constexpr double kIndexEntry = 25;   // key, place and length of a block, and how to find it
  const double row = static_cast<double>(record_bytes) + kRowOverhead;
  const double rows_of_block =
      std::max(1.0, std::ceil(static_cast<double>(options.block_kib) * 1024 / row));
  return options.bloom_bits / 8.0 + kIndexEntry / rows_of_block;
}

double total_weight(uint64_t rows, double alpha) {
  return sum_over_ranks(1, rows, [&](double rank) { return std::pow(rank, -alpha); });
}

// What a batch asks for, and what of it is in memory.
void look_up(const Workload& load, uint64_t host_rows, TablePlan& p) {
  if (load.replayed) {
    const ReplayResult& seen = *load.replayed;
    const auto per_batch = [&](uint64_t count) {
      return seen.batches == 0 ? 0 : static_cast<double>(count) / static_cast<double>(seen.batches);
    };
    p.lookups_per_batch = per_batch(seen.lookups);
    p.distinct_per_batch = per_batch(seen.ids);
    p.hits_per_lookup = seen.hits_per_lookup();
    p.hits_per_id = seen.hits_per_id();
    p.misses_per_batch = per_batch(seen.ids - seen.id_hits);
    p.new_per_batch = per_batch(seen.new_ids);
    return;
  }
  p.lookups_per_batch = static_cast<double>(load.draws_per_batch);
  p.distinct_per_batch = zipf_distinct(load.rows, load.alpha, load.draws_per_batch);
  p.hits_per_lookup = zipf_share(load.rows, load.alpha, host_rows);
  // A batch draws a cold id at most about once, so misses per batch are nearly the lookups that miss; distinct ids count those once.
  const double total = total_weight(load.rows, load.alpha);
  const auto draws = static_cast<double>(load.draws_per_batch);
  p.misses_per_batch = sum_over_ranks(p.host_rows + 1, load.rows, [&](double rank) {
    return -std::expm1(draws * std::log1p(-std::pow(rank, -load.alpha) / total));
  });
  p.hits_per_id = p.distinct_per_batch > 0 ? 1 - p.misses_per_batch / p.distinct_per_batch : 1;
}

}  // namespace

double zipf_share(uint64_t rows, double alpha, uint64_t hottest) {
  if (hottest >= rows) {
    return 1;
  }
  return total_weight(hottest, alpha) / total_weight(rows, alpha);
}

double zipf_distinct(uint64_t rows, double alpha, uint64_t draws) {
  const double total = total_weight(rows, alpha);
  const auto n = static_cast<double>(draws);
  return sum_over_ranks(1, rows, [&](double rank) {
    return -std::expm1(n * std::log1p(-std::pow(rank, -alpha) / total));
  });
}

Plan plan(const Options& options, const std::vector<Workload>& workloads) {
  check_options(options);
  check(workloads.size() == options.tables.size(),
        "embedding_cache: plan: {} workloads for {} tables", workloads.size(),
        options.tables.size());
  Plan out;
  const bool in_memory = options.store.kind == StoreKind::kMemory ||
                         (options.store.kind == StoreKind::kAuto && !has_rocksdb());
  const uint64_t most_waiting =
      (uint64_t{options.store.write_back_mib} << 20) + (in_memory ? 0 : 2 * kWriteBufferBytes);
  for (size_t t = 0; t < workloads.size(); ++t) {
    const Workload& load = workloads[t];
    const TableOptions& table = options.tables[t];
    check(
        load.rows > 0 && load.alpha > 0 && load.reads_per_second > 0 && load.writes_per_second > 0,
        "embedding_cache: plan: table \"{}\": rows, alpha and rates must be positive", table.name);
    TablePlan p{.name = table.name, .rows = load.rows};
    p.record_bytes = RowLayout(table).record_bytes();
    p.host_rows = std::min(table.host_rows, load.rows);
    p.host_bytes = table.host_rows * p.record_bytes;
    p.host_overhead_bytes = static_cast<uint64_t>(static_cast<double>(table.host_rows) * 15.8);
    if (in_memory) {  // with an index at most half full
      p.store_memory_bytes = load.rows * (p.record_bytes + 48);
    } else {
      p.store_bytes = load.rows * (p.record_bytes + 10);
      p.store_memory_bytes = static_cast<uint64_t>(
          static_cast<double>(load.rows) * index_and_filter_bytes(options.store, p.record_bytes));
    }
    // Where no row ever leaves, those of a commit wait alone: as it was begun, what changed since then, and RocksDB's newest writes.
    const bool none_leaves = load.are_all && load.rows <= table.host_rows;
    out.buffer_bytes += none_leaves ? 3 * load.rows * (p.record_bytes + 48) : most_waiting;
    out.memory_bytes += p.host_bytes + p.host_overhead_bytes + p.store_memory_bytes;
    p.commit_bytes = p.host_rows * p.record_bytes;
    look_up(load, table.host_rows, p);
    const double block = static_cast<double>(options.store.block_kib) * 1024;
    const double reads = p.misses_per_batch - p.new_per_batch;
    p.read_bytes_per_batch =
        reads * (std::ceil(static_cast<double>(p.record_bytes) / block) * block);
    p.write_bytes_per_batch = p.misses_per_batch * static_cast<double>(p.record_bytes);
    p.read_seconds = reads / load.reads_per_second;
    p.write_seconds = p.misses_per_batch / load.writes_per_second;
    out.compute_seconds += load.compute_seconds;
    out.read_seconds += p.read_seconds;
    out.tables.push_back(p);
  }
  out.buffer_bytes = std::min(out.buffer_bytes, most_waiting);
  out.memory_bytes += out.buffer_bytes;
  if (out.compute_seconds > 0) {
    double writing = 0;
    for (const TablePlan& p : out.tables) {
      writing += p.write_seconds;
    }
    out.step_seconds = std::max(out.compute_seconds + writing / 2, out.read_seconds);
    out.step_seconds_without_prefetch = out.compute_seconds + writing / 2 + out.read_seconds;
  }
  return out;
}

std::string print_plan(const Plan& plan) {
  const auto mib = [](auto bytes) { return static_cast<double>(bytes) / (1 << 20); };
  std::string out =
      fmt::format("{:<14}{:>12}{:>9}{:>12}{:>12}{:>10}{:>12}{:>12}\n", "table", "rows", "B/row",
                  "rows in RAM", "RAM MiB", "+ MiB", "store MiB", "disk MiB");
  for (const TablePlan& p : plan.tables) {
    out += fmt::format("{:<14}{:>12}{:>9}{:>12}{:>12.1f}{:>10.1f}{:>12.1f}{:>12.1f}\n", p.name,
                       p.rows, p.record_bytes, p.host_rows, mib(p.host_bytes),
                       mib(p.host_overhead_bytes), mib(p.store_memory_bytes), mib(p.store_bytes));
  }
  out += fmt::format(
      "memory in all: {:.1f} MiB, of which up to {:.1f} MiB are rows on their way to the store\n"
      "(+: index of the rows in RAM; store: what the store keeps in RAM for its rows)\n",
      mib(plan.memory_bytes), mib(plan.buffer_bytes));
  out += fmt::format("\n{:<14}{:>12}{:>12}{:>10}{:>12}{:>9}{:>12}{:>12}{:>10}\n", "a batch",
                     "distinct", "hits/lookup", "hits/id", "misses", "new", "read MiB", "write MiB",
                     "read s");
  for (const TablePlan& p : plan.tables) {
    out += fmt::format(
        "{:<14}{:>12.0f}{:>11.1f}%{:>9.1f}%{:>12.0f}{:>9.0f}{:>12.1f}{:>12.1f}{:>10.3f}\n", p.name,
        p.distinct_per_batch, 100 * p.hits_per_lookup, 100 * p.hits_per_id, p.misses_per_batch,
        p.new_per_batch, mib(p.read_bytes_per_batch), mib(p.write_bytes_per_batch), p.read_seconds);
  }
  for (const TablePlan& p : plan.tables) {
    if (p.distinct_per_batch > static_cast<double>(p.host_rows) && p.host_rows < p.rows) {
      out += fmt::format(
          "\n{}: a batch needs about {:.0f} rows in memory at once and {} fit: raise host_rows, "
          "more so for "
          "batches ahead\n",
          p.name, p.distinct_per_batch, p.host_rows);
    }
  }
  if (plan.step_seconds > 0) {
    out += fmt::format(
        "\na step: compute {:.3f} s, reads {:.3f} s: {:.3f} s with prefetch ({}), {:.3f} s "
        "without\n",
        plan.compute_seconds, plan.read_seconds, plan.step_seconds,
        plan.read_seconds <= plan.compute_seconds ? "reads are hidden" : "reads are the limit",
        plan.step_seconds_without_prefetch);
  }
  return out;
}

}  // namespace mstrain::embedding_cache
