# One command a chore; `make` lists them. CMakeLists.txt says what is built, requirements.txt what is installed.
#
#   PYTHON=python3.12    the Python to make the virtual environment with
#   VENV=none            make none and install nothing: use PYTHON, which has torch, as it is
#   BUILD=build-other    a build folder of its own, with libraries of its own; DEBUG=1 has build-debug
#   FORCE_CUDA=1, FORCE_CPU=1, CUDA_HOME, TORCH_CUDA_ARCH_LIST, MAX_JOBS, NVCC_THREADS: see CONTRIBUTING.md
#   ARGS="..."           passed on to the program that demo, test, bench, tune, fuzz, mutants or gpu-test runs
#   MINUTES=10           how long `make fuzz` takes

PYTHON ?= python3
VENV ?= .venv
BUILD ?= $(if $(DEBUG),build-debug,build)
ARGS ?=
MINUTES ?= 10
SHELL := /bin/bash
.SHELLFLAGS := -ec

ifeq ($(VENV),none)
PY := $(PYTHON)
INSTALLED := check-tools
else
PY := $(abspath $(VENV))/bin/python
INSTALLED := $(VENV)/.requirements.txt
export PATH := $(abspath $(VENV))/bin:$(PATH)
endif
# One configuration's libraries lie in the package; any other's in its own folder, where Python is told to look.
ifeq ($(BUILD),build)
LIBRARIES := $(CURDIR)/torch_topk/lib
else
LIBRARIES := $(abspath $(BUILD))/lib
export GPUTOPK_LIBRARY_DIR := $(LIBRARIES)
endif
ifdef MAX_JOBS
export CMAKE_BUILD_PARALLEL_LEVEL := $(MAX_JOBS)
endif
export FORCE_CUDA FORCE_CPU CUDA_HOME TORCH_CUDA_ARCH_LIST NVCC_THREADS DEBUG
export PYTHONPATH := $(CURDIR)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test bench tune lint format gpu-test wheel build cuda study simt fuzz mutants sanitize clean check-tools

help:
	@echo "make demo      nearest neighbours in real images, checked and timed against torch.topk"
	@echo "make test      everything that can run on this machine"
	@echo "make fuzz      random requests, ragged ones too, against the exact order, for MINUTES=10: CPU, kernels on the host, GPU"
	@echo "make mutants   planted faults, one line each, that the kernels' tests on the host have to find"
	@echo "make bench     timings against torch.topk"
	@echo "make tune      measures what work costs on the GPU at hand, and builds a plan that goes by it"
	@echo "make lint      ruff and clang-format; 'make format' applies them"
	@echo "make gpu-test  the GPU tests, recorded; needs a GPU and nvcc"
	@echo "make sanitize  compute-sanitizer's tools on a GPU, recorded"
	@echo "make wheel     a wheel in dist/"
	@echo "make build     the libraries, in torch_topk/lib; 'make cuda' the CUDA one whatever the machine"
	@echo "make study     the CUDA library and the one with the operators of studies, which benches and GPU tests load"
	@echo "make simt      the kernels for the host, in build/simt, which the tests build too"
	@echo "make clean     removes all that was built, and keeps $(VENV)"

demo: build
	@$(PY) -m torch_topk.demo $(ARGS)

# Two files at a time where pytest-xdist is there, in the order of tests/conftest.py: not by how many tests they have.
test: build simt
	@$(PY) -m pytest -q tests $$($(PY) -c 'import xdist' 2>/dev/null && echo --numprocesses=2 --dist=loadfile --no-loadscope-reorder) $(ARGS)

simt: $(INSTALLED)
	@$(PY) -m tests.simt.emulated >/dev/null

fuzz: build simt
	@$(PY) -m tests.fuzz --minutes $(MINUTES) $(ARGS)

mutants: $(INSTALLED)
	@$(PY) -m tests.simt.mutants $(ARGS)

bench: $(if $(shell command -v nvidia-smi),study,build)
	@$(PY) bench/bench_topk.py $(ARGS)

gpu-test: study
	@$(PY) tests/gpu_record.py run $(ARGS)

sanitize: study
	@$(PY) tests/sanitize.py

# Some ten minutes of timings. The costs stay with the build folder, until `make clean`.
tune: study
	@$(PY) bench/sweep_plan.py --output $(BUILD)/plan-tuned.jsonl $(ARGS)
	@$(PY) bench/fit_plan.py --scale csrc/cuda/plan/costs_h200.h --bench \
		--sweep $(BUILD)/plan-tuned.jsonl --output $(BUILD)/costs_tuned.h
	@cmake --log-level=NOTICE -S . -B $(BUILD) -DGPUTOPK_COSTS=$(abspath $(BUILD))/costs_tuned.h >/dev/null
	@cmake --build $(BUILD)
	@cmake --build $(BUILD) --target gputopk_study

