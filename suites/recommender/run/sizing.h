// What the rows of a run will need and be asked for, told by its own first batches before it starts: rows and bytes by tier and rank, hits,
// reads, and what a step will take longest for.
#pragma once

#include <string>
#include <vector>

#include "core/train/planned_run.h"
#include "embedding_cache/plan.h"
#include "suites/recommender/embedding/batches.h"
#include "suites/recommender/embedding/placement.h"

namespace mstrain::recommender {

// What is about to run.
struct SizedRun {
  const SampleSource& samples;
  const Tables& tables;
  const Placement& placement;
  const embedding_cache::Options& options;  // of a rank
  SampleOrder order;
  uint64_t seed = 0;
  int64_t batch = 1;                       // samples of a step, of all ranks together
  int64_t steps = 1;                       // of the run
  int64_t look_ahead = 0;                  // batches whose rows are fetched ahead
  uint64_t others = 0;                     // rows that the run begins with
  std::vector<uint64_t> device_rows = {};  // of each table, in a device's memory; empty: none
};

struct RankSizing {
  embedding_cache::Plan plan;
  std::vector<embedding_cache::ReplayResult> device;  // of each table with rows there
  double lookups = 0;                                 // of a step
  double distinct = 0;                                // ids among them
};
struct RowsSizing {
  int64_t batches =
      0;  // that were read; those of the second half are counted, when the tier is no longer empty
  int64_t counted = 0;
  bool is_whole = false;  // they hold all ids of the run, whose rows are counted
  std::vector<RankSizing> ranks;
};

// Throws IoError, and ConfigError where the first batch, whose samples are read, does not fit in the rows of a memory.
void check_first_batch(SizedRun run);

// Reads batches of the run's own order until they hold some millions of ids. Throws IoError, and ConfigError where a batch does not fit.
RowsSizing size_rows(const SizedRun& run);

// Rows of each table that a rank may come to have, at most, of the ids of `samples` samples and `others` that have rows already.
std::vector<uint64_t> most_rows(const Tables& tables, const Placement& placement, int64_t samples,
                                uint64_t others);

// The plan of a rank. `rows`: of each table, at most; empty: nobody knows, and those that fit in memory are planned. Its batches are what is
// `replayed` of each table; empty: as by Zipf's law.
embedding_cache::Plan plan_rows(const Tables& tables, const Placement& placement,
                                const embedding_cache::Options& options, int64_t batch,
                                const std::vector<uint64_t>& rows,
                                const std::vector<embedding_cache::ReplayResult>& replayed = {});

// For people. Rates of this machine are measured, in some hundredths of a second, unless `plan` is for a device that states its own.
std::string describe(const RowsSizing& sizing, const SizedRun& run, const RunPlan& plan);

}  // namespace mstrain::recommender
