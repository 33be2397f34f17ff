"""Kernel boundaries of the preset `xla` beside those of the code that XLA compiled.

    xla_kernels.py FUSEBOX                  compares with what xla.txt says was compiled; speaks TAP
    xla_kernels.py FUSEBOX --all            all that there are; with --explain what both have in each kernel
    xla_kernels.py FUSEBOX --graphs DIR     writes the graphs of all cases
    xla_kernels.py --compile DIR [TARGET]   compiles them with JAX for the GPU that is there, or without one for the GPU
                                            that the file TARGET describes (h200.txtpb, a GpuTargetConfigProto)
    xla_kernels.py FUSEBOX --record DIR…    writes xla.txt from what was compiled; a case from the first that has it

A graph becomes a function of jax.numpy op by op, each node in a named scope of its own, so that every instruction of
the optimised program says which nodes it came from. A kernel is an instruction of the entry computation that is more
than a change of names; what it holds are the nodes of the instructions that it calls.

Compared is what XLA keeps out of its products: whether a product is a call of cuBLASLt (with bias, relu and a sum) or
generated, with what surrounds it, XLA finds out by measuring; the preset has a call and kernels around it. A reduction
that XLA does in two passes is one kernel of ours.
"""
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FILE = os.path.join(HERE, "xla.txt")
CASES = [
    ("scripts/puzzlers/split_stack.lua", "split_stack"),
    ("scripts/puzzlers/split_stack.lua", "combined"),
    ("scripts/models/lstm_step.lua", "gates"),
    ("scripts/models/lstm_step.lua", "stacked"),
    ("scripts/models/lstm_step.lua", "cat"),
    ("scripts/models/lora_mlp.lua", "lora"),
    ("scripts/models/lora_mlp.lua", "merged"),
    ("scripts/models/softmax.lua", ""),
    ("scripts/models/layer_norm.lua", ""),
    ("scripts/models/attention.lua", ""),
    ("scripts/models/transformer.lua", "forward"),
    ("scripts/models/transformer.lua", "train"),
    ("scripts/models/lora_network.lua", "train"),
    ("scripts/puzzlers/over_fusion.lua", "again"),
    ("scripts/puzzlers/over_fusion.lua", "starved"),
    ("scripts/puzzlers/recompute.lua", ""),
    ("scripts/puzzlers/flops.lua", "layer"),
]
MORE = [  # with --all
    ("scripts/models/lstm_step.lua", "addmm"),
    ("scripts/models/add_relu.lua", ""),
    ("scripts/models/add_mul_relu.lua", ""),
    ("scripts/models/mlp_two_layer.lua", ""),
    ("scripts/models/lora_network.lua", "lora"),
    ("scripts/models/lora_network.lua", "joined"),
    ("scripts/models/lora_network.lua", "merged"),
    ("scripts/models/dlrm.lua", "pairwise"),
    ("scripts/models/dlrm.lua", "outer"),
    ("scripts/models/dlrm.lua", "train"),
    ("scripts/puzzlers/over_fusion.lua", "crowded"),
    ("scripts/puzzlers/transpose.lua", "straight"),
    ("scripts/puzzlers/transpose.lua", "crossed"),
    ("scripts/puzzlers/transpose.lua", "copied"),
    ("scripts/puzzlers/transpose.lua", "by_row"),
    ("scripts/puzzlers/transpose.lua", "by_column"),
]
# Where the preset is known not to do the same, and why.
DIFFERENCES = {
    "transformer.train": "XLA computes normalisations again, in tiles, wherever the backward pass reads them",
    "dlrm.train": "XLA computes gradients inside the scatter that adds them up, and outer products in their readers",
    "lora_network.train": "compiled while relu's gradient asked its operand; now it asks its result, and XLA has to be asked again",
}
JOINS = {"cat", "stack", "embedding"}
VIEWS = {"view", "permute", "slice", "expand", "pad", "flip", "const", "iota"}
REDUCTIONS = {"sum", "mean", "amax", "amin", "prod", "matmul"}


def stem(script, variant):
    return os.path.splitext(os.path.basename(script))[0] + ("." + variant if variant else "")


# ---- a graph in jax.numpy ----

DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64", "i64": "int64", "i32": "int32",
          "i8": "int8", "u8": "uint8", "i16": "int16", "bool": "bool_"}
