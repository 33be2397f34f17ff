"""Programs of others for `make check-import`: a file a problem, as KernelBench has them (a class Model, get_inputs,
get_init_inputs; sizes are whole numbers at the top of the file).

`load` takes a file as it is, or with its sizes made small: each number of 16 and more becomes the smallest one with which the
model still runs and that no other size has, so that two dimensions which change places are seen.
"""
import ast
import os
import time

import torch

SMALL = (range(5, 41), range(24, 61), ())  # the second where the first is too small for a kernel's window
PATIENCE = 30  # seconds that looking for sizes may take


def sizes_in(tree):
    """The assignments of whole numbers, or of tuples of them, at the top of a file: each number as its place in the tree."""
    found = []
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            found += [n for n in ast.walk(statement.value) if isinstance(n, ast.Constant) and type(n.value) is int and n.value >= 16]
    return found


def made(tree, path):
    names = {"__name__": "problem", "__file__": path}
    exec(compile(tree, path, "exec"), names)
    net = names["Model"](*names["get_init_inputs"]())
    return net, tuple(names["get_inputs"]())


def runs(tree, path):
    """Does the model run, as far as shapes go?"""
    try:
        with torch.device("meta"), torch.no_grad():
            net, inputs = made(tree, path)
            net.eval()(*(x.to("meta") if isinstance(x, torch.Tensor) else x for x in inputs))
        return True
    except Exception:  # whatever a model raises with sizes that it does not take
        return False


def smaller(number, small, used):
    """What may stand for a number, best first."""
    halves = [number >> k for k in range(number.bit_length() - 3, 0, -1)]
    return [n for n in small if n not in used and n < number] + [n for n in halves if n >= (small or [number])[0]]


def shrink(tree, path, small):
    """Each size by itself, and where that does not run, with all that are as large: they may have to be equal."""
    used, begin, left = set(), time.monotonic(), sorted(sizes_in(tree), key=lambda n: -n.value)
    while left:
        own, done = left[0].value, False
        for together in (left[:1], [n for n in left if n.value == own]):
            for n in smaller(own, small, used):
                for place in together:
                    place.value = n
                done = time.monotonic() - begin < PATIENCE and runs(tree, path)
                if done:
                    break
            if done:
                break
            for place in together:
                place.value = own
        used.add(left[0].value)
        left = [n for n in left if n not in (together if done else left[:1])]


def made_small(read, path):
    """Shapes alone do not tell that a window is larger than what it lies in: so what was made runs once."""
    for small in SMALL:
        tree = read()
        if small and runs(tree, path):
            shrink(tree, path, small)
        net, inputs = made(tree, path)
        try:
            with torch.no_grad():
                net.eval()(*(x.clone() if isinstance(x, torch.Tensor) else x for x in inputs))
            break
        except Exception:
            if not small:
                raise
    torch.manual_seed(1)
    return made(tree, path)


class Unfilled(torch.overrides.TorchFunctionMode):
    """Floats that are drawn are not: nobody reads the values of an input that may have gigabytes."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in (torch.rand, torch.randn):
            return torch.empty(*args, **(kwargs or {}))
        return function(*args, **(kwargs or {}))


def load(path, small):
    """A module and its inputs."""
    def read():
        with open(path) as f:
            return ast.parse(f.read(), path)
    if small:
        return made_small(read, path)
    with Unfilled():
        return made(read(), path)


def listed(folder):
    """Name → file of all problems in a folder of folders."""
    return {f"{level}/{name[:-3]}": os.path.join(folder, level, name) for level in sorted(os.listdir(folder))
            if level in ("level1", "level2", "level3") for name in sorted(os.listdir(os.path.join(folder, level)))
            if name.endswith(".py")}
