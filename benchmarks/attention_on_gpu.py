#!/usr/bin/env python3
"""Races attention (bf16, causal, 16k tokens of width 2048) on one GPU against PyTorch's scaled_dot_product_attention by cuDNN and by
FlashAttention, and holds our numbers against attention in f32. The ratio is cuDNN's time by ours. Run with a Python that has PyTorch:

    venv/bin/python benchmarks/attention_on_gpu.py build/benchmarks/attention_on_gpu [T,D ...]
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

TOKENS, WIDTH, RUNS, CHECKED_HEADS = 16384, 2048, 15, 2
FORMS = [(t, d) for d in (64, 128) for t in (1024, 2048, 4096, 8192)]


def milliseconds(launch, flush):
    """The median; whatever the cache held is overwritten before each run."""
    events = []
    for _ in range(RUNS + 1):
        flush.fill_(1)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        launch()
        end.record()
        events.append((begin, end))
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in events[1:])


def times_of_torch(backend, t, d, flush):
    shape = (TOKENS // t, t, WIDTH // d, d)
    q, k, v, g = (torch.randn(shape, device="cuda", dtype=torch.bfloat16).transpose(1, 2).requires_grad_() for _ in range(4))
    with sdpa_kernel(backend):
        forward = milliseconds(lambda: scaled_dot_product_attention(q, k, v, is_causal=True), flush)
        out = scaled_dot_product_attention(q, k, v, is_causal=True)
        backward = milliseconds(lambda: torch.autograd.grad(out, (q, k, v), g, retain_graph=True), flush)
    return forward, backward


def errors(folder, t, d):
    """Of the first heads of the first sequence: the norm of what is wrong by that of what is right."""
    def kept(name):
        data = bytearray((folder / f"{t}_{d}_{name}").read_bytes())
        return torch.frombuffer(data, dtype=torch.bfloat16).view(t, WIDTH // d, d)[:, :CHECKED_HEADS].transpose(0, 1).cuda().float()

    q, k, v = (kept(name).requires_grad_() for name in "qkv")
    scores = (q @ k.transpose(1, 2) * d**-0.5).masked_fill(torch.ones(t, t, dtype=torch.bool, device="cuda").triu(1), -torch.inf)
    out = scores.softmax(2) @ v
    expected = [out, *torch.autograd.grad(out, (q, k, v), kept("g"))]
    return [float((kept(name) - x).norm() / x.norm()) for name, x in zip(("out", "dq", "dk", "dv"), expected)]


def main():
    command, *wanted = sys.argv[1:]
    forms = [tuple(map(int, form.split(","))) for form in wanted] or FORMS
    torch.backends.cuda.matmul.allow_tf32 = False
    flush = torch.empty(320 << 20, dtype=torch.uint8, device="cuda")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}; TFLOP/s and ratios to cuDNN")
    print("   d     T |  forward: ours  cuDNN  flash ratio | backward: ours  cuDNN  flash ratio | error of out dq dk dv")
    with tempfile.TemporaryDirectory() as name:
        shapes = [f"{TOKENS // t},{t},{WIDTH // d},{d}" for t, d in forms]
        lines = subprocess.run([command, "--keep", name, *shapes], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        for (t, d), ours in zip(forms, map(json.loads, lines), strict=True):
            cudnn = times_of_torch(SDPBackend.CUDNN_ATTENTION, t, d, flush)
            flash = times_of_torch(SDPBackend.FLASH_ATTENTION, t, d, flush)
            columns = []
            for way, (of_cudnn, of_flash, factor) in zip(("forward", "backward"), zip(cudnn, flash, (1, 2.5))):
                flops = factor * 2e-9 * TOKENS * WIDTH * t
                columns.append(f"         {ours[f'{way}_tflops']:5.0f}  {flops / of_cudnn:5.0f}  {flops / of_flash:5.0f}  "
                               f"{of_cudnn / ours[f'{way}_ms']:4.2f}")
            print(f"  {d:3d} {t:5d} |{' |'.join(columns)} | " + " ".join(f"{e:.4f}" for e in errors(pathlib.Path(name), t, d)), flush=True)


main()
