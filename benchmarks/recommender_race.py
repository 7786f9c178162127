#!/usr/bin/env python3
"""Steps of recommenders, as `run.mode: benchmark` runs them, against PyTorch with the same sizes (torch.nn.Embedding(sparse=True), or
EmbeddingBag where a field has several ids, SparseAdam for vectors, Adagrad for single weights, fused Adam for the dense part, batches made
before; the better of eager and compiled); with a part
of the rows in memory against all of them; two ranks of one thread against one of two; and `mstrain score`, from text to probabilities, start and files
included, against the samples that training takes in the same time. Contenders are processes of their own that take
turns; a ratio above 1 says that mstrain, or what the first column names, is faster.

    benchmarks/recommender_race.py build/bin/mstrain [--rounds 3] [--steps 10] [--only zoo benchmark dlrm memory ranks bf16 score]

PyTorch is needed for the first three only.
"""
import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

import race

CONFIGS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "configs")
# ids, fields with one id each of a batch (numeric ones among them), vector, layers
SHAPES = {
    "zoo": dict(config="wide_deep_zoo.yaml", vocab=7692, numeric=13, fields=26, bag=1, dim=80, hidden=[1024, 512, 256, 128]),
    "benchmark": dict(config="wide_deep_benchmark.yaml", vocab=225385, numeric=13, fields=26, bag=1, dim=16, hidden=[1024] * 7),
    "dlrm": dict(config="dlrm_quickstart.yaml", vocab=50000, numeric=13, fields=26, bag=4, dim=64, bottom=[512, 256], hidden=[512, 256],
                 batch=4096),
}
BATCH = 16000


def keys_of(name):
    """What the shipped configuration of another size is told."""
    shape = SHAPES[name]
    if name != "dlrm":
        return []
    return ["run.mode=benchmark", f"model.embedding_dim={shape['dim']}", f"model.bottom={shape['bottom']}", f"model.top.hidden={shape['hidden']}",
            f"data.synthetic.vocab={shape['vocab']}", f"data.synthetic.bag={shape['bag']}", "data.split=1.0", f"batch.global={shape['batch']}",
            "optimizer.type=adam", "schedule.type=constant"]


def wide_deep(shape, compiled):
    """PyTorch's model, as the logits of a batch, its optimizers, and some batches."""
    import torch
    from torch import nn

    numeric, fields, dim, vocab = shape["numeric"], shape["fields"], shape["dim"], shape["vocab"]
    rows = numeric + fields * vocab
    vectors, weights = nn.Embedding(rows, dim, sparse=True), nn.Embedding(rows, 1, sparse=True)
    nn.init.normal_(vectors.weight, std=0.01)
    nn.init.zeros_(weights.weight)
    mlp = tower((numeric + fields) * dim, [*shape["hidden"], 1])
    step_mlp = torch.compile(mlp) if compiled else mlp
    optimizers = [torch.optim.SparseAdam(vectors.parameters(), lr=3.5e-4), torch.optim.Adagrad(weights.parameters(), lr=0.05),
                  torch.optim.Adam(mlp.parameters(), lr=3.5e-4, fused=True)]
    law = zipf(vocab)
    batches = []
    for _ in range(4):
        ids = torch.multinomial(law, BATCH * fields, replacement=True).view(BATCH, fields)
        ids = numeric + ids + vocab * torch.arange(fields)
        ids = torch.cat([torch.arange(numeric).expand(BATCH, numeric), ids], 1).contiguous()
        scale = torch.cat([torch.rand(BATCH, numeric), torch.ones(BATCH, fields)], 1).unsqueeze(2)
        batches.append(((ids, scale), (torch.rand(BATCH) < 0.25).float()))
    return lambda ids, scale: step_mlp((vectors(ids) * scale).flatten(1)).squeeze(1) + (weights(ids) * scale).sum((1, 2)), optimizers, batches


