"""A plan of fusebox's, obeyed by Inductor: what a group holds is fused, what lies in two groups stays apart.

    with Obey(names) as obey:      # while torch.compile compiles a function whose operations are marked
        ...
    obey.notes(), obey.held        # which groups came out as they were asked for, and what became of the others

An operation is marked by `torch.fx.traceback.annotate({MARK: [group, …], STEP: [step, …]})`: the groups that compute it (more
than one: each for itself), and of the loops around it the steps. Two nodes of the scheduler are fused if and only if a group
has both (InductorChoices.can_fuse…); a value that another group reads is stored (`inductor_realize_to_strides`); and
rewrites of patterns do not reach across groups, for what they would match has one more user until they are over.

These are inner parts of PyTorch's, as of the versions in TESTED."""
import collections

TESTED = ("2.11",)
MARK, STEP, KEY, GUARD = "fusebox", "fusebox_steps", "fusebox_key", "fusebox_guard"


def unavailable(version):
    """A sentence, or None where the parts that are used here are known to be there."""
    if ".".join(version.split("+")[0].split(".")[:2]) in TESTED:
        return None
    return f"PyTorch is {version}: how Inductor obeys a plan was tested with {' and '.join(TESTED)} alone"


def is_view(fx):
    schema = getattr(fx.target, "_schema", None)
    alias = schema.returns[0].alias_info if schema and schema.returns else None
    return alias is not None and not alias.is_write


def marked(fx):
    """(groups, steps) of an operation, or None."""
    mark = (fx.meta.get("custom") or {}).get(MARK)
    return (frozenset(mark), tuple(fx.meta["custom"].get(STEP, ()))) if mark is not None else None


def readers(fx):
    """Who reads its value, through views."""
    todo, seen = list(fx.users), set()
    while todo:
        user = todo.pop()
        if user in seen:
            continue
        seen.add(user)
        if user.op == "call_function" and is_view(user):
            todo += user.users
        else:
            yield user


def together(a, b):
    """Does a group have both?"""
    return bool(a[0] & b[0]) and a[1] == b[1]


def leaves(fx, keys):
    """Is the value read by a group that does not compute it?"""
    key = keys.get(fx)
    others = [keys.get(user) for user in readers(fx) if user.op == "call_function"]
    return key is not None and any(o is not None and not (o[0] <= key[0] and o[1] == key[1]) for o in others)


def keys_of(graph):
    """The groups of each operation; one that a rewrite made, or that has no mark, goes with who reads it, else with what
    it reads."""
    ops = [fx for fx in graph.nodes if fx.op == "call_function" and not is_view(fx)]
    keys = {fx: marked(fx) or fx.meta.get(KEY) for fx in ops}
    for fx in reversed(ops):
        if keys[fx] is None:
            found = {keys.get(user) for user in readers(fx)} - {None}
            keys[fx] = found.pop() if len(found) == 1 else None
    for fx in ops:
        if keys[fx] is None:
            found = [keys[a] for a in fx.all_input_nodes if keys.get(a)]
            keys[fx] = found[-1] if found else None
    return {fx: key for fx, key in keys.items() if key}


class Passes:
    """What is done to the graph before and after Inductor's rewrites."""

    def __init__(self):
        self.guards = 0

    def guard(self, graph):
        import torch
        keys = keys_of(graph)
        for fx in list(keys):
            if leaves(fx, keys) and isinstance(fx.meta.get("val"), torch.Tensor):
                with graph.inserting_after(fx):
                    extra = graph.call_function(torch.ops.aten.logical_not.default, (fx,))
                extra.meta = {"val": fx.meta["val"], GUARD: True}
                self.guards += 1

    def store(self, graph):
        import torch
        for fx in list(graph.nodes):
            if fx.meta.get(GUARD) and not fx.users:
                graph.erase_node(fx)
        keys = keys_of(graph)
        for fx, key in keys.items():
            fx.meta[KEY] = key
            if leaves(fx, keys) and isinstance(fx.meta.get("val"), torch.Tensor):
                fx.meta["inductor_realize_to_strides"] = True


def groups_of(node):
    """What one node of the scheduler is of: the groups that have all that it computes, else those of its result."""
    found = []
    for s in node.get_nodes():
        if s.node is None:
            continue
        own = [fx.meta[KEY] for fx in s.node.get_origins() if KEY in fx.meta]
        last = s.node.get_origin_node()
        if last is not None and KEY in last.meta:
            own.append(last.meta[KEY])
        if not own:
            continue
        common = frozenset.intersection(*(k[0] for k in own))
        found.append((common, own[-1][1]) if common and len({k[1] for k in own}) == 1 else own[-1])
    if not found:
        return None
    common = frozenset.intersection(*(k[0] for k in found))
    return (common or found[-1][0], found[-1][1])


