#!/usr/bin/env python3
"""Writes data for configs/sft_addition.yaml, dpo_addition.yaml and grpo_addition.yaml into the folder given: sums of numbers of two digits, JSON lines of
  addition.sft.jsonl, addition.valid.jsonl   {"prompt": "12+34=", "response": "46"}
  addition.preferences.jsonl                 {"prompt": "12+34=", "chosen": "46", "rejected": "47"}
  addition.prompts.jsonl                     {"prompt": "12+34=", "answer": "46"}
No held-out sum is in any other file.

Usage: addition_answers.py FOLDER
"""
import json
import pathlib
import random
import sys

VALID = 500
SFT = 2500
PREFERENCES = 2000

folder = pathlib.Path(sys.argv[1])
draw = random.Random(1)
sums = [(a, b) for a in range(10, 100) for b in range(10, 100)]
draw.shuffle(sums)
valid, rest = sums[:VALID], sums[VALID:]


def prompt(a, b):
    return f"{a}+{b}="


def wrong(a, b):
    return str(a + b + draw.choice((-10, -2, -1, 1, 2, 10)))


folder.mkdir(parents=True, exist_ok=True)
files = {
    "sft": [{"prompt": prompt(a, b), "response": str(a + b)} for a, b in rest[:SFT]],
    "valid": [{"prompt": prompt(a, b), "response": str(a + b)} for a, b in valid],
    "preferences": [{"prompt": prompt(a, b), "chosen": str(a + b), "rejected": wrong(a, b)}
                    for a, b in rest[:PREFERENCES]],
    "prompts": [{"prompt": prompt(a, b), "answer": str(a + b)} for a, b in rest],
}
for name, lines in files.items():
    (folder / f"addition.{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
