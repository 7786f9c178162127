#!/usr/bin/env python3
"""Races byte-level BPE on one thread against tiktoken and Hugging Face's tokenizers.

    python3 -m venv .venv-bench && .venv-bench/bin/pip install tiktoken tokenizers
    .venv-bench/bin/python benchmarks/tokenizers_vs_python.py --rate build/benchmarks/tokenizer_rate

GPT2 is a folder with GPT-2's encoder.json and vocab.bpe; the text is encoded whole, from memory to a list of ids. Every
contender is a process of its own that waits on its input; rounds are interleaved and each ratio is the median of the
rounds' ratios, so that a drifting machine hits all of them alike. The first round of each, which fills caches, is not
counted, and given apart. All must give the same ids."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = os.environ.get("MSTRAIN_TEST_DATA", ROOT.parent / "shared/data")
PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def byte_alphabet():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {**{chr(b): b for b in printable}, **{chr(256 + n): b for n, b in enumerate(others)}}


def with_tiktoken(folder):
    import tiktoken
    alphabet = byte_alphabet()
    vocab = json.loads((folder / "encoder.json").read_text())
    end = "<|endoftext|>"
    ranks = {bytes(alphabet[c] for c in token): i for token, i in vocab.items() if token != end}
    encoding = tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={end: vocab[end]})
    return encoding.encode_ordinary


def with_tokenizers(folder):
    import tokenizers
    merges = [tuple(line.split()) for line in (folder / "vocab.bpe").read_text().splitlines()[1:] if line]
    vocab = json.loads((folder / "encoder.json").read_text())
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    return lambda text: tokenizer.encode(text).ids


def serve(peer, folder, path):
    """Runs in the child process: the same protocol as tokenizer_rate."""
    encode = {"tiktoken": with_tiktoken, "tokenizers": with_tokenizers}[peer](folder)
    text = path.read_text()
    print("ready", flush=True)
    while sys.stdin.readline():
        begin = time.perf_counter()
        ids = encode(text)
        seconds = time.perf_counter() - begin
        crc = zlib.crc32(b"".join(i.to_bytes(4, "little")[:2] for i in ids))
        print(f"{seconds:.9f} {len(ids)} 0x{crc:08X}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=pathlib.Path, default=ROOT / "build/benchmarks/tokenizer_rate")
    parser.add_argument("--gpt2", type=pathlib.Path, default=pathlib.Path(DATA, "gpt2"))
    parser.add_argument("--text", type=pathlib.Path, default=pathlib.Path(DATA, "tinyshakespeare.txt"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--serve", choices=["tiktoken", "tokenizers"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve(args.serve, args.gpt2, args.text)
    again = [sys.executable, __file__, "--gpt2", str(args.gpt2), "--text", str(args.text), "--serve"]
    commands = {"mstrain": [str(args.rate), str(args.gpt2), str(args.text)],
                "tiktoken": [*again, "tiktoken"], "tokenizers": [*again, "tokenizers"]}
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
    children = {name: subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                       env=environment) for name, command in commands.items()}
    for name, child in children.items():
        if child.stdout.readline() != "ready\n":
            sys.exit(f"{name} did not start")
    megabytes = args.text.stat().st_size / 1e6
    times = {name: [] for name in children}
    results = set()
    for _ in range(args.rounds + 1):
        for name, child in children.items():
            child.stdin.write("\n")
            child.stdin.flush()
            seconds, *result = child.stdout.readline().split()
            times[name].append(float(seconds))
            results.add(tuple(result))
    for child in children.values():
        child.stdin.close()
        child.wait()
    import tiktoken
    import tokenizers
    print(f"tiktoken {tiktoken.__version__}, tokenizers {tokenizers.__version__}, {args.text.name}, "
          f"{megabytes:.2f} MB, one thread, {args.rounds} rounds; ids: {results}")
    if len(results) != 1:
        sys.exit("the contenders do not agree")
    for name, seconds in times.items():
        first, *rest = seconds
        ratio = statistics.median(other / own for other, own in zip(rest, times["mstrain"][1:]))
        print(f"{name:<11} {megabytes / statistics.median(rest):8.2f} MB/s  first round {megabytes / first:8.2f} MB/s"
              + ("" if name == "mstrain" else f"  mstrain is {ratio:.1f} times as fast"))


if __name__ == "__main__":
    main()
