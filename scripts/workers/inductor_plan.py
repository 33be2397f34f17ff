"""What Inductor decided: which nodes of fusebox's graph each of its kernels holds, and why kernels stayed apart.

    with Decisions(case) as decisions:    # while torch.compile compiles
        ...
    decisions.report()                          # what the report's "their_plan" says (engine/measure/their_plan.h)

The worker writes a graph as one Python function, a node or a call of PyTorch's a line. Dynamo, AOTAutograd and Inductor's
lowering keep for each operation the line that it comes from (`stack_trace`), through decompositions and most rewrites; so a
kernel of the scheduler is known by lines, and lines are known by nodes. What they hold is read after fusion, at the
moment when the scheduler begins to write code; names and sources of kernels where they are defined; reasons where the
fusion log gets them (`WhyNoFuse`).

These are inner parts of PyTorch's. They are read in the versions of TESTED; with another one the plan is not available.
"""
import collections
import hashlib
import json
import operator
import os
import re
import tempfile

TESTED = ("2.11",)
MOST_KERNELS, MOST_REASONS, MOST_SOURCE, MOST_SOURCES = 20000, 2000, 64 << 10, 4 << 20  # engine/measure/their_plan.c


def unavailable(version):
    """A sentence, or None where the parts that are read here are known to be there."""
    if ".".join(version.split("+")[0].split(".")[:2]) in TESTED:
        return None
    return (f"PyTorch is {version}: what Inductor decided is read from inside it, which was tested with "
            f"{' and '.join(TESTED)} alone")


# ---- lines and nodes ----


class Places:
    """Which nodes a line of the written function stands for."""

    def __init__(self, file, text, calls):
        self.file, self.nodes = file, {}
        self.calls = sorted({tuple(sorted(call.inside)) for call in calls.values() if len(call.inside) > 1})
        for at, line in enumerate(text.splitlines(), 1):
            found = re.match(r" +(?:if [^:]*: )?(v\d+(?:, v\d+)*) = ", line)
            if not found:
                continue
            results = [int(v) for v in re.findall(r"\d+", found[1])]
            inside = set(results)
            for r in results:
                if r in calls:
                    inside |= calls[r].inside
            self.nodes[at] = sorted(inside)
        self.frame = re.compile(rf'File "{re.escape(file)}", line (\d+)')

    def lines(self, trace):
        return {int(n) for n in self.frame.findall(trace or "")} & self.nodes.keys()


def traces(fx):
    """Where an operation comes from: its own line, and those of what it was made from."""
    yield fx.meta.get("stack_trace") or getattr(fx, "stack_trace", None)
    if "stack_trace" not in fx.meta:
        for source in fx.meta.get("from_node", ()):
            yield getattr(source, "stack_trace", None)


# ---- the scheduler ----


class Kernel:
    def __init__(self, node):
        self.ops = {s.get_name() for s in members(node)}
        self.kind, self.parts, self.origins = kind_of(node), origins_of(node), set()
        self.buffers = {b.get_name() for s in members(node) for b in s.get_outputs()}
        self.part_reads = [{d.name for d in s.read_writes.reads} for s in members(node)]
        self.part_writes = [{b.get_name() for b in s.get_outputs()} for s in members(node)]
        self.reads = set().union(*self.part_reads)
        self.results = {b.get_name(): s.node.get_origin_node() for s in members(node) if s.node for b in s.get_outputs()}
        self.name, self.call = None, extern_name(node)


def members(node):
    """The nodes that a node of the scheduler was fused from."""
    return list(node.get_nodes())


def is_view(fx):
    """A view is in no kernel, wherever its line stands; nor is one of a call's several results, which itself computes nothing."""
    if fx.target is operator.getitem:
        return True
    schema = getattr(fx.target, "_schema", None)
    alias = schema.returns[0].alias_info if schema and schema.returns else None
    return alias is not None and not alias.is_write


def origins_of(node):
    """For each node that this one was fused from, what it may compute. A call of a library is the last of what it names:
    the rest is what its operands come from, which other kernels compute."""
    out = []
    for s in members(node):
        origins = list(s.node.get_origins()) if s.node is not None else []
        if s.is_extern() and origins:
            origins = [s.node.get_origin_node() or max(origins, key=place)]
        out.append([fx for fx in origins if not is_view(fx)])
    return out


def users(fx):
    """Who reads it, through views."""
    out, todo = [], list(fx.users)
    while todo:
        user = todo.pop()
        if is_view(user):
            todo += list(user.users)
        else:
            out.append(user)
    return out


def computed(origins, made, reads, stored=()):
    """Of what a part of a kernel names, what it computes. Where it adds a library call's bias, it names that call and all
    that led to its operands as well; where it copies an operand as a call wants it, the call; where a pool had its picture
    `stored` first, that, too."""
    origins = sorted((fx for fx in origins if fx not in stored and (fx not in made or made[fx] & reads)), key=place, reverse=True)
    kept = set()
    for fx in origins:
        if not kept or any(user in kept and user not in made for user in users(fx)):
            kept.add(fx)
    return kept


