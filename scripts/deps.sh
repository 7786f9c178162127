#!/usr/bin/env bash
# Installs what mstrain is built and tested with, from Debian's packages. Does nothing where all of it is there.
#   scripts/deps.sh         to build, test and run
#   scripts/deps.sh --ci    also what continuous integration checks with, the Python packages of tests/requirements.txt among
#                           it, in the virtual environment .venv; where pip cannot fetch them, tests that need them are skipped
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  g++ cmake ninja-build ccache mold   # compiler and build
  libfmt-dev nlohmann-json3-dev       # text and JSON
  libyaml-cpp-dev                     # configuration
  libopenmpi-dev openmpi-bin          # ranks as processes
  libdnnl-dev libeigen3-dev           # matrix products
  zlib1g-dev                          # compressed data sets
  libpng-dev libjpeg62-turbo-dev libgif-dev  # images
  libssl-dev libisal-dev              # SHA-256, CRC-32C
  libutf8proc-dev                     # classes of characters
  libpcre2-dev                        # patterns of rewards
  libcpp-httplib-dev                  # mstrain watch
  libjemalloc-dev                     # the command's memory
  librocksdb-dev                      # the embedding cache on disk
  libgtest-dev libgmock-dev           # tests
  libbenchmark-dev                    # benchmarks
  dataset-fashion-mnist               # data of an example and its tests
)
if [ "${1:-}" = --ci ]; then
  packages+=(git clang-format python3 # format and include checks
             clang-19 libclang-rt-19-dev libomp-19-dev llvm-19  # sanitizers
             python3-venv unicode-data)  # peers that tests compare with, the characters to compare
fi

install_missing() {
  local missing=() package run=() log
  for package in "${packages[@]}"; do
    [[ $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) == *'ok installed' ]] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "mstrain needs these Debian packages, which are not installed: ${missing[*]}"
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "Run as root: apt-get install ${missing[*]}" >&2; exit 1; }
    run=(sudo)
  fi
  log=$(mktemp)
  { "${run[@]}" apt-get update -qq &&
    "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
  } >"$log" 2>&1 || { cat "$log" >&2; rm -f "$log"; echo "apt-get could not install: ${missing[*]}" >&2; exit 1; }
  rm -f "$log"
  echo "installed"
}

# Made anew when the list of packages changes.
make_venv() {
  cmp -s tests/requirements.txt .venv/requirements.txt && return
  echo "making .venv with: $(grep -v '^#' tests/requirements.txt | tr '\n' ' ')"
  if python3 -m venv --clear .venv && .venv/bin/pip install -q --disable-pip-version-check -r tests/requirements.txt; then
    cp tests/requirements.txt .venv/
  else
    echo "pip could not fetch them: tests that need them will be skipped" >&2
  fi
}

install_missing
if [ "${1:-}" = --ci ]; then
  make_venv
fi
