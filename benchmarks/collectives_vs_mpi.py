#!/usr/bin/env python3
"""Collectives among processes against MPI's own, called directly: bench_collectives and bench_collectives --plain take turns under
mpirun; a row says what share of plain MPI's rate ours reaches, as the median over the rounds.

    benchmarks/collectives_vs_mpi.py build/benchmarks/bench_collectives [--ranks 2] [--mb 64] [--rounds 5] [--fastest]
"""
import argparse
import statistics
import subprocess


def measure(options, plain):
    """GB/s by collective and bytes."""
    out = subprocess.run(
        ["mpirun", "--allow-run-as-root", "--bind-to", "core", "-n", str(options.ranks), "--mca", "plm", "isolated",
         "--mca", "pml", "ob1", "--mca", "btl", "self,vader", options.program, "--mb", str(options.mb),
         *(["--plain", "1"] if plain else []), *(["--fastest", "1"] if options.fastest else [])], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in out.splitlines()[1:]]
    return {(name, int(size)): float(rate) for name, size, _, rate, _ in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--mb", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fastest", action="store_true", help="of each run's rounds: for a machine that others use")
    options = parser.parse_args()
    ours, plain = [], []
    for _ in range(options.rounds):
        plain.append(measure(options, True))
        ours.append(measure(options, False))
    print(f"{'collective':16} {'bytes':>10} {'GB/s':>8} {'plain':>8} {'ratio':>7}")
    for key in ours[0]:
        ratio = statistics.median(a[key] / b[key] for a, b in zip(ours, plain))
        print(f"{key[0]:16} {key[1]:10} {statistics.median(a[key] for a in ours):8.2f} "
              f"{statistics.median(b[key] for b in plain):8.2f} {ratio:6.2f}x")


if __name__ == "__main__":
    main()