def dlrm(shape, compiled):
    import torch
    from torch import nn

    numeric, fields, dim, vocab, bag, batch = (shape[key] for key in ("numeric", "fields", "dim", "vocab", "bag", "batch"))
    tables = nn.ModuleList([nn.EmbeddingBag(vocab, dim, mode="sum", sparse=True) for _ in range(fields)])
    bottom = nn.Sequential(*tower(numeric, [*shape["bottom"], dim]), nn.ReLU())
    top = tower(dim + (fields + 1) * fields // 2, [*shape["hidden"], 1])
    below = torch.tril_indices(fields + 1, fields + 1, -1)

    def dense(numbers, vectors):
        first = bottom(numbers)
        all_of_them = torch.cat([first.unsqueeze(1), vectors], 1)
        pairs = torch.bmm(all_of_them, all_of_them.transpose(1, 2))[:, below[0], below[1]]
        return top(torch.cat([first, pairs], 1)).squeeze(1)

    step_dense = torch.compile(dense) if compiled else dense
    optimizers = [torch.optim.SparseAdam(list(tables.parameters()), lr=2e-3),
                  torch.optim.Adam([*bottom.parameters(), *top.parameters()], lr=2e-3, fused=True)]
    law = zipf(vocab)
    batches = []
    for _ in range(4):
        ids = torch.multinomial(law, batch * fields * bag, replacement=True).view(fields, batch, bag)
        batches.append(((torch.randn(batch, numeric), ids), (torch.rand(batch) < 0.25).float()))
    return lambda numbers, ids: step_dense(numbers, torch.stack([table(ids[f]) for f, table in enumerate(tables)], 1)), optimizers, batches


def tower(width, layers):
    from torch import nn

    out = []
    for i, n in enumerate(layers):
        out += [nn.Linear(width, n), *([nn.ReLU()] if i + 1 < len(layers) else [])]
        width = n
    return nn.Sequential(*out)


def zipf(vocab):
    import torch

    return 1 / torch.arange(1, vocab + 1, dtype=torch.float64) ** 1.05


def contend(name, compiled, threads):
    """PyTorch's process: a line on its input is a number of steps."""
    import torch

    race.torch_settings(threads)
    logits, optimizers, batches = (dlrm if name == "dlrm" else wide_deep)(SHAPES[name], compiled)
    taken = 0

    def run(count):
        nonlocal taken
        for _ in range(count):
            given, labels = batches[taken % len(batches)]
            taken += 1
            torch.nn.functional.binary_cross_entropy_with_logits(logits(*given), labels).backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)

    run(2)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        run(int(line))
        print(json.dumps({"step_seconds": (time.perf_counter() - start) / int(line)}), flush=True)


