#!/usr/bin/env python3
"""Races a LoRA step (forward, backward, clipping, AdamW of the adapters, rank 8) on the Llama of configs/llama_160m.yaml,
sequences of 512, batch 2, against transformers' LlamaForCausalLM with PEFT, eager and compiled.

    python3 -m venv .venv-bench && .venv-bench/bin/pip install torch transformers peft
    .venv-bench/bin/python benchmarks/lora_vs_peft.py --step build/benchmarks/lora_step

Contenders, rounds and peaks are those of race.py. mstrain keeps the weights that are not trained in several ways; PEFT keeps
them in f32, or in bf16, in which it computes then.
"""
import argparse
import pathlib
import statistics
import sys

from race import Contender, add_step_options, environment, median_ratio

ROOT = pathlib.Path(__file__).resolve().parent.parent

WAYS = {
    "f32": ["model.lora.base=auto"],
    "bf16": ["model.lora.base=bf16", "memory.recompute=selective"],
    "int8": ["model.lora.base=int8", "memory.recompute=selective"],
    "nf4": ["model.lora.base=nf4", "memory.recompute=selective"],
    "int8 full": ["model.lora.base=int8", "memory.recompute=full"],
    "all bf16": ["precision.params=bf16", "memory.recompute=selective"],
}
PEERS = {"eager": "float32", "eager bf16": "bfloat16", "compiled": "float32"}
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
SEQ, BATCH, RANK, VOCAB = 512, 2, 8, 32000


def peft_contender(kind, threads):
    """Runs in the child process: the same protocol as lora_step."""
    import torch
    from peft import LoraConfig, get_peft_model
    from race import torch_settings, train_with_torch
    from torch.nn import functional as F
    from transformers import LlamaConfig, LlamaForCausalLM

    torch_settings(threads)
    base = LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCAB, hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12,
        num_key_value_heads=4, max_position_embeddings=2048, use_cache=False, attn_implementation="sdpa"))
    model = get_peft_model(base.to(getattr(torch, PEERS[kind])), LoraConfig(r=RANK, lora_alpha=16, target_modules=TARGETS))
    ids = torch.randint(VOCAB, (BATCH, SEQ + 1))
    tokens, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    train_with_torch(model, kind == "compiled",
                     lambda m: F.cross_entropy(m(input_ids=tokens).logits.view(-1, VOCAB), targets.view(-1)))


def ours(options, way):
    return [options.step, str(ROOT / "configs/llama_160m.yaml"), f"model.lora={{rank: {RANK}}}", f"batch.global={BATCH}",
            f"data.seq_length={SEQ}", "optimizer.lr=3.0e-4", f"run.threads={options.threads}", *WAYS[way]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_step_options(parser, "lora_step")
    parser.add_argument("--ways", default=",".join(WAYS), help="of mstrain")
    parser.add_argument("--peers", default="eager,eager bf16", help="of " + ", ".join(PEERS))
    options = parser.parse_args()
    if options.contender:
        return peft_contender(options.contender, options.threads)
    env = environment(options.threads, options.isa)
    racers = {way: Contender(ours(options, way), env) for way in options.ways.split(",")}
    peers = {kind: Contender([sys.executable, __file__, "--contender", kind, "--threads", str(options.threads)], env)
             for kind in options.peers.split(",") if kind}
    everyone = [*racers.values(), *peers.values()]
    for racer in everyone:
        racer.round(1)
    for _ in range(options.rounds):
        for racer in everyone:
            racer.seconds.append(racer.round(1))
    print(f"{options.threads} threads, {options.isa or 'best'} instructions, median of {options.rounds} rounds; time ratio > 1: "
          "mstrain is faster; memory: its share of the peer's")
    for kind, peer in peers.items():
        print(f"{kind:12} {statistics.median(peer.seconds):8.3f} s {peer.peak / 1e6:8.0f} MB")
    for way, racer in racers.items():
        line = f"{way:12} {statistics.median(racer.seconds):8.3f} s {racer.peak / 1e6:8.0f} MB"
        for kind, peer in peers.items():
            ratio = median_ratio(peer.seconds, racer.seconds)
            line += f"   {kind}: {ratio:.2f}x, {racer.peak / peer.peak:.2f}x memory"
        print(line)
    for racer in everyone:
        racer.close()


if __name__ == "__main__":
    main()
