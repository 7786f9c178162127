#!/usr/bin/env python3
"""Races one T5 training step (forward, backward, clipping, AdamW; f32) against transformers' own model in PyTorch, eager and
compiled.

    python3 -m venv .venv-bench && .venv-bench/bin/pip install torch transformers
    .venv-bench/bin/python benchmarks/t5_vs_transformers.py --mstrain build/bin/mstrain

Rounds are interleaved, each contender in a process of its own that nothing runs beside, and the ratio is the median of the
rounds' ratios, so that a drifting machine hits all of them alike. A round's time is the median of its steps after warming
up. Both see batches of the same shape, all of whose places are tokens.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

from race import add_race_options, environment, torch_kinds, torch_settings

SIZES = {  # layers of each stack, heads, width, width inside, tokens read, tokens written, batch, vocabulary
    "tiny": (2, 4, 128, 256, 64, 32, 8, 512),
    "small": (6, 8, 512, 2048, 128, 64, 8, 32128),
}


def torch_seconds(size, threads, compiled, steps):
    """Runs in the child process."""
    import time

    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    layers, heads, width, inner, source, target, batch, vocab = SIZES[size]
    torch_settings(threads)
    model = T5ForConditionalGeneration(T5Config(
        vocab_size=vocab, d_model=width, d_kv=64 if width >= 512 else 32, d_ff=inner, num_layers=layers, num_heads=heads,
        dropout_rate=0.0, decoder_start_token_id=0, use_cache=False)).train()
    step_of = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(0, vocab, (batch, source))
    labels = torch.randint(0, vocab, (batch, target))
    mask = torch.ones_like(ids)
    times = []
    for i in range(steps + 2):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        step_of(input_ids=ids, attention_mask=mask, labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(time.perf_counter() - begin)
    print(statistics.median(times[2:]))


def write_config(folder, size, threads):
    layers, heads, width, inner, source, target, batch, vocab = SIZES[size]
    draw = random.Random(1)

    def text(length):
        return "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=length - 1))

    pairs = [{"input": text(source), "target": text(target)} for _ in range(4 * batch)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    (folder / "run.yaml").write_text(f"""
run: {{mode: benchmark, threads: {threads}, output_dir: {folder}/out}}
model: {{type: t5, vocab_size: {vocab}, hidden_size: {width}, d_kv: {64 if width >= 512 else 32}, ffn_hidden_size: {inner},
        num_layers: {layers}, num_attention_heads: {heads}}}
data: {{task: pairs, train: {folder}/pairs.jsonl, split: 1.0, tokenizer: byte, seq_length: {source},
       target_length: {target}, packing: false}}
batch: {{global: {batch}, micro: {batch}}}
optimizer: {{type: adamw, lr: 1.0e-4, clip_grad: 1.0}}
schedule: {{type: constant, total_steps: 10}}
""")


def mstrain_seconds(command, folder):
    done = subprocess.run([command, "--config", folder / "run.yaml"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    words = done.stdout.split()
    return float(words[words.index("median") + 1])


def torch_process_seconds(options, contender):
    """None where PyTorch ends with an error, which is shown."""
    done = subprocess.run([sys.executable, __file__, "--contender", contender, "--size", options.size, "--threads",
                           str(options.threads), "--steps", str(options.steps)], capture_output=True, text=True)
    if done.returncode != 0:
        lines = done.stderr.split("\n")
        print(f"{contender}: status {done.returncode}: {next((x for x in reversed(lines) if x.strip()), '')}", file=sys.stderr)
        return None
    return float(done.stdout.split()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mstrain", default="build/bin/mstrain")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--steps", type=int, default=10, help="of PyTorch, in a round")
    add_race_options(parser, rounds=3)
    options = parser.parse_args()
    if options.contender:
        return torch_seconds(options.size, options.threads, options.contender == "compiled", options.steps)
    os.environ.update(environment(options.threads, options.isa))
    ratios = {name: [] for name in torch_kinds(options)}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_config(folder, options.size, options.threads)
        for _ in range(options.rounds):
            ours = mstrain_seconds(options.mstrain, folder)
            line = f"mstrain {1e3 * ours:8.1f} ms"
            for contender, values in ratios.items():
                theirs = torch_process_seconds(options, contender)
                if theirs is None:
                    line += f"   {contender}   failed"
                else:
                    values.append(theirs / ours)
                    line += f"   {contender} {1e3 * theirs:8.1f} ms ({theirs / ours:.2f}x)"
            print(line, flush=True)
    print("   ".join(f"{name}: " + (f"{statistics.median(values):.2f}x" if values else "failed")
                     for name, values in ratios.items()),
          f"  (size {options.size}, {options.threads} threads, {options.isa or 'all instructions'})")


if __name__ == "__main__":
    main()
