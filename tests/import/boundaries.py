#!/usr/bin/env python3
"""Kernel boundaries of the preset `inductor` beside those that TorchInductor draws, on imported models.

    boundaries.py FOLDER [--only TEXT] [--explain] [--jobs N]

A model is exported once. What fusebox imports from it gets the kernels of the preset; the same program, a call a line, is
given to torch.compile for an H200 that need not be there (tests/peers/inductor_worker.py) and read after the scheduler's
fusion. Both are told in calls of the program, so that a call of which either makes several kernels is in all of them.

An edge is a pair of calls of which one reads the other, through views and through calls that have a kernel on one side
alone. It is equal if both sides have a kernel that holds the two, or neither has. `equal` is the share of such edges;
`kernels` counts those of fusebox and of Inductor, and how many hold the very same calls. Kernels that only lay an operand
out for a library (channels last) are no boundary and are counted as copies.
"""
import argparse
import collections
import json
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
FUSEBOX = os.environ.get("FUSEBOX", "fusebox")
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "peers"))

# ---- the exported program as Inductor gets it


def spelled(x):
    """An argument of a call in Python."""
    import torch
    if isinstance(x, torch.fx.Node):
        return x.name
    if isinstance(x, (list, tuple)):
        return "[" + ", ".join(map(spelled, x)) + "]"
    if isinstance(x, torch.device):
        return "device"
    if isinstance(x, float) and (x != x or x in (float("inf"), -float("inf"))):
        return f"float('{x}')"
    return repr(x)


def call_text(node):
    given = [spelled(a) for a in node.args] + [f"{k}={spelled(v)}" for k, v in node.kwargs.items()]
    if node.target.__module__ == "_operator":
        return f"operator.{node.target.__name__}({', '.join(given)})"
    if str(node.target) == "aten.scaled_dot_product_attention.default":
        return f"attention({', '.join(given)})"
    target = str(node.target).replace("aten.view.default", "aten.reshape.default")  # what lies otherwise on a GPU is copied
    return f"torch.ops.{target}({', '.join(given)})"


def written(program):
    """The program as a function of its sources: its text, the sources, and the call of each line."""
    nodes = list(program.graph.nodes)
    sources = [n for n in nodes if n.op == "placeholder" and n.users]
    lines, calls = [f"def model({', '.join(n.name for n in sources)}):"], {}
    for n in nodes:
        if n.op == "call_function":
            lines.append(f"    {n.name} = {call_text(n)}")
            calls[len(lines)] = n
        elif n.op == "output":
            lines.append(f"    return ({''.join(spelled(a) + ', ' for a in n.args[0])})")
    return "\n".join(lines) + "\n", sources, calls


def attention(q, k, v, mask=None, dropout=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    """What a GPU takes of f32 (inductor_worker.attention), where it is causal, too."""
    import torch
    if q.dim() != 4 or enable_gqa or dropout:
        return torch.ops.aten.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal, scale=scale, enable_gqa=enable_gqa)
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = torch.where(mask, 0.0, -float("inf")).to(q.dtype)
        mask = mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    return torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, mask, False, is_causal=is_causal, scale=scale)[0]


def theirs(program):
    """Inductor's kernels: of each its kind and the calls that it computes."""
    import inductor_plan
    import inductor_worker
    import operator
    import torch
    from torch._subclasses import FakeTensorMode
    inductor_worker.pretend()
    inductor_worker.fold_here()
    text, sources, calls = written(program)
    file = "<exported program>"
    names = {"torch": torch, "operator": operator, "device": torch.device("cuda:0"), "attention": attention}
    exec(compile(text, file, "exec"), names)
    frame = re.compile(rf'File "{re.escape(file)}", line (\d+)')
    with FakeTensorMode(), torch.no_grad(), inductor_plan.Watch(stop=inductor_worker.Stopped()) as watch:
        def on_gpu(v):
            return torch.empty_strided(v.shape, v.stride(), dtype=v.dtype, device="cuda:0") if isinstance(v, torch.Tensor) else v
        arguments = [on_gpu(n.meta["val"]) for n in sources]
        try:
            torch.compile(names["model"], dynamic=False)(*arguments)
        except Exception as e:
            if "Stopped" not in str(e):
                raise
    out = []
    for k in watch.kernels[-1]:
        lines = {int(n) for fx in k.origins for trace in inductor_plan.traces(fx) for n in frame.findall(trace or "")}
        out.append((k.kind, frozenset(calls[at] for at in lines if at in calls), k.call))
    return out


