#!/usr/bin/env python3
"""Writes pairs for configs/t5_digits.yaml: digits.train.jsonl and digits.valid.jsonl in the folder given, each line
{"input": "reverse 83920", "target": "02938"} or {"input": "sort 83920", "target": "02389"}. No held-out input is trained on.

Usage: digit_pairs.py FOLDER [TRAIN [VALID]]   (40000 and 1000 pairs)
"""
import json
import pathlib
import random
import sys

folder = pathlib.Path(sys.argv[1])
train, valid = (int(count) for count in (sys.argv[2:4] + ["40000", "1000"][len(sys.argv[2:4]):]))
draw = random.Random(1)
inputs = set()
while len(inputs) < train + valid:
    digits = "".join(draw.choices("0123456789", k=draw.randint(5, 10)))
    inputs.add(f"{draw.choice(('reverse', 'sort'))} {digits}")
pairs = []
for text in sorted(inputs):
    task, digits = text.split()
    pairs.append({"input": text, "target": digits[::-1] if task == "reverse" else "".join(sorted(digits))})
draw.shuffle(pairs)
folder.mkdir(parents=True, exist_ok=True)
for name, part in (("train", pairs[valid:]), ("valid", pairs[:valid])):
    (folder / f"digits.{name}.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in part))
