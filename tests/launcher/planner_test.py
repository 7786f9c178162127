#!/usr/bin/env python3
"""docs/planner.md says of each published run, and of configs/gpt_10b.yaml, what `mstrain plan` says.

Usage: planner_test.py MSTRAIN [--write]     --write brings the tables of the page up to date"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/planner.md"
# Tokens a second that were published for 8, 16 and 32 A100.
TEN_BILLION = {1: "9.3k", 2: "16.9k", 4: "23.8k"}
# Plans do not depend on the processor, but for what its kernels overwrite.
TOLERANCE = 0.01


def plan(mstrain, config, cluster, keys):
    command = [mstrain, "plan", "--config", str(ROOT / f"configs/{config}.yaml"), "--cluster",
               str(ROOT / f"configs/clusters/{cluster}.yaml"), "--json", *keys]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    found = json.loads(result.stdout) if result.stdout else {}
    assert found and result.returncode == (0 if found["fits"] else 3), f"{' '.join(command)}: {result.stderr}"
    return found


def against(found, measured):
    return f"{found:.4g} ({100 * (found / measured - 1):+.0f} %)" if measured else f"{found:.4g}"


def published(mstrain):
    yield "| run | devices | measured s | planned s | measured GB | planned GB | source |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for run in json.loads((ROOT / "docs/published_runs.json").read_text()):
        found = plan(mstrain, run["config"], run["cluster"],
                     [f"cluster.nodes={run['nodes']}", "eval.interval=none", *run["keys"]])
        devices = 8 * run["nodes"] if "cluster.gpus_per_node=1" not in run["keys"] else 1
        kind = run["cluster"].split("_")[0].upper()
        note = f"; {run['note']}" if run["note"] else ""
        yield (f"| {run['name']} | {devices} {kind} | {run['seconds'] or ''} | {against(found['step_seconds'], run['seconds'])} | "
               f"{run['gigabytes'] or ''} | {against(found['peak_bytes_per_rank'] / 1e9, run['gigabytes'])} | {run['source']}{note} |")


def ten_billion(mstrain):
    yield "| A100 | layout | GB a rank | tokens/s | published |"
    yield "| --- | --- | --- | --- | --- |"
    for nodes, rate in TEN_BILLION.items():
        found = plan(mstrain, "gpt_10b", "a100_80gb_x8", [f"cluster.nodes={nodes}"])
        layout = ", ".join(key.split(".", 1)[1] for key in found["layout"]
                           if not key.endswith(("=1", "=false", "=none", "=[]", "=1f1b")))
        yield (f"| {8 * nodes} | {layout} | {found['peak_bytes_per_rank'] / 1e9:.4g} | "
               f"{found['tokens_per_second'] / 1000:.4g}k | {rate} |")
        assert nodes > 1 or found["tokens_per_second"] >= 17900, found


def numbers(line):
    return [float(n) for n in re.findall(r"-?\d+\.?\d*(?:e[+-]?\d+)?", line)]


def same(a, b):
    x, y = numbers(a), numbers(b)
    words = re.sub(r"[-+\d.]+", "#", a) == re.sub(r"[-+\d.]+", "#", b)
    return words and len(x) == len(y) and all(abs(i - j) <= max(1.01, TOLERANCE * abs(i)) for i, j in zip(x, y))


def main():
    mstrain = sys.argv[1]
    text = PAGE.read_text()
    wrong = 0
    for name, rows in (("published", published), ("ten_billion", ten_billion)):
        found = list(rows(mstrain))
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        start, stop = text.index(begin) + len(begin), text.index(end)
        said = text[start:stop].splitlines()
        if "--write" in sys.argv:
            text = text[:start] + "\n".join(found) + "\n" + text[stop:]
            continue
        if len(said) != len(found):
            print(f"{PAGE.name}: the table of {name} has {len(said)} lines, the planner says {len(found)}")
            wrong += 1
        for line, now in zip(said, found):
            if not same(line, now):
                wrong += 1
                print(f"{PAGE.name} says\n  {line}\nthe planner\n  {now}")
    PAGE.write_text(text) if "--write" in sys.argv else None
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
