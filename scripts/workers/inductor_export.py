"""A plan as a Python file that one imports before torch.compile: `fusebox export SCRIPT COLUMN FILE --as inductor`.

    python3 inductor_export.py < {"graph": …, "name": …, "groups": [[node, …], …]} > FILE

The file holds the graph as a function whose operations are marked with their groups, inductor_groups.py, and what follows here.
When torch.compile compiles a graph, the function is traced in the same way, and its operations are looked for in that graph:
by what they are, what they read and who reads them. Those that are found are fused as the plan says; another graph is left
alone. Run here, only the writer is used; the rest is what it writes."""
import json
import os
import sys

HEAD = '''"""{title}: which operations Inductor fuses, as fusebox's plan "{name}" has them.

    import {module}                      # before torch.compile
    model = torch.compile(model)

For a model that computes the same in these shapes: {shapes}.
{module}.report() says, of the graph that was compiled last, how many operations were found and what became of each group."""
'''

MATCH = '''

# ---- whose operations are these? ----------------------------------------------------------------------------------------------


EITHER = {"aten.add.Tensor", "aten.mul.Tensor", "aten.maximum.default", "aten.minimum.default"}  # whichever operand is first


def described(fx, names):
    """An operation without its operands' identities."""
    import torch

    def plain(x):
        if isinstance(x, torch.fx.Node):
            return names[x]
        if isinstance(x, (list, tuple)):
            return tuple(plain(y) for y in x)
        return repr(float(x)) if isinstance(x, int) and not isinstance(x, bool) else repr(x)  # 2 is 2.0
    val = fx.meta.get("val")
    kind = (str(val.dtype), tuple(str(n) for n in val.shape)) if isinstance(val, torch.Tensor) else ()
    if fx.op != "call_function":
        return hash((fx.op if fx.op == "output" else "source", kind))
    given = {k: v for k, v in fx.kwargs.items() if k not in ("device", "pin_memory", "layout")}
    args = plain(fx.args)
    if str(fx.target) in EITHER:
        args = tuple(sorted(args, key=str))
    return hash((str(fx.target), args, plain(tuple(sorted(given.items()))), kind))


def colours(graph):
    """What each operation is called: by all that leads to it, then by all that it leads to."""
    names = {}
    for fx in graph.nodes:
        names[fx] = described(fx, names)
    behind = {}
    for fx in reversed(graph.nodes):
        behind[fx] = hash((names[fx], tuple(sorted(behind[user] for user in fx.users if user.op != "output"))))
    return behind, names


def matched(ours, theirs):
    """Their operation → ours; equal ones in their order."""
    out, rest = {}, [fx for fx in theirs.nodes if fx.op == "call_function"]
    free = [fx for fx in ours.nodes if fx.op == "call_function"]
    for (own, other) in zip(colours(ours), colours(theirs)):
        waiting = {}
        for fx in free:
            waiting.setdefault(own[fx], []).append(fx)
        for fx in list(rest):
            if waiting.get(other[fx]):
                out[fx] = waiting[other[fx]].pop(0)
                rest.remove(fx)
        taken = set(out.values())
        free = [fx for fx in free if fx not in taken]
    return out


# ---- from import on -----------------------------------------------------------------------------------------------------------

last = {}


class Stop(Exception):
    pass


def traced(where):
    """Our function as Inductor gets it, on tensors without data."""
    import torch
    from torch._functorch import config as functorch
    from torch._inductor import config
    from torch._inductor.custom_graph_pass import CustomGraphPass
    from torch._subclasses import FakeTensorMode
    found = []

    class Take(CustomGraphPass):
        def __call__(self, graph):
            found.append(graph)
            raise Stop("traced")

        def uuid(self):
            return None
    scope = dict(torch=torch, F=torch.nn.functional, device=torch.device(where), marked=torch.fx.traceback.annotate)
    scope.update({"dtype_" + k: getattr(torch, v) for k, v in DTYPES.items()})
    exec(compile(MODEL, "<plan of fusebox>", "exec"), scope)
    with FakeTensorMode(), torch.no_grad(), functorch.patch(enable_autograd_cache=False), \\
            config.patch(fx_graph_cache=False, joint_custom_pre_pass=Take()):
        args = [torch.empty(shape, dtype=getattr(torch, DTYPES[dtype]), device=where) for shape, dtype in INPUTS]
        try:
            torch.compile(scope["model"], dynamic=False)(*args)
        except Exception:
            if not found:
                raise
    return found[0]


class Plan(Passes):
    def __init__(self, ours):
        super().__init__()
        self.ours = ours

    def find(self, graph):
        ours = self.ours
        marks = {fx: marked(own) for fx, own in matched(ours, graph).items() if marked(own)}
        wanted = sum(1 for fx in ours.nodes if fx.op == "call_function" and marked(fx))
        obey.kernels.clear()
        last.clear()
        last.update(operations=wanted, found=len(marks))
        for fx, key in marks.items() if 2 * len(marks) > wanted else ():
            fx.meta["custom"] = dict(fx.meta.get("custom") or {}, **{MARK: sorted(key[0]), STEP: list(key[1])})
        self.guard(graph)


def report():
    """{"operations": of the plan, "found": in the graph compiled last, "groups", "obeyed", "kernels", "others": sentences}"""
    out = dict(last)
    if obey.kernels and out.get("found"):
        out.update(obey.result())
    return out


def install():
    import torch
    why = unavailable(torch.__version__)
    if why:
        import warnings
        warnings.warn(why + "; the plan is not used")
        return
    passes = Plan(traced("cuda" if torch.cuda.is_available() else "cpu"))
    obey.enter(passes, passes.find)


obey = Obey(NAMES)
install()
'''


def main():
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, folder)
    out, sys.stdout = sys.stdout, sys.stderr
    given = json.load(sys.stdin)
    import torch_worker as worker
    if worker.MISSING:
        sys.exit(worker.MISSING)
    case = worker.Case(given["graph"], "compile", [0], {})
    case.take(given)
    written = worker.Source(given["graph"], True, case.groups)
    text = written.text()
    inputs = [(given["graph"]["nodes"][i]["shape"], given["graph"]["nodes"][i]["dtype"]) for i in written.inputs]
    dtypes = {name: str(dtype).split(".")[1] for name, dtype in worker.DTYPES.items()}
    with open(os.path.join(folder, "inductor_groups.py")) as f:
        groups = f.read().split('"""', 2)[2]
    shapes = ", ".join(f"{d}{s}" for s, d in inputs)
    head = HEAD.format(title=given.get("title", "A plan"), name=given["name"], module=given.get("module", "plan"),
                       shapes=shapes if len(shapes) < 400 else shapes[:400] + " …")
    data = "\n".join(["", f"NAMES = {json.dumps(case.names, ensure_ascii=False)}", f"INPUTS = {inputs!r}", f"DTYPES = {dtypes!r}",
                      f"MODEL = {text!r}", ""])
    out.write(head + groups.rstrip("\n") + "\n\n" + data + MATCH)


if __name__ == "__main__":
    main()
