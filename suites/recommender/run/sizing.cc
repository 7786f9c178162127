#include "suites/recommender/run/sizing.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/ir/backend.h"
#include "core/ops/matmul.h"
#include "core/tensor/host.h"
#include "core/train/numbers.h"
#include "embedding_cache/dedup.h"
#include "embedding_cache/row.h"

namespace mstrain::recommender {
namespace {

using embedding_cache::Id;
using embedding_cache::ReplayResult;

constexpr size_t kLookups = 12'000'000;    // that are sampled, about
constexpr size_t kFewLookups = 1'000'000;  // where no row ever leaves
constexpr int64_t kLeastBatches = 4;

// ids[rank][table][batch].
using BatchIds = std::vector<std::vector<std::vector<std::vector<Id>>>>;

// Samples that the run learns from, each of which it may see many times.
int64_t samples_of(const SizedRun& run) {
  const int64_t all = run.samples.samples();
  return all / run.batch < run.steps ? all : run.batch * run.steps;
}

BatchIds first_ids(const SizedRun& run) {
  const size_t tables = run.tables.specs().size();
  const std::vector<uint64_t> rows =
      most_rows(run.tables, run.placement, samples_of(run), run.others);
  bool all_fit = true;
  for (size_t t = 0; t < tables; ++t) {
    all_fit = all_fit && rows[t] <= run.options.tables[t].host_rows;
  }
  const size_t enough = all_fit ? kFewLookups : kLookups;
  BatchIds out(static_cast<size_t>(run.placement.ranks()),
               std::vector<std::vector<std::vector<Id>>>(tables));
  std::vector<int64_t> places(static_cast<size_t>(run.batch));
  SampleBatch samples;
  size_t lookups = 0;
  for (int64_t b = 0; b < run.steps && (b < kLeastBatches || lookups < enough); ++b) {
    for (int64_t i = 0; i < run.batch; ++i) {
      places[static_cast<size_t>(i)] =
          sample_at(run.order, run.samples.samples(), run.seed, b * run.batch + i);
    }
    run.samples.read(places, samples);
    for (size_t t = 0; t < tables; ++t) {
      for (auto& rank : out) {
        rank[t].emplace_back();
      }
      for (const Id id : keys_of(run.tables.specs()[t], samples).ids) {
        out[static_cast<size_t>(run.placement.owner(t, id))][t].back().push_back(id);
        ++lookups;
      }
    }
  }
  return out;
}

uint64_t count_distinct(const std::vector<std::vector<Id>>& batches) {
  std::vector<Id> all;
  for (const std::vector<Id>& batch : batches) {
    all.insert(all.end(), batch.begin(), batch.end());
  }
  std::sort(all.begin(), all.end());
  return static_cast<uint64_t>(std::unique(all.begin(), all.end()) - all.begin());
}

// For people: what the column of rows is.
std::string_view describe_count(const RowsSizing& sizing, const SizedRun& run) {
  if (!sizing.is_whole) {
    return "rows: at most, by the number of samples and the bounds of ids";
  }
  const bool may_lack =
      std::any_of(run.options.tables.begin(), run.options.tables.end(),
                  [](const embedding_cache::TableOptions& table) {
                    return table.admission.kind != embedding_cache::AdmissionKind::kNone ||
                           table.eviction.ttl_steps > 0 || table.eviction.max_rows > 0;
                  });
  return may_lack || run.others > 0
             ? "rows: at most, since these batches hold all ids of the run, of which not all need "
               "have rows at once"
             : "rows: all, since these batches hold all ids of the run";
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The fastest of a few tries.
template <class F>
double fastest(F&& work) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    best = std::min(best, seconds_since(begin));
  }
  return best;
}

double measured_flops() {
  constexpr int64_t kRows = 1024, kWide = 512;
  const Tensor a = tensor<float>(std::vector<float>(kRows * kWide, 0.5F), {kRows, kWide});
  const Tensor b = tensor<float>(std::vector<float>(kWide * kWide, 0.5F), {kWide, kWide});
  return 2.0 * kRows * kWide * kWide / fastest([&] { const HostRead read(matmul(a, b)); });
}

double measured_copies() {
  std::vector<char> from(size_t{1} << 25, 1), to(from.size());
  return 2.0 * static_cast<double>(from.size()) /
         fastest([&] { std::memcpy(to.data(), from.data(), from.size()); });
}

// What a step moves in memory for its rows: they are read where they are used and gradients come back by position; each distinct
// one is read and written once.
double moved_bytes(const RankSizing& rank, const embedding_cache::Options& options) {
  double bytes = 0;
  for (size_t t = 0; t < options.tables.size(); ++t) {
    const embedding_cache::RowLayout layout(options.tables[t]);
    bytes += 2 * rank.plan.tables[t].distinct_per_batch * layout.record_bytes();
    bytes += 2 * rank.plan.tables[t].lookups_per_batch * layout.width() * sizeof(float);
  }
  return bytes;
}

// A batch is in each memory as a whole. What admission turns away, is not.
void check_fit(const BatchIds& ids, const SizedRun& run) {
  embedding_cache::Dedup dedup;
  embedding_cache::Batch distinct;
  for (size_t t = 0; t < run.options.tables.size(); ++t) {
    const embedding_cache::TableOptions& table = run.options.tables[t];
    if (table.admission.kind != embedding_cache::AdmissionKind::kNone) {
      continue;
    }
    const uint64_t on_device = run.device_rows.empty() ? 0 : run.device_rows[t];
    for (const auto& tables : ids) {
      for (const std::vector<Id>& batch : tables[t]) {
        dedup.run(batch, distinct);
        const uint64_t needed = distinct.unique.size();
        const bool is_host = needed > table.host_rows;
        if (is_host || (on_device > 0 && needed > on_device)) {
          throw ConfigError(
              fmt::format("{}: table \"{}\": a batch has {} distinct ids and does not fit into {} "
                          "rows; raise it, "
                          "or lower batch.global",
                          is_host ? table.host_rows_key : "embedding_cache.device_rows", table.name,
                          needed, is_host ? table.host_rows : on_device));
        }
      }
    }
  }
}

// A line for each table.
std::string describe_device(const RankSizing& rank, const SizedRun& run) {
  std::string out;
  auto result = rank.device.begin();
  for (size_t t = 0; t < run.device_rows.size(); ++t) {
    if (run.device_rows[t] == 0) {
      continue;
    }
    out += fmt::format(
        "on the device: {} rows of table {}, {}; {:.1f} % of lookups and {:.1f} % of ids are "
        "there\n",
        grouped(static_cast<int64_t>(run.device_rows[t])), run.options.tables[t].name,
        gigabytes(static_cast<int64_t>(device_bytes(run.options.tables[t], run.device_rows[t]))),
        100 * result->hits_per_lookup(), 100 * result->hits_per_id());
    ++result;
  }
  return out;
}

}  // namespace

