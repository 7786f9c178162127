#!/usr/bin/env python3
"""Checks who includes whom: the rooms of core from left to right, suites above core and beside each other, the
libraries that stand alone on what they may use, and each external library in the one place that owns it. Prints each
offence as file:line and exits with 1."""
import pathlib
import re
import sys

ROOMS = "base schedule runtime comm io ir ops tensor transform compile exec nn optim data train forecast".split()
OWNERS = {
    "yaml-cpp/": ["core/base/yaml.cc"],
    "openssl/": ["core/io/digest.cc"],
    "isa-l/": ["core/io/digest.cc"],
    "png.h": ["core/io/images/"],
    "jpeglib.h": ["core/io/images/"],
    "gif_lib.h": ["core/io/images/"],
    "utf8proc.h": ["core/data/unicode_class.cc", "core/data/utf8.cc"],
    "oneapi/": ["core/backends/cpu/"],
    "dnnl": ["core/backends/cpu/"],
    "Eigen/": ["core/backends/cpu/"],
    "omp.h": ["core/backends/cpu/"],
    "mpi.h": ["core/comm/mpi_"],
    "zlib.h": ["core/io/"],
    "rocksdb/": ["embedding_cache/rocksdb_"],
}
ALONE = {
    "mcts": ["mcts/", "core/base/"],
    "embedding_cache": ["embedding_cache/", "core/base/", "core/runtime/", "core/io/"],
}
BACKEND_MAY_INCLUDE = ROOMS[: ROOMS.index("ops") + 1]
INCLUDE = re.compile(r'^\s*#include\s+([<"])([^">]+)[">]')


def offence(path, quote, target):
    for prefix, owners in OWNERS.items():
        if target.startswith(prefix) and not any(path.startswith(owner) for owner in owners):
            return f"{target} belongs to {owners[0]}"
    if quote == "<":
        return None
    mine, theirs = path.split("/"), target.split("/")
    if mine[0] in ALONE and len(theirs) > 1 and not target.startswith(tuple(ALONE[mine[0]])):
        return f"{mine[0]} uses {', '.join(ALONE[mine[0]])} only"
    if mine[0] == "core" and theirs[0] != "core":
        return "core includes nothing above it"
    if mine[0] == "suites" and theirs[0] == "suites" and mine[1] not in {theirs[1], "all.cc"} and theirs[1] != "run":
        return "a suite includes itself and suites/run, no other one"
    if mine[0] != "core" or len(mine) < 3 or theirs[1] == mine[1]:
        return None
    if mine[1] == "backends":
        if path == "core/backends/all.cc" or theirs[1] in BACKEND_MAY_INCLUDE:
            return None
        return f"a backend may include {', '.join(BACKEND_MAY_INCLUDE)}"
    if theirs[1] == "backends":
        return "backends are included by core/backends/all.cc alone"
    if theirs[1] in ROOMS and ROOMS.index(theirs[1]) > ROOMS.index(mine[1]):
        return f"core/{mine[1]} stands left of core/{theirs[1]}"
    return None


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    found = 0
    for folder in ("core", "suites", "launcher", *ALONE):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in {".h", ".cc"}:
                continue
            path = file.relative_to(root).as_posix()
            for number, line in enumerate(file.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                reason = match and offence(path, *match.groups())
                if reason:
                    found += 1
                    print(f"{path}:{number}: includes {match.group(2)}: {reason}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
