#!/usr/bin/env python3
"""The pages for who works on mstrain are true: files that any page names exist, `ctest` commands choose tests, tests that sanitizers leave
out exist, the rows of the table that a page shows are the table's, the functions that docs/library.md lists are declared, and the benchmarks
that docs/performance.md names are built, know the options it gives them, and run.

Usage: pages_test.py BUILD CTEST"""
import fnmatch
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FENCED = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.M | re.S)
SOURCE = re.compile(r"(?:\.{0,2}[\w-]+/)*[\w.-]+\.(?:cc|h|inc|py|sh)")
# A benchmark's smallest run; null for those that have none.
QUICK = {"bench_attention": ["16", "1", "2", "16", "1"], "bench_compile": ["O2", "1"], "bench_products": None, "bench_checkpoint": None}


def pages():
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        yield path.name, path.read_text()


def shell_of(text):
    """Every command of a page: lines of sh blocks, and what stands between backticks in the text."""
    for language, block in FENCED.findall(text):
        if language == "sh":
            yield from (re.sub(r"\s+#.*", "", line) for line in block.splitlines())
    yield from re.findall(r"`([^`\n]+)`", FENCED.sub("", text))


def check_files():
    """Sources between backticks exist: by their path, or where they are named alone, somewhere. Names that a page makes up
    stand in its own blocks."""
    tracked = {path.relative_to(ROOT).as_posix() for folder in ROOT.iterdir() if folder.is_dir() and not folder.name.startswith((".", "build", "out"))
               for path in folder.rglob("*")}
    tracked |= {path.name for path in ROOT.iterdir()}
    count = 0
    for page, text in pages():
        blocks = "".join(info + block for info, block in re.findall(r"^```([^\n]*\n)(.*?)^```$", text, re.M | re.S))
        for code in re.findall(r"`([^`\n]+)`", FENCED.sub("", text)):
            for word in code.split():
                if SOURCE.fullmatch(word) and word not in blocks:
                    assert word in tracked or any(path.endswith("/" + word) for path in tracked), f"{page}: there is no {word}"
                    count += 1
    assert count > 50, count
    return f"{count} names of files"


def check_ctest(build, ctest):
    count = 0
    for page, text in pages():
        for command in shell_of(text):
            found = re.search(r"\bctest --test-dir build\b([^&]*)", command)
            option, choices = [*shlex.split(found[1]), "-L", ".*"][:2] if found else ("", "")
            for choice in choices.split("|") if found else []:
                listed = subprocess.run([ctest, "--test-dir", build, "-N", option, choice], capture_output=True, text=True, check=True)
                assert int(re.search(r"Total Tests: (\d+)", listed.stdout)[1]) > 0, f"{page}: {command}: {option} {choice} chooses no test"
                count += 1
    assert count > 4, count
    return f"{count} choices of tests"


def check_left_out(build, ctest):
    """Every test that sanitizers leave out is one."""
    listed = subprocess.run([ctest, "--test-dir", build, "-N"], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"Test +#\d+: (\S+)", listed)
    patterns = [line for line in (ROOT / "tests/not_sanitized.txt").read_text().splitlines() if not line.startswith("#")]
    for pattern in patterns:
        assert fnmatch.filter(names, pattern), f"not_sanitized.txt: there is no {pattern}"
    return f"{len(patterns)} names of tests that sanitizers leave out"


def check_rows():
    squeezed = " ".join((ROOT / "core/ops/elementwise_table.inc").read_text().split())
    rows = [line for language, block in FENCED.findall((ROOT / "docs/adding_an_op.md").read_text()) if language == "cpp" for line in block.splitlines()]
    for row in rows:
        assert " ".join(row.split()) in squeezed, f"adding_an_op.md: the table has no such row: {row}"
    assert len(rows) > 3, rows
    return f"{len(rows)} rows of the table"


def check_functions():
    """The functions of the table in docs/library.md are declared, or rows of the table of operations."""
    table = re.search(r"^\| family \| functions \|\n(.*?)\n\n", (ROOT / "docs/library.md").read_text(), re.M | re.S)[1]
    names = re.findall(r"`(\w+)`", table)
    headers = "".join(path.read_text() for path in [*ROOT.glob("core/*/*.h"), ROOT / "core/ops/elementwise_table.inc"])
    declared = set(re.findall(r"^(?:inline )?[\w:<>]+ (\w+)\(", headers, re.M)) | set(re.findall(r"^[A-Z_0-9]+\((\w+)", headers, re.M))
    for name in names:
        assert name in declared, f"library.md: there is no function {name}"
    assert len(names) > 150, len(names)
    return f"{len(names)} functions"


def check_benchmarks(build):
    built = "MSTRAIN_BENCHMARKS:BOOL=ON" in (build / "CMakeCache.txt").read_text()
    count = 0
    for command in shell_of((ROOT / "docs/performance.md").read_text()):
        words = [word for word in shlex.split(command) if "=" not in word or word.startswith("-")]
        for script in (word for word in words if word.startswith("benchmarks/") and word.endswith(".py")):
            usage = subprocess.run([sys.executable, ROOT / script, "--help"], capture_output=True, text=True, check=True).stdout
            for option in (word for word in words if word.startswith("--")):
                assert option in usage, f"performance.md: {script} does not know {option}"
            count += 1
        programs = [word for word in words if word.startswith("build/benchmarks/")]
        for program in (build / program.removeprefix("build/") for program in programs if built):
            assert os.access(program, os.X_OK), f"performance.md: {program} is not built"
            if words[0] in programs and QUICK[program.name] is not None:
                with tempfile.TemporaryDirectory() as folder:
                    subprocess.run([program, *QUICK[program.name]], cwd=folder, stdout=subprocess.DEVNULL, check=True)
            count += 1
    assert count > 2, count
    return f"{count} commands of benchmarks" + ("" if built else ", none of which is built here")


def main():
    build, ctest = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    print("\n".join([check_files(), check_ctest(build, ctest), check_left_out(build, ctest), check_rows(), check_functions(), check_benchmarks(build)]))


main()