CPP_FILES = find csrc include examples tests -name '*.h' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cu'

lint: $(INSTALLED)
	@ruff check .
	@ruff format --check .
	@$(CPP_FILES) | xargs clang-format --dry-run -Werror

format: $(INSTALLED)
	@ruff check --fix .
	@ruff format .
	@$(CPP_FILES) | xargs clang-format -i

# auditwheel names the oldest glibc that serves; torch's libraries are those of the torch that loads the wheel's.
# What the libraries need and name is looked at last; dist gets only what is sound.
wheel: $(INSTALLED)
	@rm -rf build-wheel
	@$(PY) -m pip wheel -q --no-deps --no-build-isolation --wheel-dir build-wheel .
	@$(PY) -m auditwheel repair --exclude 'libtorch*.so' --exclude libc10.so --wheel-dir build-wheel/repaired build-wheel/*.whl
	@$(PY) -m tests.wheel_audit build-wheel/repaired/*.whl
	@mkdir -p dist && mv build-wheel/repaired/*.whl dist

# The libraries ----------------------------------------------------------------------------------------

# A build folder of a checkout that was moved or copied is of no use here.
CONFIGURE = { grep -qsxF 'CMAKE_HOME_DIRECTORY:INTERNAL=$(CURDIR)' $(BUILD)/CMakeCache.txt || rm -rf $(BUILD); }; \
  cmake --log-level=NOTICE -S . -B $(BUILD) -G Ninja -DCMAKE_MAKE_PROGRAM=$$(command -v ninja) -DPYTHON=$(PY) \
    -DCMAKE_LIBRARY_OUTPUT_DIRECTORY=$(LIBRARIES) >/dev/null

# The CUDA library takes minutes to build, so it is, unasked, only where a GPU can run it; where it is not,
# a library that `make cuda` built stays.
build: $(INSTALLED)
	@if [ "$(FORCE_CPU)" = 1 ] || [ "$(FORCE_CUDA)" = 1 ]; then \
	  $(CONFIGURE); target=all; \
	elif nvidia-smi -L >/dev/null 2>&1; then \
	  $(CONFIGURE) -DGPUTOPK_CUDA=AUTO; target=all; \
	elif [ -f $(BUILD)/CMakeCache.txt ]; then \
	  $(CONFIGURE); target=gputopk; \
	else \
	  $(CONFIGURE) -DGPUTOPK_CUDA=OFF; target=gputopk; \
	fi; \
	cmake --build $(BUILD) --target $$target

cuda: $(INSTALLED)
	@$(CONFIGURE) -DGPUTOPK_CUDA=ON
	@cmake --build $(BUILD)

study: cuda
	@cmake --build $(BUILD) --target gputopk_study

clean:
	rm -rf build build-* dist torch_topk/lib demo_out

# The environment --------------------------------------------------------------------------------------

# `pip install` from requirements.txt, once for each content of that file, and anew where the checkout was moved
# or copied, as scripts in an environment name its folder. A Python without ensurepip, as
# Debian's is without python3-venv, lends its own pip.
MOVED_VENV := $(shell [ ! -f $(VENV)/bin/activate ] || \
  grep -q "VIRTUAL_ENV=[\"']*$(abspath $(VENV))" $(VENV)/bin/activate || echo moved)
$(VENV)/.requirements.txt: requirements.txt $(if $(MOVED_VENV),check-tools) | check-tools
	@$(if $(MOVED_VENV),rm -rf $(VENV))
	@if ! [ -x $(PY) ]; then \
	  echo "Making the virtual environment $(VENV)"; \
	  $(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { rm -rf $(VENV); $(PYTHON) -m venv --without-pip $(VENV); }; \
	fi; \
	if ! $(PY) -m pip --version >/dev/null 2>&1; then \
	  lent=$$($(PYTHON) -c 'import os, pip; print(os.path.dirname(os.path.dirname(pip.__file__)))' 2>/dev/null) || \
	    { rm -rf $(VENV); echo "Missing pip: install python3-venv (apt install python3-venv)." >&2; exit 1; }; \
	  PYTHONPATH=$$lent $(PY) -m pip install -q --ignore-installed pip==26.3; \
	fi; \
	echo "Installing requirements.txt into $(VENV)"; \
	$(PY) -m pip install -q -r requirements.txt; \
	cp requirements.txt $@

check-tools:
	@command -v $(PYTHON) >/dev/null || \
	  { echo "Missing Python: install python3, 3.10 or newer (apt install python3 python3-venv)." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "$(PYTHON) is too old: install Python 3.10 or newer and say make PYTHON=python3.10." >&2; exit 1; }
	@command -v $${CXX:-g++} >/dev/null || \
	  { echo "Missing g++: install a C++17 compiler (apt install g++)." >&2; exit 1; }
