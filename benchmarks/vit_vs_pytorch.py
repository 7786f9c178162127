#!/usr/bin/env python3
"""Races one ViT training step (forward, backward, clipping, AdamW; f32) against `transformers`' model in PyTorch, eager and
compiled: 12 layers of 192, images of 224 in patches of 16, batches of 16.

    .venv-bench/bin/pip install torch transformers
    .venv-bench/bin/python benchmarks/vit_vs_pytorch.py --step build/benchmarks/vit_step

Contenders and rounds are those of race.py.
"""
import argparse
import statistics
import sys

from race import Contender, add_step_options, environment, median_ratio, torch_kinds, torch_settings, train_with_torch

SPEC = (12, 3, 192, 224, 16, 16, 1000)  # layers, heads, width, image, patch, batch, classes


def torch_contender(spec, threads, compiled):
    """Runs in the child process: the same protocol as vit_step."""
    import torch
    from transformers import ViTConfig, ViTForImageClassification

    layers, heads, width, size, patch, batch, classes = spec
    torch_settings(threads)
    model = ViTForImageClassification(ViTConfig(hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
                                                intermediate_size=4 * width, image_size=size, patch_size=patch,
                                                num_labels=classes)).train()
    pixels, labels = torch.rand(batch, 3, size, size) * 2 - 1, torch.randint(classes, (batch,))

    train_with_torch(model, compiled, lambda step_model: step_model(pixel_values=pixels, labels=labels).loss)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_step_options(parser, "vit_step")
    options = parser.parse_args()
    if options.contender:
        return torch_contender(SPEC, options.threads, options.contender == "compiled")
    commands = {"mstrain": [options.step, *map(str, SPEC), str(options.threads)]}
    for kind in torch_kinds(options):
        commands[kind] = [sys.executable, __file__, "--contender", kind, "--threads", str(options.threads)]
    racers = {kind: Contender(command, environment(options.threads, options.isa)) for kind, command in commands.items()}
    for racer in racers.values():
        racer.round(1)
    for _ in range(options.rounds):
        for racer in racers.values():
            racer.seconds.append(racer.round(1))
    ours = racers["mstrain"]
    print(f"ViT {SPEC}, {options.threads} threads, {options.isa or 'best instructions'}, median of {options.rounds} rounds")
    for kind, racer in racers.items():
        print(f"{kind:9} {statistics.median(racer.seconds):8.4f} s a step  {median_ratio(racer.seconds, ours.seconds):5.2f}x  peak {racer.peak / 1e6:.0f} MB")
        racer.close()


if __name__ == "__main__":
    main()
