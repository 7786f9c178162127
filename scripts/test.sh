#!/usr/bin/env bash
# Installs what is missing, builds everything and runs all tests. Arguments go to ctest: scripts/test.sh -L core
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/deps.sh
cmake -S . -B build -G Ninja -DMSTRAIN_TESTS=ON -DMSTRAIN_BENCHMARKS=ON -DCMAKE_UNITY_BUILD=ON \
  ${MSTRAIN_CMAKE_OPTIONS:-}
cmake --build build
ctest --test-dir build --output-on-failure -j "$(nproc)" "$@"