INFIX = {"add": "a + b", "sub": "a - b", "mul": "a * b", "div": "a / b", "pow": "a ** b", "eq": "a == b",
         "ne": "a != b", "lt": "a < b", "le": "a <= b", "gt": "a > b", "ge": "a >= b", "floor_divide": "a // b", "remainder": "a % b",
         "logical_and": "a & b", "logical_or": "a | b", "bitwise_and": "a & b", "bitwise_or": "a | b"}
CALL = {"neg": "-a", "abs": "jnp.abs(a)", "sign": "jnp.sign(a)", "exp": "jnp.exp(a)", "exp2": "jnp.exp2(a)",
        "log": "jnp.log(a)", "log2": "jnp.log2(a)", "sqrt": "jnp.sqrt(a)", "rsqrt": "lax.rsqrt(a)",
        "reciprocal": "1 / a", "sin": "jnp.sin(a)", "cos": "jnp.cos(a)", "tanh": "jnp.tanh(a)", "sigmoid": "jax.nn.sigmoid(a)",
        "erf": "lax.erf(a)", "gelu": "jax.nn.gelu(a, approximate=False)", "relu": "jnp.maximum(a, 0)", "floor": "jnp.floor(a)",
        "ceil": "jnp.ceil(a)", "round": "jnp.round(a)", "logical_not": "~a", "bitwise_not": "~a",
        "minimum": "jnp.minimum(a, b)", "maximum": "jnp.maximum(a, b)", "where": "jnp.where(a, b, c)"}
SOURCES = {"input", "param", "feed"}


def number(node, key):
    return float(node.get(key, 0))


def node_value(n, args, jax, jnp, lax):
    op, x, dtype = n["op"], args[0] if args else None, jnp.dtype(DTYPES[n["dtype"]])
    if op == "const":
        return jnp.full(n["shape"], number(n, "value"), dtype)
    if op == "iota":
        return lax.broadcasted_iota(dtype, n["shape"], n["dim"])
    if op in INFIX or op in CALL:
        names = dict(zip("abc", args), jnp=jnp, jax=jax, lax=lax)
        return eval(INFIX.get(op) or CALL[op], names)
    if op == "cast":
        return x.astype(dtype)
    if op == "clamp":
        return jnp.clip(x, number(n, "value"), number(n, "high"))
    if op in ("sum", "mean", "amax", "amin", "prod"):
        f = {"amax": jnp.max, "amin": jnp.min}.get(op) or getattr(jnp, op)
        return f(x, axis=tuple(n["axes"]), keepdims=bool(n.get("keepdim"))).astype(dtype).reshape(n["shape"])
    if op in ("cumsum", "cumprod"):
        return getattr(jnp, op)(x, n["dim"], dtype=dtype)
    if op == "matmul":
        exact = lax.Precision.HIGHEST if n.get("precision") == "ieee" else None
        return jnp.matmul(x, args[1], precision=exact, preferred_element_type=dtype)
    if op == "view":
        return x.reshape(n["shape"])
    if op == "permute":
        return x.transpose(n["axes"])
    if op == "slice":
        return lax.slice_in_dim(x, n["start"], n["stop"], n.get("step", 1), n["dim"])
    if op == "expand":
        return jnp.broadcast_to(x, n["shape"])
    if op == "flip":
        return jnp.flip(x, n["axes"])
    if op == "pad":
        return jnp.pad(x, list(zip(n["before"], n["after"])), constant_values=number(n, "value"))
    if op in ("cat", "stack"):
        return (jnp.concatenate if op == "cat" else jnp.stack)(args, n["dim"])
    if op == "embedding":
        return jnp.take(x, args[1], axis=0, mode="fill", fill_value=0)
    if op == "index_add":
        rest = x.shape[args[1].ndim:]
        return jnp.zeros((n["start"], *rest), dtype).at[args[1].reshape(-1)].add(x.reshape(-1, *rest))
    raise NotImplementedError(op)