def told(name, folder):
    """Imports a model and asks Inductor for its kernels; leaves both in the folder, for every later comparison."""
    import boundary_models
    import one
    import torch
    from one import from_torch
    torch.set_num_threads(1)
    torch.manual_seed(1)
    net, inputs, words = (*boundary_models.MODELS[name](), {})[:3]
    refused = []
    importer, _, made = one.graph_of(net.eval(), inputs, words, "weights", refused)
    if refused:
        raise ValueError("it is not imported: " + refused[0])
    program = importer.program
    calls = [{"name": n.name, "aten": from_torch.called(n) if n.op == "call_function" else n.op,
              "reads": [a.name for a in n.all_input_nodes], "nodes": made.get(n, [])} for n in program.graph.nodes]
    kernels = [[kind, sorted(c.name for c in held), call] for kind, held, call in theirs(program)]
    with open(place(folder, name) + ".json", "w") as f:
        f.write(re.sub(r'"dist":"file","file":"[0-9a-f]+"', '"dist":"normal","value":0,"high":1', importer.g.document()))
    with open(place(folder, name) + ".calls", "w") as f:
        json.dump({"version": torch.__version__, "calls": calls, "kernels": kernels}, f)


def place(folder, name):
    return os.path.join(folder, name.replace(" ", "_"))


# ---- one beside the other


def kernels_of(path, plan):
    """A plan's kernels for an H200: of each its family and its nodes."""
    run = subprocess.run([FUSEBOX, "graph", path, plan + "@replay:h200"], capture_output=True, text=True, timeout=300)
    if run.returncode:
        raise ValueError("it does not open: " + run.stderr.strip().splitlines()[-1])
    text = run.stdout.rpartition(f"\nkernels of {plan}\n")[2]
    return re.findall(r"^ *\d+  (\w+) +(.*)$", text, re.M)


def ours(path, calls):
    """The preset's kernels in calls of the program."""
    of = {node: c["name"] for c in calls for node in c["nodes"]}
    return [[family, sorted({of[n] for n in nodes.split() if n in of}), nodes] for family, nodes in kernels_of(path, "inductor")]


def edges(calls, both):
    """Pairs of calls that both sides have, of which the second reads the first."""
    behind, out = {}, []
    for c in calls:
        read = dict.fromkeys(a for r in c["reads"] for a in behind.get(r, ()))
        if c["name"] in both:
            out += [(a, c["name"]) for a in read]
            read = [c["name"]]
        behind[c["name"]] = list(read)
    return out


def copies(kernels):
    """Which kernels only lay out an operand of a library's call."""
    library = {c for kind, held, _ in kernels if kind == "extern" for c in held}
    return [kind != "extern" and bool(held) and library.issuperset(held) for kind, held, _ in kernels]


def without_operands(kernels, calls):
    """A kernel that computes what a library's call reads, and lays it out for that call, holds no part of the call."""
    library = {c for kind, held, _ in kernels if kind == "extern" for c in held}
    reads = dict(edges_to(calls, {c for _, held, _ in kernels for c in held}))
    return [[kind, held if kind == "extern" else [c for c in held if c not in library or not reads.get(c, set()) & set(held)], call]
            for kind, held, call in kernels]


def edges_to(calls, both):
    out = collections.defaultdict(set)
    for a, b in edges(calls, both):
        out[b].add(a)
    return out


def compared(calls, here, there):
    aten = {c["name"]: c["aten"] for c in calls}
    there = without_operands(there, calls)
    moved = copies(there)
    there = [k for k, copy in zip(there, moved) if not copy]
    held = [{c for _, own, _ in side for c in own} for side in (here, there)]
    both, unlike, rules = held[0] & held[1], [], collections.Counter()

    def inside(side, a, b):
        return any(a in own and b in own for _, own, _ in side)
    pairs = edges(calls, both)
    for a, b in pairs:
        fused = inside(here, a, b)
        if fused != inside(there, a, b):
            unlike.append(f"{a} -> {b}: " + ("one kernel here, two there" if fused else "two here, one there"))
            rules[f"{aten[a]} > {aten[b]}, fused {'here' if fused else 'there'}"] += 1
    sets = [collections.Counter(frozenset(own) & both for _, own, _ in side if both.intersection(own)) for side in (here, there)]
    return {"edges": len(pairs), "equal": len(pairs) - len(unlike), "here": len(here), "there": len(there),
            "same": sum((sets[0] & sets[1]).values()), "copies": sum(moved), "unlike": unlike, "rules": dict(rules.most_common()),
            "only_here": sorted({aten[c] for c in held[0] - both}), "only_there": sorted({aten[c] for c in held[1] - both})}


