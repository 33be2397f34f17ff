#!/usr/bin/env python3
"""Every operation of PyTorch on PyTorch's own samples: what imports, and whether it is PyTorch's in value, shape and dtype.

    samples.py FILE.jsonl [--only TEXT] [--dtype float32] [--each 6] [--limit SECONDS]

The samples are those that PyTorch tests itself with (torch.testing, `op_db`): odd strides, sizes of 0 and 1, negative
dims, options that nobody sets. A row an operation: how many samples imported and agree, are refused, or differ. What is
in FILE is not asked again.
"""
import argparse
import collections
import json
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ["OMP_NUM_THREADS"] = "1"  # threads do not outlive a fork


def module_of(op, sample):
    """A module of the call, and what it takes: the sample's tensors; all else stands in the call. Complex ones come and go as
    pairs of real ones."""
    import torch
    tree = torch.utils._pytree
    leaves, spec = tree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    given = [k for k, v in enumerate(leaves) if isinstance(v, torch.Tensor)]

    def real(v):
        return torch.view_as_real(v.resolve_conj()) if isinstance(v, torch.Tensor) and v.is_complex() else v

    class Net(torch.nn.Module):
        def forward(self, *tensors):
            values = list(leaves)
            for k, tensor in zip(given, tensors):
                values[k] = torch.view_as_complex(tensor) if leaves[k].is_complex() else tensor
            args, words = tree.tree_unflatten(values, spec)
            return tree.tree_map(real, op(*args, **words))
    return Net(), tuple(real(leaves[k].detach()) for k in given)


def spread(samples, most):
    """So many of them, from the first to the last."""
    samples = list(samples)
    if len(samples) <= most:
        return samples
    return [samples[k * (len(samples) - 1) // (most - 1)] for k in range(most)]


def row_of(op, dtype, most):
    import one
    import torch
    torch.manual_seed(0)
    states, why = collections.Counter(), {}
    for sample in spread(op.sample_inputs("cpu", dtype, requires_grad=False), most):
        net, inputs = module_of(op, sample)
        try:
            net(*(v.clone() for v in inputs))
        except Exception:
            continue  # PyTorch refuses it on this machine
        row = one.ask(net, inputs, count=False)
        states[row["state"]] += 1
        for text in row.get("refused", ()):
            why.setdefault(f"{row['state']}: {text[:300]}", summary(sample))
    return {"states": dict(states), "why": why}


def summary(sample):
    import torch
    def short(v):
        return f"{str(v.dtype)[6:]}{list(v.shape)}" if isinstance(v, torch.Tensor) else repr(v)[:60]
    leaves = torch.utils._pytree.tree_leaves(((sample.input, *sample.args), sample.kwargs))
    return " ".join(map(short, leaves)) + " " + " ".join(sample.kwargs)


def ask(op, dtype, most, limit):
    """In a child, that a call which ends the process or never ends costs a row."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        signal.alarm(limit)
        sys.stderr = open(os.devnull, "w")
        try:
            row = row_of(op, dtype, most)
        except BaseException as error:
            row = {"states": {"died": 1}, "why": {f"{type(error).__name__}: {str(error)[:200]}": ""}}
        with os.fdopen(write, "w") as f:
            json.dump(row, f)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as f:
        text = f.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else {"states": {"died": 1}, "why": {"it ended, or took too long": ""}}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("file")
    p.add_argument("--only", default="")
    p.add_argument("--dtype", default="float32")
    p.add_argument("--each", type=int, default=6)
    p.add_argument("--limit", type=int, default=90)
    o = p.parse_args()
    import one  # noqa: F401: what a child needs is there before it is forked
    import torch
    from torch.testing._internal.common_methods_invocations import op_db
    dtype, known = getattr(torch, o.dtype), {}
    if os.path.exists(o.file):
        with open(o.file) as f:
            known = {row["op"]: row for row in map(json.loads, f)}
    for op in op_db:
        name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
        if name in known or not re.search(o.only, name) or dtype not in op.dtypes:
            continue
        begin = time.monotonic()
        known[name] = {"op": name, **ask(op, dtype, o.each, o.limit), "s": round(time.monotonic() - begin, 1)}
        with open(o.file, "a") as f:
            f.write(json.dumps(known[name]) + "\n")
    total = collections.Counter()
    for row in known.values():
        total.update(row["states"])
        if set(row["states"]) - {"imported"}:
            print(row["op"], row["states"])
            for text, sample in row["why"].items():
                print("    ", text, "·", sample)
    print(len(known), "operations:", dict(total))


if __name__ == "__main__":
    main()
