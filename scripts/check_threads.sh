#!/usr/bin/env bash
# Runs what several threads do to one embedding cache, queues and events of devices, and ranks that are threads, under the thread sanitizer: the cache as it ships, built
# alone, because libgomp, which the suite's kernels use, makes the sanitizer report what is none. With --all also every other test in which threads meet, in minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build-threads
test=embedding_cache_concurrency_test filter='*'
if [ "${1:-}" = --all ]; then
  test=embedding_cache_test
  filter='Concurrency.*:Deltas.Readers*:Vocabulary.*Look*:Commit.Started*:Commit.Closing*:Commit.Prefetch*:Misuse.TicketReleased*:Exactness.Stream*:ScarceMemory.*'
fi
cmake -S embedding_cache -B "$build" -G Ninja -DMSTRAIN_SANITIZE=thread -DMSTRAIN_TESTS=ON -DCMAKE_UNITY_BUILD=ON >/dev/null
cmake --build "$build" --target "$test" device_test ranks_test
TSAN_OPTIONS=halt_on_error=1 "$build/tests/$test" --gtest_filter="$filter"
TSAN_OPTIONS=halt_on_error=1 "$build/tests/device_test"
TSAN_OPTIONS=halt_on_error=1 "$build/tests/ranks_test"