def ask(name, folder, explain):
    if not os.path.exists(place(folder, name) + ".calls"):
        told(name, folder)
    with open(place(folder, name) + ".calls") as f:
        kept = json.load(f)
    here = ours(place(folder, name) + ".json", kept["calls"])
    for title, side in (("Inductor", kept["kernels"]), ("fusebox", here)) if explain else ():
        print(f"-- {title}")
        for kind, held, more in side:
            print(f"   {kind:10} {' '.join(held)}   [{more}]")
    return {"state": "compared", **compared(kept["calls"], here, kept["kernels"])}


def child(name, folder, explain, out):
    begin = time.monotonic()
    try:
        row = ask(name, folder, explain)
    except BaseException as why:
        row = {"state": "failed", "refused": [f"{type(why).__name__}: {str(why)[:600]}"]}
    with open(out, "w") as f:
        json.dump({"name": name, **row, "s": round(time.monotonic() - begin, 1)}, f)


def line(row):
    if row["state"] != "compared":
        return f"{row['name']:22} {row['state']}: {' '.join(row.get('refused', ()))[:200]}"
    share = 100 * row["equal"] / max(row["edges"], 1)
    most = "; ".join(f"{n} {what}" for what, n in list(row["rules"].items())[:3])
    return (f"{row['name']:22} {share:5.1f} %  of {row['edges']:4} edges   kernels {row['here']:4} and {row['there']:4}, {row['same']:4} the "
            f"same   {row['copies']:3} copies   {most}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("--only", default="")
    p.add_argument("--explain", action="store_true", help="every kernel of both sides, and every edge that differs")
    p.add_argument("--limit", type=float, default=300)
    p.add_argument("--jobs", type=int, default=1)
    o = p.parse_args()
    import boundary_models
    import one  # noqa: F401: what a child needs is there before it is forked
    os.makedirs(o.folder, exist_ok=True)
    todo, running, rows = [n for n in boundary_models.MODELS if re.search(o.only, n)], {}, []
    while todo or running:
        while todo and len(running) < o.jobs:
            name = todo.pop(0)
            out = os.path.join(o.folder, f"row.{os.getpid()}.{len(todo)}")
            pid = os.fork()
            if not pid:
                if not o.explain:
                    sys.stdout = sys.stderr = open(os.devnull, "w")
                child(name, o.folder, o.explain, out)
                sys.stdout.flush()
                os._exit(0)
            running[pid] = (name, out, time.monotonic())
        time.sleep(0.1)
        for pid, (name, out, begun) in list(running.items()):
            over = time.monotonic() - begun > o.limit
            if over:
                os.kill(pid, signal.SIGKILL)
            if os.waitpid(pid, 0 if over else os.WNOHANG)[0] == 0:
                continue
            del running[pid]
            try:
                with open(out) as f:
                    row = json.load(f)
                os.unlink(out)
            except (OSError, ValueError):
                row = {"name": name, "state": "too long" if over else "died"}
            rows.append(row)
            print(line(row), flush=True)
            for text in row.get("unlike", ()) if o.explain else ():
                print("   ", text)
    with open(os.path.join(o.folder, "rows.jsonl"), "w") as f:
        f.writelines(json.dumps(row) + "\n" for row in rows)
    good = [r for r in rows if r["state"] == "compared" and r["equal"] >= 0.95 * r["edges"]]
    print(f"{len(good)} of {len(rows)} have 95 % of their edges as Inductor has them")
    rules = collections.Counter()
    for row in rows:
        rules.update(row.get("rules", {}))
    for what, n in rules.most_common(30):
        print(f"{n:5}  {what}")


if __name__ == "__main__":
    main()
