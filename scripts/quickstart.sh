#!/usr/bin/env bash
# From a clean machine to a trained model: installs what is missing, builds the mstrain command and trains a small GPT
# for about 90 seconds on the C++ headers of this machine.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/deps.sh
cmake -S . -B build -G Ninja -DMSTRAIN_TESTS=OFF -DMSTRAIN_BENCHMARKS=OFF -DCMAKE_UNITY_BUILD=ON >build-configure.log 2>&1 ||
  { cat build-configure.log >&2; exit 1; }
rm -f build-configure.log
cmake --build build --target mstrain_command
build/bin/mstrain --config configs/gpt_quickstart.yaml "$@"
