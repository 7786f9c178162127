#!/usr/bin/env python3
"""Races one ViT training step (forward, backward, clipping, AdamW; f32) against `transformers`' model in PyTorch, eager and
compiled: 12 layers of 192, images of 224 in patches of 16, batches of 16.

    .venv-bench/bin/pip install torch transformers
    .venv-bench/bin/python benchmarks/vit_vs_pytorch.py --step build/benchmarks/vit_step

Contenders and rounds are those of gpt_vs_pytorch.py.
"""
import argparse
import json
import os
import statistics
import sys

from gpt_vs_pytorch import LIMITS, Contender

SPEC = (12, 3, 192, 224, 16, 16, 1000)  # layers, heads, width, image, patch, batch, classes


def torch_contender(spec, threads, compiled):
    """Runs in the child process: the same protocol as vit_step."""
    import time

    import torch
    from transformers import ViTConfig, ViTForImageClassification

    layers, heads, width, size, patch, batch, classes = spec
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(1234)
    model = ViTForImageClassification(ViTConfig(hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
                                                intermediate_size=4 * width, image_size=size, patch_size=patch,
                                                num_labels=classes)).train()
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                                  lr=3e-4, fused=True)
    step_model = torch.compile(model) if compiled else model
    pixels, labels = torch.rand(batch, 3, size, size) * 2 - 1, torch.randint(classes, (batch,))

    def run(count):
        for _ in range(count):
            loss = step_model(pixel_values=pixels, labels=labels).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss.item()

    start = time.perf_counter()
    loss = run(1)
    print(json.dumps({"first_step_seconds": time.perf_counter() - start, "loss": loss}), flush=True)
    for line in sys.stdin:
        count = int(line)
        start = time.perf_counter()
        loss = run(count)
        print(json.dumps({"step_seconds": (time.perf_counter() - start) / count, "loss": loss}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", default="build/benchmarks/vit_step", help="the vit_step program")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--isa", choices=LIMITS, help="limit all contenders to these instructions (default: the machine's best)")
    parser.add_argument("--no-compile", action="store_true", help="race eager PyTorch only")
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contender:
        return torch_contender(SPEC, options.threads, options.contender == "compiled")
    env = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
    if options.isa:
        env.update(LIMITS[options.isa], MSTRAIN_ISA=options.isa)
    commands = {"mstrain": [options.step, *map(str, SPEC), str(options.threads)]}
    for kind in ["eager"] if options.no_compile else ["eager", "compiled"]:
        commands[kind] = [sys.executable, __file__, "--contender", kind, "--threads", str(options.threads)]
    racers = {kind: Contender(command, env) for kind, command in commands.items()}
    for racer in racers.values():
        racer.round(1, counted=False)
    for _ in range(options.rounds):
        for racer in racers.values():
            racer.round(1)
    ours = racers["mstrain"]
    print(f"ViT {SPEC}, {options.threads} threads, {options.isa or 'best instructions'}, median of {options.rounds} rounds")
    for kind, racer in racers.items():
        ratio = statistics.median(theirs / mine for theirs, mine in zip(racer.seconds, ours.seconds))
        print(f"{kind:9} {statistics.median(racer.seconds):8.4f} s a step  {ratio:5.2f}x  peak {racer.peak / 1e6:.0f} MB")
        racer.close()


if __name__ == "__main__":
    main()
