"""usage: python_wheel_test.py SOURCE_FOLDER
Builds the wheel of the Python module, installs it into an empty folder and runs its tests there. Exits with 77 where this
Python lacks NumPy, pip or setuptools. Nothing is fetched. MSTRAIN_PYTHON names another interpreter."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

NEEDS = """
import setuptools, numpy, pip
version = tuple(int(part) for part in setuptools.__version__.split(".")[:2])
assert version >= (64, 0)
if version < (70, 1):
    import wheel
"""


def main():
    source = pathlib.Path(sys.argv[1]).resolve()
    python = os.environ.get("MSTRAIN_PYTHON", sys.executable)
    if subprocess.run([python, "-c", NEEDS], capture_output=True).returncode != 0:
        print(f"skipped: {python} has not all of numpy, pip, setuptools >= 64 and wheel")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        wheels, site = pathlib.Path(folder, "wheels"), pathlib.Path(folder, "site")
        offline = ["--no-index", "--no-deps", "--disable-pip-version-check", "-q"]
        subprocess.run([python, "-m", "pip", "wheel", *offline, "--no-build-isolation", "-w", wheels, source], check=True)
        (wheel,) = wheels.glob("mstrain_mcts-*.whl")
        subprocess.run([python, "-m", "pip", "install", *offline, "--target", site, wheel], check=True)
        environment = {**os.environ, "PYTHONPATH": str(site)}
        shutil.copy(source / "test_mstrain_mcts.py", folder)  # beside the sources it would find them instead
        return subprocess.run([python, "-m", "unittest", "test_mstrain_mcts"], cwd=folder, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
