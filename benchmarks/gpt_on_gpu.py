#!/usr/bin/env python3
"""Races GPT-2 of 124 million parameters on one GPU (bf16 with f32 masters, T 1024, AdamW, clipping) against PyTorch: compiled,
autocast to bf16, fused AdamW, its own attention. Rounds alternate; a round's rate is the median of its steps after the first.
Run with a Python that has PyTorch, on text of at least a megabyte:

    venv/bin/python benchmarks/gpt_on_gpu.py build/bin/mstrain TEXT [rows of a step ...]
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, WIDTH, LAYERS, HEADS, LENGTH = 50304, 768, 12, 12, 1024
STEPS, WARM_UP, ROUNDS = 60, 20, 3


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.attention_out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.inner, self.outer = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, HEADS, c // HEADS).transpose(1, 2) for y in self.qkv(self.ln_1(x)).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attention_out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.outer(F.gelu(self.inner(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids, targets):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return F.cross_entropy(logits.reshape(-1, VOCABULARY).float(), targets.reshape(-1))


def rate_of_torch(rows):
    model = Gpt().cuda()
    step = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), 6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    ids = torch.randint(0, 256, (rows, LENGTH + 1), device="cuda")
    times = []
    for _ in range(STEPS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            loss = step(ids[:, :-1], ids[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return rows * LENGTH / statistics.median(times[WARM_UP:])


def rate_of_mstrain(command, text, rows):
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(__file__).parent.parent / "configs" / "gpt_124m.yaml"
        subprocess.run(
            [command, "--config", config, f"data.train={text}", f"run.output_dir={folder}/run", "run.device=cuda",
             f"model.vocab_size={VOCABULARY}", "precision.params=bf16", "precision.grads=bf16", f"batch.global={rows}",
             f"batch.micro={rows}", f"schedule.total_steps={STEPS}", "log.interval=1", "eval.interval=1000000",
             "checkpoint.interval=1000000"], check=True, stdout=subprocess.DEVNULL)
        lines = (pathlib.Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()
        rates = [line["tokens_per_second"] for line in map(json.loads, lines) if "tokens_per_second" in line]
    return statistics.median(rates[WARM_UP:])


def main():
    command, text, *rows_of_steps = sys.argv[1:]
    torch.set_float32_matmul_precision("high")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {ROUNDS} rounds of {STEPS} steps")
    for rows in map(int, rows_of_steps or ["8", "32"]):
        pairs = [(rate_of_mstrain(command, text, rows), rate_of_torch(rows)) for _ in range(ROUNDS)]
        ours, theirs = (statistics.median(x) for x in zip(*pairs))
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"  {rows:3d} rows: mstrain {ours:,.0f} tokens/s   PyTorch {theirs:,.0f}   ratio {ratio:.2f} (bar 1.15)")


main()
