# `make`, then put this folder on PYTHONPATH. `make test` compares one run of each library, and of the operators where
# PYTHON has PyTorch, with what is expected. Variables of forward/Makefile, such as MARCH=, CC= or CUDA_HOME=, are passed on.
PYTHON ?= python3

all:
	for f in $(FOLDERS); do $(MAKE) -C $$f all || exit 1; done

test: all
	for f in $(FOLDERS); do $(MAKE) -C $$f test || exit 1; done
	$(PYTHON) test_torch.py

clean:
	for f in $(FOLDERS); do $(MAKE) -C $$f clean || exit 1; done

.PHONY: all test clean
