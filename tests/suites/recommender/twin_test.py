#!/usr/bin/env python3
"""Wide & Deep has the loss curve of a twin in PyTorch: whole tables, of which the rows of a batch alone learn, by lazy Adam and FTRL; or, with
l2_of: table, all rows, by Adam.

Usage: twin_test.py MSTRAIN. Skipped where no Python has torch (tests/interpreter.py)."""
import csv
import json
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import interpreter  # noqa: E402

interpreter.need("torch", "safetensors.torch")
import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

STEPS, BATCH, DIM, HIDDEN = 200, 64, 8, [32, 16]
NUMERIC, CATEGORICAL = ["age", "hours"], ["job", "town", "school", "week"]
VALUES = [40, 200, 7, 3]
DENSE_LR, DEEP_LR, DEEP_L2, WIDE_LR, WIDE_L1, WIDE_L2, WIDE_SUM = 2e-3, 5e-3, 1e-3, 0.05, 1e-4, 1e-3, 0.5
BETAS, EPS = (0.9, 0.999), 1e-8


def config(name, rate, steps, l2_of):
    return f"""
run: {{name: {name}, seed: 5, threads: 1}}
model: {{type: wide_deep, embedding_dim: {DIM}, hidden: {HIDDEN}}}
data:
  format: csv
  train: train.csv
  valid: train.csv
  shuffle: false
  csv: {{label: rich, positive: "1", numeric: [{", ".join(NUMERIC)}], numeric_scale: none, categorical: [{", ".join(CATEGORICAL)}]}}
embedding:
  optimizer: {{kind: lazy_adam, lr: {DEEP_LR * rate}, beta1: {BETAS[0]}, beta2: {BETAS[1]}, eps: {EPS}, l2: {DEEP_L2}, l2_of: {l2_of}}}
  wide_optimizer: {{kind: ftrl, lr: {WIDE_LR}, l1: {WIDE_L1}, l2: {WIDE_L2}, initial_accumulator: {WIDE_SUM}}}
  init: {{kind: zero}}
batch: {{global: {BATCH}}}
optimizer: {{type: adam, lr: {DENSE_LR * rate}, betas: [{BETAS[0]}, {BETAS[1]}], eps: {EPS}, weight_decay: 0, clip_grad: null}}
schedule: {{type: constant, warmup_steps: 0, total_steps: {steps}}}
log: {{interval: 1}}
"""


def samples():
    rng = random.Random(7)
    for _ in range(STEPS * BATCH):
        numbers = [round(rng.random(), 3) for _ in NUMERIC]
        # Many values once or twice, few often.
        ids = [min(int(rng.paretovariate(1.1)) - 1, count - 1) for count in VALUES]
        odds = numbers[0] - 0.7 + (0.8 if ids[0] % 3 == 0 else -0.3) + (0.5 if ids[1] % 2 else -0.4)
        yield numbers, ids, int(rng.random() < 1 / (1 + 2.718281828 ** -odds))