def settle(kernels):
    made = collections.defaultdict(set)  # by calls of a library: operation → buffers
    for k in kernels:
        for part in k.parts if k.call else ():
            for fx in part:
                made[fx] |= k.buffers
    results = {name: fx for k in kernels if not k.call for name, fx in k.results.items()}
    writers = {name: set(part) for k in kernels if not k.call for part, names in zip(k.parts, k.part_writes) for name in names}

    def content(k, part, reads):
        if part and any(writers.get(name) == set(part) for name in reads):
            return {max(part, key=place)}  # the second half of a reduction that was split
        return computed(part, made, k.reads, {results.get(name) for name in reads})
    for k in kernels:
        parts = k.parts if k.call else [content(k, part, reads) for part, reads in zip(k.parts, k.part_reads)]
        k.origins = {fx for part in parts for fx in part}


def place(fx):
    """Where an operation stands in its graph."""
    order = fx.graph.__dict__.setdefault("fusebox_order", {})
    if len(order) != len(fx.graph.nodes):
        order.update({node: i for i, node in enumerate(fx.graph.nodes)})
    return order.get(fx, -1)


def kind_of(node):
    if node.is_template():
        return "template"
    if node.is_extern():
        return "extern"
    if node.is_reduction():
        return "reduction"
    return "pointwise"


def extern_name(node):
    ir = members(node)[0].node if node.is_extern() else None
    if ir is None:
        return None
    name = getattr(ir, "python_kernel_name", None) or str(getattr(ir, "op_overload", "") or type(ir).__name__)
    return name.replace("torch.ops.", "")


def launches(node):
    """False for what the scheduler keeps in order and nothing runs for: a view of a result, an output written in place."""
    if type(node).__name__ == "NopKernelSchedulerNode":
        return False
    ir = members(node)[0].node if members(node) else None
    return type(ir).__name__ not in ("MultiOutput", "DeviceCopyNone")


class Watch:
    """Sees what is compiled between enter and exit, and changes nothing of it."""

    def __init__(self, stop=None):
        self.kernels, self.reasons, self.sources, self.stop = [], {}, {}, stop
        self.undo = []

    def wrap(self, owner, name, make):
        inner = owner.__dict__[name]
        setattr(owner, name, make(inner))
        self.undo.append((owner, name, inner))

    def __enter__(self):
        from torch._inductor import scheduler
        from torch._inductor.codegen import cpp, simd, triton
        watch = self

        def fusing(inner):
            def init(self, nodes):
                watch.kernels.append([])
                inner(self, nodes)
                watch.kernels[-1] = [Kernel(n) for n in self.nodes if launches(n)]
                settle(watch.kernels[-1])
                if watch.stop:
                    raise watch.stop
            return init

        def why(inner):
            def call(self, reason, *args):
                if len(watch.reasons) < 1 << 18:
                    watch.reasons[self.name1, self.name2] = (reason, args)
                return inner(self, reason, *args)
            return call

        def defined(inner):
            def define(self, source, nodes, *args, **kwargs):
                name = inner(self, source, nodes, *args, **kwargs)
                watch.define(name, source, nodes)
                return name
            return define

        self.wrap(scheduler.Scheduler, "_init", fusing)
        self.wrap(scheduler.WhyNoFuse, "__call__", why)
        self.wrap(triton.TritonScheduling, "define_kernel", defined)
        self.wrap(cpp.CppScheduling, "define_kernel", defined)
        return self

    def __exit__(self, *_):
        for owner, name, inner in reversed(self.undo):
            setattr(owner, name, inner)

    def define(self, name, source, nodes):
        held = {m.get_name() for n in nodes if hasattr(n, "get_nodes") for m in n.get_nodes()}
        for kernel in self.kernels[-1] if self.kernels else ():
            if kernel.ops & held:
                kernel.name = name
        for blank in ("Placeholder.KERNEL_NAME", "Placeholder.DESCRIPTIVE_NAME"):
            source = source.replace(blank, name)
        self.sources[name] = source

    # -- what it comes to

    def plan(self, places, names):
        kernels = [k for graph in self.kernels for k in graph]
        held = []
        for k in kernels:
            lines = set()
            for fx in k.origins:
                for trace in traces(fx):
                    lines |= places.lines(trace)
            held.append(sorted({i for at in lines for i in places.nodes[at]}))
        return {"by": "Inductor", "kernels": rows(kernels, held, names, self.sources),
                "apart": self.apart(kernels, held, names),
                "calls": [[names[i] for i in inside] for inside in places.calls]}

    def apart(self, kernels, held, names):
        """Pairs of kernels of which one reads what the other writes: why they are two."""
        writer = {b: k for k in range(len(kernels)) for b in kernels[k].buffers}
        out, seen = [], set()
        by_op = collections.defaultdict(list)
        for pair, said in self.reasons.items():
            for one in pair:
                for op in one.split("_"):
                    by_op[op].append((pair, said))
        for b, kernel in enumerate(kernels):
            for a in sorted({writer[r] for r in kernel.reads if r in writer and writer[r] != b}):
                if len(out) >= MOST_REASONS or not held[a] or not held[b]:
                    continue
                said = None
                for op in kernels[a].ops:
                    for (one, two), reason in by_op.get(op, ()):
                        x, y = set(one.split("_")), set(two.split("_"))
                        if (x & kernels[a].ops and y & kernel.ops) or (y & kernels[a].ops and x & kernel.ops):
                            said = reason
                why = " ".join((said[0] % said[1] if said[1] else said[0]).split())[:300] if said else None
                if why is None and "extern" in (kernels[a].kind, kernel.kind):
                    why = "one of them is a call of a library"
                row = {"from": names[held[a][-1]], "to": names[held[b][-1]]}
                if why:
                    row["why"] = why
                if (row["from"], row["to"]) not in seen:
                    seen.add((row["from"], row["to"]))
                    out.append(row)
        return out


