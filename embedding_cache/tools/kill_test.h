// The kill test: train, be killed at a random time, resume, train to the end, compare with a run that was left alone.
#pragma once

#include <cstdint>
#include <string>

#include "embedding_cache/options.h"

namespace mstrain::embedding_cache {

struct KillTest {
  uint64_t rounds = 30;
  uint64_t seed = 1;
  StoreKind store = StoreKind::kAuto;
  std::string directory;  // scratch; empty: a new one in the system's place for those
  uint64_t steps = 120;
};

// Trains in `directory` to `steps` and prints the digest of all rows: what the children of the kill test run.
int rehearse(const std::string& directory, StoreKind store, uint64_t seed, uint64_t steps);

// Exit status: 0 where every round ends equal. A round that does not is printed with its seed, and its directory stays.
int run_kill_test(const KillTest& test);

}  // namespace mstrain::embedding_cache
