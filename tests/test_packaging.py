"""The sdist and the wheel: what they hold, that they build where pip isolates the build, and that what is
installed runs in Python and in C++ away from the checkout.

One build of the CPU library serves all: sdist -> wheel -> auditwheel -> a fresh environment, which borrows
torch from the one that runs the tests.
"""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
import torch

from tests import wheel_audit

ROOT = Path(__file__).resolve().parents[1]
SITE_PACKAGES = sysconfig.get_path("purelib")


def run(*command: object, cwd: Path, **variables: str) -> str:
    """Standard output and error; an assertion that shows them where the command fails."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "GPUTOPK_LIBRARY_DIR", "FORCE_CUDA", "DEBUG", "MAKEFLAGS", "BUILD")
    }
    environment |= {"FORCE_CPU": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **variables}
    environment["PATH"] = os.path.dirname(sys.executable) + os.pathsep + environment["PATH"]
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:]
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packaging")


@pytest.fixture(scope="module")
def sdist(folder: Path) -> Path:
    build = "import sys, setup; setup.build_sdist(sys.argv[1])"
    run(sys.executable, "-c", build, folder, cwd=ROOT)
    return next(folder.glob("gputopk-*.tar.gz"))


@pytest.fixture(scope="module")
def source(sdist: Path) -> Path:
    """The sdist, unpacked."""
    with tarfile.open(sdist) as archive:
        archive.extractall(sdist.parent, filter="data")
    return sdist.parent / sdist.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def wheel(sdist: Path, folder: Path) -> Path:
    """Built from the sdist, as pip does unasked: in isolation, so without the torch that is there."""
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder / "built", sdist, cwd=folder)
    built = next((folder / "built").glob("*.whl"))
    torchs = ("--exclude", "libtorch*.so", "--exclude", "libc10.so")
    run(sys.executable, "-m", "auditwheel", "repair", *torchs, "--wheel-dir", folder, built, cwd=folder)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, folder: Path) -> Path:
    """The Python of a fresh environment that holds the wheel alone, and sees torch."""
    environment = folder / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=folder)
    python = environment / "bin" / "python"
    purelib = Path(
        run(python, "-c", "import sysconfig as s; print(s.get_path('purelib'))", cwd=folder).strip()
    )
    pip = (sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", purelib)
    run(*pip, wheel, cwd=folder)
    # Last on the path: what the wheel installed comes first. addsitedir reads the .pth files there as well.
    (purelib / "torch_of_tests.pth").write_text(f"import site; site.addsitedir({SITE_PACKAGES!r})\n")
    return python


def tracked_files() -> set[str]:
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in names.stdout.splitlines() if (ROOT / name).exists()}


def test_the_sdist_is_the_checkout(source: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    held = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    plots = {name for name in tracked_files() if re.fullmatch(r"bench/results/.*\.png", name)}
    assert tracked_files() - plots - held == set()
    assert [name for name in held if name.endswith((".so", ".o", ".pyc", ".png"))] == []
    assert [name for name in held if name.startswith(("build", ".venv", "torch_topk/lib"))] == []


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    sources = {
        str(path.relative_to(ROOT))
        for package in ("torch_topk", "gputopk")
        for path in (ROOT / package).rglob("*")
        if path.suffix in (".py", ".typed")
    }
    cpp = {
        "torch_topk/include/gputopk/topk.h",
        "torch_topk/lib/cmake/gputopk/gputopkConfig.cmake",
        "torch_topk/lib/cmake/gputopk/gputopkConfigVersion.cmake",
    }
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name and not name.endswith("/")}
    assert held == sources | cpp | {"torch_topk/lib/libgputopk.so"}
    assert {"torch_topk/py.typed", "gputopk/py.typed"} <= held


def test_libraries_of_the_checkout_stay_out_of_a_wheel(source: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(source, checkout)
    for name in ("libgputopk_cuda.so", "study/libgputopk_study.so"):
        library = checkout / "torch_topk/lib" / name
        library.parent.mkdir(parents=True, exist_ok=True)
        library.write_bytes(b"of another build")
    pip = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path)
    run(*pip, "--config-settings=wheel.cmake=false", ".", cwd=checkout)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as archive:
        held = archive.namelist()
    assert "torch_topk/ops.py" in held
    assert [name for name in held if "lib/" in name] == []


def test_metadata_and_tag(wheel: Path) -> None:
    assert re.fullmatch(r"gputopk-[0-9.]+-py3-none-manylinux_2_\d+_\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    import torch_topk

    assert metadata["Version"] == torch_topk.__version__
    assert "torch>=2.11" in metadata.get_all("Requires-Dist")
    assert "Operating System :: POSIX :: Linux" in metadata.get_all("Classifier")
    assert metadata.get_all("Project-URL")
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert metadata.get_payload().startswith("# gputopk")


def test_the_library_needs_torch_alone_and_names_no_folder_of_its_build(wheel: Path, folder: Path) -> None:
    (library,) = wheel_audit.libraries(wheel)
    assert library.problems((str(folder), *wheel_audit.folders_of_this_machine())) == []


@pytest.mark.parametrize(
    "fault, told",
    [
        ({"needed": {"libtorch_cpu.so", "libcudart.so.13"}}, "needs libcudart.so.13"),
        ({"needed": {"libc.so.6"}}, "does not need libtorch_cpu.so"),
        ({"paths": {"$ORIGIN", "/opt/lib"}}, "looks for libraries in /opt/lib"),
        ({"wanted": {"PyObject_Call"}}, "wants Python's PyObject_Call"),
        ({"wanted": {"_ZN2at4topkERKNS_6TensorElb"}}, "wants torch's C++ _ZN2at4topkERKNS_6TensorElb"),
        ({"wanted": {"_ZNK2at7Context9benchmarkEv"}}, "wants torch's C++ _ZNK2at7Context9benchmarkEv"),
        ({"bytes_": b"at /home/someone/x.h"}, "names /home/someone"),
    ],
)
def test_the_audit_finds_what_a_library_must_not_have(fault: dict[str, object], told: str) -> None:
    sound = {
        "needed": {"libtorch_cpu.so"},
        "paths": {"$ORIGIN"},
        "wanted": {"aoti_torch_get_dim"},
        "bytes_": b"",
    }
    folders = ("/home/someone",)
    assert wheel_audit.Library("x.so", **sound).problems(folders) == []
    assert wheel_audit.Library("x.so", **{**sound, **fault}).problems(folders) == [told]


def test_the_installed_package_runs_away_from_the_checkout(installed: Path, tmp_path: Path) -> None:
    program = """
