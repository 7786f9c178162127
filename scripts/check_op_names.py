#!/usr/bin/env python3
"""Passes, transforms and executors ask operations for their traits (core/ir/op.h), never for their names, except the
pass that exists for an operation. Prints each offence as file:line and exits with 1."""
import pathlib
import re
import sys

FOLDERS = ["core/ir", "core/ops", "core/tensor", "core/transform", "core/compile", "core/exec", "core/nn",
           "core/optim", "core/train", "suites"]
# Passes that exist for the operations that they name.
OWN = {
    "core/compile/sum_into_scatter.cc": {"add", "scatter_add"},
    "core/compile/merge_updates.cc": {"adamw"},
    "core/compile/simplify.cc": {"transpose"},
    "core/compile/fuse_products.cc": {"add", "broadcast", "mul", "reshape"},
    "core/compile/loss_heads.cc": {"add", "reshape"},
    "core/compile/chunk_loss.cc": {"scan"},
    "core/ops/dot_general_text.cc": {"scale", "bias", "add", "keep"},  # of epilogues
}
ASKS = re.compile(r'\b(?:name|op)\s*[!=]=\s*"(\w+)"|find_op\("(\w+)"\)')
# Suites give names of their own to much else: there it is an operation's where a node or a declaration is asked.
ASKS_IN_SUITES = re.compile(r'(?:\)|\bop|->)\.?(?:name)?\s*[!=]=\s*"(\w+)"|find_op\("(\w+)"\)')


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    found = 0
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in {".h", ".cc"}:
                continue
            path = file.relative_to(root).as_posix()
            for number, line in enumerate(file.read_text().splitlines(), 1):
                for match in (ASKS_IN_SUITES if folder == "suites" else ASKS).finditer(line):
                    name = match.group(1) or match.group(2)
                    if name not in OWN.get(path, ()):
                        found += 1
                        print(f"{path}:{number}: asks for {name} by name: see the traits in core/ir/op.h")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