def run(mstrain, folder, *arguments):
    done = subprocess.run([mstrain, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def ours(mstrain, folder):
    """The first weights of the dense part, and the losses of runs that begin with them and with rows of zeros, by l2_of."""
    losses = {}
    for name, rate, steps, l2_of in (("first", 1e-28, 1, "batch"), ("rows", 1, STEPS, "batch"), ("all", 1, STEPS, "table")):
        (folder / f"{name}.yaml").write_text(config(name, rate, steps, l2_of))
        run(mstrain, folder, "--config", f"{name}.yaml")
        lines = [json.loads(line) for line in (folder / f"out/{name}/metrics.jsonl").read_text().splitlines()]
        losses[l2_of] = {line["step"]: line["loss"] for line in lines if "loss" in line}
    checkpoint = max((folder / "out/first/checkpoints").iterdir())
    return load_file(checkpoint / "model.safetensors"), losses


def twin(dense, data, l2_of):
    p = {name: value.double().requires_grad_() for name, value in dense.items()}
    layers = [f"deep.{i}" for i in range(len(HIDDEN))] + ["head"]
    optimizer = torch.optim.Adam(p.values(), lr=DENSE_LR, betas=BETAS, eps=EPS)
    rows = sum(VALUES)
    offsets = torch.tensor([sum(VALUES[:i]) for i in range(len(VALUES))])
    deep = torch.zeros(rows, DIM, dtype=torch.double, requires_grad=True)
    wide = torch.zeros(rows, dtype=torch.double, requires_grad=True)
    adam = torch.optim.Adam([deep], lr=DEEP_LR, betas=BETAS, eps=EPS, weight_decay=DEEP_L2)
    m, v = torch.zeros(rows, DIM, dtype=torch.double), torch.zeros(rows, DIM, dtype=torch.double)
    n, z = torch.full((rows,), WIDE_SUM, dtype=torch.double), torch.zeros(rows, dtype=torch.double)
    losses = {}
    for step in range(1, STEPS + 1):
        batch = data[(step - 1) * BATCH: step * BATCH]
        numbers = torch.tensor([numbers for numbers, _, _ in batch], dtype=torch.double)
        ids = torch.tensor([ids for _, ids, _ in batch]) + offsets
        labels = torch.tensor([label for _, _, label in batch], dtype=torch.double)
        x = torch.cat([numbers, deep[ids].flatten(1)], 1)
        for layer in layers:
            x = x @ p[f"{layer}.weight"].reshape(x.shape[1], -1) + p[f"{layer}.bias"]
            x = x if layer == "head" else torch.relu(x)
        logits = x.squeeze(1) + wide[ids].sum(1)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)
        losses[step] = loss.item()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            seen = ids.unique()
            if l2_of == "table":
                # Kingma and Ba's eps is that of the corrected moment, TensorFlow's, MindSpore's and ours of the moment itself.
                adam.param_groups[0]["eps"] = EPS / (1 - BETAS[1] ** step) ** 0.5
                adam.step()
            else:
                g = deep.grad[seen] + DEEP_L2 * deep[seen]
                m[seen] = BETAS[0] * m[seen] + (1 - BETAS[0]) * g
                v[seen] = BETAS[1] * v[seen] + (1 - BETAS[1]) * g * g
                size = DEEP_LR * (1 - BETAS[1] ** step) ** 0.5 / (1 - BETAS[0] ** step)
                deep[seen] -= size * m[seen] / (v[seen].sqrt() + EPS)
            g = wide.grad[seen]
            total = n[seen] + g * g
            z[seen] += g - (total.sqrt() - n[seen].sqrt()) / WIDE_LR * wide[seen]
            n[seen] = total
            shrunk = z[seen] - WIDE_L1 * z[seen].sign()
            wide[seen] = torch.where(z[seen].abs() <= WIDE_L1, 0.0, -shrunk / (total.sqrt() / WIDE_LR + 2 * WIDE_L2))
            deep.grad, wide.grad = None, None
        optimizer.zero_grad()
    return losses


def main():
    mstrain = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = list(samples())
        with open(folder / "train.csv", "w", newline="") as file:
            lines = csv.writer(file)
            lines.writerow([*NUMERIC, *CATEGORICAL, "rich"])
            lines.writerows([*numbers, *(f"v{i}" for i in ids), label] for numbers, ids, label in data)
        dense, losses = ours(mstrain, folder)
        for l2_of, found in losses.items():
            expected = twin(dense, data, l2_of)
            assert found.keys() == expected.keys(), (sorted(found)[:3], len(found))
            apart = max(abs(found[step] - expected[step]) for step in expected)
            print(f"{l2_of}: {STEPS} steps, losses from {expected[1]:.4f} to {expected[STEPS]:.4f}, apart by at most {apart:.2g}")
            assert expected[1] - min(expected.values()) > 0.05, "the twin learned nothing"
            assert apart < 1e-4, apart
        between = max(abs(losses["batch"][step] - losses["table"][step]) for step in losses["batch"])
        assert between > 1e-3, "both ways of learning are one"


main()
