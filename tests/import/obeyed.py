#!/usr/bin/env python3
"""Does Inductor launch what a plan of fusebox's says? On the models that boundaries.py has left in FOLDER.

    obeyed.py FOLDER [--plan eager] [--only TEXT] [--explain]

The graph is written as for the column PLAN@torch, with its groups, and torch.compile schedules it for an H200 that need not be
there (tests/peers/inductor_worker.py). Predicted are as many launches as the plan has kernels, and more or fewer for the groups
that Inductor is said to hold otherwise; a row says how many there are, how many groups are one kernel of their own, and how many
launches there are without a plan.
"""
import argparse
import json
import os
import re
import sys

import boundaries


def scheduled(graph, groups):
    """Kernels that Inductor makes of the graph, held to groups (lists of nodes) or by itself; and what became of the groups."""
    import contextlib
    import inductor_groups
    import inductor_plan
    import inductor_worker
    import torch
    import torch_worker as worker
    from torch._subclasses import FakeTensorMode
    case = worker.Case(graph, "compile", [0], {})
    if groups:
        case.take({"groups": groups})
    torch._dynamo.reset()
    model, inputs = worker.function(graph, scopes=True, groups=case.groups)
    model.__globals__["device"] = torch.device("cuda:0")
    model.__globals__["F"] = inductor_worker.Functions(torch)
    obey = inductor_groups.Obey(case.names) if groups else None
    watch = inductor_plan.Watch(stop=inductor_worker.Stopped())
    with FakeTensorMode(), torch.no_grad(), watch, obey or contextlib.nullcontext():
        if obey:  # what is stopped is stopped behind what obey looks at
            inner, stop = obey.inner, watch.stop
            watch.stop = None

            def fused(scheduler, nodes):
                inner(scheduler, nodes)
                obey.kernels += [n for n in scheduler.nodes if inductor_plan.launches(n)]
                raise stop
            obey.wrapped._init = fused
        arguments = [torch.empty(n["shape"], dtype=worker.DTYPES[n["dtype"]], device="cuda:0") for n in inputs]
        try:
            torch.compile(model, dynamic=False)(*arguments)
        except Exception as e:
            if "Stopped" not in str(e):
                raise
        return (len(obey.kernels), obey.result()) if obey else (len(watch.kernels[-1]), None)


def ask(path, plan):
    import inductor_worker
    inductor_worker.pretend()
    inductor_worker.fold_here()
    with open(path) as f:
        graph = json.load(f)
    ids = {n["name"]: n["id"] for n in graph["nodes"]}
    groups = [[ids[n] for n in nodes.split()] for _, nodes in boundaries.kernels_of(path, plan)]
    alone, _ = scheduled(graph, None)
    launches, told = scheduled(graph, groups)
    return {"predicted": len(groups), "launches": launches, "alone": alone, **told}


def told_of(row):
    """The launches of the plan, by what is said of groups that are not obeyed; None where groups are computed together."""
    launches = row["predicted"]
    for text in row["others"]:
        parts = re.search(r"Inductor makes (\d+) kernels of it$", text)
        if not parts and not text.endswith("nothing is launched for it"):
            return None
        launches += int(parts.group(1)) - 1 if parts else -1
    return launches


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("--plan", default="eager")
    p.add_argument("--only", default="")
    p.add_argument("--explain", action="store_true")
    o = p.parse_args()
    import one  # noqa: F401: what a child needs is there before it is forked
    sys.stdout.flush()
    for name in sorted(f[:-6] for f in os.listdir(o.folder) if f.endswith(".calls") and re.search(o.only, f)):
        pid = os.fork()
        if not pid:
            try:
                row = ask(os.path.join(o.folder, name + ".json"), o.plan)
                told = told_of(row)
                verdict = "as told" if told == row["launches"] else f"told {told or 'not'}"
                print(f"{name:22} {row['predicted']:4} predicted, {row['launches']:4} launches, {row['alone']:4} without a plan; "
                      f"{row['obeyed']} of {row['groups']} groups obeyed; {verdict}", flush=True)
                for text in row["others"][:40] if o.explain else ():
                    print("   ", text[:200], flush=True)
            except BaseException as why:
                print(f"{name:22} {type(why).__name__}: {' '.join(str(why).split())[:300]}", flush=True)
            os._exit(0)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