def function(graph, jax, jnp, lax):
    nodes = graph["nodes"]
    sources = [n for n in nodes if n["op"] in SOURCES]
    results = [o["node"] for o in graph["outputs"]] + [n["id"] for n in nodes if n["op"] == "assign"]
    needed, todo = set(), list(results)
    while todo:
        i = todo.pop()
        if i not in needed:
            needed.add(i)
            todo += nodes[i]["args"]

    def model(*given):
        values = dict(zip((n["id"] for n in sources), given))
        for n in nodes:
            if n["id"] in values or n["id"] not in needed:
                continue
            args = [values[a] for a in n["args"]]
            with jax.named_scope(f"v{n['id']}"):
                value = args[1] if n["op"] == "assign" else node_value(n, args, jax, jnp, lax)
            if value.shape != tuple(n["shape"]):
                raise ValueError(f"{n['name']}: {value.shape} where the graph has {n['shape']}")
            values[n["id"]] = value
        return [values[i] for i in results]

    return model, sources


def compile_all(directory, target):
    """Each DIR/*.json becomes *.hlo; what fails becomes *.error, and the others go on."""
    import jax
    import jax.numpy as jnp
    from jax import lax
    jax.config.update("jax_enable_x64", True)
    where = jax.devices()[0]
    if target:
        from jax.experimental import topologies
        described = open(target).read()
        where = topologies.get_topology_desc(platform="cuda", topology="1x1x1", target_config=described).devices[0]
    placed = jax.sharding.SingleDeviceSharding(where)
    with open(os.path.join(directory, "versions.txt"), "w") as out:
        how = "compiled without it" if target else "compiled on it"
        out.write(f"JAX {jax.__version__}, {where.device_kind}, {how}, XLA_FLAGS={os.environ.get('XLA_FLAGS', '')}\n")
    bases = [os.path.join(directory, name[:-5]) for name in os.listdir(directory) if name.endswith(".json")]
    for base in sorted(bases, key=lambda base: os.path.getsize(base + ".json")):
        name = os.path.basename(base)
        try:
            model, sources = function(json.load(open(base + ".json")), jax, jnp, lax)
            args = [jax.ShapeDtypeStruct(n["shape"], DTYPES[n["dtype"]].rstrip("_"), sharding=placed) for n in sources]
            text = jax.jit(model).lower(*args).compile().as_text()
            with open(base + ".hlo", "w") as out:
                out.write(text)
            print(f"{name}: {len(kernels_of(text))} kernels", flush=True)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            with open(base + ".error", "w") as out:
                out.write(f"{type(error).__name__}: {error}\n")


# ---- the optimised program ----

NAMES_ONLY = {"parameter", "constant", "bitcast", "tuple", "get-tuple-element"}
SHARED = NAMES_ONLY | {"broadcast", "iota"}  # one of them serves many nodes and has the name of one
MOVES = {"concatenate", "slice", "pad", "copy", "transpose", "reshape"}  # those that XLA adds have any name


