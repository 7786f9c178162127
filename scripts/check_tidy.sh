#!/usr/bin/env bash
# Checks the sources given, or all of the libraries and programs, against .clang-tidy. Needs clang-tidy 19 and libomp-19-dev;
# takes half an hour on two cores, so it is no part of .ci/run.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-tidy-19 >/dev/null ||
  { echo "$0: clang-tidy-19 is missing; apt-get install clang-tidy-19 libomp-19-dev" >&2; exit 1; }
cmake -S . -B build-tidy -G Ninja -DCMAKE_UNITY_BUILD=OFF -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >/dev/null
sources=("$@")
[ $# -gt 0 ] || mapfile -t sources < <(git ls-files '*.cc' | grep -v -e ^tests/ -e ^examples/)
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy-19 -p build-tidy --quiet
