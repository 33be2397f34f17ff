"""The parts of bench_gpu.sh that are no shell: talking to a worker directly, and the tables.

    bench_gpu.py worker GRAPH.json DEVICE RESULT.json [--plan max] [--samples N] [--counters] [--rounds N] [--fresh CACHE]
        a new `$FUSEBOX worker` prepares the graph and samples it; the seconds since its start, and its report. With --fresh, the
        first round has an empty cache.
    bench_gpu.py tables FOLDER DEVICE
"""
import argparse
import glob
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time

# ---- a worker ---------------------------------------------------------------------------------------------------------


class Worker:
    def __init__(self):
        self.start = time.perf_counter()
        self.process = subprocess.Popen([os.environ["FUSEBOX"], "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)
        self.say({"type": "hello", "fusebox": 1, "version": "0.1.0"})

    def say(self, *messages):
        self.process.stdin.write("".join(json.dumps(m) + "\n" for m in messages).encode())
        self.process.stdin.flush()

    def graph(self, graph):
        sections = ("scopes", "regions", "nodes")
        head = {"fusebox_graph": 1, "title": graph.get("title", ""), "canonical": graph.get("canonical", False)}
        head.update({f"n_{s}": len(graph[s]) for s in sections})
        self.say({"type": "graph", "hash": graph["hash"]}, head, *(record for s in sections for record in graph[s]),
                 {"outputs": graph["outputs"], "hash": graph["hash"]})

    def hear(self, kind):
        for line in self.process.stdout:
            message = json.loads(line)
            if message["type"] == "error":
                sys.exit(f"  (worker: {message['text']})")
            if message["type"] == kind:
                return message, time.perf_counter() - self.start
        sys.exit("  (the worker ended)")

    def end(self):
        self.process.stdin.close()
        self.process.wait(10)


def round_of(graph, o):
    w = Worker()
    w.graph(graph)
    w.say({"type": "prepare", "id": 1, "graph": graph["hash"], "plan": o.plan, "device": o.device, "seeds": [0],
           "counters": o.counters, "limit_s": 300})
    message, prepared = w.hear("prepared")
    result = {"prepared_s": prepared, "report": message["report"]}
    if o.samples:
        w.say({"type": "sample", "id": 1, "n": o.samples, "cache": "hot"})
        message, result["sampled_s"] = w.hear("sampled")
        result["report"] = message["report"]
    w.end()
    return result


def worker(arguments):
    parser = argparse.ArgumentParser()
    for name in ("graph", "device", "result"):
        parser.add_argument(name)
    parser.add_argument("--plan", default="max")
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--counters", action="store_true")
    parser.add_argument("--fresh")
    o = parser.parse_args(arguments)
    graph = json.load(open(o.graph))
    if o.fresh:
        shutil.rmtree(o.fresh, ignore_errors=True)
        os.makedirs(o.fresh)
        os.environ["XDG_CACHE_HOME"] = o.fresh
    json.dump([round_of(graph, o) for _ in range(o.rounds)], open(o.result, "w"), indent=1)


# ---- tables -----------------------------------------------------------------------------------------------------------


def load(folder, name):
    try:
        with open(os.path.join(folder, name + ".json")) as f:
            return json.load(f)
    except (OSError, ValueError):
        return None


def us(value):
    for least, scale, unit in ((1e6, 1e6, "s"), (1e4, 1e3, "ms")):
        if value >= least:
            return f"{value / scale:.4g} {unit}"
    return f"{value:.4g} µs"


def spread(stat):
    return f"{stat['p10']:.4g}–{stat['p90']:.4g}"


def median(report, key):
    return report.get(key, {}).get("median", math.nan)


def figure(report, key):
    """Median and spread, two cells."""
    return [us(median(report, key)), spread(report[key])] if key in report else ["", ""]


def name_of(c):
    return (c["variant"] + ":" if c.get("variant") else "") + c["plan"] + "@" + c["device"]


def table(title, head, rows, notes=()):
    print(title)
    cells = [head] + rows
    widths = [max(len(str(r[k])) for r in cells if len(r) > k) for k in range(len(head))]
    for r in cells:
        line = [str(cell).ljust(w) if k == 0 else str(cell).rjust(w) for k, (cell, w) in enumerate(zip(r, widths))]
        print("  " + "  ".join(line + [str(extra) for extra in r[len(head):]]).rstrip())
    for note in notes:
        print("  " + note)
    print()


def rate_at(curve, size):
    """As fb_rate_at: linear in log(size), constant beyond the ends."""
    if not curve:
        return math.nan
    if size <= curve[0][0]:
        return curve[0][1]
    for (a, low), (b, high) in zip(curve, curve[1:]):
        if size <= b:
            return low + (high - low) * math.log(size / a) / math.log(b / a)
    return curve[-1][1]


def columns_of(run):
    return run.get("columns", []) if run else []


def puzzler(folder):
    run = load(folder, "puzzler")
    if not run:
        return
    rows, by_name = [], {name_of(c): c for c in run["columns"]}
    for name, c in by_name.items():
        if "failed" in c:
            rows.append(["  " + name, "", "", "", "", "", "", "✗ " + c["failed"][:80]])
            continue
        rows.append(["  " + name, c.get("launches", "")] + figure(c, "device_us") + figure(c, "wall_us") + figure(c, "cold_us")[:1])
    notes = []
    peer = by_name.get("split_stack:eager@torch", {})
    for name, c in by_name.items():
        if c["plan"] == "max" and "wall_us" in c and "wall_us" in peer:
            notes.append(f"{name}: wall 1/{median(peer, 'wall_us') / median(c, 'wall_us'):.1f} of split_stack:eager@torch")
        twin = by_name.get(f"{c['variant']}:compile+graph@torch", {})
        if c["plan"] == "max" and "device_us" in c and "device_us" in twin:
            notes.append(f"{name}: GPU time 1/{median(twin, 'device_us') / median(c, 'device_us'):.2f} of compile+graph@torch")
    table("puzzler, L2-hot: " + command(folder, "puzzler"),
          ["  column", "launches", "GPU time", "p10–p90 µs", "wall", "p10–p90 µs", "cold wall"], rows, notes)


def command(folder, name):
    try:
        return open(os.path.join(folder, name + ".command")).read().strip()
    except OSError:
        return name


def bytes_of(report, which):
    b = report.get("bytes", {}).get(which, {})
    return b.get("read", math.nan) + b.get("written", math.nan)


def shares(folder, machine):
    rows, commands = [], []
    for path in sorted(glob.glob(os.path.join(folder, "*.command")), key=os.path.getmtime):
        name = os.path.basename(path)[:-len(".command")]
        run = load(folder, name)
        if name == "puzzler" or name.startswith("family-") or not run:
            continue
        commands.append(command(folder, name))
        ours = [c for c in run["columns"] if "failed" not in c and c["device"] != "torch"]
        moved = bytes_of(ours[0], "modelled") if ours else math.nan
        copy = rate_at(machine.get("copy_hot" if moved < machine.get("cache_bytes", 0) else "copy_cold"), moved)
        for c in run["columns"]:
            label = f"  {name} {name_of(c)}"
            if "failed" in c:
                rows.append([label, "", "", "", "", "", "✗ " + c["failed"][:80]])
                continue
            rate = moved / median(c, "device_us") * 1e-3
            rows.append([label] + figure(c, "device_us") + [f"{rate:.0f}", f"{100 * rate / copy:.1f} %"] + figure(c, "wall_us")[:1])
    table("share of the measured copy bandwidth (bytes of our kernel; GPU time, back to back):",
          ["  work", "GPU time", "p10–p90 µs", "GB/s", "of copy", "wall"], rows, commands)
    curve = machine.get("copy_cold") or []
    print("  copy, cold: " + ", ".join(f"{rate:.0f} GB/s at {size / 1e6:.3g} MB" for size, rate in curve[-5:]) + "\n")


def families(folder):
    for path in sorted(glob.glob(os.path.join(folder, "family-*.command")), key=os.path.getmtime):
        name = os.path.basename(path)[:-len(".command")]
        run = load(folder, name)
        rows = []
        for c in columns_of(run):
            if "failed" in c:
                rows.append(["  " + name_of(c), "", "", "", "", "", "", "✗ " + c["failed"][:120]])
                continue
            rows.append(["  " + name_of(c), c.get("launches", "")] + figure(c, "device_us") + figure(c, "wall_us") +
                        [us(c["predicted_us"]) if "predicted_us" in c else "", c.get("launch_mode", "")])
        table(command(folder, name),
              ["  column", "launches", "GPU time", "p10–p90 µs", "wall", "p10–p90 µs", "predicted", "mode"], rows)


def traffic(folder, machine):
    rows = []
    cache = machine.get("cache_bytes", 0)
    for path in sorted(glob.glob(os.path.join(folder, "counters-*.json")), key=os.path.getmtime):
        name = os.path.basename(path)[len("counters-"):-len(".json")]
        report = load(folder, os.path.basename(path)[:-5])[0]["report"]
        for k in report.get("kernels", []):
            modelled, measured = bytes_of(k, "modelled"), bytes_of(k, "measured")
            off = f"{100 * (measured / modelled - 1):+.2f} %" if measured == measured else "no counters"
            rows.append([f"  {name} {k['name'][:40]}", f"{modelled / 1e6:.2f}", f"{measured / 1e6:.2f}" if measured == measured else "",
                         off, f"{modelled / cache:.1f} ×" if cache else ""])
    table("modelled against measured DRAM bytes, cold, plan max:", ["  kernel", "modelled MB", "measured MB", "off", "of L2"], rows)


def waiting(folder):
    rounds = load(folder, "start")
    if rounds:
        rows = [["  caches empty: compiles, computes the reference", f"{rounds[0]['prepared_s'] * 1e3:.0f} ms",
                 f"{rounds[0]['sampled_s'] * 1e3:.0f} ms", ""]]
        if len(rounds) > 1:
            later = sorted(r["sampled_s"] * 1e3 for r in rounds[1:])
            checked = statistics.median(r["prepared_s"] * 1e3 for r in rounds[1:])
            rows.append(["  compiled before", f"{checked:.0f} ms", f"{statistics.median(later):.0f} ms",
                         f"{later[0]:.0f}–{later[-1]:.0f} ms of {len(later)}"])
        table("worker: split_stack:max, from its start", ["", "  until checked", "first figure", "least–most"], rows)
    try:
        print(open(os.path.join(folder, "toggle.txt")).read())
    except OSError:
        pass


def tables(folder, device):
    devices = load(folder, "devices") or {}
    machine = devices.get("devices", {}).get(device, {})
    print(f"{machine.get('name', device)}, calibrated {machine.get('date', 'never')}\n")
    puzzler(folder)
    families(folder)
    if any(not os.path.basename(f).startswith(("family-", "puzzler")) for f in glob.glob(os.path.join(folder, "*.command"))):
        shares(folder, machine)
    if glob.glob(os.path.join(folder, "counters-*.json")):
        traffic(folder, machine)
    waiting(folder)


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        worker(sys.argv[2:])
    else:
        tables(*sys.argv[2:])
