#!/usr/bin/env python3
"""Steps as planned for this machine (mstrain plan --cluster here) against the same runs' steps, measured in turn with the plans:
medians over the rounds, and of the rounds' own differences.

    benchmarks/plan_vs_run.py build/bin/mstrain --data tinyshakespeare.txt [--rounds 3] [--only SHAPE] [--ranks N]
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile

CONFIGS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "configs")
QUICK = ("gpt_quickstart.yaml", [], 30)
BABY = ("gpt_shakespeare_char.yaml",
        ["model.num_layers=6", "model.hidden_size=384", "model.num_attention_heads=6", "model.max_position_embeddings=256",
         "data.seq_length=256", "batch.global=16", "model.vocab_size=65"], 4)
SHAPES = {"quick start": QUICK, "baby": BABY}
# Ranks, micro-batch by shape, keys.
LAYOUTS = [(1, (16, 4), []), (2, (8, 4), ["parallel.data=2"]), (4, (4, 4), ["parallel.data=4"]),
           (2, (4, 4), ["parallel.pipeline=2"]), (4, (4, 4), ["parallel.pipeline=4"]),
           (4, (4, 4), ["parallel.data=2", "parallel.pipeline=2"])]


def output(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--data", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="a shape")
    parser.add_argument("--ranks", type=int, help="layouts of so many alone")
    options = parser.parse_args()
    print(f"{'shape':12} {'ranks':>5} {'layout':38} {'planned ms':>10} {'measured ms':>11} {'difference':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (config, keys, steps) in SHAPES.items():
            if options.only not in (None, name):
                continue
            for ranks, micro, layout in LAYOUTS:
                if options.ranks not in (None, ranks):
                    continue
                run = ["--config", os.path.join(CONFIGS, config), *keys, *layout,
                       f"batch.micro={micro[name == 'baby']}", "run.mode=benchmark", f"run.output_dir={folder}/run",
                       f"schedule.total_steps={steps}", "schedule.warmup_steps=2", "profile.steps=0"]
                if name == "baby":
                    run.append(f"data.train={options.data}")
                    if "parallel.pipeline=4" in layout:
                        run.append("parallel.stage_layout=[1,2,2,1]")
                planned, measured = [], []
                for _ in range(options.rounds):
                    plan = json.loads(output([options.program, "plan", *run, "parallel.plan=manual", "--cluster", "here",
                                              "--ranks", str(ranks), "--json"]))
                    planned.append(plan["step_seconds"])
                    text = output([options.program, *run, *(["--ranks", str(ranks)] if ranks > 1 else [])])
                    measured.append(float(re.search(r"median ([0-9.]+) s", text)[1]))
                ratio = statistics.median(a / b for a, b in zip(planned, measured))
                print(f"{name:12} {ranks:5} {' '.join(layout) or 'one rank':38} {statistics.median(planned) * 1e3:10.1f} "
                      f"{statistics.median(measured) * 1e3:11.1f} {(ratio - 1) * 100:+9.1f}%", flush=True)


if __name__ == "__main__":
    main()
