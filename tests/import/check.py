#!/usr/bin/env python3
"""Models of others through `fusebox import`: a row each in a file, which a second run goes on with.

    check.py RESULTS.jsonl [--problems FOLDER] [--own] [--only TEXT] [--limit SECONDS] [--jobs N] [--again]

FOLDER holds level1, level2 and level3, a file a problem, as KernelBench has them; without it only the kinds of models.py are
asked. Small sizes, which are held against PyTorch in value; `--own`: their own, imported and opened. Exit status 1 if a value is
wrong.
"""
import argparse
import collections
import json
import os
import re
import signal
import sys
import time


def child(name, path, own, out):
    import torch
    torch.set_num_threads(1)
    try:
        import models
        import one
        import problems
        if path:
            net, inputs, words = *problems.load(path, not own), {}
        else:
            net, inputs, words = models.made(name)
        row = one.ask(net, inputs, words, small=not own, count=not own)
    except BaseException as why:
        row = {"state": "failed", "refused": [f"{type(why).__name__}: {str(why)[:300]}"]}
    with open(out, "w") as f:
        json.dump({"name": name, "own": own, **row}, f)


def summary(rows):
    states, reasons, wrong = collections.Counter(), collections.Counter(), 0
    for row in rows:
        group = row["name"].split("/")[0] if "/" in row["name"] else "kinds"
        states[group, row["state"]] += 1
        wrong += row["state"] == "wrong"
        said = {re.sub(r"\(in .*\)$", "", re.sub(r"^[^ ]*: ", "", line)).strip() for line in row.get("refused", ())}
        reasons.update(said if row["state"] != "imported" else ())
    for (group, state), n in sorted(states.items()):
        print(f"{group:8} {state:12} {n}")
    for reason, n in reasons.most_common(40):
        print(f"{n:5}  {reason[:150]}")
    counted = [r for r in rows if "eager" in r]
    print(f"eager: {sum(r['eager'] for r in counted)} kernels for {sum(r['calls'] for r in counted)} calls, of {len(counted)}; "
          f"as many in {sum(r['eager'] == r['calls'] for r in counted)}")
    return wrong


def main():
    p = argparse.ArgumentParser()
    p.add_argument("results")
    p.add_argument("--problems")
    p.add_argument("--own", action="store_true")
    p.add_argument("--only", default="")
    p.add_argument("--limit", type=float, default=180)
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--again", action="store_true", help="also what was not imported before")
    o = p.parse_args()
    import models
    import one  # noqa: F401: what a child needs is there before it is forked
    import problems
    wanted = {name: None for name in models.KINDS}
    if o.problems:
        wanted.update(problems.listed(o.problems))
    rows = {}
    if os.path.exists(o.results):
        with open(o.results) as f:
            rows = {(r["name"], r["own"]): r for r in map(json.loads, f)}
    todo = [n for n in wanted if re.search(o.only, n) and (
        (n, o.own) not in rows or o.again and rows[n, o.own]["state"] != "imported")]
    running = {}
    while todo or running:
        while todo and len(running) < o.jobs:
            name = todo.pop(0)
            out = f"{o.results}.{os.getpid()}.{len(todo)}"
            pid = os.fork()
            if not pid:
                os.setpgid(0, 0)
                sys.stdout = sys.stderr = open(os.devnull, "w")
                child(name, wanted[name], o.own, out)
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
                row = {"name": name, "own": o.own, "state": "too long" if over else "died", "refused": []}
            rows[name, o.own] = row
            with open(o.results, "a") as f:
                f.write(json.dumps(row) + "\n")
            print(name, row["state"], row.get("off", ""), *row.get("refused", ())[:2], flush=True)
    sys.exit(1 if summary([r for (n, own), r in rows.items() if own == o.own and n in wanted]) else 0)


if __name__ == "__main__":
    main()
