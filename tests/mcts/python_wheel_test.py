"""usage: python_wheel_test.py SOURCE_FOLDER LIBRARY
Builds the wheel of the Python module around a library that is built, installs it into an empty folder and runs its tests and the programs of docs/mcts.md
there. Skipped where no Python has NumPy, pip, setuptools and wheel (tests/interpreter.py). Nothing is fetched."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import interpreter  # noqa: E402

NEEDS = "setuptools>=64", "pip", "numpy", "wheel"  # after pip, setuptools cannot be imported


def main():
    source, library = (pathlib.Path(each).resolve() for each in sys.argv[1:3])
    python = interpreter.find(*NEEDS)
    if python is None:
        interpreter.skip_without(*NEEDS)
    with tempfile.TemporaryDirectory() as folder:
        wheels, site = pathlib.Path(folder, "wheels"), pathlib.Path(folder, "site")
        offline = ["--no-index", "--no-deps", "--disable-pip-version-check", "-q"]
        subprocess.run([python, "-m", "pip", "wheel", *offline, "--no-build-isolation", "-w", wheels, source],
                       env={**os.environ, "MSTRAIN_MCTS_LIBRARY": str(library)}, check=True)
        (wheel,) = wheels.glob("mstrain_mcts-*.whl")
        subprocess.run([python, "-m", "pip", "install", *offline, "--target", site, wheel], check=True)
        environment = {**os.environ, "PYTHONPATH": str(site)}
        shutil.copy(source / "test_mstrain_mcts.py", folder)  # beside the sources it would find them instead
        subprocess.run([python, "-m", "unittest", "test_mstrain_mcts"], cwd=folder, env=environment, check=True)
        page = (source.parent.parent / "docs/mcts.md").read_text()
        programs = re.findall(r"^```python \S+\n(.*?)^```$", page, re.M | re.S)
        assert programs, "docs/mcts.md shows no program in Python"
        for program in programs:
            subprocess.run([python, "-c", program], cwd=folder, env=environment, check=True)
        return 0


if __name__ == "__main__":
    sys.exit(main())
