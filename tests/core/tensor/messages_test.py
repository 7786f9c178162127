#!/usr/bin/env python3
"""What is no tree is one error of one sentence, wherever a tree is wanted.
Usage: messages_test.py SOURCE_TREE COMPILER [FLAG...]"""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1])
SENTENCE = "this type is no tree: a tree is a Tensor, Params, a number,"


def errors_of(case):
    command = [*sys.argv[2:], "-std=c++20", "-fsyntax-only", f"-DCASE={case}", f"-I{ROOT}",
               ROOT / "tests/core/tensor/not_a_tree.cc"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    return [line for line in done.stderr.splitlines() if " error: " in line]


def main():
    wrong = []
    for case in (1, 2, 3):
        errors = errors_of(case)
        if len(errors) != 1 or SENTENCE not in errors[0]:
            wrong.append(f"case {case}:\n" + "\n".join(errors))
    if errors_of(0):
        wrong.append("what is a tree does not compile:\n" + "\n".join(errors_of(0)))
    print("\n".join(wrong) or "one sentence each")
    sys.exit(1 if wrong else 0)


main()