import torch, gputopk, torch_topk
from pathlib import Path
assert Path(torch_topk.__file__).is_relative_to(ENVIRONMENT), torch_topk.__file__
assert gputopk.topk is torch_topk.topk and gputopk.__version__ == torch_topk.__version__
assert gputopk.__all__ == torch_topk.__all__
x = torch.randn(7, 1000)
ours, theirs = gputopk.topk(x, 5), torch.topk(x, 5)
assert torch.equal(ours.values, theirs.values) and torch.equal(ours.indices, theirs.indices)
reranked = torch_topk.rerank(x, x, torch.arange(7).expand(7, 7), 1)
assert isinstance(reranked, torch_topk.Reranked) and reranked.ids.flatten().tolist() == list(range(7))
"""
    environment = str(installed.parents[1])
    output = run(installed, "-c", program.replace("ENVIRONMENT", repr(environment)), cwd=tmp_path)
    assert output == ""


@pytest.fixture(scope="module")
def cpp_examples(installed: Path, folder: Path) -> Path:
    """The folder with the programs of examples/cpp, built against what the wheel installed."""
    where = "import torch_topk; print(torch_topk.__path__[0])"
    prefix = run(installed, "-c", where, cwd=folder).strip()
    build = folder / "examples"
    prefixes = f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path};{prefix}"
    run("cmake", "-S", ROOT / "examples/cpp", "-B", build, "-G", "Ninja", prefixes, cwd=folder)
    run("cmake", "--build", build, cwd=folder)
    return build


def test_a_libtorch_program(cpp_examples: Path, tmp_path: Path) -> None:
    output = run(cpp_examples / "sample", cwd=tmp_path)
    assert "as at::topk, gradient in 200 logits\ninstalled\n" in output
    assert "the nearest rows are found" in output


def test_an_aotinductor_package_runs_in_cpp(cpp_examples: Path, installed: Path, tmp_path: Path) -> None:
    run(installed, ROOT / "examples/cpp/make_package.py", tmp_path / "model.pt2", cwd=tmp_path)
    assert "the package agrees" in run(cpp_examples / "run_package", tmp_path / "model.pt2", cwd=tmp_path)


def test_a_build_without_torch_says_what_to_do(tmp_path: Path) -> None:
    for variables in ({}, {"TORCH_DIR": str(tmp_path)}):
        command = ["cmake", "-S", ROOT, "-B", tmp_path / "build", "-G", "Ninja", "-DPYTHON=/bin/false"]
        with pytest.raises(AssertionError, match=r"no torch >= 2\.11: install it"):
            run(*command, cwd=tmp_path, **variables)


def test_a_second_configuration_of_a_moved_checkout(source: Path, tmp_path: Path) -> None:
    """A build folder that came from another place is replaced, and DEBUG=1 leaves torch_topk/lib alone."""
    checkout = tmp_path / "moved"
    shutil.copytree(source, checkout)
    (checkout / "build-debug").mkdir()
    (checkout / "build-debug/CMakeCache.txt").write_text(
        "CMAKE_HOME_DIRECTORY:INTERNAL=/of/another/checkout\n"
    )
    make = ("make", "VENV=none", f"PYTHON={sys.executable}", "DEBUG=1")
    run(*make, "build", cwd=checkout, CXXFLAGS="-g0")
    assert (checkout / "build-debug/lib/libgputopk.so").exists()
    assert not (checkout / "torch_topk/lib").exists()
    check = "import torch, torch_topk; print(torch_topk.topk(torch.arange(9), 1).indices.item())"
    variables = {"PYTHONPATH": str(checkout), "GPUTOPK_LIBRARY_DIR": str(checkout / "build-debug/lib")}
    assert run(sys.executable, "-c", check, cwd=tmp_path, **variables) == "8\n"
