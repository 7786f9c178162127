"""A wheel of the module with the shared library beside it: `pip install ./mcts/python`. CMake builds the library, unless
MSTRAIN_MCTS_LIBRARY names one that is built already."""
import os
import pathlib
import shutil
import subprocess

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

HERE = pathlib.Path(__file__).resolve().parent


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        library = os.environ.get("MSTRAIN_MCTS_LIBRARY") or self.build_library()
        target = pathlib.Path(self.build_lib) / "mstrain_mcts"
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(pathlib.Path(library).resolve(), target / "libmstrain_mcts_c.so")

    def build_library(self):
        build = pathlib.Path(self.get_finalized_command("build").build_temp).resolve() / "cmake"
        build.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cmake", "-S", str(HERE.parent), "-B", str(build)], check=True)
        subprocess.run(["cmake", "--build", str(build), "-j2", "--target", "mstrain_mcts_c"], check=True)
        return build / "c_api" / "libmstrain_mcts_c.so"


class Binary(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": BuildWithLibrary}, distclass=Binary)