std::vector<uint64_t> most_rows(const Tables& tables, const Placement& placement, int64_t samples,
                                uint64_t others) {
  std::vector<uint64_t> out;
  for (size_t t = 0; t < tables.specs().size(); ++t) {
    const uint64_t all = tables.specs()[t].rows_of(static_cast<uint64_t>(samples), others);
    out.push_back(std::max<uint64_t>(1, placement.share(t, all)));
  }
  return out;
}

embedding_cache::Plan plan_rows(const Tables& tables, const Placement& placement,
                                const embedding_cache::Options& options, int64_t batch,
                                const std::vector<uint64_t>& rows,
                                const std::vector<ReplayResult>& replayed) {
  std::vector<embedding_cache::Workload> workloads;
  for (size_t t = 0; t < options.tables.size(); ++t) {
    const TableSpec& table = tables.specs()[t];
    embedding_cache::Workload load{
        .rows = rows.empty() ? placement.share(t, options.tables[t].host_rows) : rows[t],
        .are_all = !rows.empty(),
        .draws_per_batch = table.ids_of(static_cast<uint64_t>(batch / placement.ranks()))};
    if (!replayed.empty()) {
      load.replayed = replayed[t];
    }
    workloads.push_back(std::move(load));
  }
  return embedding_cache::plan(options, workloads);
}

void check_first_batch(SizedRun run) {
  run.steps = 1;
  check_fit(first_ids(run), run);
}

