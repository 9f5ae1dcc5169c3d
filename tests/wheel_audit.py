"""What the libraries of a wheel need, name and hold; `make wheel` looks at what it has built.

    python -m tests.wheel_audit dist/gputopk-*.whl

Exits with 1 where a library needs another than torch's and the system's, asks torch for a C++ symbol that
serves no purpose known here, wants Python, looks for libraries in a folder of its own, or names one of this
machine.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TORCH = {"libtorch.so", "libtorch_cpu.so", "libc10.so"}
SYSTEM = {
    "libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6", "ld-linux-x86-64.so.2",
    "librt.so.1", "libpthread.so.0", "libdl.so.2",
}  # fmt: skip
# All else of torch is of its stable C ABI. These let install() hand back to torch's own kernel.
TORCH_CPP = {
    "_ZN2at3cpu9topk_outfERKNS_6TensorEllbbRS1_S4_",
    "_ZN2at4cuda9topk_outfERKNS_6TensorEllbbRS1_S4_",
    "_ZN2at6native6is_negERKNS_6TensorE",
    "_ZN2at13globalContextEv",
    "_ZNK2at7Context23deterministicAlgorithmsEv",
}


@dataclass
class Library:
    name: str
    needed: set[str]
    paths: set[str]  # where it looks for what it needs
    wanted: set[str]  # symbols
    bytes_: bytes
    machine_code: list[str] = field(default_factory=list)  # architectures, as sm_90
    ptx: list[str] = field(default_factory=list)

    def problems(self, folders: tuple[str, ...]) -> list[str]:
        found = [f"needs {name}" for name in sorted(self.needed - TORCH - SYSTEM)]
        found += [f"looks for libraries in {path}" for path in sorted(self.paths - {"$ORIGIN"})]
        found += [f"wants Python's {name}" for name in sorted(self.wanted) if name.startswith(("Py", "_Py"))]
        found += [
            f"wants torch's C++ {name}"
            for name in sorted(self.wanted)
            if re.match(r"_ZN?K?(2at|3c10|5torch)", name) and name not in TORCH_CPP
        ]
        found += [f"names {folder}" for folder in folders if folder.encode() in self.bytes_]
        if "libtorch_cpu.so" not in self.needed:
            found.append("does not need libtorch_cpu.so")
        return found


def libraries(wheel: Path) -> list[Library]:
    with zipfile.ZipFile(wheel) as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".so"))
        return [_library(name, archive) for name in names]


def _library(name: str, archive: zipfile.ZipFile) -> Library:
    from elftools.elf.elffile import ELFFile  # not wherever tests run is a wheel audited

    with archive.open(name) as file:
        bytes_ = file.read()
        file.seek(0)
        elf = ELFFile(file)
        tags = list(elf.get_section_by_name(".dynamic").iter_tags())
        symbols = list(elf.get_section_by_name(".dynsym").iter_symbols())
        library = Library(
            name=name,
            needed={tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"},
            paths={tag.runpath for tag in tags if tag.entry.d_tag == "DT_RUNPATH"},
            wanted={symbol.name for symbol in symbols if symbol.entry.st_shndx == "SHN_UNDEF"},
            bytes_=bytes_,
        )
        if elf.get_section_by_name(".nv_fatbin") is not None:
            with tempfile.NamedTemporaryFile(suffix=".so") as copy:
                copy.write(bytes_)
                copy.flush()
                library.machine_code = _architectures(copy.name, "--list-elf")
                library.ptx = _architectures(copy.name, "--list-ptx")
    return library


def _architectures(library: str, which: str) -> list[str]:
    tool = shutil.which("cuobjdump") or shutil.which("cuobjdump", path="/usr/local/cuda/bin")
    if tool is None:  # not all toolkits have it, and nothing but what is printed goes by it
        return []
    listed = subprocess.run([tool, which, library], capture_output=True, text=True).stdout
    return sorted(set(re.findall(r"\bsm_[0-9]+[af]?\b", listed)), key=lambda name: int(name[3:].rstrip("af")))


def folders_of_this_machine() -> tuple[str, ...]:
    return str(ROOT), sysconfig.get_path("purelib")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path, nargs="+")
    sound = True
    for wheel in parser.parse_args().wheel:
        print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB")
        for library in libraries(wheel):
            kinds = ", ".join([*library.machine_code, *(f"PTX of {name}" for name in library.ptx)])
            print(f"  {library.name}: {len(library.bytes_) / 2**20:.1f} MiB{kinds and ': ' + kinds}")
            for problem in library.problems(folders_of_this_machine()):
                sound = False
                print(f"    {problem}")
    sys.exit(not sound)


if __name__ == "__main__":
    main()
