# What a developer types. `make` alone lists the targets.
PYTHON ?= python3
UV ?= uv
# Two packages of one lock must not disagree: later groups are compiled against the earlier ones.
LOCK = cd requirements && $(UV) pip compile --universal --python-version 3.10 --no-header --no-annotate --quiet
# What images hold: for their one Python and system, each package with its hashes.
IMAGE_LOCK = cd requirements && $(UV) pip compile --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
             --generate-hashes --no-strip-markers --no-header --no-annotate --quiet
# What torch's CUDA build brings along on Linux. It depends on which build of torch is installed, so pip
# resolves it together with torch; in the lock it would force CUDA on every machine.
CUDA = cuda-bindings cuda-pathfinder cuda-toolkit nvidia-cublas nvidia-cuda-cupti nvidia-cuda-nvrtc \
       nvidia-cuda-runtime nvidia-cudnn-cu13 nvidia-cufft nvidia-cufile nvidia-curand nvidia-cusolver \
       nvidia-cusparse nvidia-cusparselt-cu13 nvidia-nccl-cu12 nvidia-nccl-cu13 nvidia-nvjitlink \
       nvidia-nvshmem-cu13 nvidia-nvtx triton

.PHONY: help test unit contract e2e lint format lock upgrade pictures clean

help: ## list the targets
	@grep -E '^[a-z0-9]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9]+):.*## /\1\t/' | expand -t 12

test: ## everything: lint, unit, contract and end-to-end tests
	$(PYTHON) labctl.py test

unit: ## unit tests only
	$(PYTHON) labctl.py test --unit

contract: ## the contract suite over every runtime
	$(PYTHON) labctl.py test --contract

e2e: ## end-to-end tests with real processes
	$(PYTHON) labctl.py test --e2e

lint: ## ruff and mypy
	$(PYTHON) labctl.py test --lint

format: ## let ruff format and fix the code (after `labctl test` made .venv)
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

lock: ## pin requirements/*.in into *.txt, keeping pins that still fit (needs uv)
	$(LOCK) installer.in -o installer.txt $(UPGRADE)
	$(LOCK) cli.in -o cli.txt $(UPGRADE)
	$(LOCK) local.in -o local.txt $(CUDA:%=--no-emit-package %) $(UPGRADE)
	$(LOCK) jupyter.in -o jupyter.txt $(UPGRADE)
	$(LOCK) report.in -o report.txt $(UPGRADE)
	$(LOCK) kubernetes.in -o kubernetes.txt $(UPGRADE)
	$(LOCK) torchft.in -o torchft.txt --no-emit-package torch $(CUDA:%=--no-emit-package %) $(UPGRADE)
	$(LOCK) serve.in -o serve.txt $(CUDA:%=--no-emit-package %) $(UPGRADE)
	$(LOCK) proxy.in -o proxy.txt $(UPGRADE)
	$(LOCK) hub.in -o hub.txt $(UPGRADE)
	$(LOCK) test.in -o test.txt $(UPGRADE)
	$(IMAGE_LOCK) image.in -o image.txt --no-emit-package torch $(CUDA:%=--no-emit-package %) $(UPGRADE)
	$(IMAGE_LOCK) standin.in -o standin.txt $(UPGRADE)

upgrade: ## like lock, but take the newest versions (needs uv)
	$(MAKE) lock UPGRADE=--upgrade

pictures: ## draw docs/pictures from the recorded runs (after `labctl test` made .venv)
	.venv/bin/python -m benchmarks.pictures

clean: ## remove .venv and the tools' caches; running labs keep running
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
