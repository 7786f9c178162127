#!/usr/bin/env python3
"""Races mstrain's generation against Hugging Face's transformers: greedy, both with a cache of keys and values, GPT-2
shapes with random weights in f32, the same number of threads. Rounds take turns; a round times the tokens after the first
one. The limit is the reading of the weights, which each token needs once.

    python benchmarks/generate_vs_transformers.py --program build/benchmarks/gpt_generate

Needs torch and transformers from PyPI in the interpreter that runs it."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

SIZES = {  # layers, heads, width
    "124m": (12, 12, 768),
    "355m": (24, 16, 1024),
    "tiny": (4, 4, 128),
}
POSITIONS, VOCAB = 1024, 50257


def transformers_contender(layers, heads, width, prompt, rows, threads):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    config = GPT2Config(n_layer=layers, n_head=heads, n_embd=width, n_positions=POSITIONS, vocab_size=VOCAB)
    model = GPT2LMHeadModel(config).eval()
    ids = torch.randint(0, VOCAB, (rows, prompt))

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
        self.first, self.seconds = self.read(), []

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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/benchmarks/gpt_generate")
    parser.add_argument("--size", default="124m", choices=SIZES)
    parser.add_argument("--prompt", type=int, default=16, help="tokens of each prompt")
    parser.add_argument("--rows", type=int, default=1, help="prompts at once")
    parser.add_argument("--tokens", type=int, default=64, help="timed in a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--contender", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = SIZES[options.size]
    if options.contender:
        return transformers_contender(*sizes, options.prompt, options.rows, options.threads)
    import torch
    import transformers

    words = [str(x) for x in (*sizes, POSITIONS, VOCAB, options.prompt, options.rows, options.threads)]
    ours = Contender([options.program, *words], options.threads)
    theirs = Contender([sys.executable, __file__, "--contender", "--size", options.size, "--prompt", str(options.prompt),
                        "--rows", str(options.rows), "--threads", str(options.threads)], options.threads)
    ours.ask(options.tokens), theirs.ask(options.tokens)
    reading = []
    for _ in range(options.rounds):
        for racer in (ours, theirs):
            racer.seconds.append(racer.ask(options.tokens)["token_seconds"])
        reading.append(ours.ask("memory")["read_seconds"])
    mine, other, read = (statistics.median(x) for x in (ours.seconds, theirs.seconds, reading))
    ratio = statistics.median(b / a for a, b in zip(ours.seconds, theirs.seconds))
    print(f"GPT-2 {options.size}, {options.rows} prompt(s) of {options.prompt} tokens, {options.tokens} tokens each, "
          f"{options.threads} threads, f32, median of {options.rounds} rounds; transformers {transformers.__version__}, "
          f"PyTorch {torch.__version__}")
    print(f"mstrain       {options.rows / mine:7.1f} tokens/s  {1e3 * mine:7.2f} ms a step")
    print(f"transformers  {options.rows / other:7.1f} tokens/s  {1e3 * other:7.2f} ms a step")
    print(f"ratio {ratio:.2f}x (of rounds: {min(b / a for a, b in zip(ours.seconds, theirs.seconds)):.2f} to "
          f"{max(b / a for a, b in zip(ours.seconds, theirs.seconds)):.2f})")
    weights = ours.first["weight_bytes"]
    print(f"weights {weights / 1e6:.0f} MB: read alone in {1e3 * read:.2f} ms ({weights / read / 1e9:.1f} GB/s); "
          f"a step reads them at {weights / mine / 1e9:.1f} GB/s, {100 * read / mine:.0f} % of that")
    ours.close(), theirs.close()


if __name__ == "__main__":
    main()
