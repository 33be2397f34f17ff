#!/usr/bin/env python3
"""PyTorch as a device of fusebox: the worker protocol on stdin and stdout, the graph rebuilt as a PyTorch function.

    fusebox run SCRIPT split_stack:eager@torch split_stack:max --worker 'python3 scripts/workers/torch_worker.py'

It is the device `torch`; its plans are named, not edited:
    eager           each op scope as PyTorch's own layer, everything else op by op
    eager+graph     the same, replayed as one CUDA graph
    compile         torch.compile
    compile+graph   torch.compile, replayed as one CUDA graph
    max-autotune    torch.compile(mode="max-autotune-no-cudagraphs")

Adding another framework is writing a file like this one: answer hello, read the graph's lines, and answer prepare, sample and
release; engine/worker/protocol.h lists every message. Needs numpy and torch. The answer of every plan is checked against the
same graph, op by op, in double precision.
"""
import json, math, os, statistics, sys, time

PROTOCOL, VERSION = 1, "0.1.0"


def say(message):
    OUT.write((json.dumps(message, separators=(",", ":")) + "\n").encode())
    OUT.flush()


# ---- inputs: the counter-based generator of engine/base/rng.h ---------------------------------------------------------

MASK = (1 << 64) - 1


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


def rng_bits(key, n):
    x = np.uint64(key) + np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def fill(node, seed, files):
    """The values of a source node as a numpy array of doubles or int64."""
    shape = node.get("shape", [])
    n = math.prod(shape)
    dist, value, high = node.get("dist", "uniform"), number(node, "value"), number(node, "high")
    if dist == "constant" or node["op"] == "const":
        return np.full(shape, value)
    if dist == "file":
        if node.get("file") not in files:
            raise ValueError(f"{node['name']}: its file has not arrived")
        return files[node["file"]].reshape(shape)
    key = splitmix64(node.get("seed", 0)) if node["op"] == "random" else rng_key(seed, node["name"])
    bits = rng_bits(key, n)
    if dist == "uniform":
        out = value + (high - value) * ((bits >> np.uint64(40)).astype(np.float64) * 2.0**-24)
    elif dist == "normal":
        fields = sum(((bits >> np.uint64(s)) & np.uint64(0xFFFF)).astype(np.int64) for s in (0, 16, 32, 48)) - 131070
        out = value + high * (fields.astype(np.float64) * (1.7320508075688772 / 65536.0))
    else:
        low, above = int(value), int(high)
        span = max(above - low, 1)
        out = low + ((bits >> np.uint64(11)) % np.uint64(span)).astype(np.int64)
    return out.reshape(shape)


# ---- the graph as Python source ---------------------------------------------------------------------------------------

SOURCES = {"input", "param", "feed", "const", "iota", "random"}
UNARY = {"neg": "-{0}", "abs": "torch.abs({0})", "sign": "torch.sign({0})", "exp": "torch.exp({0})", "exp2": "torch.exp2({0})",
         "log": "torch.log({0})", "log2": "torch.log2({0})", "sqrt": "torch.sqrt({0})", "rsqrt": "torch.rsqrt({0})",
         "reciprocal": "torch.reciprocal({0})", "sin": "torch.sin({0})", "cos": "torch.cos({0})", "tanh": "torch.tanh({0})",
         "sigmoid": "torch.sigmoid({0})", "erf": "torch.erf({0})", "gelu": "F.gelu({0})", "relu": "F.relu({0})",
         "floor": "torch.floor({0})", "ceil": "torch.ceil({0})", "round": "torch.round({0})", "logical_not": "~{0}",
         "bitwise_not": "~{0}", "receive": "{0}.to('cpu')"}
BINARY = {"add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "floor_divide": "{0} // {1}",
          "pow": "torch.pow({0}, {1})", "minimum": "torch.minimum({0}, {1})", "maximum": "torch.maximum({0}, {1})",
          "remainder": "torch.remainder({0}, {1})", "eq": "{0} == {1}", "ne": "{0} != {1}", "lt": "{0} < {1}", "le": "{0} <= {1}",
          "gt": "{0} > {1}", "ge": "{0} >= {1}", "logical_and": "{0} & {1}", "logical_or": "{0} | {1}",
          "bitwise_and": "{0} & {1}", "bitwise_or": "{0} | {1}", "bitwise_xor": "{0} ^ {1}",
          "bitwise_left_shift": "{0} << {1}", "bitwise_right_shift": "{0} >> {1}", "where": "torch.where({0}, {1}, {2})",
          "matmul": "torch.matmul({0}, {1})", "embedding": "F.embedding({1}, {0})"}
