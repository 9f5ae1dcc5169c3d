"""Who may include whom in csrc, and what nothing below binding/ may do. Reads text; compiles nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parents[2] / "csrc"
SOURCE_SUFFIXES = {".h", ".cuh", ".hpp", ".cu", ".cpp", ".cc", ".c", ".inl"}

# What is in csrc/cuda itself, by file, and its folders that are no algorithm's. Any other folder is one.
CUDA_FILES = {
    "baselines.h": "front header",
    "cost.h": "cuda base",
    "gpu.h": "cuda base",
    "sampled_bounds.h": "cuda base",
    "stream.h": "cuda base",
    "windows.h": "cuda base",
    "workspace.h": "cuda base",
    "topk.h": "front header",
    "topk.cpp": "front",
    "rerank.cpp": "front",
    "mask.cpp": "front",
    "sparsify.cpp": "front",
    "strided.cpp": "front",
    "varlen.cpp": "front",
}
CUDA_FOLDERS = {"device": "device", "plan": "plan", "study": "study"}

# Layer of an including file -> layers that it may include. "own": files of its own folder. An algorithm's
# header is the one of its folder's name; it is all that the rest of the house sees of it.
MAY_INCLUDE = {
    "core": {"core"},
    "cpu": {"core", "cpu"},
    "cuda base": {"core", "cuda base"},
    "device": {"core", "cuda base", "device"},
    "algorithm header": {"core", "cuda base"},
    "algorithm": {"core", "cuda base", "device", "own"},
    "plan header": {"core", "cuda base", "algorithm header"},
    "plan": {"core", "cuda base", "device", "algorithm header", "plan header", "own"},
    "front header": {"core", "cuda base", "plan header"},
    "front": {"core", "cuda base", "algorithm header", "plan header", "front header"},
    "study": {"core", "cuda base", "device", "front header"},
    "binding": {"binding", "core", "cpu", "cuda base", "front header", "plan header"},
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
    top, _, rest = path.partition("/")
    if top != "cuda":
        return top if top in ("core", "cpu", "binding") and "/" not in rest else ""
    folder, _, name = rest.rpartition("/")
    if not folder:
        return CUDA_FILES.get(name, "")
    if "/" in folder:
        return ""
    if folder == "plan":
        return "plan header" if name == "plan.h" else "plan"
    return CUDA_FOLDERS.get(folder) or ("algorithm header" if name == f"{folder}.h" else "algorithm")


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
    own = path.rpartition("/")[0] == included.rpartition("/")[0]
    if target in MAY_INCLUDE[layer] or ("own" in MAY_INCLUDE[layer] and own):
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
    "cuda/gpu.h": "",
    "cuda/workspace.h": "",
    "cuda/device/numbers.h": "",
    "cuda/device/x.cuh": '#include "core/key_order.h"\n#include "cuda/device/numbers.h"\n',
    "cuda/air/air.h": '#include <cuda_runtime_api.h>\n#include "core/problem.h"\n#include "cuda/gpu.h"\n',
    "cuda/air/numbers.h": "",
    "cuda/air/one_block.cu": '#include "cuda/air/air.h"\n#include "cuda/device/x.cuh"\n'
    '#include "cuda/air/numbers.h"\n#include "cuda/workspace.h"\n#include "core/key_order.h"\n'
    'const char* t = "throw printf( new Thing";\n'
    "void f() { __syncthreads(); snprintf(text, 9, format); new_count(); renew (x); }\n",
    "cuda/grid_select/grid_select.h": "",
    "cuda/grid_select/numbers.h": "",
    "cuda/plan/numbers.h": "",
    "cuda/plan/plan.h": '#include "cuda/air/air.h"\n',
    "cuda/plan/plan.cpp": '#include "cuda/plan/plan.h"\n#include "cuda/plan/numbers.h"\n',
    "cuda/topk.h": '#include "cuda/plan/plan.h"\n',
    "cuda/topk.cpp": '#include "cuda/topk.h"\n#include "cuda/air/air.h"\n',
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
        ("core/problem.h", '#include "cuda/gpu.h"'),
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
        ("cuda/air/air.h", '#include "cuda/device/x.cuh"'),
        ("cuda/air/air.h", '#include "cuda/grid_select/grid_select.h"'),
        ("cuda/air/one_block.cu", '#include "cuda/grid_select/grid_select.h"'),
        ("cuda/air/one_block.cu", '#include "cuda/grid_select/numbers.h"'),
        ("cuda/air/one_block.cu", '#include "cuda/plan/plan.h"'),
        ("cuda/air/one_block.cu", "  # include   <torch/types.h>"),
        ("cuda/air/one_block.cu", '  printf("here");'),
        ("cuda/air/one_block.cu", "  cudaMalloc(&p, 8);"),
        ("cuda/air/one_block.cu", "  cudaMallocAsync(&p, 8, stream);"),
        ("cuda/air/one_block.cu", "  cudaDeviceSynchronize();"),
        ("cuda/air/one_block.cu", "  cudaStreamSynchronize(stream);"),
        ("cuda/air/one_block.cu", "  cudaMemcpy(a, b, 8, cudaMemcpyDefault);"),
        ("cuda/device/x.cuh", '#include "cuda/air/air.h"'),
        ("cuda/plan/plan.h", '#include "cuda/air/numbers.h"'),
        ("cuda/plan/plan.cpp", '#include "cuda/topk.h"'),
        ("cuda/plan/plan.cpp", '#include "cuda/air/numbers.h"'),
        ("cuda/topk.cpp", '#include "cuda/device/x.cuh"'),
        ("cuda/topk.cpp", "  throw 1;"),
        ("binding/topk_cuda.cpp", '#include "cuda/air/air.h"'),
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
