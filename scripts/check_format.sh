#!/usr/bin/env bash
# Checks every C++ file against .clang-format; --fix rewrites them.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(--dry-run --Werror)
[ "${1:-}" = --fix ] && mode=(-i)
git ls-files '*.cc' '*.h' | xargs -P "$(nproc)" -n 40 clang-format "${mode[@]}"
