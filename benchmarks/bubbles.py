#!/usr/bin/env python3
"""What the ranks of a pipeline wait, of the time that they work: by the schedule's formula (F, B and W of equal length), as planned for
this machine, and as measured, in one run of each schedule. Baby GPT of 8 layers; the rank that waits most counts.

    benchmarks/bubbles.py build/bin/mstrain --data tinyshakespeare.txt [--ranks 2] [--micro-batches 8]
"""
import argparse
import json
import os
import subprocess
import tempfile

CONFIG = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "configs", "gpt_shakespeare_char.yaml")
# Waits over work for p ranks, m micro-batches (docs/planner.md).
SCHEDULES = {"gpipe": (1, lambda p, m: (p - 1) / m), "1f1b": (1, lambda p, m: (p - 1) / m),
             "interleaved": (2, lambda p, m: (p - 1) / (2 * m)), "zb_h1": (1, lambda p, m: (p - 1) / (3 * m)),
             "zbv": (2, lambda p, m: 0.0 if m >= 2 * p - 1 else float("nan"))}


def waits(timeline):
    """Of the rank that waits most between its first and last work, over its work."""
    most = 0
    for bars in timeline["ranks"]:
        work = [(begin, end) for kind, chunk, micro, begin, end in bars if micro >= 0]
        busy = sum(end - begin for begin, end in work)
        most = max(most, (max(end for _, end in work) - min(begin for begin, _ in work)) / busy - 1)
    return most


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--data", required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--micro-batches", type=int, default=8)
    options = parser.parse_args()
    p, m = options.ranks, options.micro_batches
    print(f"{p} ranks, {m} micro-batches\n{'schedule':12} {'formula':>8} {'planned':>8} {'measured':>8}  step: planned, measured ms")
    with tempfile.TemporaryDirectory() as folder:
        for schedule, (parts, formula) in SCHEDULES.items():
            subprocess.run(
                [options.program, "--config", CONFIG, "--ranks", str(p), f"data.train={options.data}", f"parallel.pipeline={p}",
                 f"parallel.schedule={schedule}", f"parallel.virtual_pipeline={parts if schedule == 'interleaved' else 1}",
                 "model.num_layers=8", "model.hidden_size=256", "model.max_position_embeddings=128", "data.seq_length=128",
                 f"batch.global={4 * m}", "batch.micro=4", f"run.output_dir={folder}/{schedule}", "schedule.total_steps=12",
                 "schedule.warmup_steps=2", "profile.steps=5", "profile.first=5", "eval.interval=none", "checkpoint.interval=1000"],
                check=True, capture_output=True)
            with open(f"{folder}/{schedule}/profile.json") as file:
                profile = json.load(file)["otherData"]
            planned, measured = profile["planned"], profile["measured"]
            print(f"{schedule:12} {formula(p, m):8.3f} {waits(planned):8.3f} {waits(measured):8.3f}  "
                  f"{planned['seconds'] * 1e3:.0f}, {measured['seconds'] * 1e3:.0f}", flush=True)


if __name__ == "__main__":
    main()
