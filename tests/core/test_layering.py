"""Who may include whom in csrc, and what nothing below binding/ may do. Reads text; compiles nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parents[2] / "csrc"
SOURCE_SUFFIXES = {".h", ".cuh", ".hpp", ".cu", ".cpp", ".cc", ".c", ".inl"}

# Layer of an including file -> layers that it may include. "own" is the algorithm's own header.
MAY_INCLUDE = {
    "core": {"core"},
    "cpu": {"core", "cpu"},
    "tuning": {"core"},
    "workspace": {"core"},
    "stream": set(),
    "device": {"core", "device", "tuning", "workspace", "stream"},
    "algorithm header": {"core", "stream"},
    "algorithm": {"core", "device", "tuning", "workspace", "stream", "own"},
    "plan header": {"core", "algorithm header", "stream"},
    "plan": {"core", "algorithm header", "plan header", "tuning", "workspace", "stream"},
    "front header": {"core", "plan header", "stream"},
    "front": {"core", "algorithm header", "plan header", "front header", "workspace", "stream"},
    "yardstick": {"core", "device", "tuning", "front header", "stream"},
    "binding": {"binding", "core", "cpu", "front header", "plan header", "stream"},
}
TORCH = re.compile(r"^(torch|ATen|c10|caffe2|THC)/")
PYTHON = re.compile(r"^(Python\.h|pybind11/|nanobind/|torch/python|torch/extension\.h|torch/csrc/api)")
CUDA = re.compile(
    r"^(cuda|cub/|thrust/|cooperative_groups|nvrtc|driver_types|device_launch|mma\.h|nvToolsExt)"
)

# Below binding/: what it is called -> pattern in code free of comments and strings.
FORBIDDEN = {
    "throws": r"\bthrow\b",
    "prints": r"\b(v?f?printf|puts|fputs|putchar)\s*\(|\bstd\s*::\s*(cout|cerr|clog)\b",
    "allocates": r"\bnew\s+[A-Za-z_:(]|\b(malloc|calloc|realloc|aligned_alloc|posix_memalign)\s*\("
    r"|\bcuda(Malloc\w*|Free\w*|HostAlloc|HostRegister)\b|\bcuMem(Alloc|Create)\w*"
    r"|\bstd\s*::\s*(vector|string|make_unique|make_shared|map|unordered_map|deque|list|function)\b",
    "synchronises": r"\bcuda(Device|Stream|Event|Thread)Synchronize\b|\bcudaMemcpy\s*\(|\bcudaMemset\s*\("
    r"|\bcuCtxSynchronize\b",
}
FORBIDDEN_HEADERS = {"iostream", "ostream", "fstream", "sstream", "vector", "string", "map", "unordered_map"}


def without_comments(text: str) -> str:
    """Comments become blanks; strings stay, and keep what looks like a comment inside them."""

    def blank(match: re.Match) -> str:
        return match[0] if match[0][0] in "\"'" else " "

    token = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
    return re.sub(token, blank, text, flags=re.DOTALL)


def layer_of(path: str) -> str:
    """The layer of a file by its path from csrc."""
    folder, _, name = path.rpartition("/")
    stem, _, suffix = name.partition(".")
    header = suffix in ("h", "cuh", "hpp")
    if folder == "cuda":
        if stem in ("tuning", "workspace", "stream"):
            return stem
        if stem == "read_floor":
            return "yardstick"
        if stem in ("plan", "topk"):
            part = {"plan": "plan", "topk": "front"}[stem]
            return f"{part} header" if header else part
        return "algorithm header" if header else "algorithm"
    return {"core": "core", "cpu": "cpu", "cuda/device": "device", "binding": "binding"}.get(folder, "")


def is_own_header(path: str, included: str) -> bool:
    """air.cu and air_passes.cu own air.h."""
    stem = path.rpartition("/")[2].partition(".")[0]
    owner = included.rpartition("/")[2].partition(".")[0]
    return stem == owner or stem.startswith(owner + "_")


def include_problem(root: Path, path: str, layer: str, quoted: bool, included: str) -> str | None:
    if PYTHON.match(included):
        return "Python is seen nowhere"
    if not quoted:
        if TORCH.match(included) and layer != "binding":
            return "torch is seen by binding/ alone"
        if CUDA.match(included) and layer in ("core", "cpu"):
            return f"{layer}/ knows no CUDA"
        if included in FORBIDDEN_HEADERS and layer != "binding":
            return "nothing below binding/ prints or allocates"
        return None
    if not (root / included).is_file():
        return "no such file from csrc/"
    target = layer_of(included)
    if target in MAY_INCLUDE[layer] or ("own" in MAY_INCLUDE[layer] and is_own_header(path, included)):
        return None
    return f"{layer} may not include {target or 'that'}"


def violations(root: Path) -> list[str]:
    """Every breach of the layers in the tree at `root`, as 'file: what'."""
    found = []
    for file in sorted(root.rglob("*")):
        if file.suffix not in SOURCE_SUFFIXES:
            continue
        path = file.relative_to(root).as_posix()
        layer = layer_of(path)
        if not layer:
            found.append(f"{path}: in no layer")
            continue
        code = without_comments(file.read_text())
        for opening, included in re.findall(r'^\s*#\s*include\s*(["<])([^">]+)[">]', code, re.MULTILINE):
            problem = include_problem(root, path, layer, opening == '"', included)
            if problem:
                found.append(f"{path}: includes {included}: {problem}")
        if layer != "binding":
            # Strings go, include lines with them.
            bare = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', code)
            for what, pattern in FORBIDDEN.items():
                for match in re.finditer(pattern, bare):
                    line = bare.count("\n", 0, match.start()) + 1
                    found.append(f"{path}: {what} near line {line}: {match[0].strip()}")
    return found


def test_csrc_keeps_its_layers():
    assert violations(CSRC) == []


def test_the_layering_test_reads_the_whole_of_csrc():
    layers = {
        layer_of(f.relative_to(CSRC).as_posix()) for f in CSRC.rglob("*") if f.suffix in SOURCE_SUFFIXES
    }
    assert layers == set(MAY_INCLUDE)


CLEAN = {
    "core/problem.h": "#include <cstdint>\n",
    "core/key_order.h": '#include "core/problem.h"\n',
    "cpu/topk_cpu.h": '#include "core/problem.h"\n',
    "cpu/topk_cpu.cpp": '#include "cpu/topk_cpu.h"\n// throw, printf( and new Thing in a comment\n',
    "cuda/tuning.h": "",
    "cuda/workspace.h": "",
    "cuda/air.h": '#include <cuda_runtime_api.h>\n#include "core/problem.h"\n',
    "cuda/air.cu": '#include "cuda/air.h"\n#include "cuda/device/x.cuh"\n#include "cuda/tuning.h"\n'
    '#include "cuda/workspace.h"\n#include "core/key_order.h"\nconst char* t = "throw printf( new Thing";\n'
    "void f() { __syncthreads(); snprintf(text, 9, format); new_count(); renew (x); }\n",
    "cuda/grid_select.h": "",
    "cuda/device/x.cuh": '#include "core/key_order.h"\n',
    "cuda/plan.h": '#include "cuda/air.h"\n',
    "cuda/plan.cpp": '#include "cuda/plan.h"\n#include "cuda/tuning.h"\n',
    "cuda/topk.h": '#include "cuda/plan.h"\n',
    "cuda/topk.cpp": '#include "cuda/topk.h"\n#include "cuda/air.h"\n',
    "binding/topk_cuda.cpp": "#include <torch/csrc/stable/tensor.h>\n#include <vector>\n"
    '#include "cuda/topk.h"\n#include "core/problem.h"\nvoid f() { throw 1; }\n',
}


def plant(root: Path, path: str = "", line: str = "") -> Path:
    for name, text in CLEAN.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + (line + "\n" if name == path else ""))
    return root


def test_a_clean_tree_has_no_violations(tmp_path):
    assert violations(plant(tmp_path)) == []


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("core/problem.h", '#include "cuda/tuning.h"'),
        ("core/problem.h", "#include <cuda_runtime.h>"),
        ("core/key_order.h", "#include <torch/headeronly/core/ScalarType.h>"),
        ("cpu/topk_cpu.cpp", '#include "cuda/topk.h"'),
        ("cpu/topk_cpu.cpp", "#include <ATen/Parallel.h>"),
        ("cpu/topk_cpu.cpp", "#include <vector>"),
        ("cpu/topk_cpu.cpp", "  throw std::bad_alloc();"),
        ("cpu/topk_cpu.cpp", '  printf("%d", 1);'),
        ("cpu/topk_cpu.cpp", "  std::cout << 1;"),
        ("cpu/topk_cpu.cpp", "  auto* p = new int[8];"),
        ("cpu/topk_cpu.cpp", "  void* p = malloc(8);"),
        ("cpu/topk_cpu.cpp", "  std::vector<int> v;"),
        ("cuda/air.h", '#include "cuda/device/x.cuh"'),
        ("cuda/air.h", '#include "cuda/grid_select.h"'),
        ("cuda/air.cu", '#include "cuda/grid_select.h"'),
        ("cuda/air.cu", '#include "cuda/plan.h"'),
        ("cuda/air.cu", "  # include   <torch/types.h>"),
        ("cuda/air.cu", '  printf("here");'),
        ("cuda/air.cu", "  cudaMalloc(&p, 8);"),
        ("cuda/air.cu", "  cudaMallocAsync(&p, 8, stream);"),
        ("cuda/air.cu", "  cudaDeviceSynchronize();"),
        ("cuda/air.cu", "  cudaStreamSynchronize(stream);"),
        ("cuda/air.cu", "  cudaMemcpy(a, b, 8, cudaMemcpyDefault);"),
        ("cuda/device/x.cuh", '#include "cuda/air.h"'),
        ("cuda/plan.h", '#include "cuda/tuning.h"'),
        ("cuda/plan.cpp", '#include "cuda/topk.h"'),
        ("cuda/topk.cpp", '#include "cuda/device/x.cuh"'),
        ("cuda/topk.cpp", "  throw 1;"),
        ("binding/topk_cuda.cpp", '#include "cuda/air.h"'),
        ("binding/topk_cuda.cpp", '#include "cuda/device/x.cuh"'),
        ("binding/topk_cuda.cpp", "#include <Python.h>"),
        ("binding/topk_cuda.cpp", "#include <torch/extension.h>"),
        ("binding/topk_cuda.cpp", '#include "../core/problem.h"'),
        ("binding/topk_cuda.cpp", '#include "no/such.h"'),
    ],
)
def test_a_planted_breach_is_found(tmp_path, path, line):
    found = violations(plant(tmp_path, path, line))
    assert len(found) == 1 and found[0].startswith(f"{path}: "), found


def test_a_file_in_no_layer_is_found(tmp_path):
    plant(tmp_path)
    (tmp_path / "stray.cpp").write_text("")
    assert violations(tmp_path) == ["stray.cpp: in no layer"]
