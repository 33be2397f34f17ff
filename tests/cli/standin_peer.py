#!/usr/bin/env python3
"""A worker that stands in for a framework: its plans take what the clock says, and its answers are always right.

With STANDIN_BUSY its kernels take that many µs, whatever the whole takes.
With STANDIN_PLAN it tells what that file holds as the plan of its compiler; with STANDIN_OBEYS it takes plans of fusebox's.
Writes what it is asked to prepare to standin.log: a plan by its name, one of fusebox's as it came. "away" cannot be had here."""
import json
import os
import sys
import time

LOG = os.environ.get("STANDIN_LOG", "standin.log")
DEVICE = {"device": "torch", "kind": "torch", "name": "Stand-in 1.0 on nothing", "plans": ["eager", "compile", "away"]}
if os.environ.get("STANDIN_OBEYS"):
    DEVICE["obeys"] = True
cases = {}


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def stat(values):
    s = sorted(values)
    return {"median": s[len(s) // 2], "p10": s[0], "p90": s[-1], "n": len(s)}


def report(case):
    r = {"device": "torch", "plan": case["plan"], "nodes": 4, "source": "measured", "launch_mode": "stream", "launches": 3,
         "error": {"max_abs": 0.0, "max_rel": 0.0, "bound": 0.1, "ok": True}, "kernels": []}
    if case["plan"] == "compile" and "STANDIN_PLAN" in os.environ:
        with open(os.environ["STANDIN_PLAN"]) as plan:
            r["their_plan"] = json.load(plan)
    if case["wall"]:
        r["wall_us"] = stat(case["wall"])
        if "STANDIN_BUSY" in os.environ:
            r["device_us"] = stat([float(os.environ["STANDIN_BUSY"])] * len(case["wall"]))
            r["gap_us"] = max(0.0, r["wall_us"]["median"] - r["device_us"]["median"])
        r["rounds"] = {"at_us": case["at"], "wall_us": case["wall"], "device_us": [None] * len(case["at"])}
    return r


for line in sys.stdin:
    m = json.loads(line)
    kind, number = m["type"], m.get("id", 0)
    if kind == "graph":
        head = json.loads(sys.stdin.readline())
        for _ in range(head["n_scopes"] + head["n_regions"] + head["n_nodes"] + 1):
            sys.stdin.readline()
    elif kind == "hello":
        say({"type": "hello", "fusebox": 1, "version": m.get("version", ""), "host": "nowhere", "devices": [DEVICE],
             "libraries": []})
    elif kind == "devices":
        say({"type": "devices", "id": number, "devices": [DEVICE], "libraries": []})
    elif kind == "prepare":
        with open(LOG, "a") as log:
            given = m["plan"] if isinstance(m["plan"], str) else json.dumps(m["plan"])
            log.write(f"{given}{' ahead' if m.get('ahead') else ''}\n")
        plan = m["plan"] if isinstance(m["plan"], str) else m["plan"]["name"]
        if plan == "away":
            say({"type": "error", "id": number, "kind": "unavailable", "text": "there is no away here"})
            continue
        cases[number] = {"plan": plan, "at": [], "wall": []}
        say({"type": "prepared", "id": number, "report": report(cases[number])})
    elif kind == "sample":
        case = cases[number]
        if m.get("cache") != "cold":
            case["at"].append(round(time.perf_counter() * 1e6))
            case["wall"].append(200.0 if case["plan"] == "eager" else 100.0)
        say({"type": "sampled", "id": number, "waited_us": 0, "report": report(case)})
    elif kind == "release":
        cases.pop(number, None)
        say({"type": "released", "id": number})
    elif kind == "quit":
        break
    else:
        say({"type": "error", "id": number, "kind": "input", "text": f"no {kind} here"})