RowsSizing size_rows(const SizedRun& run) {
  const BatchIds ids = first_ids(run);
  check_fit(ids, run);
  RowsSizing out{.batches = std::ssize(ids[0][0])};
  out.counted = out.batches - out.batches / 2;
  const int64_t samples = samples_of(run);
  out.is_whole = out.batches >= samples / run.batch + (samples % run.batch > 0 ? 1 : 0);
  const std::vector<uint64_t> most = most_rows(run.tables, run.placement, samples, run.others);
  for (const auto& tables : ids) {
    RankSizing rank;
    std::vector<ReplayResult> replayed;
    std::vector<uint64_t> rows = most;
    for (size_t t = 0; t < tables.size(); ++t) {
      if (out.is_whole) {
        rows[t] = std::clamp<uint64_t>(count_distinct(tables[t]) + run.others, 1, most[t]);
      }
      const std::vector<std::span<const Id>> batches(tables[t].begin(), tables[t].end());
      replayed.push_back(
          embedding_cache::replay(batches, run.options.tables[t].policy,
                                  {.host_rows = run.options.tables[t].host_rows,
                                   .look_ahead = static_cast<uint32_t>(run.look_ahead),
                                   .skip_batches = static_cast<uint64_t>(out.batches / 2)}));
    }
    for (size_t t = 0; t < run.device_rows.size(); ++t) {
      if (run.device_rows[t] > 0) {
        const std::vector<std::span<const Id>> batches(tables[t].begin(), tables[t].end());
        rank.device.push_back(
            embedding_cache::replay(batches, run.options.tables[t].policy,
                                    {.host_rows = run.device_rows[t],
                                     .look_ahead = 0,
                                     .skip_batches = static_cast<uint64_t>(out.batches / 2)}));
      }
    }
    rank.plan = plan_rows(run.tables, run.placement, run.options, run.batch, rows, replayed);
    for (const embedding_cache::TablePlan& table : rank.plan.tables) {
      rank.lookups += table.lookups_per_batch;
      rank.distinct += table.distinct_per_batch;
    }
    out.ranks.push_back(std::move(rank));
  }
  return out;
}

std::string describe(const RowsSizing& sizing, const SizedRun& run, const RunPlan& plan) {
  const auto by_lookups = [](const RankSizing& a, const RankSizing& b) {
    return a.lookups < b.lookups;
  };
  const auto [least, most] =
      std::minmax_element(sizing.ranks.begin(), sizing.ranks.end(), by_lookups);
  std::string out = fmt::format(
      "rows{}, as the first {} batches of {} samples tell (hits: of the last {})\n{}\n{}",
      sizing.ranks.size() > 1 ? fmt::format(" of rank {}", most - sizing.ranks.begin()) : "",
      sizing.batches, grouped(run.batch), sizing.counted, describe_count(sizing, run),
      print_plan(most->plan));
  out += describe_device(*most, run);
  if (sizing.ranks.size() > 1) {
    double all = 0;
    for (const RankSizing& rank : sizing.ranks) {
      all += rank.lookups;
    }
    out +=
        fmt::format("\n{} ranks share them: {} to {} lookups a step, the most {:.2f} of the mean\n",
                    sizing.ranks.size(), grouped(static_cast<int64_t>(least->lookups)),
                    grouped(static_cast<int64_t>(most->lookups)),
                    most->lookups * static_cast<double>(sizing.ranks.size()) / std::max(all, 1.0));
  }
  // Of a card that is here nobody has stated rates.
  const bool is_host = plan.device.empty() && current_context().backend == find_backend("cpu");
  const double flops = is_host ? measured_flops() : 0;
  const double copies = measured_copies();
  const double dense =
      is_host ? plan.cost.flops / static_cast<double>(plan.ranks) / flops : plan.cost.seconds;
  const double moved = moved_bytes(*most, run.options) / copies;
  double reads = 0;
  for (const embedding_cache::TablePlan& table : most->plan.tables) {
    reads += table.read_seconds;
  }
  const std::pair<double, const char*> stages[] = {
      {dense, "the dense part"}, {moved, "moving rows in memory"}, {reads, "reading rows"}};
  const auto [slowest, name] = *std::max_element(std::begin(stages), std::end(stages));
  out += fmt::format(
      "\na step at least, about: dense {:.3g} ms ({}), rows in memory {:.3g} ms (copies reach "
      "{:.3g} GB/s), reads {:.3g} ms ({} rows a second{}): {} is the bottleneck\n",
      1e3 * dense,
      is_host               ? fmt::format("products reach {:.3g} GFLOP/s", flops / 1e9)
      : plan.device.empty() ? std::string("not known of the card that is here")
                            : fmt::format("the rates of {}", plan.device),
      1e3 * moved, copies / 1e9, 1e3 * reads,
      grouped(static_cast<int64_t>(embedding_cache::Workload().reads_per_second)),
      run.look_ahead > 0 ? ", beside the rest"
                         : "; embedding_cache.pipeline.depth 0 waits for them",
      name);
  return out;
}

}  // namespace mstrain::recommender
