"""A wheel of the module with the shared library beside it: `pip install ./embedding_cache/python`. CMake builds the library, unless
MSTRAIN_EMBEDDING_CACHE_LIBRARY names one that is built already."""
import os
import pathlib
import shutil
import subprocess

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

LIBRARY = "libmstrain_embedding_cache_c.so"
TARGET = "mstrain_embedding_cache_c"


class BuildLibraryToo(build_py):
    def run(self):
        super().run()
        library = os.environ.get("MSTRAIN_EMBEDDING_CACHE_LIBRARY") or self.build_library()
        shutil.copyfile(library, pathlib.Path(self.build_lib) / LIBRARY)

    def build_library(self):
        source = pathlib.Path(__file__).resolve().parent.parent
        build = pathlib.Path(self.get_finalized_command("build").build_temp).resolve() / "cmake"
        subprocess.run(["cmake", "-S", source, "-B", build], check=True)
        subprocess.run(["cmake", "--build", build, "-j2", "--target", TARGET], check=True)
        return build / LIBRARY


class PlatformWheel(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": BuildLibraryToo}, distclass=PlatformWheel)
