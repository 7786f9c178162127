// The embedding cache against the machine's limits and against what a user would pick otherwise, in the same run, interleaved.
//   bench_embedding_cache SECTION [DIRECTORY]
// Sections in memory: dedup gather update bags hits memory. On disk (DIRECTORY, about 8 GB, removed by `clean`): prepare, then cold, train,
// commit; bulk by itself. Workload: 39 fields x 16,000 samples, 26 of them Zipf 1.05 over 5.86 M ids, 13 fixed.
#include <cstdio>
#include <filesystem>

#include "benchmarks/embedding_cache_race.h"
#include "benchmarks/run_main.h"

namespace mstrain::embedding_cache {
namespace {

int run(int argc, char** argv) {
  const std::string section = argc > 1 ? argv[1] : "";
  const std::string directory = argc > 2 ? argv[2] : "/tmp/mstrain-bench-cache";
  if (section == "dedup") {
    bench_dedup();
  } else if (section == "gather") {
    bench_gather();
  } else if (section == "update") {
    bench_update();
  } else if (section == "bags") {
    bench_bags();
  } else if (section == "hits") {
    bench_hits();
  } else if (section == "memory") {
    bench_memory();
  } else if (section == "resident") {
    bench_resident();
  } else if (section == "prepare") {
    bench_prepare(directory);
  } else if (section == "cold") {
    bench_cold(directory);
  } else if (section == "train") {
    bench_train(directory);
  } else if (section == "commit") {
    bench_commit(directory);
  } else if (section == "bulk") {
    bench_bulk(directory + "-bulk");
  } else if (section == "clean") {
    std::filesystem::remove_all(directory);
  } else {
    fmt::print(
        "bench_embedding_cache "
        "dedup|gather|update|bags|hits|memory|resident|prepare|cold|train|commit|bulk|clean "
        "[DIRECTORY]\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace mstrain::embedding_cache

int main(int argc, char** argv) {
  return mstrain::run_main(mstrain::embedding_cache::run, argc, argv);
}