class Obey:
    def __init__(self, names):
        """`names`: what each group is called in a note."""
        self.names, self.kernels, self.wrapped = names, [], None

    def __enter__(self):
        passes = Passes()
        self.enter(passes, passes.guard)
        return self

    def enter(self, passes, first):
        """`first` gets the graph before anything is rewritten."""
        import torch
        from torch._functorch import config as functorch
        from torch._inductor import config, scheduler
        from torch._inductor.codegen.cpp import CppScheduling
        from torch._inductor.choices import InductorChoices
        from torch._inductor.custom_graph_pass import CustomGraphPass
        from torch._inductor.virtualized import V
        obey = self

        class Choices(InductorChoices):
            @staticmethod
            def can_fuse(scheduler, node1, node2, shared_data_score):
                a, b = groups_of(node1), groups_of(node2)
                if a and b:
                    return together(a, b)
                if shared_data_score == 0:
                    return False  # else this is for those of one group alone
                return InductorChoices.can_fuse(scheduler, node1, node2, shared_data_score)

            @staticmethod
            def can_fuse_horizontal(scheduler, node1, node2, shared_data_score):
                a, b = groups_of(node1), groups_of(node2)
                return together(a, b) if a and b else InductorChoices.can_fuse_horizontal(scheduler, node1, node2, shared_data_score)

        def made(work):
            class Pass(CustomGraphPass):
                def __call__(self, graph):
                    work(graph)

                def uuid(self):
                    return None  # never from a cache: the plan is no part of its key
            return Pass()

        self.inner, self.cpp, self.room = scheduler.Scheduler.__dict__["_init"], CppScheduling, CppScheduling.MAX_FUSED_KERNEL_ARGS_NUM
        CppScheduling.MAX_FUSED_KERNEL_ARGS_NUM = 0  # else neighbours that were not fused are one function on a CPU

        def fused(scheduler, nodes):
            obey.inner(scheduler, nodes)
            obey.kernels += [n for n in scheduler.nodes if type(n).__name__ != "NopKernelSchedulerNode"]
        scheduler.Scheduler._init = fused
        self.wrapped = scheduler.Scheduler
        self.patches = [config.patch(fx_graph_cache=False, aggressive_fusion=True, joint_custom_pre_pass=made(first),
                                     post_grad_custom_pre_pass=made(passes.guard), post_grad_custom_post_pass=made(passes.store)),
                        functorch.patch(enable_autograd_cache=False), V.set_choices_handler(Choices())]
        for patch in self.patches:
            patch.__enter__()

    def __exit__(self, *_):
        for patch in reversed(self.patches):
            patch.__exit__(None, None, None)
        self.wrapped._init, self.cpp.MAX_FUSED_KERNEL_ARGS_NUM = self.inner, self.room

    # -- what came of it

    def outcome(self):
        """Of each group and step the kernels that compute some of it, and of each kernel what it holds."""
        kernels_of, holds = collections.defaultdict(set), []
        for at, node in enumerate(self.kernels):
            own = set()
            for s in node.get_nodes():
                key = groups_of(s)
                if key and type(s.node).__name__ not in ("MultiOutput", "DeviceCopyNone"):
                    own.add(key)
            holds.append(own)
            for groups, step in own:
                for g in groups:
                    kernels_of[g, step].add(at)
        return kernels_of, holds

    def result(self):
        """How many groups are one kernel of their own, of how many; and a sentence for each of the others."""
        kernels_of, holds = self.outcome()
        apart, mixed = {}, set()
        for (g, _), kernels in kernels_of.items():
            apart[g] = max(apart.get(g, 0), len(kernels))
        for own in holds:
            for a in own:
                for b in own:
                    if not together(a, b):
                        mixed |= a[0] | b[0]
        notes = []
        for g in sorted(apart):
            if apart[g] > 1 and g not in mixed:
                notes.append(f"{self.names[g]}: Inductor makes {apart[g]} kernels of it")
            elif g in mixed:
                notes.append(f"{self.names[g]}: Inductor computes it together with another group")
        missing = [g for g in range(len(self.names)) if g not in apart]
        notes += [f"{self.names[g]}: nothing is launched for it" for g in missing]
        return {"groups": len(self.names), "obeyed": len(self.names) - len(notes), "kernels": len(self.kernels), "others": notes}