def computations(text):
    """Of each computation its instructions, as (opcode, line); and the name of the entry."""
    found, entry, at = {}, None, None
    for line in text.splitlines():
        if head := re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\{$", line):
            at = found[head[2]] = []
            entry = head[2] if head[1] else entry
        elif at is not None and (body := re.match(r"\s+(?:ROOT )?%?[\w.\-]+ = .*?[\])}] ([a-z][\w\-]*)\(", line)):
            at.append((body[1], line))
    return found, entry


def called(line):
    return re.findall(r"(?:calls|to_apply|body|condition|called_computations)=\{?%?([\w.\-]+)", line)


def nodes_of(opcode, line, found):
    """(opcode, node) of an instruction, or of those that it calls: a call itself has the name of its last."""
    held = set()
    for name in re.findall(r" calls=%?([\w.\-]+)", line):
        for inner, its_line in found[name]:
            if inner not in SHARED:
                held |= nodes_of(inner, its_line, found)
    if " calls=" not in line and (op := re.search(r'op_name="([^"]*)"', line)):
        held = {(opcode, int(v)) for v in re.findall(r"/v(\d+)(?=/|$)", op[1])}
    return held


def kernels_of(text):
    """(what it is, its instructions as (opcode, node)) of each kernel."""
    found, entry = computations(text)
    out = []

    def walk(name):
        for opcode, line in found[name]:
            if opcode in NAMES_ONLY:
                continue
            if opcode in ("call", "while", "conditional", "async-start"):
                for inner in called(line):
                    walk(inner)
                continue
            kind = "kernel"
            if opcode == "custom-call":
                kind = "library"
            elif re.search(r'"kind":"__(triton_(nested_)?gemm|cublas|cudnn)', line):
                kind = "gemm"
            out.append((kind, nodes_of(opcode, line, found)))

    walk(entry)
    return out


# ---- ours, and the file ----


def fusebox(*arguments):
    return subprocess.run([sys.argv[1], *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def graph_of(script, variant):
    return fusebox("graph", script, *([variant] if variant else []), "--format", "json")


def write_graphs(directory):
    os.makedirs(directory, exist_ok=True)
    for script, variant in CASES + MORE:
        with open(os.path.join(directory, stem(script, variant) + ".json"), "w") as out:
            out.write(graph_of(script, variant))


def our_kernels(script, variant):
    """The op of each node, and of each kernel its nodes and whether it is a call of the library."""
    graph, kernels = fusebox("graph", script, (variant + ":" if variant else "") + "xla").split("\nkernels of", 1)
    ops = {name: op for op, name in re.findall(r"^ *%\d+ = (\w+).* (\S+)$", graph, re.M)}
    rows = [line.split() for line in kernels.splitlines()[1:] if line.strip()]
    return ops, [(row[1] == "library", frozenset(row[2:])) for row in rows]


def record(directories):
    with open(FILE, "w") as out:
        out.write("# What XLA compiled, by xla_kernels.py --record: the nodes of each kernel; library: cuBLASLt, named\n"
                  "# after its product, which takes bias, relu and a sum along; gemm: a product that XLA generated.\n"
                  "# Behind each graph: how it was compiled.\n")
        for i, directory in enumerate(directories):
            out.write(f"# [{i + 1}] {open(os.path.join(directory, 'versions.txt')).read().strip()}\n")
        for script, variant in CASES + MORE:
            nodes, name = json.loads(graph_of(script, variant))["nodes"], stem(script, variant) + ".hlo"
            at = next(i for i, d in enumerate(directories) if os.path.exists(os.path.join(d, name)))
            out.write(f"{script} {variant}".rstrip() + f" [{at + 1}]\n")
            for kind, held in kernels_of(open(os.path.join(directories[at], name)).read()):
                own = {v for opcode, v in held if opcode not in MOVES or nodes[v]["op"] in JOINS}
                names = [nodes[v]["name"] for v in sorted(own) if nodes[v]["op"] not in VIEWS]
                if names:
                    out.write(f"  {kind} {' '.join(names)}\n")


def recorded():
    cases = []
    for line in open(FILE):
        if line.startswith("  "):
            cases[-1][1].append((line.split()[0], frozenset(line.split()[1:])))
        elif not line.startswith("#"):
            script, *variant = line.split()[:-1]
            cases.append(((script, "".join(variant)), []))
    return cases


def alike(script, variant, theirs):
    """What a call takes along with its product is in no kernel there, and what XLA does in two passes is one of ours."""
    ops, ours = our_kernels(script, variant)
    called = {n for library, held in ours if library for n in held}
    in_ours = frozenset().union(*(held for _, held in ours)) - called
    want, seen = [], set()
    for kind, held in theirs:
        one = held & in_ours
        again = len(one) == 1 and one <= seen and ops[min(one)] in REDUCTIONS
        if kind == "kernel" and one and not again:
            want.append(sorted(one))
            seen |= one
    got = [sorted(held & seen) for library, held in ours if not library and held & seen]
    return sorted(want), sorted(got)


def compare():
    cases, failed, explain = recorded(), 0, "--explain" in sys.argv
    cases = cases if "--all" in sys.argv else [case for case in cases if tuple(case[0]) in CASES]
    print(f"1..{len(cases)}")
    for i, ((script, variant), theirs) in enumerate(cases, 1):
        want, got = alike(script, variant, theirs)
        differs = DIFFERENCES.get(stem(script, variant))
        same = want == got
        failed += same == bool(differs)
        note = f" # TODO {differs}" if differs else ""
        print(f"{'ok' if same else 'not ok'} {i} - {script} {variant}: {len(theirs)} kernels of XLA{note}")
        if explain or same == bool(differs):
            for one in want:
                print(f"#   XLA: {' '.join(one)}{'' if one in got else '   (not in ours)'}")
            for one in got:
                print(f"#   xla: {' '.join(one)}{'' if one in want else '   (not in theirs)'}")
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1] == "--compile":
        compile_all(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None)
    elif "--graphs" in sys.argv:
        write_graphs(sys.argv[3])
    else:
        if "--record" in sys.argv:
            record(sys.argv[3:])
        sys.exit(compare())
