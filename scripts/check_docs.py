#!/usr/bin/env python3
"""Compiles and runs the snippets of pages of docs/ against an installed mstrain, as a reader of the page would.
Usage: scripts/check_docs.py PREFIX PAGE...     PREFIX: where `cmake --install` put it; PAGE: embedding_cache for docs/embedding_cache.md

There are two kinds of pages. One gives whole files: each snippet is named (```cpp tour.cc), CMakeLists.txt among them, and every program that
this builds is run. tests/docs/PAGE.cmake, where there is one, is added to it. The other has a frame, tests/docs/PAGE.cc: a program with what its C++
snippets take for granted, in which a line `// @cpp N` stands for the N-th of them; every one must be placed. Their includes and
using-directives go where `// @includes` is. The program is built with the page's own CMake snippet, for a target `mine`.

On both kinds Python snippets run by themselves (tests/interpreter.py finds a Python), and commands of a `console` snippet, lines that begin
with `$ `, beside the files that named snippets make."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

COMPILED = ("c", "cpp", "cmake", "yaml")
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import interpreter  # noqa: E402


class Snippet:
    def __init__(self, page, line, info, text):
        self.page, self.line, self.text = page, line, text
        self.language, self.file = (info.split() + ["", ""])[:2]

    def where(self):
        return f"docs/{self.page}.md:{self.line}"


def snippets_of(page):
    out, lines, inside = [], (ROOT / "docs" / f"{page}.md").read_text().splitlines(), None
    for number, line in enumerate(lines, 1):
        if not line.startswith("```"):
            continue
        if inside is None:
            inside = (number, line[3:].strip())
        else:
            out.append(Snippet(page, inside[0], inside[1], "\n".join(lines[inside[0]:number - 1]) + "\n"))
            inside = None
    return out


def program_of(page, snippets):
    """The frame with its snippets, whose lines keep the page's numbers in the compiler's messages."""
    frame = (ROOT / "tests" / "docs" / f"{page}.cc").read_text()
    hoisted, placed = [], set()

    def body(match):
        index = int(match.group(1))
        if not 1 <= index <= len(snippets):
            sys.exit(f"tests/docs/{page}.cc: @cpp {index}, but the page has {len(snippets)} C++ snippets")
        placed.add(index)
        snippet, kept = snippets[index - 1], []
        for line in snippet.text.splitlines():
            top = re.match(r"#include|using namespace", line)
            (hoisted if top else kept).append(line)
            if top:
                kept.append("")
        return f'#line {snippet.line + 1} "docs/{page}.md"\n' + "\n".join(kept)

    text = re.sub(r"^\s*// @cpp (\d+)$", body, frame, flags=re.M)
    for index, snippet in enumerate(snippets, 1):
        if index not in placed:
            sys.exit(f"{snippet.where()}: C++ snippet {index} is not placed in tests/docs/{page}.cc")
    includes = [line for line in hoisted if line.startswith("#")] + [line for line in hoisted if not line.startswith("#")]
    return text.replace("// @includes", "\n".join(dict.fromkeys(includes)))


def run(command, where, directory, environment):
    done = subprocess.run(command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          shell=isinstance(command, str))
    if done.returncode != 0:
        sys.exit(f"{where}: {command} failed:\n{done.stdout}")


def build_and_run(program, where, prefix, environment):
    run(["cmake", "-S", program, "-B", program / "build", f"-DCMAKE_PREFIX_PATH={prefix}"], where, program, environment)
    run(["cmake", "--build", program / "build", "-j", str(os.cpu_count())], where, program, environment)
    built = [path for path in sorted((program / "build").iterdir()) if path.is_file() and os.access(path, os.X_OK)]
    if not built:
        sys.exit(f"{where}: its CMake snippet builds no program")
    for path in built:
        run([path], where, program, environment)


def check(page, prefix):
    where, frame = f"docs/{page}.md", ROOT / "tests" / "docs" / f"{page}.cc"
    snippets = snippets_of(page)
    of = {language: [s for s in snippets if s.language == language] for language in COMPILED + ("python", "console")}
    libraries = [str(path.parent) for path in (prefix / "lib").rglob("*.so")]
    python = interpreter.find("numpy") or sys.executable
    environment = {**os.environ, "PATH": f"{prefix / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(prefix / "share/mstrain/python"),
                   "LD_LIBRARY_PATH": ":".join(dict.fromkeys(libraries))}
    skipped = []
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        folder = scratch / "page"
        folder.mkdir()
        for snippet in snippets:
            if snippet.file:
                (folder / snippet.file).write_text(snippet.text)
        if frame.exists():
            program = scratch / "program"
            program.mkdir()
            (program / "main.cc").write_text(program_of(page, of["cpp"]))
            (program / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(mine LANGUAGES CXX)\n"
                                                    "add_executable(mine main.cc)\n" + "".join(s.text for s in of["cmake"]))
            build_and_run(program, where, prefix, environment)
        else:
            for snippet in (s for language in COMPILED for s in of[language] if not s.file):
                sys.exit(f"{snippet.where()}: this {snippet.language} snippet has no file name, so nothing builds it")
            more = ROOT / "tests" / "docs" / f"{page}.cmake"
            if more.exists():
                with (folder / "CMakeLists.txt").open("a") as file:
                    file.write(more.read_text())
            build_and_run(folder, where, prefix, environment)
        for number, snippet in enumerate(of["python"]):
            needs = [name for name in re.findall(r"^(?:import|from) (\w+)", snippet.text, flags=re.M)
                     if subprocess.run([python, "-c", f"import {name}"], capture_output=True, env=environment).returncode != 0]
            if needs:
                skipped.append(f"{snippet.where()}: {python} lacks {', '.join(needs)}")
                continue
            directory = scratch / f"python-{number}"
            directory.mkdir()
            run([python, "-c", snippet.text], snippet.where(), directory, environment)
        for snippet in of["console"]:
            for command in re.findall(r"^\$ (.*)$", snippet.text, flags=re.M):
                run(command, snippet.where(), folder, environment)
    print(f"{where}: {len(of['cpp'])} C++, {len(of['python']) - len(skipped)} Python and {len(of['console'])} console snippets work")
    for reason in skipped:
        print(f"  skipped: {reason}")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for page in sys.argv[2:]:
        check(page, pathlib.Path(sys.argv[1]).resolve())


main()
