"""What every worker of a framework shares: the protocol, inputs, the analysis of a graph, the device's lock, checks, times.

A worker is a file beside this one that says what its framework is (class Framework), how a case is built and run (a class
derived from Case), and how each op is written there. See README.md. Needs Python alone; numpy only where it is asked for
(fusebox_arrays.py)."""
import collections
import fcntl
import json
import math
import os
import signal
import socket
import struct
import sys
import threading
import time

PROTOCOL, VERSION = 1, "0.1.0"


class Refused(Exception):
    """A sentence for the user; `kind` is one of engine/base/error.h."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


class Cancelled(BaseException):
    """Raised in the middle of whatever runs; no Exception, so that no library takes it for a failure of its own."""


def number(node, key):
    """An attribute as a double; JSON has no infinities, so they come as words."""
    return float(node.get(key, 0))


# ---- inputs: the counter-based generator of engine/base/rng.h, in 64-bit integers that wrap --------------------------
#
# `xp` makes the arrays, in whatever the framework has for them: fusebox_arrays.Numpy, or torch_worker.Arrays.

MASK = (1 << 64) - 1
CHUNK = 1 << 24  # elements at once: a few hundred megabytes of intermediates


def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def rng_key(seed, name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return splitmix64((seed & MASK) ^ h)


def signed(x):
    return x - (1 << 64) if x >> 63 else x


def shift(x, n):
    """A logical shift to the right."""
    return (x >> n) & ((1 << (64 - n)) - 1)


def rng_bits(xp, key, start, n):
    """splitmix64(key + i * 0x9e37…) for i = start … start + n - 1."""
    x = xp.count(start, n)
    x = x * signed(0x9E3779B97F4A7C15) + signed((key + 0x9E3779B97F4A7C15) & MASK)
    x = (x ^ shift(x, 30)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ shift(x, 27)) * signed(0x94D049BB133111EB)
    return x ^ shift(x, 31)


def drawn(xp, node, dist, bits):
    """Doubles, or int64 for integers, from bits."""
    low, high = number(node, "value"), number(node, "high")
    if dist == "uniform":
        return low + (high - low) * (xp.double(shift(bits, 40)) * 2.0**-24)
    if dist == "normal":
        fields = (bits & 0xFFFF) + (shift(bits, 16) & 0xFFFF) + (shift(bits, 32) & 0xFFFF) + shift(bits, 48) - 131070
        return low + high * (xp.double(fields) * (1.7320508075688772 / 65536.0))
    span = max(int(high) - int(low), 1)
    return int(low) + shift(bits, 11) % span


FLOATS = ("f32", "f16", "bf16", "f64")
ALIKE = {-2: 0.0, -1: 1.0}  # engine/interp/input.h: seeds of zeros and of ones, as JSON has them
SOURCES = {"input", "param", "feed", "const", "iota", "random"}


def constant(xp, node, value):
    return xp.spread(xp.rounded(xp.scalar(value), node["dtype"]), node["shape"])


def source(xp, node, seed, files):
    """What a source node holds under a seed: bit for bit what fb_interp_fill_source gives every other device."""
    shape, dtype, dist = node["shape"], node["dtype"], node.get("dist", "uniform")
    wide = dtype in FLOATS
    if node["op"] == "iota":
        n, dim = math.prod(shape), node.get("dim", 0)
        inner = math.prod(shape[dim + 1:]) if shape else 1
        at = (xp.count(0, n) // inner) % shape[dim] if shape else xp.count(0, 1)
        return xp.rounded(xp.double(at) if wide else at, dtype).reshape(shape)
    if seed in ALIKE and node["op"] in ("input", "param", "feed") and wide:
        return constant(xp, node, ALIKE[seed])
    if node["op"] == "const" or dist == "constant":
        return constant(xp, node, number(node, "value"))
    if dist == "file":
        if node.get("file") not in files:
            raise Refused("input", f"{node['name']}: its file {node.get('file')} is not there")
        return xp.rounded(xp.from_bytes(files[node["file"]]), dtype).reshape(shape)
    key = splitmix64(node.get("seed", 0) & MASK) if node["op"] == "random" else rng_key(seed, node["name"])
    size = math.prod(shape)
    out = xp.empty(size, dtype)
    for start in range(0, size, CHUNK):
        n = min(CHUNK, size - start)
        values = drawn(xp, node, dist, rng_bits(xp, key, start, n))
        out[start:start + n] = xp.rounded(xp.double(values) if wide else values, dtype)
    return out.reshape(shape)


# ---- a graph, looked at ------------------------------------------------------------------------------------------------

VIEWS = {"view", "permute", "slice", "expand"}


def checked(graph):
    """The nodes whose values leave the graph, as fb_reference_nodes has them."""
    outputs = {o["node"] for o in graph["outputs"]}
    return [n["id"] for n in graph["nodes"]
            if n["op"] == "assign" or (n.get("region", 0) == 0 and n["op"] != "feed"
                                       and (n["id"] in outputs or n["op"] == "receive"))]


class Call:
    """An op scope that the framework runs itself: `what` is whatever its worker makes of it."""

    def __init__(self, what, args, results, inside):
        self.what, self.args, self.results, self.inside = what, args, results, inside


class Analysis:
    """Who reads what in a graph, which op scopes are calls of the framework's own, and what has to be computed at all.
    `call(scope, args)` says what the framework has for an op scope, None: nothing; without it nothing is a call."""

    def __init__(self, graph, call=None):
        self.graph, self.nodes, self.regions = graph, graph["nodes"], graph["regions"]
        self.readers = collections.defaultdict(list)
        self.by_region = collections.defaultdict(list)
        for node in self.nodes:
            self.by_region[node.get("region", 0)].append(node)
            for a in node.get("args", ()):
                self.readers[a].append(node["id"])
        self.outputs = {o["node"] for o in graph["outputs"]}
        self.results = checked(graph)
        self.calls = self.find_calls(call) if call else {}  # result → Call
        self.needed = self.demand()

    # -- which scopes are calls

    def members(self):
        scopes, out = self.graph["scopes"], collections.defaultdict(set)
        for node in self.nodes:
            s = node.get("scope", -1)
            while s >= 0:
                out[s].add(node["id"])
                s = scopes[s].get("parent", -1)
        return out

    def call_of(self, call, scope, inside):
        """None where the framework has no such call, or where it would not show what others read from inside."""
        args, results = scope.get("args") or [], scope.get("results") or []
        if not scope.get("op") or not results or min(args + results) < 0 or not inside.issuperset(results):
            return None
        if len({self.nodes[i].get("region", 0) for i in inside}) != 1:
            return None
        leaks = [i for i in inside - set(results) if self.nodes[i]["op"] not in VIEWS
                 and (i in self.outputs or any(r not in inside for r in self.readers[i]))]
        early = [r for i in results for r in self.readers[i] if r not in inside and r < max(results)]
        if leaks or early:
            return None
        what = call(scope, args)
        return Call(what, args, results, inside) if what else None

    def find_calls(self, call):
        members, covered, calls = self.members(), set(), {}
        for i, scope in enumerate(self.graph["scopes"]):  # parents come first, so the outermost wins
            if members[i] & covered:
                continue
            found = self.call_of(call, scope, members[i])
            if found:
                covered |= found.inside
                calls.update({r: found for r in found.results})
        return calls

    # -- what is computed at all

    def demand(self):
        needed, todo = set(), list(self.results)
        while todo:
            i = todo.pop()
            if i in needed:
                continue
            needed.add(i)
            node = self.nodes[i]
            todo += self.calls[i].args + self.calls[i].results if i in self.calls else node.get("args", [])
            region = self.regions[node.get("region", 0)]
            if region.get("loop", -1) >= 0:
                todo.append(region["loop"])
            if node["op"] == "loop":
                body = self.regions[node["body"]]
                todo += [k for k in body.get("yields", []) + body.get("stacked", []) if k >= 0]
                todo += [n["id"] for n in self.by_region[node["body"]] if n["op"] in ("assign", "receive")]
        return needed

    def assigned(self, body):
        """(parameter, assign) of a body and the loops inside it."""
        out = []
        for node in self.by_region[body]:
            if node["op"] == "assign":
                out.append((node["args"][0], node["id"]))
            elif node["op"] == "loop":
                out += self.assigned(node["body"])
        return out

    def sources(self):
        """The source nodes that have to be there."""
        return [n for n in self.nodes if n["op"] in SOURCES and n["id"] in self.needed]

    def executed(self):
        """How many nodes a run goes through, loops written out."""
        times = {0: 1}
        for number, region in enumerate(self.regions):
            if region.get("loop", -1) >= 0:
                times[number] = times.get(self.nodes[region["loop"]].get("region", 0), 1) * region["trips"]
        return sum(times.get(n.get("region", 0), 1) for n in self.nodes if n["id"] in self.needed)


class Ops:
    """How a framework makes what an op is: a method `op_NAME(node, *args)`, or else `usual(node, args)`, which leaves None where
    it has none. REFUSED: op → why the framework cannot do it. `told` has the last word on a value."""

    TITLE, REFUSED = "", {}

    def usual(self, node, args):
        return None

    def told(self, value, node):
        return value

    def node(self, node, args):
        op = node["op"]
        own, why = getattr(self, "op_" + op, None), self.REFUSED.get(op)
        value = None if why else own(node, *args) if own else self.usual(node, args)
        if value is None:
            raise Refused("unavailable", f"{node['name']}: {self.TITLE} has no {op}" + (f": {why}" if why else ""))
        return self.told(value, node)


class Walk:
    """Goes through a graph and computes it. `ops.node(node, args)` is one node's value, `ops.call(call, args)` an op
    scope's, `ops.loop(walk, node, values)` may run a loop in the framework's own way; without it steps are written out."""

    def __init__(self, analysis, ops):
        self.a, self.ops = analysis, ops

    def run(self, values):
        """`values`: source node → array; leaves the values that leave the graph, in their order."""
        values = dict(values)
        self.region(0, values)
        return [values[i] for i in self.a.results]

    def region(self, number, values):
        for node in self.a.by_region[number]:
            if node["id"] in self.a.needed:
                self.node(node, values)

    def node(self, node, values):
        i, op, args = node["id"], node["op"], node.get("args", [])
        if i in self.a.calls:
            call = self.a.calls[i]
            if i == max(call.results):
                values.update(zip(call.results, self.ops.call(call, [values[a] for a in call.args])))
        elif op == "loop":
            own = getattr(self.ops, "loop", None)
            values[i] = own(self, node, values) if own else self.written_out(node, values)
        elif op == "result":
            values[i] = values[args[0]][node.get("index", 0)]
        elif op == "assign":
            values[i] = values[args[1]]
        elif op == "receive":
            values[i] = values[args[0]]
        elif op not in SOURCES and op not in ("carried", "item", "step"):
            values[i] = self.ops.node(node, [values[a] for a in args])

    def loop_parts(self, node):
        body = self.a.regions[node["body"]]
        carried, stacked = body.get("carried", []), body.get("stacked", [])
        every = body.get("every") or [1] * len(stacked)
        steps = [n["id"] for n in self.a.by_region[node["body"]] if n["op"] == "step"]
        return body, carried, stacked, every, steps, self.a.assigned(node["body"])

    def body(self, node, values, step, carried, items, assigned):
        """One step in a scope of its own. Leaves what is carried on, what is stacked, and what was assigned."""
        body, names, stacked, _, steps, assigns = self.loop_parts(node)
        inner = dict(values)
        inner.update({c: v for c, v in zip(names, carried) if c >= 0})
        inner.update({c: v for c, v in zip(body.get("items", []), items) if c >= 0})
        inner.update({s: step for s in steps})
        inner.update({p: v for (p, _), v in zip(assigns, assigned)})
        self.region(node["body"], inner)
        return ([inner[y] for y in body.get("yields", [])], [inner[s] for s in stacked], [inner[a] for _, a in assigns])

    def written_out(self, node, values):
        """A loop is a list: what is carried out of it, then what it stacked."""
        body, names, stacked, every, _, assigns = self.loop_parts(node)
        args, trips, turned = node.get("args", []), body["trips"], body.get("backwards", False)
        carried, scanned = [values[a] for a in args[:len(names)]], [values[a] for a in args[len(names):]]
        assigned, stacks = [values[p] for p, _ in assigns], [[] for _ in stacked]
        for t in range(trips):
            items = [self.ops.item(s, trips - 1 - t if turned else t) for s in scanned]
            carried, made, assigned = self.body(node, values, self.ops.step(t), carried, items, assigned)
            for k, value in enumerate(made):
                if t % every[k] == every[k] - 1:
                    stacks[k].append(value)
        values.update({a: v for (_, a), v in zip(assigns, assigned)})
        return carried + [self.ops.stack(s[::-1] if turned else s) for s in stacks]


# ---- the device's lock ------------------------------------------------------------------------------------------------


class Lock:
    """engine/worker/lock.c: one file a device and machine; its first eight bytes count tickets; ticket n is a lock on byte
    1024 + n. The device belongs to the lowest ticket alive, and a process that ends drops its own."""

    IDLE_S, HOLD_S, FIRST = 0.05, 2.0, 1024

    def __init__(self, device):
        cache = os.environ.get("XDG_CACHE_HOME", "")
        if not cache.startswith("/"):
            cache = os.path.join(os.path.expanduser("~"), ".cache")
        self.path = os.path.join(cache, "fusebox", "locks", f"{socket.gethostname()}.{device}")
        self.fd, self.ticket, self.since = -1, 0, 0.0

    def _lock(self, command, start, length):
        answer = fcntl.fcntl(self.fd, command, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, start, length, 0))
        kind, _, at, _, _ = struct.unpack("hhqqi4x", answer)
        return None if kind == fcntl.F_UNLCK else at

    def _enter(self):
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self.fd, fcntl.LOCK_EX)
        self.ticket = int.from_bytes(os.pread(self.fd, 8, 0) or bytes(8), "little")
        self._lock(fcntl.F_OFD_SETLK, self.FIRST + self.ticket, 1)
        os.pwrite(self.fd, (self.ticket + 1).to_bytes(8, "little"), 0)
        fcntl.flock(self.fd, fcntl.LOCK_UN)

    def ahead(self, start=0, end=None):
        """Tickets alive before ours. The system tells of one that is in the way, not of which."""
        end = self.ticket if end is None else end
        found = self._lock(fcntl.F_OFD_GETLK, self.FIRST + start, end - start) if start < end else None
        if found is None:
            return 0
        found -= self.FIRST
        return 1 + self.ahead(start, found) + self.ahead(found + 1, end)

    def take(self, waiting):
        """Calls waiting(n) while n others are ahead; returns the µs that it took. A lock that cannot be had at all stops
        nobody from measuring."""
        start = time.perf_counter()
        if self.fd >= 0:
            wanted = self._lock(fcntl.F_OFD_GETLK, self.FIRST + self.ticket + 1, 0) is not None
            if start - self.since <= self.HOLD_S or not wanted:
                return 0.0
            self.leave()
        try:
            self._enter()
            while n := self.ahead():
                waiting(n)
                time.sleep(0.005)
        except OSError:
            self.leave()
        self.since = time.perf_counter()
        return (self.since - start) * 1e6

    def leave(self):
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


# ---- measuring --------------------------------------------------------------------------------------------------------


def stat(samples):
    """As engine/measure/stat.c: linear between the order statistics."""
    s = sorted(samples)

    def quantile(q):
        at = q * (len(s) - 1)
        low = int(at)
        return s[low] + (at - low) * (s[low + 1] - s[low]) if low + 1 < len(s) else s[-1]
    return {"median": quantile(0.5), "p10": quantile(0.1), "p90": quantile(0.9), "n": len(s)}


def kernel_rows(launches, rounds):
    """The report's kernels from the launches of so many runs, the launches a run, and the µs of each run."""
    by_name, runs = collections.defaultdict(list), [0.0] * rounds
    for name, _, us in sorted(launches, key=lambda launch: launch[1]):
        by_name[name].append(us)
    kernels = []
    for name, times in by_name.items():
        each, more = divmod(len(times), rounds)
        if more or not each:  # not the same every run: an average is all there is
            sums, each = [sum(times) / rounds] * rounds, max(1, round(len(times) / rounds))
        else:
            sums = [sum(times[k * each:(k + 1) * each]) for k in range(rounds)]
        runs = [a + b for a, b in zip(runs, sums)]
        kernels.append({"name": name[:240], "family": "compiled" if "fused" in name else "library", "nodes": [], "count": each,
                        "device_us": stat(sums)})
    kernels.sort(key=lambda k: -k["device_us"]["median"])
    return kernels, sum(k["count"] for k in kernels), runs


