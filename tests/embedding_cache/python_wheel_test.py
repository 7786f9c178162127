#!/usr/bin/env python3
"""Builds the wheel, installs it into a folder of its own and runs the module's test from there.
Usage: python_wheel_test.py <folder of the module> <built library>. Exits with 77 where this Python cannot build wheels."""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

needed = [name for name in ("pip", "setuptools", "wheel") if importlib.util.find_spec(name) is None]
if needed:
    print(f"skipped: {sys.executable} lacks {', '.join(needed)}")
    sys.exit(77)

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
