# ---- the same for every export
import importlib
import math
import pathlib
import sys

try:
    import torch
except ImportError:
    print("skipped: this Python has no PyTorch")
    sys.exit(0)

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
exported = importlib.import_module(MODULE)


def read(folder, tensors, checked):
    """Of each tensor its value if it is given, and if it is checked what is expected and how far off it may be."""
    data, values, expected = memoryview((HERE / folder / "test" / "data.bin").read_bytes()), [], []

    def take(dtype, n):
        nonlocal data
        size = torch.empty(0, dtype=dtype).element_size() * n
        part, data = data[:size], data[size:]
        return torch.frombuffer(bytearray(part), dtype=dtype) if n else torch.empty(0, dtype=dtype)

    for t, is_checked in zip(tensors, checked):
        n = math.prod(t.shape)
        values.append(take(t.dtype, n).reshape(t.shape).to(exported._DEVICE) if t.given else None)
        expected.append((take(torch.float64, n), take(torch.float32, n).double()) if is_checked else None)
    return values, expected


def compare(what, got, expected):
    """As test/main.c of the C library does."""
    right, most = expected
    got = got.detach().cpu().double().reshape(-1)
    same = (got == right) | (got.isnan() & right.isnan())
    off = torch.where(same, torch.zeros_like(right), (got - right).abs() / most)
    off = torch.where(most.isinf(), torch.zeros_like(off), off)
    judged = most[(most > 0) & ~most.isinf()].numel()
    if not bool((off <= 1).all()):
        i = int((~(off <= 1)).nonzero()[0])
        sys.exit(f"not ok: {what}[{i}] is {got[i]:.9g}, expected {right[i]:.9g} within {most[i]:.3g}")
    if judged >= 64 and (2 * int((off > 0.34).sum()) > judged or 100 * int((off > 0.67).sum()) > judged):
        sys.exit(f"not ok: {what} is off by more than roundings are, in too many of its elements")
    return 1


def given(program, values):
    return [v.clone() for t, v in zip(program.tensors, values) if t.given]


def check_values(call, program, values, expected, how):
    """One run: what it makes, and what it changes."""
    arguments, n = given(program, values), 0
    made = call(*arguments)
    for t, is_expected, (is_given, i) in zip(program.tensors, expected, program.place):
        if is_expected is not None:
            n += compare(f"{t.name}, {how}", arguments[i] if is_given else made[i], is_expected)
    for t, v, (is_given, i) in zip(program.tensors, values, program.place):
        if is_given and not t.written and not torch.equal(arguments[i], v) and not v.is_floating_point():
            sys.exit(f"not ok: {t.name} was changed")
    return n


def check_gradient(values):
    """What autograd finds through the operator is what the backward library was tested for."""
    forward, backward = exported._forward, exported._backward
    more, expected = read("backward", backward.tensors, CHECKED_BACKWARD)
    n = check_values(backward.call, backward, more, expected, "the backward operator")
    arguments = dict(zip((t.script for t in forward.given), given(forward, values)))
    arguments.update({t.script: v.clone() for t, v in zip(backward.tensors, more) if t.given and t.script in arguments})
    arguments = list(arguments.values())
    for a, t in zip(arguments, exported._TAKES):
        a.requires_grad_(t is not None)
    made = forward.call(*arguments)
    slopes = {forward.place[t][1]: v for (kind, t), v in zip(exported._GIVES, (v for v in more if v is not None)) if kind == "gradient"}
    pairs = [(m, slopes.get(i, torch.zeros_like(m))) for i, m in enumerate(made) if m.requires_grad]
    wanted = [(a, t) for a, t in zip(arguments, exported._TAKES) if t is not None]
    got = torch.autograd.grad([m for m, _ in pairs], [a for a, _ in wanted], [s for _, s in pairs], allow_unused=True)
    for g, (_, t) in zip(got, wanted):
        if g is not None and expected[t] is not None:
            n += compare(f"{backward.tensors[t].name}, by autograd", g, expected[t])
    return n


def main():
    program = exported._forward
    if not TESTED:
        print("no test was exported")
        return
    if exported._DEVICE == "cuda" and not torch.cuda.is_available():
        print("skipped: PyTorch finds no GPU")
        return
    values, expected = read("forward", program.tensors, CHECKED_FORWARD)
    n = 0
    for how in ("called", "called again"):
        n += check_values(program.call, program, values, expected, how)
    torch.library.opcheck(program.op, program.arguments(given(program, values)))
    n += check_values(torch.compile(program.call, fullgraph=True, backend="aot_eager"), program, values, expected, "compiled")
    if DIFFERENTIATED:
        n += check_gradient(values)
    print(f"ok: {n} tensors of PyTorch as expected, {'with' if DIFFERENTIATED else 'without'} a gradient")


main()
