#!/usr/bin/env python3
"""Rows resident in memory: lookup + lazy Adam update against nn.Embedding(sparse=True) with SparseAdam, two threads, interleaved.
Run with a Python that has PyTorch, from a virtual environment outside the repository:
    venv/bin/python benchmarks/embedding_cache_vs_pytorch.py build/benchmarks/bench_embedding_cache"""
import statistics
import subprocess
import sys
import time

import torch

VOCABULARY, ALPHA, SAMPLES, DIM, ROUNDS = 5_860_000, 1.05, 16_000, 80, 3

torch.set_num_threads(2)
torch.manual_seed(1)


def batches(count):
    """39 fields: 26 Zipf over the vocabulary, hot ids scattered; 13 fixed ids."""
    weights = torch.arange(1, VOCABULARY + 1, dtype=torch.float64).pow(-ALPHA)
    sums = weights.cumsum(0)
    fixed = torch.arange(13).repeat(SAMPLES, 1)
    for _ in range(count):
        draws = torch.searchsorted(sums, torch.rand(SAMPLES * 26, dtype=torch.float64) * sums[-1])
        ids = (draws * 2_654_435_761) % VOCABULARY
        yield torch.cat([fixed, ids.view(SAMPLES, 26)], 1).flatten()


ours, theirs, ratios = [], [], []
data = list(batches(6))
# The table of the ids that occur, as the cache's host tier holds it; the full table would only be slower.
used, flat = torch.cat(data).unique(return_inverse=True)
data = list(flat.view(6, -1))
table = torch.nn.Embedding(len(used), DIM, sparse=True)
optimizer = torch.optim.SparseAdam(table.parameters(), lr=3.5e-4)
gradient = torch.full((len(data[0]), DIM), 0.01)


def step(ids):
    optimizer.zero_grad(set_to_none=True)
    table(ids).backward(gradient)
    optimizer.step()


step(data[0])
for _ in range(ROUNDS):
    ours.append(float(subprocess.run([sys.argv[1], "resident"], check=True, capture_output=True, text=True).stdout))
    times = []
    for ids in data:
        start = time.perf_counter()
        step(ids)
        times.append(time.perf_counter() - start)
    theirs.append(len(data[0]) / statistics.median(times))
    ratios.append(ours[-1] / theirs[-1])
print(f"lookup + lazy Adam, {len(data[0])} positions, {DIM} floats, {len(used)} rows in memory, 2 threads, torch {torch.__version__}")
print(f"  cache {statistics.median(ours) / 1e6:.2f} M rows/s   PyTorch SparseAdam {statistics.median(theirs) / 1e6:.2f} M rows/s")
ratio = statistics.median(ratios)
print(f"  -> ratio {ratio:.2f} (bar >= 3) {'met' if ratio >= 3 else 'NOT MET'}")
