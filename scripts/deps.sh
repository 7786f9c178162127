#!/usr/bin/env bash
# Installs what mstrain is built and tested with, from Debian's packages. Does nothing where all of it is there.
#   scripts/deps.sh         to build, test and run
#   scripts/deps.sh --ci    also what continuous integration checks with
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache        # compiler and build
  libfmt-dev nlohmann-json3-dev       # text and JSON
  libyaml-cpp-dev                     # configuration
  libdnnl-dev libeigen3-dev           # matrix products
  zlib1g-dev                          # compressed data sets
  librocksdb-dev                      # the embedding cache on disk
  libgtest-dev libgmock-dev           # tests
  libbenchmark-dev                    # benchmarks
  dataset-fashion-mnist               # data of an example and its tests
)
if [ "${1:-}" = --ci ]; then
  packages+=(clang-format python3)    # format and include checks
fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi
echo "mstrain needs these Debian packages, which are not installed: ${missing[*]}"
run=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "Run as root: apt-get install ${missing[*]}" >&2; exit 1; }
  run=(sudo)
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{ "${run[@]}" apt-get update -qq &&
  "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
} >"$log" 2>&1 || { cat "$log" >&2; echo "apt-get could not install: ${missing[*]}" >&2; exit 1; }
echo "installed"
