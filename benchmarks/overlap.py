#!/usr/bin/env python3
"""Exchanges of a step that nothing hides, with parallel.overlap and without, from the profiles of runs of two processes that take turns.
Medians over rounds and ranks: milliseconds in exchanges under which a rank did nothing else (waits for a rank that is late not counted),
their share of all exchanges and of the step, and the ratios of both times without overlap to those with it.

    benchmarks/overlap.py build/bin/mstrain [--rounds 5] [--steps 20] [key=value ...]
"""
import argparse
import json
import os
import subprocess
import tempfile
from statistics import median

CONFIG = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "configs", "gpt_quickstart.yaml")
FIRST = 5  # steps before those that count


def profile_of(options, folder, stage, overlap):
    """Of one run: the step's seconds, and by rank those in exchanges and those of exchanges under its work."""
    word = "true" if overlap else "false"
    done = subprocess.run(
        [options.program, "--config", CONFIG, "--ranks", "2", f"run.output_dir={folder}", "run.threads=1", "batch.micro=4",
         f"parallel.zero.stage={stage}", f"parallel.overlap.gradients={word}", f"parallel.overlap.parameters={word}",
         f"schedule.total_steps={FIRST + options.steps}", "schedule.warmup_steps=2", f"profile.first={FIRST}",
         f"profile.steps={options.steps}", "eval.interval=none", "checkpoint.interval=1000", *options.keys],
        capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    with open(os.path.join(folder, "profile.json")) as file:
        profile = json.load(file)["otherData"]
    return profile["step_seconds"], [(rank["exchanges"], rank["hidden"]) for rank in profile["ranks"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("keys", nargs="*", help="of the run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    print(f"gpt_quickstart.yaml, 2 processes of one thread, batch.micro=4 {' '.join(options.keys)}; {options.rounds} rounds of "
          f"{options.steps} steps\n{'':8}{'with overlap':>29}{'without':>29}   ratio\n"
          f"{'zero':8}" + 2 * f"{'ms':>9}{'exchanges':>11}{'step':>9}" + f"{'exposed':>10}{'step':>7}")
    for stage in (1, 3):
        rounds = {True: [], False: []}
        for turn in range(options.rounds):
            for overlap in (True, False) if turn % 2 == 0 else (False, True):
                with tempfile.TemporaryDirectory() as folder:
                    rounds[overlap].append(profile_of(options, folder, stage, overlap))
        line, exposed, step = f"{stage:<8}", {}, {}
        for overlap, runs in rounds.items():
            step[overlap] = median(seconds for seconds, _ in runs)
            exposed[overlap] = median(shown for _, ranks in runs for shown, _ in ranks)
            of_exchanges = median(shown / (shown + hidden) for _, ranks in runs for shown, hidden in ranks)
            of_step = median(shown / seconds for seconds, ranks in runs for shown, _ in ranks)
            line += f"{exposed[overlap] * 1e3:9.2f}{of_exchanges:11.0%}{of_step:9.1%}"
        print(f"{line}{exposed[False] / exposed[True]:10.2f}{step[False] / step[True]:7.2f}", flush=True)


if __name__ == "__main__":
    main()
