"""Kernel boundaries of the preset `inductor` beside those of the code that torch.compile generated.

    inductor_kernels.py FUSEBOX                     compares with what inductor.txt says was generated; speaks TAP
    inductor_kernels.py FUSEBOX --record            writes inductor.txt; needs a GPU and PyTorch
    inductor_kernels.py FUSEBOX --record LOG…       the same from logs that were kept, one for each case
    inductor_kernels.py FUSEBOX --explain           and what both have in each kernel

TORCH_LOGS=output_code shows the generated code, and above each launch the values that its kernel computes; the worker
names a value after its node, so that nothing is guessed. A layer of PyTorch's own (a scope) is one value there: its last
node. Views are in no kernel of ours, and a product is a kernel of its own, which the library computes.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FILE = os.path.join(HERE, "inductor.txt")
CASES = [
    ("scripts/puzzlers/split_stack.lua", "split_stack"),
    ("scripts/puzzlers/split_stack.lua", "combined"),
    ("scripts/models/lstm_step.lua", "gates"),
    ("scripts/models/lora_mlp.lua", "lora"),
    ("scripts/models/lora_mlp.lua", "merged"),
]


def fusebox(*arguments, **environment):
    return subprocess.run([sys.argv[1], *arguments], cwd=ROOT, env={**os.environ, **environment}, check=True,
                          capture_output=True, text=True).stdout


def our_kernels(script, variant):
    """The node of each number, and of each kernel its nodes and whether it is a product."""
    nodes = json.loads(fusebox("graph", script, variant, "--format", "json"))["nodes"]
    names = {node["id"]: node["name"] for node in nodes}
    products = {node["name"] for node in nodes if node["op"] == "matmul"}
    kernels, listing = [], fusebox("graph", script, f"{variant}:inductor")
    for line in listing[listing.index("\nkernels of"):].splitlines()[2:]:
        held = frozenset(line.split()[2:])
        kernels.append((bool(held & products), held))
    return names, kernels


def generated(log):
    """The kernels of each graph that was compiled, as (is it the library's, numbers of the nodes that it computes)."""
    graphs, values = [], ()
    for line in log.splitlines():
        line = re.sub(r"^.*\[__output_code\] ?", "", line)
        if line.startswith("# AOT ID"):
            graphs.append([])
        elif found := re.match(r"\s+# Topologically Sorted Source Nodes: \[(.*?)\]", line):
            values = [int(v[1:]) for v in found[1].split(", ") if re.fullmatch(r"v\d+", v)]
        elif values and (found := re.match(r"\s+(extern_kernels\.\w+\(|triton_\w+\.run\()", line)):
            graphs[-1].append((found[1].startswith("extern"), values))
            values = ()
    return [g for g in graphs if g]  # the compiler's first graph, which only loads it, has no numbers


def compiled(script, variant):
    with tempfile.TemporaryDirectory() as cache:
        log = os.path.join(cache, "log")
        worker = f"{sys.executable} scripts/workers/torch_worker.py"
        fusebox("run", script, f"{variant}:compile@torch", "--worker", worker, TORCH_LOGS="output_code", TORCH_LOGS_OUT=log,
                TORCHINDUCTOR_CACHE_DIR=cache)
        with open(log) as text:
            return generated(text.read())[-1]


def record(logs):
    seen = [kernels for log in logs for kernels in generated(open(log).read())]
    with open(FILE, "w") as out:
        out.write("# What torch.compile generated (PyTorch 2.11, H200), by inductor_kernels.py --record:\n"
                  "# the values of each kernel, by the names of their nodes; library: a product of cuBLAS.\n")
        for i, (script, variant) in enumerate(CASES):
            names, _ = our_kernels(script, variant)
            out.write(f"{script} {variant}\n")
            for library, values in seen[i] if logs else compiled(script, variant):
                out.write(f"  {'library' if library else 'kernel'} {' '.join(names[v] for v in values)}\n")


def recorded():
    cases = []
    for line in open(FILE):
        if line.startswith("  "):
            cases[-1][1].append((line.split()[0] == "library", frozenset(line.split()[1:])))
        elif not line.startswith("#"):
            cases.append((tuple(line.split()), []))
    return cases


def compare():
    cases, failed, explain = recorded(), 0, "--explain" in sys.argv
    print(f"1..{len(cases)}")
    for i, ((script, variant), theirs) in enumerate(cases, 1):
        _, ours = our_kernels(script, variant)
        in_ours = frozenset().union(*(nodes for _, nodes in ours))
        known = frozenset().union(*(nodes for library, nodes in theirs if not library)) & in_ours
        want = sorted(sorted(nodes & in_ours) for library, nodes in theirs if not library)
        got = sorted(sorted(nodes & known) for product, nodes in ours if not product)
        products = sum(product for product, _ in ours), sum(library for library, _ in theirs)
        same = want == got and products[0] == products[1]
        print(f"{'ok' if same else 'not ok'} {i} - {script} {variant}: {len(theirs)} kernels of torch.compile")
        if not same or explain:
            failed += not same
            for one in want:
                print(f"#   torch.compile: {' '.join(one)}{'' if one in got else '   (not in ours)'}")
            for one in got:
                print(f"#   inductor:      {' '.join(one)}{'' if one in want else '   (not in theirs)'}")
            print(f"#   products: {products[0]} here, {products[1]} there")
    return 1 if failed else 0


if __name__ == "__main__":
    if "--record" in sys.argv:
        record(sys.argv[sys.argv.index("--record") + 1:])
    sys.exit(compare())
