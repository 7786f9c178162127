#!/usr/bin/env python3
"""Builds the wheel, installs it into a folder of its own and runs the module's test from there.
Usage: python_wheel_test.py <folder of the module> <built library>. Skipped where no Python can build wheels
(tests/interpreter.py)."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import interpreter  # noqa: E402

interpreter.need("setuptools>=64", "pip", "wheel")  # after pip, setuptools cannot be imported
source, library = sys.argv[1:]
environment = {**os.environ, "MSTRAIN_EMBEDDING_CACHE_LIBRARY": library}
with tempfile.TemporaryDirectory() as scratch:
    shutil.copytree(source, scratch + "/source")  # setuptools writes beside what it builds
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", scratch, scratch + "/source"],
                   check=True, env=environment)
    wheels = list(pathlib.Path(scratch).glob("*.whl"))
    assert len(wheels) == 1 and "none-any" not in wheels[0].name, wheels
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "-q", "--target", scratch + "/installed", wheels[0]], check=True)
    test = pathlib.Path(__file__).with_name("python_test.py")
    installed = scratch + "/installed"
    subprocess.run([sys.executable, test, installed, installed + "/" + os.path.basename(library)], check=True)
