#!/usr/bin/env python3
"""A sweep, of a model or of agents, is killed in the middle of one of its runs and goes on; what it ends with is what an undisturbed one ends with.

Usage: sweep_test.py MSTRAIN"""
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

CONFIG = """
run: {name: small, threads: 1}
model: {hidden_size: 16, num_layers: 1, num_attention_heads: 2, max_position_embeddings: 16, dropout: {hidden: 0.1}}
data: {train: text.txt, tokenizer: byte, seq_length: 16}
batch: {global: 4}
schedule: {total_steps: 60}
eval: {interval: 20, batches: 2}
checkpoint: {interval: 10}
sweep:
  keys:
    optimizer.lr: [1.0e-3, 1.0e-2]
    model.dropout.hidden: [0, 0.2]
"""


AGENTS = """
run: {name: small, threads: 1}
algorithm: {type: ppo, steps: 32, epochs: 2}
environment: {name: cartpole, num_envs: 4}
network: {hidden: [16]}
schedule: {total_env_steps: 8192}
eval: {interval: 2000, episodes: 4}
sweep:
  keys:
    optimizer.lr: [1.0e-3, 1.0e-2]
    run.seed: [1, 2]
"""


def command(mstrain, *arguments):
    return [mstrain, "--config", "sweep.yaml", *arguments]


def run(mstrain, folder, *arguments, expect=0):
    done = subprocess.run(command(mstrain, *arguments), cwd=folder, capture_output=True, text=True)
    assert done.returncode == expect, (arguments, done)
    return done


def results(folder, name):
    sweep = json.loads((folder / "out" / name / "sweep.json").read_text())
    return sweep["status"], sweep.get("best"), [(r["id"], r["values"], r["value"], r["step"], r["status"]) for r in sweep["runs"]]


def agents(mstrain, folder):
    (folder / "sweep.yaml").write_text(AGENTS)
    dry = run(mstrain, folder, "--dry-run").stdout
    assert "sweep of 4 runs, compared at step 8192" in dry and "fits" in dry, dry
    straight = run(mstrain, folder, "run.output_dir=out/agents")
    assert "best eval_return" in straight.stdout, straight
    status, best, all_runs = results(folder, "agents")
    assert status == "finished" and len(all_runs) == 4 and all(r[2] >= 8 and r[4] == "finished" for r in all_runs), all_runs
    assert max(r[2] for r in all_runs) == next(r[2] for r in all_runs if r[0] == best)
    killed = subprocess.Popen(command(mstrain, "run.output_dir=out/died"), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    metrics = folder / "out/died/runs/001/metrics.jsonl"
    while killed.poll() is None and not metrics.exists():
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    run(mstrain, folder, "run.output_dir=out/died")
    assert results(folder, "died") == (status, best, all_runs)
    # Of four, two go on after the first evaluation, and are the runs that they would have been alone.
    run(mstrain, folder, "run.output_dir=out/halved", "sweep.method=halving", "sweep.factor=2", "sweep.first_steps=6000")
    halved = results(folder, "halved")[2]
    ended = [r for r in halved if r[4] == "finished"]
    assert len(ended) == 2 and sum(r[4] == "left behind" for r in halved) == 2, halved
    assert all(r in all_runs for r in ended), (halved, all_runs)
    wrong = run(mstrain, folder, "sweep.metric=eval_loss", expect=2)
    assert "eval_return" in wrong.stderr, wrong
    wrong = run(mstrain, folder, "sweep.keys.algorithm.epoch=[1]", expect=2)
    assert "did you mean algorithm.epochs?" in wrong.stderr, wrong
    wrong = run(mstrain, folder, "--ranks", "2", expect=2)
    assert "distribution.actors" in wrong.stderr, wrong


def main():
    mstrain = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "text.txt").write_text("the cat sat on the mat and the dog on the log\n" * 100)
        (folder / "sweep.yaml").write_text(CONFIG)
        dry = run(mstrain, folder, "--dry-run").stdout
        assert "sweep of 4 runs" in dry and "002  optimizer.lr 1.0e-2  model.dropout.hidden 0  waiting" in dry and "fits" in dry, dry
        assert not (folder / "out").exists()

        straight = run(mstrain, folder, "run.output_dir=out/straight")
        assert "best eval_loss" in straight.stdout, straight
        killed = subprocess.Popen(command(mstrain, "run.output_dir=out/killed"), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        metrics = folder / "out/killed/runs/001/metrics.jsonl"
        while killed.poll() is None and not (metrics.exists() and '"step":20,' in metrics.read_text()):
            time.sleep(0.01)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        begun = sorted(p.name for p in (folder / "out/killed/runs").iterdir())
        before = (folder / "out/killed/runs/000/run.json").read_text()
        assert begun[0] == "000", begun
        run(mstrain, folder, "run.output_dir=out/killed")
        assert results(folder, "killed") == results(folder, "straight")
        assert (folder / "out/killed/runs/000/run.json").read_text() == before  # was not run again
        weights = "checkpoints/step-00000060/model.safetensors"
        for run_id in ("000", "001", "002", "003"):
            assert (folder / "out/killed/runs" / run_id / weights).read_bytes() == (folder / "out/straight/runs" / run_id / weights).read_bytes()

        wrong = run(mstrain, folder, "sweep.keys.optimizer.lrr=[1]", expect=2)
        assert "optimizer.lrr" in wrong.stderr and "did you mean optimizer.lr?" in wrong.stderr, wrong
        wrong = run(mstrain, folder, "sweep.keys.batch.global=[4, 0]", expect=2)
        assert "batch.global" in wrong.stderr and not (folder / "out/small").exists(), wrong
        assert "so in run 001 of the sweep: " in wrong.stderr and "batch.global 0" in wrong.stderr, wrong
        found = run(mstrain, folder, "run.mode=find_lr", "sweep=null", "find_lr.steps=60", "run.output_dir=out/found")
        assert "the loss falls fastest at optimizer.lr=" in found.stdout, found
        assert (folder / "out/found/find_lr/report.html").exists()
        agents(mstrain, folder)
    print("a killed sweep ends as one that was not; find_lr suggests a rate")


if __name__ == "__main__":
    main()