REDUCE = {"sum": "sum", "mean": "mean", "amax": "amax", "amin": "amin"}


def number(node, key):
    """An attribute as a double; JSON has no infinities, so they come as words."""
    return float(node.get(key, 0))


def written(node, key):
    value = number(node, key)
    return repr(value) if math.isfinite(value) else f"float('{value}')"


def listed(values):
    return "[" + ", ".join(str(v) for v in values) + "]"


def expression(node, args, shapes):
    """One node in PyTorch, operands already written; `shapes` are the operands' shapes."""
    op = node["op"]
    if op in UNARY:
        return UNARY[op].format(*args)
    if op in BINARY:
        return BINARY[op].format(*args)
    x = args[0] if args else None
    if op == "cast":
        return f"{x}.to(dtype_{node['dtype']})"
    if op == "clamp":
        return f"torch.clamp({x}, {written(node, 'value')}, {written(node, 'high')})"
    if op in REDUCE:
        return f"torch.{REDUCE[op]}({x}, {listed(node.get('axes', []))}, keepdim={bool(node.get('keepdim'))})"
    if op in ("argmax", "argmin"):
        return f"torch.{op}({x}, {node['axes'][0]}, keepdim={bool(node.get('keepdim'))})"
    if op == "prod":
        text = x
        for axis in sorted(node.get("axes", []), reverse=True):
            text = f"torch.prod({text}, {axis}, keepdim={bool(node.get('keepdim'))})"
        return text
    if op == "cumsum":
        return f"torch.cumsum({x}, {node.get('dim', 0)})"
    if op == "view":
        return f"{x}.reshape({listed(node['shape'])})"
    if op == "permute":
        return f"{x}.permute({listed(node['axes'])})"
    if op == "slice":
        step = node.get("step", 1) or 1
        return f"{x}[{':, ' * node.get('dim', 0)}{node.get('start', 0)}:{node.get('stop', 0)}{':' + str(step) if step != 1 else ''}]"
    if op == "expand":
        return f"{x}.expand({listed(node['shape'])})"
    if op == "pad":
        pairs = [p for d in reversed(range(len(shapes[0]))) for p in (node["before"][d], node["after"][d])]
        return f"F.pad({x}, {listed(pairs)}, value={written(node, 'value')})"
    if op == "flip":
        return f"torch.flip({x}, {listed(node['axes'])})"
    if op in ("cat", "stack"):
        return f"torch.{op}([{', '.join(args)}], {node.get('dim', 0)})"
    if op == "index_add":
        shape = listed([node.get("start", 0)] + node["shape"][1:])
        return (f"torch.zeros({shape}, dtype={x}.dtype, device={x}.device)"
                f".index_add(0, {args[1]}.reshape(-1), {x}.reshape([-1] + {listed(node['shape'][1:])}))")
    raise ValueError(f"{node['name']}: PyTorch has no {op} here")


def scope_call(scope, args):
    """PyTorch's own call for an op scope, or None where the decomposition runs instead."""
    a, op = scope.get("attrs") or {}, scope["op"]
    eps = a.get("eps", 1e-5)
    if op == "layer_norm":
        weights = "".join(f", {name}={arg}" for name, arg in zip(("weight", "bias"), args[1:]))
        return f"F.layer_norm({args[0]}, {listed(a['normalized_shape'])}{weights}, eps={eps!r})" if "normalized_shape" in a else None
    if op == "linear":
        return f"F.linear({', '.join(args)})"
    if op == "addmm" and len(args) == 3:
        return f"torch.addmm({', '.join(args)})"
    if op in ("softmax", "log_softmax"):
        return f"F.{op}({args[0]}, {a.get('dim', -1)})"
    if op in ("gelu", "silu", "relu", "sigmoid", "tanh"):
        return f"F.{op}({args[0]})" if op in ("gelu", "silu", "relu") else f"torch.{op}({args[0]})"
    if op == "embedding" and len(args) == 2:
        return f"F.embedding({args[1]}, {args[0]})"
    if op == "scaled_dot_product_attention":
        mask = f", attn_mask={args[3]}" if len(args) > 3 else ""
        return f"F.scaled_dot_product_attention({', '.join(args[:3])}{mask}, scale={a.get('scale')!r})"
    if op in ("lstm_cell", "gru_cell"):
        state = f"({args[1]}, {args[2]})" if op == "lstm_cell" else args[1]
        return f"torch.{op}({args[0]}, {state}, {', '.join(args[3 if op == 'lstm_cell' else 2:])})"
    return None


