"""usage: docs_test.py SOURCE_FOLDER BUILD_FOLDER
Builds mcts alone, installs it, and builds and runs the programs of its pages against that: a block of a page whose first line is
```LANGUAGE FILE is the file of that name, and each page has a CMakeLists.txt. Programs must end with 0. example.c is built too."""
import os
import pathlib
import re
import subprocess
import sys

PAGES = ("docs/mcts.md", "docs/adding_a_game.md")
BLOCK = re.compile(r"^```(\w+) (\S+)\n(.*?)^```$", re.M | re.S)
EXAMPLE = """
enable_language(C)
add_executable(example {source})
target_link_libraries(example mstrain_mcts::mstrain_mcts_c)
"""


def run(*command, **options):
    print("+", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True, **options)


def blocks_of(page):
    """Files of the page. Every block of a program must have a name: there is none that is not built."""
    text = page.read_text()
    nameless = re.findall(r"^```(cpp|c|cmake|python|yaml)$", text, re.M)
    if nameless:
        sys.exit(f"{page}: {len(nameless)} blocks of {sorted(set(nameless))} have no file name, so nothing builds them")
    return [(language, name, body) for language, name, body in BLOCK.findall(text)]


def main():
    source, build = (pathlib.Path(each).resolve() for each in sys.argv[1:3])
    prefix = build / "prefix"
    run("cmake", "-S", source / "mcts", "-B", build / "mcts")
    run("cmake", "--build", build / "mcts", "-j", os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", "2"))
    run("cmake", "--install", build / "mcts", "--prefix", prefix)
    example = prefix / "include/mstrain/mcts/c_api/example.c"
    programs = 0
    for page in PAGES:
        folder = build / pathlib.Path(page).stem
        folder.mkdir(parents=True, exist_ok=True)
        blocks = blocks_of(source / page)
        for _, name, body in blocks:
            if name == "CMakeLists.txt" and page == "docs/mcts.md":
                body += EXAMPLE.format(source=example)
            (folder / name).write_text(body)
        run("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
        run("cmake", "--build", folder / "build", "-j", "2")
        for program in sorted((folder / "build").iterdir()):
            if program.is_file() and os.access(program, os.X_OK):
                run(program, cwd=folder)
                programs += 1
        for language, name, _ in blocks:
            if language == "yaml":
                run(prefix / "bin/mcts_play", "--config", name, "--analyze", "4453", "--sims", "500", cwd=folder)
                programs += 1
    print(f"{programs} programs built and run")
    if programs < 7:
        sys.exit("fewer programs than the pages had")


if __name__ == "__main__":
    main()
