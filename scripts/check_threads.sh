#!/usr/bin/env bash
# Runs what several threads do to one embedding cache under the thread sanitizer: the library as it ships, built alone, because libgomp, which
# the suite's kernels use, makes the sanitizer report what is none. Takes minutes.   scripts/check_threads.sh [GTEST_FILTER]
set -euo pipefail
cd "$(dirname "$0")/.."
build=build-threads
filter=${1:-'Concurrency.*:Vocabulary.Readers*:Commit.Started*:Commit.Closing*:Commit.Prefetch*:Misuse.TicketReleased*:Exactness.Stream*:ScarceMemory.*'}
cmake -S embedding_cache -B "$build" -G Ninja -DMSTRAIN_SANITIZE=thread -DMSTRAIN_TESTS=ON >/dev/null
cmake --build "$build" --target embedding_cache_test
TSAN_OPTIONS=halt_on_error=1 "$build/tests/embedding_cache_test" --gtest_filter="$filter"