class Source:
    """The graph written out as one Python function of its sources."""

    def __init__(self, graph, scopes):
        self.graph, self.scopes, self.lines = graph, scopes, []
        self.nodes = graph["nodes"]
        self.by_region = {}
        for node in self.nodes:
            self.by_region.setdefault(node.get("region", 0), []).append(node)
        self.inputs = [n for n in self.nodes if n["op"] in SOURCES]
        self.calls = self.find_calls() if scopes else {}

    def find_calls(self):
        """last result → (call, results, members) of the outermost op scopes that PyTorch has a call for and whose inside nobody
        else reads."""
        scopes = self.graph["scopes"]
        members, calls = {}, {}
        for node in self.nodes:
            s = node.get("scope", -1)
            while s is not None and s >= 0:
                members.setdefault(s, []).append(node["id"])
                s = scopes[s].get("parent", -1)
        covered = set()
        for i, scope in enumerate(scopes):  # parents come first
            inside = set(members.get(i, ()))
            results = scope.get("results") or ()
            if not scope.get("op") or inside & covered or not results or not inside.issuperset(results):
                continue
            leaks = any(a in inside and a not in results for n in self.nodes if n["id"] not in inside for a in n.get("args", ()))
            text = scope_call(scope, [f"v{a}" for a in scope.get("args") or ()])
            if text and not leaks:
                calls[max(results)] = (text, results, inside)
                covered |= inside
        return calls

    def region(self, number, indent):
        hidden = {i for last, (_, _, inside) in self.calls.items() for i in inside if i != last}
        for node in self.by_region.get(number, []):
            i = node["id"]
            if node["op"] in SOURCES or i in hidden or node["op"] in ("carried", "item", "step"):
                continue
            if i in self.calls:
                text, results, _ = self.calls[i]
                self.lines.append(f"{indent}{', '.join(f'v{r}' for r in results)} = {text}")
                continue
            if node["op"] == "loop":
                self.loop(node, indent)
                continue
            elif node["op"] == "result":
                text = f"v{node['args'][0]}[{node.get('index', 0)}]"
            elif node["op"] == "assign":
                text = f"v{node['args'][1]}"
            else:
                args = [f"v{a}" for a in node.get("args", ())]
                text = expression(node, args, [self.nodes[a]["shape"] for a in node.get("args", ())])
            self.lines.append(f"{indent}v{i} = {text}")

    def loop(self, node, indent):
        body = node["body"]
        r = self.graph["regions"][body]
        i, inner = node["id"], indent + "    "
        carried, items = r.get("carried", []), r.get("items", [])
        args = node.get("args", [])
        self.lines.append(f"{indent}c{i} = [{', '.join(f'v{a}' for a in args[:len(carried)])}]")
        self.lines.append(f"{indent}s{i} = [{', '.join('[]' for _ in r.get('stacked', []))}]")
        self.lines.append(f"{indent}for t{i} in range({r['trips']}):")
        for k, c in enumerate(carried):
            if c >= 0:
                self.lines.append(f"{inner}v{c} = c{i}[{k}]")
        for k, c in enumerate(items):
            self.lines.append(f"{inner}v{c} = v{args[len(carried) + k]}[t{i}]")
        for n in self.by_region.get(body, []):
            if n["op"] == "step":
                self.lines.append(f"{inner}v{n['id']} = torch.tensor(t{i})")
        self.region(body, inner)
        for k, s in enumerate(r.get("stacked", [])):
            self.lines.append(f"{inner}s{i}[{k}].append(v{s})")
        self.lines.append(f"{inner}c{i} = [{', '.join(f'v{y}' for y in r.get('yields', []))}]")
        self.lines.append(f"{indent}v{i} = c{i} + [torch.stack(s) for s in s{i}]")

    def text(self):
        self.lines = [f"def model({', '.join('v%d' % n['id'] for n in self.inputs)}):"]
        self.region(0, "    ")
        results = [o["node"] for o in self.graph["outputs"]]
        results += [n["id"] for n in self.nodes if n["op"] in ("assign", "receive") and n.get("region", 0) == 0 and n["id"] not in results]
        self.lines.append(f"    return [{', '.join(f'v{r}' for r in results)}]")
        return "\n".join(self.lines) + "\n"


def function(graph, scopes):
    source = Source(graph, scopes)
    names = {"torch": torch, "F": torch.nn.functional}
    names.update({f"dtype_{k}": v for k, v in DTYPES.items()})
    exec(compile(source.text(), "<fusebox graph>", "exec"), names)
    return names["model"], source.inputs


# ---- measuring --------------------------------------------------------------------------------------------------------