def rows(kernels, held, names, sources):
    """Kernels in order; equal ones, as of the steps of a loop, once with a count."""
    out, at, room = [], {}, MOST_SOURCES
    for kernel, nodes in zip(kernels, held):
        key = (kernel.kind, tuple(nodes), kernel.call)
        if nodes and key in at:
            out[at[key]]["count"] += 1
            continue
        at[key] = len(out)
        row = {"name": kernel.name or kernel.call or "", "kind": kernel.kind, "count": 1, "nodes": [names[i] for i in nodes]}
        source = sources.get(kernel.name)
        if source and len(source) <= min(room, MOST_SOURCE):
            row["source"] = source
            room -= len(source)
        out.append(row)
    return out[:MOST_KERNELS]


# ---- what was compiled before ----


TAG = "fusebox"  # of what is in PyTorch's cache: for each there is a plan beside it


class Decisions:
    """The plan of one case: seen while it is compiled, or kept beside PyTorch's cache, where it comes from there."""

    def __init__(self, case):
        import torch
        file, text, calls = case.written
        self.plan, self.missing, self.watch = None, unavailable(torch.__version__), None
        self.version, self.places = torch.__version__, Places(file, text, calls)
        self.names = [n["name"] for n in case.graph["nodes"]]
        device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "cpu"
        mode = "max-autotune" if case.plan == "max-autotune" else "compile"
        sources = [(n["name"], n["dtype"], n["shape"]) for n in case.inputs]
        with open(__file__, "rb") as own:
            made_by = hashlib.sha256(own.read()).hexdigest()
        seen = (made_by, text, sources, self.names, mode, case.tf32, self.version, device)
        self.key = hashlib.sha256(repr(seen).encode()).hexdigest()

    def __enter__(self):
        if self.missing:
            return self
        import torch
        torch.compiler.config.cache_key_tag = TAG
        try:
            self.watch = Watch().__enter__()
        except (ImportError, AttributeError, KeyError) as e:
            self.missing = f"PyTorch {self.version} has other insides than those that were tested: {e}"
        return self

    def __exit__(self, kind, *_):
        if self.watch:
            self.watch.__exit__()
        if self.missing or kind:
            return
        if not self.watch.kernels:
            self.plan = kept(self.key)
            if not self.plan:
                self.missing = "PyTorch took it from its cache, and what was decided then is not kept beside it"
            return
        try:
            self.plan = self.watch.plan(self.places, self.names)
            self.plan["version"] = self.version
            keep(self.key, self.plan)
        except Exception as e:  # whatever is other than expected in there: the column is measured without
            self.missing = f"what Inductor decided could not be read: {type(e).__name__}: {e}"

    def report(self):
        if self.missing:
            return {"unavailable": " ".join(self.missing.split())[:300]}
        used = resources()
        for kernel in self.plan["kernels"]:
            kernel.update(used.get(kernel["name"], {}))
        return self.plan


def resources():
    """Registers, shared memory and spilled registers of the Triton kernels that are loaded, by name."""
    from torch._inductor.codecache import PyCodeCache
    out = {}
    for module in PyCodeCache.modules:
        for name, value in vars(module).items():
            launchers = getattr(value, "launchers", None)
            if launchers and name.startswith("triton_"):
                found = {"registers": getattr(launchers[0], "n_regs", None), "spills": getattr(launchers[0], "n_spills", None),
                         "shared_bytes": getattr(launchers[0], "shared", None)}
                out[name] = {key: value for key, value in found.items() if isinstance(value, int) and value >= 0}
    return out


def folder():
    from torch._inductor.runtime.cache_dir_utils import cache_dir
    return os.path.join(cache_dir(), "fusebox-plans")


def keep(key, plan):
    """Beside PyTorch's own cache: what comes from there is compiled without a scheduler."""
    try:
        os.makedirs(folder(), exist_ok=True)
        fd, name = tempfile.mkstemp(dir=folder())
        with os.fdopen(fd, "w") as out:
            json.dump(plan, out)
        os.replace(name, os.path.join(folder(), key + ".json"))
    except OSError:
        pass


def kept(key):
    try:
        with open(os.path.join(folder(), key + ".json")) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None
