#!/usr/bin/env python3
"""Races one training step (forward, backward, clipping, AdamW; f32) against PyTorch, eager and compiled: of a GPT, or of a
Llama against transformers' LlamaForCausalLM.

    python3 -m venv .venv-bench && .venv-bench/bin/pip install torch transformers
    .venv-bench/bin/python benchmarks/gpt_vs_pytorch.py --step build/benchmarks/gpt_step

Contenders and rounds are those of race.py. Weights are N(0, 0.02), tokens random. The start is what comes before the first
step: process, weights, compiling.

The last line of a size compares the step with its own matrix products: oneDNN alone on the same shapes, timed between the
rounds by the same process. Its rate is what the machine reaches; the step's rate counts the FLOPs of products and of
attention.
"""
import argparse
import json
import statistics
import sys

from race import Contender, add_step_options, environment, median_ratio, torch_kinds, torch_settings, train_with_torch

SIZES = {  # layers, heads (of a Llama: with those of keys), width, sequence, batch, vocabulary, steps a round
    "tiny": (4, 4, 128, 64, 12, 65, 20),
    "baby": (6, 6, 384, 256, 16, 65, 2),
    "small": (12, 12, 768, 256, 4, 50257, 1),
    "long": (6, 6, 384, 1024, 2, 65, 2),
    "llama": (12, "12/4", 768, 512, 2, 32000, 1),
    "llama_tiny": (4, "4/2", 128, 64, 12, 65, 20),
}