MOVED = 1e-11  # of each double, at random, to see how far results go with it (Case.compare): too little to turn a decision
ALLOWED = {"bf16": 3e-2, "f16": 5e-3, "f32": 2e-4, "f64": 1e-10}  # of the largest value of an output


ROUNDED = {"bf16": 2.0**-7, "f16": 2.0**-10, "f32": 2.0**-20, "f64": 2.0**-50}  # of each value: what a framework's arithmetic may do
TURNS = [(draw, sign) for draw in range(8) for sign in (1, -1)]  # two that stand equal change places in one of each pair


def rounded_of(graph):
    """How far the values of a graph go by roundings, its inputs by so little that equals alone change places, and what is no
    more than 0."""
    dtypes = {n["dtype"] for n in graph["nodes"]}
    return next(a for d, a in ROUNDED.items() if d in dtypes or d == "f64"), MOVED, 2.0**-24 if "f16" in dtypes else 2.0**-126


def allowed_of(graph):
    """How far an answer may be off."""
    dtypes = {n["dtype"] for n in graph["nodes"]}
    allowed = next(a for d, a in ALLOWED.items() if d in dtypes or d == "f64")
    return max(allowed, 5e-3) if any(n.get("precision") == "tf32" for n in graph["nodes"]) else allowed


class Case:
    """One graph under one plan, prepared. Inputs of several seeds take turns, each checked when it comes.

    A worker derives from it: `build` makes what is run and runs it once (`load` has put the inputs there), `run` runs it,
    `wait` returns when that is done, `verify` calls `compare` for each value that leaves the graph, `profile` counts
    launches, `flush` empties caches. `use` puts the inputs of a seed in their place."""

    FRAMEWORK, DEVICE, PLANS = "", "", ()
    TURN_CALLS, ROUNDS, KEPT = 4, 15, 128

    def __init__(self, graph, plan, seeds, files):
        self.graph, self.plan, self.seeds, self.files = graph, plan, seeds, files
        self.timed = [seed for seed in seeds if seed in ALIKE] or seeds  # zeros and ones are timed alone
        self.hot, self.cold, self.busy, self.calls, self.waited_us = [], [], [], 0, 0.0
        self.rounds = []  # (when it began, its median), the latest
        self.images, self.verified, self.seed = {}, set(), None
        self.error = {"max_abs": 0.0, "max_rel": 0.0, "bound": 0.0, "ok": True}
        self.kernels, self.launches, self.peak, self.compile_ms = [], None, None, None

    # -- what a worker says

    def build(self):
        raise NotImplementedError

    def profile(self):
        pass

    def flush(self):
        pass

    def settle(self):
        """What follows `build`, with the device to itself."""
        self.check()
        if self.error["ok"]:
            self.profile()

    def load(self, seed):
        if seed != self.seed:
            self.use(seed)
            self.seed = seed

    def check(self):
        self.verify()
        self.verified.add(self.seed)

    # -- the answer

    def leave_open(self, elements):
        """So many that a decision between equals, or near ones, made what they are."""
        if elements:
            self.error["undecided"] = self.error.get("undecided", 0) + elements

    def compare(self, node, shape, far, worst, allowed, moved=None):
        """`far`: the largest difference and the largest value that was expected; `worst` says where, as (at, got, want).
        `moved`: how far the value goes where all that it is made of goes by so many times itself, and the largest value on
        the way. It is asked for where a value is further off than its own size allows: what large numbers cancel to is as
        uncertain as they are, and no more so; further goes only what a tie decided."""
        most, scale, e = far[0], max(far[1], 1e-30), self.error
        bound = most / scale / (allowed if node["dtype"] in ALLOWED else 1e-30)
        if bound > 1 and moved and node["dtype"] in ALLOWED:
            reach, largest = moved()
            scale += min(reach, largest) if math.isfinite(reach) and math.isfinite(largest) else 0
            bound = most / scale / allowed
        e["max_abs"] = max(e["max_abs"], most)
        e["max_rel"] = max(e["max_rel"], most / scale)
        e["bound"] = max(e["bound"], bound)
        if bound > 1 and e["ok"]:
            at, got, want = worst
            where = []
            for n in reversed(shape):
                at, k = divmod(at, n)
                where.insert(0, str(k))
            place = f"[{','.join(where)}]" if where else ""
            e["ok"], e["worst"] = False, f"{node['name'][:48]}{place}: {got:.9g}, expected {want:.9g}"

    # -- times

    def sample(self, n, cold):
        self.load(self.timed[self.calls // (1 if cold else self.TURN_CALLS) % len(self.timed)])
        self.calls += 1
        if self.seed not in self.verified:
            self.check()
        if not self.error["ok"]:
            raise Refused("input", f"the result is wrong, so no time is taken: {self.error['worst']}")
        if not cold:
            self.run()
        began, before = time.perf_counter(), len(self.hot)
        for _ in range(n):
            if cold:
                self.flush()
            self.wait()
            start = time.perf_counter()
            self.run()
            self.wait()
            (self.cold if cold else self.hot).append((time.perf_counter() - start) * 1e6)
        if not cold:
            self.rounds = [*self.rounds[1 - self.KEPT:], (began * 1e6, stat(self.hot[before:])["median"])]

    def report(self, brief=False):
        """`brief`: without what the prepared report has told."""
        r = {"device": self.DEVICE, "plan": self.plan, "nodes": len(self.graph["nodes"]), "source": "measured",
             "launch_mode": "graph" if self.plan.endswith("+graph") else "stream", "error": self.error}
        if not self.error["ok"]:  # a plan whose answer is wrong shows no time
            return r
        known = {"launches": self.launches, "peak_bytes": self.peak, "compile_ms": self.compile_ms, "kernels": self.kernels}
        r.update({key: value for key, value in known.items() if value is not None})
        for key, samples in (("wall_us", self.hot), ("cold_us", self.cold), ("device_us", self.busy)):
            if samples:
                r[key] = stat(samples)
        if self.rounds:  # what a comparison with another column pairs
            r["rounds"] = {"at_us": [round(at) for at, _ in self.rounds], "wall_us": [us for _, us in self.rounds],
                           "device_us": [None for _ in self.rounds]}
        return r


# ---- the protocol -----------------------------------------------------------------------------------------------------


def finite(value):
    """What JSON has no word for is left out: a figure that is not known is absent."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items() if not isinstance(v, float) or math.isfinite(v)}
    return [finite(v) for v in value] if isinstance(value, list) else value


class Front:
    """The other end. A thread reads it, so that a cancel arrives while something runs; requests wait in line."""

    def __init__(self, stream, out, lock):
        self.stream, self.out, self.lock = stream, out, lock
        self.line, self.news = collections.deque(), threading.Condition()
        self.running = self.cancelled = None  # ids
        self.shielded = False
        self.main, self.writing = threading.main_thread().ident, threading.Lock()
        signal.signal(signal.SIGUSR1, self.interrupt)

    def say(self, message):
        with self.writing:
            self.out.write((json.dumps(finite(message), separators=(",", ":"), allow_nan=False) + "\n").encode())
            self.out.flush()

    def fail(self, number, kind, text):
        self.say({"type": "error", "id": number, "kind": kind, "text": " ".join(text.split())[:400]})

    def read_graph(self):
        head = json.loads(self.stream.readline())
        graph = {part: [json.loads(self.stream.readline()) for _ in range(head["n_" + part])]
                 for part in ("scopes", "regions", "nodes")}
        graph["outputs"] = json.loads(self.stream.readline())["outputs"]
        return graph

    def read(self):
        """Ends the process with its stdin, whatever it does: nothing stays behind on the far side of an ssh."""
        while line := self.stream.readline():
            try:
                message = json.loads(line)
                kind = message["type"]
                if kind == "graph":
                    message["graph"] = self.read_graph()
                elif kind == "file":
                    message["data"] = self.stream.read(message["bytes"])
            except (ValueError, KeyError, TypeError) as e:
                self.fail(0, "input", f"a message that cannot be read: {type(e).__name__}: {e}")
                continue
            if kind == "cancel":
                self.cancel(message.get("id"))
                continue
            with self.news:
                self.line.append(message)
                self.news.notify()
            if kind == "quit":
                return
        os._exit(0)

    def cancel(self, number):
        with self.news:
            gone = [m for m in self.line if m.get("id") == number and m["type"] in ("prepare", "sample")]
            for m in gone:
                self.line.remove(m)
            self.cancelled = number
            if self.running == number:
                signal.pthread_kill(self.main, signal.SIGUSR1)
        for _ in gone:
            self.fail(number, "cancelled", "cancelled")

    def interrupt(self, *_):
        """In the main thread, between two of its steps."""
        if self.running is not None and self.running == self.cancelled and not self.shielded:
            self.running = None
            raise Cancelled

    def next(self):
        """The next message; after a moment without one others may have the device."""
        with self.news:
            while not self.line:
                if not self.news.wait(Lock.IDLE_S if self.lock.fd >= 0 else None):
                    self.lock.leave()
            return self.line.popleft()


class Framework:
    """What a worker tells of its framework: the device's name (also its kind), what people call it, its cases (a class
    derived from Case), the lock of what it runs on, and in `missing` the sentence of why it cannot be had."""

    device, title, case, lock, missing = "", "", Case, None, None
    obeys = False  # a plan of fusebox's may be given (Case.take), as groups of nodes that are to be one kernel each
    builds_beside = False  # Case.build may go on while others measure: it asks for the device where it times something

    def asks(self, take):
        """`take` waits for the device: for what `build` times."""

    def name(self):
        """The framework, its version, and what it runs on."""
        return self.title

    def keep_file(self, data):
        """What is kept of a file's doubles."""
        return data

    def doing(self, plan):
        return f"{self.title}: compiling {plan}"

    def before(self, front, plan):
        """Before a plan is prepared."""

    def is_full(self, error):
        """Did the device's memory not suffice?"""
        return False

    def cancelled(self):
        """After something was left in the middle."""

    def free(self):
        """After a case was released."""


class Worker:
    def __init__(self, front, framework):
        self.front, self.framework, self.graphs, self.cases, self.files = front, framework, {}, {}, {}
        framework.asks(lambda: self.take_device(front.running))

    def devices(self):
        f = self.framework
        entry = {"device": f.device, "kind": f.device}
        if f.missing:
            return {"devices": [dict(entry, missing=f.missing)], "libraries": []}
        if f.obeys:
            entry["obeys"] = True
        return {"devices": [dict(entry, name=f.name(), plans=list(f.case.PLANS))], "libraries": []}

    def hello(self, message):
        if message.get("fusebox") != PROTOCOL:
            raise Refused("unavailable", f"this worker speaks protocol {PROTOCOL}, the front {message.get('fusebox')}: "
                          "use those of the same fusebox")
        return dict({"type": "hello", "fusebox": PROTOCOL, "version": VERSION, "host": socket.gethostname()}, **self.devices())

    def graph(self, message):
        self.graphs[message["hash"]] = self.graphs.pop(message["hash"], message["graph"])
        while len(self.graphs) > 64:
            self.graphs.pop(next(iter(self.graphs)))

    def file(self, message):
        if not self.framework.missing:
            self.files[message["key"]] = self.framework.keep_file(message["data"])

    def take_device(self, number):
        return self.framework.lock.take(
            lambda n: self.front.say({"type": "progress", "id": number, "what": f"waiting, {n} ahead", "fraction": 0}))

    def case(self, message):
        f, plan, given = self.framework, message.get("plan"), None
        if f.missing:
            raise Refused("unavailable", f.missing)
        if message.get("graph") not in self.graphs:
            raise Refused("input", f"graph {message.get('graph')} was not sent, or long ago")
        if f.obeys and isinstance(plan, dict) and isinstance(plan.get("groups"), list):
            plan, given = str(plan.get("name", "plan")), plan
        if not isinstance(plan, str):
            raise Refused("input", f"{f.title} plans for itself: a plan is one of {', '.join(f.case.PLANS)}")
        if not given and plan not in f.case.PLANS:
            raise Refused("input", f"{f.title} has no plan \"{plan}\"; it has {', '.join(f.case.PLANS)}")
        case = f.case(self.graphs[message["graph"]], plan, message.get("seeds") or [0], self.files)
        if given:
            case.take(given)
        return case

    def prepare(self, message):
        number, f = message["id"], self.framework
        case = self.case(message)
        if message.get("ahead"):
            return self.compile_ahead(number, case)
        if not f.builds_beside:
            self.take_device(number)
        self.front.say({"type": "progress", "id": number, "what": f.doing(case.plan), "fraction": 0})
        f.before(self.front, case.plan)
        case.build()
        self.take_device(number)
        case.settle()
        self.cases[number] = case
        return {"type": "prepared", "id": number, "report": case.report()}

    def compile_ahead(self, number, case):
        """Into the framework's own cache, for a worker that will measure it: nothing is timed, so the device is not asked
        for."""
        if not case.plan.startswith("eager"):
            self.framework.before(self.front, case.plan)
            case.build()
        return {"type": "prepared", "id": number,
                "report": {"device": self.framework.device, "plan": case.plan, "error": case.error}}

    def sample(self, message):
        number = message["id"]
        if number not in self.cases:
            raise Refused("input", f"no case {number} is prepared")
        waited = self.take_device(number)
        self.cases[number].sample(message.get("n", 20), message.get("cache") == "cold")
        brief = bool(message.get("brief"))
        return {"type": "sampled", "id": number, "waited_us": waited, "brief": brief, "report": self.cases[number].report(brief)}

    def release(self, message):
        if self.cases.pop(message["id"], None):
            self.framework.free()
        return {"type": "released", "id": message["id"]}

    def calibrate(self, message):
        raise Refused("unavailable", f"{self.framework.title} needs no calibration: nothing is predicted for it")

    def list(self, message):
        return dict({"type": "devices", "id": message["id"]}, **self.devices())

    HANDLERS = {"hello": hello, "graph": graph, "file": file, "prepare": prepare, "sample": sample, "release": release,
                "calibrate": calibrate, "devices": list}

    def attempt(self, message):
        """The answer, or (kind, text) of why there is none: one case's failure is that case's message."""
        handler = self.HANDLERS.get(message["type"])
        try:
            if not handler:
                raise Refused("input", f"there is no message of type \"{message['type']}\"")
            return handler(self, message)
        except Refused as e:
            return (e.kind, str(e))
        except Exception as e:
            full = not self.framework.missing and self.framework.is_full(e)
            return ("limit" if full else "system", f"{self.framework.title}: {type(e).__name__}: {e}")

    def serve(self):
        front = self.front
        while (message := front.next())["type"] != "quit":
            number = message.get("id", 0)
            try:
                front.running = number if message["type"] in ("prepare", "sample") else None
                answer = self.attempt(message)
                front.running = None
            except Cancelled:
                answer = ("cancelled", "cancelled")
                self.framework.cancelled()
            if isinstance(answer, tuple):
                front.fail(number, *answer)
            elif answer:
                front.say(answer)


def main(framework):
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints goes to stderr, never into the protocol
    front = Front(sys.stdin.buffer, out, framework.lock)
    threading.Thread(target=front.read, daemon=True).start()
    Worker(front, framework).serve()
