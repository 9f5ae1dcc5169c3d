"""Packs torch_topk as a wheel. CMakeLists.txt says how the libraries are built; this only runs it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent.resolve()


class BuildLibraries(build_py):
    """Builds torch_topk/lib/*.so in the source tree, then collects them as package data."""

    def run(self):
        env = dict(os.environ)
        if "MAX_JOBS" in env:
            env["CMAKE_BUILD_PARALLEL_LEVEL"] = env["MAX_JOBS"]
        # The cmake and ninja that pip installs lie beside the Python that runs this.
        env["PATH"] = os.path.dirname(sys.executable) + os.pathsep + env["PATH"]
        build = ROOT / "build"
        configure = ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", f"-DPYTHON={sys.executable}"]
        subprocess.check_call([*configure, "-DGPUTOPK_CUDA=AUTO"], env=env)
        subprocess.check_call(["cmake", "--build", build], env=env)
        # A library of an earlier build that this one leaves out must not slip into the wheel.
        shutil.rmtree(Path(self.build_lib) / "torch_topk" / "lib", ignore_errors=True)
        super().run()


class AnyPythonWheel(bdist_wheel):
    """The libraries see no Python.h, so one wheel of a platform serves every Python 3."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class BinaryDistribution(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": BuildLibraries, "bdist_wheel": AnyPythonWheel}, distclass=BinaryDistribution)
