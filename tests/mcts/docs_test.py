"""usage: docs_test.py SOURCE_FOLDER BUILD_FOLDER [CMAKE_OPTION...]
Builds mcts alone, installs it, and checks the pages of it against that (scripts/check_docs.py). With the options of a build that was made
before, ccache has most of what is compiled here."""
import pathlib
import subprocess
import sys


def run(*command):
    print("+", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True)


source, build = (pathlib.Path(each).resolve() for each in sys.argv[1:3])
run("cmake", "-S", source / "mcts", "-B", build, *sys.argv[3:])
run("cmake", "--build", build, "-j2")
run("cmake", "--install", build, "--prefix", build / "prefix")
run(sys.executable, source / "scripts/check_docs.py", build / "prefix", "mcts", "adding_a_game")