def ours(options, config, ranks=1, keys=()):
    """The median seconds of a step, and what the run says of its stages."""
    with tempfile.TemporaryDirectory() as folder:
        command = [options.program, "--config", os.path.join(CONFIGS, config), f"run.output_dir={folder}",
                   f"schedule.total_steps={options.steps}", f"run.threads={options.threads // ranks}", *keys, *options.keys]
        if ranks > 1:
            command += ["--ranks", str(ranks)]
        done = subprocess.run(command, capture_output=True, text=True, env=race.environment(options.threads // ranks, options.isa))
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        return float(re.search(r"median ([0-9.]+) s", done.stdout).group(1)), done.stdout


def against_pytorch(options, name):
    kinds = race.torch_kinds(options)
    theirs = {kind: race.Contender([sys.executable, __file__, options.program, "--contender", f"{name} {kind}", "--threads",
                                    str(options.threads)], race.environment(options.threads, options.isa)) for kind in kinds}
    seconds, mine = {kind: [] for kind in kinds}, []
    for _ in range(options.rounds):
        mine.append(ours(options, SHAPES[name]["config"], keys=keys_of(name))[0])
        for kind in kinds:
            seconds[kind].append(theirs[kind].round(max(2, options.steps // 2), measure_memory=False))
    for contender in theirs.values():
        contender.close()
    ratios = "  ".join(f"{kind} {race.median_ratio(seconds[kind], mine):.2f}x" for kind in kinds)
    print(f"{name:<28}{statistics.median(mine):8.3f} s a step   against PyTorch: {ratios}", flush=True)


def against_itself(options, title, first, second):
    a, b = [], []
    for turn in range(options.rounds):
        for which, out in ((first, a), (second, b)) if turn % 2 == 0 else ((second, b), (first, a)):
            out.append(ours(options, **which)[0])
    print(f"{title:<28}{statistics.median(a):8.3f} s a step   against {statistics.median(b):.3f} s: "
          f"{race.median_ratio(b, a):.2f}x", flush=True)


def write_logs(path, lines):
    """Lines as Criteo's, of ids by Zipf's law."""
    draw = random.Random(1)
    ids = range(20000)
    law = [1 / (i + 1) ** 1.05 for i in ids]
    columns = [draw.choices(ids, law, k=lines) for _ in range(26)]
    with open(path, "w", encoding="ascii") as out:
        for values in zip(*columns):
            numbers = [str(int(draw.expovariate(0.05))) for _ in range(13)]
            out.write("\t".join(["1" if draw.random() < 0.25 else "0", *numbers, *(f"{v * 2654435761 % 2**32:08x}" for v in values)]) + "\n")


def scoring(options):
    lines, config = options.lines, "wide_deep_criteo.yaml"
    with tempfile.TemporaryDirectory() as folder:
        text, run = os.path.join(folder, "logs.tsv"), os.path.join(folder, "run")
        write_logs(text, lines)
        data = [f"data.train={text}", f"data.prepared={os.path.join(folder, 'prepared')}"]
        environment = race.environment(options.threads, options.isa)

        def call(*command):
            start = time.perf_counter()
            done = subprocess.run([options.program, *command], capture_output=True, text=True, env=environment)
            if done.returncode != 0:
                raise SystemExit(done.stderr)
            return time.perf_counter() - start

        whole = ["--config", os.path.join(CONFIGS, config), *data]
        call("preprocess", *whole)
        call(*whole, "schedule.total_steps=4", "eval.interval=none", f"run.output_dir={run}", *options.keys)
        steps, scores = [], []
        for _ in range(options.rounds):
            steps.append(ours(options, config, keys=[*data, "run.mode=benchmark", "eval.interval=none"])[0] / BATCH)
            scores.append(call("score", "--checkpoint", run, "--input", text, "--output", os.path.join(folder, "scores.csv")) / lines)
    print(f"{'score':<28}{1 / statistics.median(scores):8.0f} lines a second   against training's {1 / statistics.median(steps):.0f} samples: "
          f"{race.median_ratio(steps, scores):.2f}x", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("keys", nargs="*", help="of the runs")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--only", nargs="+", choices=[*SHAPES, "memory", "ranks", "bf16", "score"], default=[*SHAPES, "memory", "ranks"])
    parser.add_argument("--lines", type=int, default=480_000, help="that are scored")
    race.add_race_options(parser, rounds=3)
    options = parser.parse_args()
    if options.contender:
        name, kind = options.contender.split()
        contend(name, kind == "compiled", options.threads)
        return
    print(f"batches of {BATCH} (dlrm: {SHAPES['dlrm']['batch']}), {options.threads} threads, {options.isa or 'best'} instructions, {options.rounds} rounds of {options.steps} steps")
    zoo = SHAPES["zoo"]
    rows = zoo["numeric"] + zoo["fields"] * zoo["vocab"]
    for name in options.only:
        if name in SHAPES:
            against_pytorch(options, name)
        elif name == "memory":
            # A batch has some 80,000 distinct ids.
            few = [f"embedding_cache.host_rows={rows // 2}"]
            against_itself(options, "zoo, half of the rows in memory", dict(config=zoo["config"], keys=few), dict(config=zoo["config"]))
        elif name == "ranks":
            half = [f"batch.micro={BATCH // 2}"]
            against_itself(options, "zoo, 2 ranks of 1 thread", dict(config=zoo["config"], ranks=2, keys=half),
                           dict(config=zoo["config"]))
        elif name == "score":
            scoring(options)
        else:
            bf16 = ["precision.params=bf16"]
            against_itself(options, "zoo, bf16 products", dict(config=zoo["config"], keys=bf16), dict(config=zoo["config"]))


if __name__ == "__main__":
    main()
