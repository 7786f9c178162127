#!/usr/bin/env python3
"""Races mstrain's generation against Hugging Face's transformers: greedy, both with a cache of keys and values, shapes of
GPT-2 or Llama with random weights in f32, the same number of threads. Beside it races mstrain with its weights in bf16, int8
and nf4 against itself in f32. Rounds take turns; a round times the tokens after the first one. The limit is the reading of
the weights, which each token needs once.

    python benchmarks/generate_vs_transformers.py --program build/benchmarks/bench_generate

Needs torch and transformers from PyPI in the interpreter that runs it."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

SIZES = {  # model, layers, heads, key heads, width, FFN, positions, vocabulary
    "124m": ("gpt", 12, 12, 12, 768, 3072, 1024, 50257),
    "355m": ("gpt", 24, 16, 16, 1024, 4096, 1024, 50257),
    "tiny": ("gpt", 4, 4, 4, 128, 512, 1024, 50257),
    "llama_160m": ("llama", 12, 12, 4, 768, 3072, 2048, 32000),  # configs/llama_160m.yaml
}
KINDS = ("f32", "bf16", "int8", "nf4")


def transformers_model(kind, layers, heads, key_heads, width, ffn, positions, vocab):
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    if kind == "gpt":
        return GPT2LMHeadModel(GPT2Config(n_layer=layers, n_head=heads, n_embd=width, n_inner=ffn, n_positions=positions,
                                          vocab_size=vocab))
    return LlamaForCausalLM(LlamaConfig(num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=key_heads,
                                        hidden_size=width, intermediate_size=ffn, max_position_embeddings=positions,
                                        vocab_size=vocab))


def transformers_contender(sizes, prompt, rows, threads):
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = transformers_model(*sizes).eval()
    ids = torch.randint(0, sizes[-1], (rows, prompt))

    def seconds(count):
        start = time.perf_counter()
        with torch.inference_mode():
            model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, min_new_tokens=count,
                           do_sample=False, pad_token_id=0)
        return time.perf_counter() - start

    seconds(2)
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        count = int(line)
        first = seconds(1)
        print(json.dumps({"token_seconds": (seconds(1 + count) - first) / count}), flush=True)


class Contender:
    def __init__(self, command, threads):
        env = dict(os.environ, OMP_NUM_THREADS=str(threads))
        if command[0] != sys.executable:
            env.setdefault("GOMP_SPINCOUNT", "1000")  # as the mstrain command sets it for itself
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=env)
        self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.args[0]} ended early with status {self.process.wait()}")
        return json.loads(line)

    def ask(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def ratio_text(slow, fast):
    ratios = [a / b for a, b in zip(slow, fast)]
    return f"{statistics.median(ratios):.2f}x (rounds: {min(ratios):.2f} to {max(ratios):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/benchmarks/bench_generate")
    parser.add_argument("--size", default="124m", choices=SIZES)
    parser.add_argument("--weights", default=",".join(KINDS), help="of mstrain, with commas; f32 is the one that races")
    parser.add_argument("--prompt", type=int, default=16, help="tokens of each prompt")
    parser.add_argument("--rows", type=int, default=1, help="prompts at once")
    parser.add_argument("--tokens", type=int, default=64, help="timed in a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--contender", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = SIZES[options.size]
    if options.contender:
        return transformers_contender(sizes, options.prompt, options.rows, options.threads)
    import torch
    import transformers

    kinds = options.weights.split(",")
    words = [str(x) for x in (*sizes, options.prompt, options.rows, options.threads)]
    ours = Contender([options.program, *words], options.threads)
    theirs = Contender([sys.executable, __file__, "--contender", "--size", options.size, "--prompt", str(options.prompt),
                        "--rows", str(options.rows), "--threads", str(options.threads)], options.threads)
    racers = {kind: lambda kind=kind: ours.ask(f"{kind} {options.tokens}") for kind in kinds}
    racers["transformers"] = lambda: theirs.ask(options.tokens)
    seconds = {name: [] for name in racers}
    reading = {kind: [] for kind in kinds}
    weight_bytes = {}
    for ask in racers.values():
        ask()
    for _ in range(options.rounds):
        for name, ask in racers.items():
            seconds[name].append(ask()["token_seconds"])
        for kind in kinds:
            answer = ours.ask(f"memory {kind}")
            reading[kind].append(answer["read_seconds"])
            weight_bytes[kind] = answer["bytes"]
    print(f"{options.size}, {options.rows} prompt(s) of {options.prompt} tokens, {options.tokens} tokens each, "
          f"{options.threads} threads, MSTRAIN_ISA={os.environ.get('MSTRAIN_ISA', 'best')}, median of {options.rounds} rounds; "
          f"transformers {transformers.__version__}, PyTorch {torch.__version__}")
    for name in ("transformers", *kinds):
        mine = statistics.median(seconds[name])
        text = f"{name:12}  {options.rows / mine:7.1f} tokens/s  {1e3 * mine:7.2f} ms a step"
        if name in kinds:
            read = statistics.median(reading[name])
            size = weight_bytes[name]
            text += (f"; {size / 1e6:.0f} MB of weights at {size / mine / 1e9:.1f} GB/s, {100 * read / mine:.0f} % of the "
                     f"{size / read / 1e9:.1f} GB/s of reading alone")
        print(text)
    for name in kinds:
        other = "transformers" if name == "f32" else "f32"
        if other in seconds:
            print(f"{name} is {ratio_text(seconds[other], seconds[name])} as fast as {other}")
    ours.close(), theirs.close()


if __name__ == "__main__":
    main()