def llama_of_transformers(layers, heads, width, seq, vocab):
    """The loss of a LlamaForCausalLM, with gpt_step's width inside the MLP."""
    from torch import nn
    from torch.nn import functional as F
    from transformers import LlamaConfig, LlamaForCausalLM

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            heads_of_queries, heads_of_keys = map(int, heads.split("/"))
            self.model = LlamaForCausalLM(LlamaConfig(
                vocab_size=vocab, hidden_size=width, intermediate_size=-(-8 * width // 3 // 256) * 256,
                num_hidden_layers=layers, num_attention_heads=heads_of_queries, num_key_value_heads=heads_of_keys,
                max_position_embeddings=seq, use_cache=False, attn_implementation="sdpa"))

        def forward(self, tokens, targets):
            return F.cross_entropy(self.model(tokens).logits.view(-1, vocab), targets.view(-1))

    return Llama()


def gpt(layers, heads, width, seq, vocab):
    import torch
    from torch import nn
    from torch.nn import functional as F

    heads = int(heads)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attn, self.attn_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.fc, self.proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = self.attn(self.ln_1(x)).split(c, dim=2)
            q, k, v = (y.view(b, t, heads, c // heads).transpose(1, 2) for y in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.attn_out(y.transpose(1, 2).reshape(b, t, c))
            return x + self.proj(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(seq, width)
            self.blocks, self.ln_f = nn.ModuleList(Block() for _ in range(layers)), nn.LayerNorm(width)

        def forward(self, tokens, targets):
            x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            logits = F.linear(self.ln_f(x), self.wte.weight)
            return F.cross_entropy(logits.view(-1, vocab), targets.view(-1))

    return Gpt()


def torch_contender(spec, threads, compiled):
    """Runs in the child process: the same protocol as gpt_step."""
    import torch
    from torch import nn

    layers, width, seq, batch, vocab = (int(x) for i, x in enumerate(spec) if i != 1)
    heads = spec[1]
    torch_settings(threads)
    model = (llama_of_transformers if "/" in heads else gpt)(layers, heads, width, seq, vocab)
    for parameter in model.parameters():
        if parameter.dim() >= 2:
            nn.init.normal_(parameter, std=0.02)
    ids = torch.randint(vocab, (batch, seq + 1))
    tokens, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

    train_with_torch(model, compiled, lambda step_model: step_model(tokens, targets))


def race(name, options):
    *spec, steps = SIZES[name]
    env = environment(options.threads, options.isa)
    words = [str(x) for x in spec]
    commands = {"mstrain": [options.step, *words, "2", str(options.threads), options.recompute]}
    for kind in torch_kinds(options):
        commands[kind] = [sys.executable, __file__, "--contender", kind, "--threads", str(options.threads), *words]
    racers = {kind: Contender(command, env) for kind, command in commands.items()}
    for racer in racers.values():
        racer.round(steps)
    ours, products = racers["mstrain"], []
    for turn in range(options.rounds):
        for racer in racers.values():
            racer.seconds.append(racer.round(steps, measure_memory=racer is not ours or not products))
        if turn % 3 == 0:  # its operands are no part of a step
            products.append(ours.ask("products"))
    result = {"size": name, "threads": options.threads, "rounds": options.rounds, "steps_per_round": steps,
              "recompute": options.recompute, "isa": options.isa or "best"}
    for kind, racer in racers.items():
        step_seconds = statistics.median(racer.seconds)
        result[kind] = {"step_seconds": step_seconds, "peak_bytes": racer.peak,
                        "start_seconds": racer.first["first_step_seconds"] - step_seconds}
        if kind != "mstrain":
            result[kind]["time_ratio"] = median_ratio(racer.seconds, ours.seconds)
            result[kind]["memory_ratio"] = ours.peak / racer.peak
        racer.close()
    alone = statistics.median(p["product_seconds"] for p in products)
    flops = products[0]["product_flops"]
    rate = (flops + products[0]["attention_flops"]) / result["mstrain"]["step_seconds"]
    result["gemm"] = {"flops_per_second": flops / alone, "step_flops_per_second": rate,
                      "ratio": rate * alone / flops, "products_share_of_step": alone / result["mstrain"]["step_seconds"]}
    result["mstrain"]["first_step_seconds"] = ours.first["first_step_seconds"]
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_step_options(parser, "gpt_step")
    parser.add_argument("--sizes", default="tiny,baby,small", help="of " + ", ".join(SIZES))
    parser.add_argument("--recompute", default="none", help="mstrain's memory.recompute: none, selective or full")
    parser.add_argument("--json", action="store_true", help="print one JSON object a size")
    parser.add_argument("spec", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contender:
        return torch_contender(options.spec, options.threads, options.contender == "compiled")
    import torch

    if not options.json:
        print(f"PyTorch {torch.__version__}, {options.threads} threads, median of {options.rounds} rounds; "
              "ratio > 1: mstrain is faster\n")
        print(f"{'size':6} {'peer':9} {'mstrain s':>10} {'peer s':>10} {'time ratio':>11} {'memory':>8} {'start s':>8}")
    for name in options.sizes.split(","):
        if name not in SIZES:
            raise SystemExit(f"unknown size {name}; expected one of {', '.join(SIZES)}")
        result = race(name, options)
        if options.json:
            print(json.dumps(result), flush=True)
            continue
        for kind in ("eager", "compiled"):
            if kind in result:
                print(f"{name:6} {kind:9} {result['mstrain']['step_seconds']:10.5f} "
                      f"{result[kind]['step_seconds']:10.5f} {result[kind]['time_ratio']:10.2f}x "
                      f"{result[kind]['memory_ratio']:7.2f}x {result['mstrain']['start_seconds']:8.2f}", flush=True)
        gemm, ours = result["gemm"], result["mstrain"]
        print(f"{name:6} step {gemm['step_flops_per_second'] / 1e9:.0f} GFLOP/s, its products in oneDNN alone "
              f"{gemm['flops_per_second'] / 1e9:.0f} GFLOP/s: {100 * gemm['ratio']:.0f} %; peak {ours['peak_bytes'] / 1e6:.0f} MB, "
              f"first step done {1e3 * ours['first_step_seconds']:.0f} ms after start", flush=True)


if __name__ == "__main__":
    main()