def stat(samples):
    s = sorted(samples)
    at = lambda q: s[min(len(s) - 1, int(q * (len(s) - 1) + 0.5))]
    return {"median": statistics.median(s), "p10": at(0.1), "p90": at(0.9), "n": len(s)}


def graphed(run):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


class Case:
    PLANS = ("eager", "eager+graph", "compile", "compile+graph", "max-autotune")

    def __init__(self, graph, plan, seeds, files):
        if plan not in self.PLANS:
            raise ValueError(f"PyTorch has no plan {plan}; it has {', '.join(self.PLANS)}")
        if plan.endswith("+graph") and not CUDA:
            raise ValueError(f"{plan} needs a GPU")
        self.graph, self.plan, self.hot, self.cold = graph, plan, [], []
        model, inputs = function(graph, scopes=True)
        self.arguments = [self.source(node, seeds[0], files) for node in inputs]
        start = time.perf_counter()
        if plan.startswith("compile"):
            model = torch.compile(model)
        elif plan == "max-autotune":
            model = torch.compile(model, mode="max-autotune-no-cudagraphs")
        self.run = lambda: model(*self.arguments)
        with torch.no_grad():
            result = self.run()
            self.compile_ms = (time.perf_counter() - start) * 1e3 if plan != "eager" else None
            self.error = self.check(result)
            if plan.endswith("+graph"):
                self.run = graphed(self.run)
            self.kernels, self.launches = self.profile()

    @staticmethod
    def source(node, seed, files, dtype=None):
        if node["op"] == "iota":
            n, dim = node["shape"][node.get("dim", 0)], node.get("dim", 0)
            shape = [n if d == dim else 1 for d in range(len(node["shape"]))]
            values = np.broadcast_to(np.arange(n).reshape(shape), node["shape"]).copy()
        else:
            values = np.ascontiguousarray(fill(node, seed, files))
        tensor = torch.from_numpy(np.asarray(values)).to(DTYPES[node["dtype"]])
        return tensor.to(DEVICE)

    def check(self, result):
        """Against the graph op by op in double: an independent path through PyTorch, as it knows no op scopes."""
        model, _ = function(self.graph, scopes=False)
        wide = [a.double() if a.is_floating_point() else a for a in self.arguments]
        names = {"dtype_f32": torch.float64, "dtype_f16": torch.float64, "dtype_bf16": torch.float64}
        model.__globals__.update(names)
        worst_abs = worst_rel = 0.0
        dtypes = {n["dtype"] for n in self.graph["nodes"]}
        allowed = 3e-2 if "bf16" in dtypes else 5e-3 if "f16" in dtypes else 2e-4
        for got, want in zip(result, model(*wide)):
            if not got.numel():
                continue
            diff = (got.to(want.device).double() - want.double()).abs()
            worst_abs = max(worst_abs, diff.max().item())
            scale = max(want.double().abs().max().item(), 1e-30)
            worst_rel = max(worst_rel, diff.max().item() / scale)
        return {"max_abs": worst_abs, "max_rel": worst_rel, "bound": worst_rel / allowed, "ok": worst_rel <= allowed}

    def profile(self):
        """Kernels of one run as PyTorch's own profiler sees them: GPU kernels, or the ops' own time on a CPU."""
        from torch.profiler import ProfilerActivity, profile
        for _ in range(3):
            self.run()
        rounds = 5
        kind = ProfilerActivity.CUDA if CUDA else ProfilerActivity.CPU
        with profile(activities=[kind]) as p:
            for _ in range(rounds):
                self.run()
            self.wait()
        found = {}
        for e in p.events():
            if CUDA:
                if e.device_type != torch.autograd.DeviceType.CUDA:
                    continue
                us = e.self_device_time_total
            else:
                us = e.self_cpu_time_total
                if e.name.startswith("profiler") or not e.name.startswith("aten::") or us <= 0:
                    continue
            found.setdefault(e.name, []).append(us)
        kernels = []
        for name, times in sorted(found.items(), key=lambda kv: -sum(kv[1])):
            count = max(1, round(len(times) / rounds))
            per_run = [sum(times) / rounds]
            kernels.append({"name": name[:120], "family": "library", "nodes": [], "count": count, "device_us": stat(per_run)})
        return kernels, sum(k["count"] for k in kernels)

    @staticmethod
    def wait():
        if CUDA:
            torch.cuda.synchronize()

    def sample(self, n, cold):
        with torch.no_grad():
            if not cold:
                self.run()
            for _ in range(n):
                if cold:
                    FLUSH.add_(1)
                self.wait()
                start = time.perf_counter()
                self.run()
                self.wait()
                (self.cold if cold else self.hot).append((time.perf_counter() - start) * 1e6)

    def report(self):
        busy = sum(k["device_us"]["median"] for k in self.kernels)
        r = {"device": "torch", "plan": self.plan, "nodes": len(self.graph["nodes"]), "launches": self.launches,
             "launch_mode": "graph" if self.plan.endswith("+graph") else "stream", "source": "measured", "error": self.error,
             "kernels": self.kernels, "device_us": {"median": busy, "p10": busy, "p90": busy, "n": 1}}
        if self.compile_ms is not None:
            r["compile_ms"] = self.compile_ms
        if self.hot:
            r["wall_us"] = stat(self.hot)
            r["gap_us"] = max(0.0, r["wall_us"]["median"] - busy)
        if self.cold:
            r["cold_us"] = stat(self.cold)
        return r


# ---- the protocol -----------------------------------------------------------------------------------------------------


def read_line(stream):
    line = stream.readline()
    return json.loads(line) if line else None


def read_graph(stream):
    head = read_line(stream)
    graph = {"title": head.get("title", ""), "scopes": [], "regions": [], "nodes": []}
    for part in ("scopes", "regions", "nodes"):
        graph[part] = [read_line(stream) for _ in range(head["n_" + part])]
    for scope in graph["scopes"]:
        if isinstance(scope.get("attrs"), str):
            scope["attrs"] = json.loads(scope["attrs"])
    graph["outputs"] = read_line(stream)["outputs"]
    return graph


def describe():
    if MISSING:
        return [{"device": "torch", "kind": "torch", "missing": MISSING}]
    name = torch.cuda.get_device_name(0) if CUDA else f"{torch.get_num_threads()} CPU threads"
    return [{"device": "torch", "kind": "torch", "name": f"PyTorch {torch.__version__} on {name}", "plans": list(Case.PLANS)}]


def answer(message, stream, graphs, cases, files):
    kind, number = message.get("type"), message.get("id", 0)
    if kind == "hello":
        if message.get("fusebox") != PROTOCOL:
            raise ValueError(f"this worker speaks protocol {PROTOCOL}, the front {message.get('fusebox')}: use the same version of fusebox")
        say({"type": "hello", "fusebox": PROTOCOL, "version": VERSION, "host": os.uname().nodename, "devices": describe(), "libraries": []})
    elif kind == "graph":
        graphs[message["hash"]] = read_graph(stream)
    elif kind == "file":
        files[message["key"]] = np.frombuffer(stream.read(message["bytes"]), dtype=np.float64)
    elif kind == "devices":
        say({"type": "devices", "id": number, "devices": describe(), "libraries": []})
    elif kind == "prepare":
        if MISSING:
            raise ValueError(MISSING)
        say({"type": "progress", "id": number, "what": f"PyTorch: {message['plan']}", "fraction": 0.1})
        cases[number] = Case(graphs[message["graph"]], message["plan"], message.get("seeds") or [0], files)
        say({"type": "prepared", "id": number, "report": cases[number].report()})
    elif kind == "sample":
        if cases[number].error["ok"]:
            cases[number].sample(message.get("n", 20), message.get("cache") == "cold")
        say({"type": "sampled", "id": number, "report": cases[number].report()})
    elif kind == "release":
        cases.pop(number, None)
        say({"type": "released", "id": number})
    elif kind == "calibrate":
        raise ValueError("torch needs no calibration")
    elif kind not in ("cancel", "quit"):
        raise ValueError(f"unknown message {kind}")
    return kind != "quit"


def main():
    stream = sys.stdin.buffer
    graphs, cases, files = {}, {}, {}
    while (message := read_line(stream)) is not None:
        try:
            if not answer(message, stream, graphs, cases, files):
                break
        except Exception as e:  # one case's failure is that case's message
            text = " ".join(f"{type(e).__name__}: {e}".split())[:400]
            say({"type": "error", "id": message.get("id", 0), "kind": "unavailable" if MISSING else "system", "text": text})


OUT = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # what a library prints goes to stderr, never into the protocol
MISSING = None
try:
    import numpy as np
    import torch
    CUDA = torch.cuda.is_available()
    DEVICE = torch.device("cuda:0" if CUDA else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = False
    DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64, "i32": torch.int32,
              "i64": torch.int64, "bool": torch.bool}
    FLUSH = torch.zeros((256 if CUDA else 64) << 18, dtype=torch.int32, device=DEVICE)
except ImportError as e:
    MISSING = f"PyTorch is not installed for this python3 ({e})"

if __name__ == "__main__":
    main()
