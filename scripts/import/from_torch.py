#!/usr/bin/env python3
"""A PyTorch module as a fusebox graph: traced with torch.export, written as JSON, its weights as .npy files beside it.

    fusebox import MODEL.py:make [-o NAME.json] [--weights drawn] [--unroll N] [--train]
    fusebox NAME.json

MODEL.py is a Python file; its function `make` gives a module and a tuple of example inputs: `return net, (x,)`, and may give
a dict of inputs by keyword after it. Weights go
to the folder NAME.weights; with `--weights drawn` there are no files, and each weight is drawn with its mean and spread.

A call of PyTorch that fusebox knows as one op (linear, layer_norm, softmax, silu, addmm, attention) keeps a scope of that
kind, so that the preset `eager` makes it one kernel. Submodules are regions: `encoder.layers[0].linear1`. LSTM and GRU
layers over more than `--unroll` steps (8) are loops, planned once for all steps; shorter ones are written out. Shapes are
those of the example inputs. Needs PyTorch; engine/graph/graph_json.h describes the document.

What a module keeps for the next call, a buffer that it changes, is a parameter that is assigned. `--train` takes the module as
it is in training, and the gradients of its first result, the loss, for each weight: `grad_encoder_weight`.

Dtypes are promoted as PyTorch does it, and the shape and dtype of each result are held against PyTorch's. Calls that cannot
be written in fusebox's ops are listed with the user's line and the submodule that made them, all at once, and nothing is
written. torch_calls.py, torch_layers.py, torch_order.py, torch_pictures.py and torch_complex.py have a function for each call, torch_graph.py
the nodes that they make.
"""
import argparse
import contextlib
import importlib.util
import inspect
import io
import logging
import os
import re
import sys

import torch_layers  # noqa: F401: these fill the table
import torch_order  # noqa: F401
import torch_pictures  # noqa: F401
from torch_calls import CALLS
from torch_complex import COMPLEX, any_in, is_of, of_tensor
from torch_graph import DTYPES, FLOATS, Graph, Unsupported, Value, dtype_of, refuse, values_in, word

ME = "fusebox" if os.environ.get("FUSEBOX_IMPORT") else "from_torch"  # who speaks

# ---- arguments


def operands(x, known):
    """Arguments with nodes replaced by what they gave."""
    if isinstance(x, (list, tuple)):
        return [operands(v, known) for v in x]
    return known[x] if type(x).__name__ == "Node" else x


def plain(x, constants):
    """Tensors of nodes that are constants, in lists as they stand; a list of numbers for a single one."""
    if isinstance(x, (list, tuple)):
        same = all(v is None or v in constants for v in x)
        return [constants[v] if v is not None else None for v in x] if same else x
    return constants[x].tolist() if x in constants else x


# Of where tensors lie and how: nothing that a value depends on.
ELSEWHERE = ("device", "layout", "pin_memory", "memory_format", "non_blocking", "copy")


def bound(fn, node, args, known):
    """A call's arguments for the function that writes it, by the call's schema: see torch_calls.py."""
    takes = list(inspect.signature(fn).parameters.values())[1:]
    places = [p for p in takes if p.kind == p.POSITIONAL_OR_KEYWORD and not p.name.startswith("_")]
    words = {p.name for p in takes if p.kind == p.KEYWORD_ONLY}
    by_place, by_word = [], {}
    for i, a in enumerate(node.target._schema.arguments):
        given = i < len(args) or a.name in node.kwargs
        value = args[i] if i < len(args) else operands(node.kwargs[a.name], known) if given else a.default_value
        if a.name in ELSEWHERE:
            continue
        if a.name in words or a.kwarg_only and any(p.name == a.name for p in places):
            by_word[a.name] = value
        elif len(by_place) < len(places) and not a.kwarg_only:
            by_place.append(value)
        elif given and value != a.default_value:
            raise Unsupported(f"aten.{called(node)} with {a.name}={value if isinstance(value, (int, float, str)) else '…'}")
    return by_place, by_word


# ---- from an exported program


def place_of(node):
    """The user's line that made a call, as the trace tells it; "" where it does not."""
    import torch
    frames = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    library = os.path.dirname(torch.__file__) + os.sep
    own = [f for f in frames if not f[0].startswith((library, "<"))]
    return f"{os.path.basename(own[-1][0])}:{own[-1][1]}" if own else ""


def raised_at(why):
    """The user's line on the way to an exception; "" where there is none."""
    import torch
    import traceback
    skip = tuple(os.path.dirname(os.path.abspath(file)) + os.sep for file in (torch.__file__, __file__)) + ("<",)
    python = os.path.dirname(os.__file__) + os.sep
    own = [f for f in traceback.extract_tb(why.__traceback__) if not f.filename.startswith(skip) and (
        "site-packages" in f.filename or not f.filename.startswith(python))]
    return f"{os.path.basename(own[-1].filename)}:{own[-1].lineno}" if own else ""


def module_of(node):
    """The path of submodules in which a call was made: "encoder.layers.0"."""
    stack = node.meta.get("nn_module_stack") or {}
    last = list(stack.values())[-1][0] if stack else ""
    return re.sub(r"@\d+", "", re.sub(r"^L\['self'\]\.?", "", last)).replace("['", ".").replace("']", "").strip(".")


def called(node):
    """The name of a call, as CALLS has it."""
    name = str(node.target)
    return name.split(".")[1] if name.startswith(("aten.", *OF_OTHERS)) else getattr(node.target, "__name__", name)


def origin(node):
    """The name of the module's own call of which this is a part, "" where that is not told."""
    source, further = None, node.meta.get("from_node")
    while further:
        source = further[0]
        further = getattr(source, "from_node", None)
    return called(source) if source is not None and str(source.target).startswith("aten.") else ""


def add_input(g, name, tensor):
    import torch
    if not isinstance(tensor, torch.Tensor):
        raise Unsupported(f"the input {name} is no tensor")
    try:
        dtype = dtype_of(tensor.dtype)
    except Unsupported as why:
        raise Unsupported(f"the input {name}: {why}") from None
    g.scope = -1
    if dtype in FLOATS:
        return g.noted(tensor, g.add("input", [], tensor.shape, dtype, name, dist="normal", value=0.0, high=1.0), own=False)
    low, high = (float(tensor.min()), float(tensor.max()) + 1) if tensor.numel() and dtype != "bool" else (0.0, 2.0)
    return g.add("input", [], tensor.shape, dtype, name, dist="integer", value=low, high=high)


class Known(dict):
    """Node → what it gave. What is folded is written when it is first read: a table of indices, say, as a weight."""

    MOST = 1 << 22  # elements

    def __init__(self, g):
        super().__init__()
        self.g, self.constants, self.folded = g, {}, set()

    def __missing__(self, node):
        if node not in self.folded:
            raise Unsupported(f"{node.name}, which was not written")
        self[node] = of_tensor(self.g, node.name, self.constants[node])
        return self[node]

    def fold(self, node):
        """A call whose operands are all constants is worked out here; true if fusebox has no op that would do it."""
        import torch
        target = node.target
        if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload) or any(
                n not in self.constants for n in node.all_input_nodes):
            return False
        value = node.meta.get("val")
        if torch.Tag.nondeterministic_seeded in target.tags or isinstance(value, torch.Tensor) and value.numel() > self.MOST:
            return False
        if not isinstance(value, torch.Tensor):
            return False
        values = [torch.fx.node.map_arg(a, self.constants.__getitem__) for a in (node.args, node.kwargs)]
        self.constants[node] = target(*values[0], **values[1])
        taken = str(value.dtype).replace("torch.", "") in DTYPES
        if called(node) in CALLS and taken and not self.folded.intersection(node.all_input_nodes):
            return False
        self.folded.add(node)
        return True


def calls_of(program):
    """All calls of a program, also those of the graphs inside it."""
    for module in program.graph_module.modules():
        if hasattr(module, "graph"):
            yield from (n for n in module.graph.nodes if n.op == "call_function")


@contextlib.contextmanager
def shapes_as_run():
    """While PyTorch asks itself for shapes without running: for batches of more than one it gives the last states of an LSTM
    one dim more than a run does (2.11)."""
    import torch
    from torch._decomp import decomposition_table as table, meta_table
    op = torch.ops.aten.lstm.input
    kept, tables = dict(op.py_kernels), [(t, t[op]) for t in (table, meta_table) if op in t]

    def as_given(impl):
        def lstm(x, hx, *args, **kwargs):
            y, h, c = impl(x, hx, *args, **kwargs)
            return y, h.reshape(hx[0].shape), c.reshape(hx[1].shape)
        return lstm
    try:
        op.py_kernels.update({key: as_given(impl) for key, impl in kept.items()})
        for t, impl in tables:
            t[op] = as_given(impl)
        op._dispatch_cache.clear()
        yield
    finally:
        for t, impl in tables:
            t[op] = impl
        op.py_kernels.clear()
        op.py_kernels.update(kept)
        op._dispatch_cache.clear()


def know_caches():
    """A cache of keys and values, which the transformers library gives back beside its answer, counts as its tensors."""
    if "transformers" not in sys.modules:
        return
    try:
        from transformers.integrations.executorch import register_dynamic_cache_export_support
        register_dynamic_cache_export_support()
    except Exception:  # another version, or told before: then torch.export says what it does not know
        pass


def keep_state(net):
    """Tensors that a module has as plain attributes become buffers, so that one that is changed is seen to be. Not those that a
    hook makes of a parameter before each call: spectral_norm and prune write `weight` out of `weight_orig`."""
    import torch
    for m in net.modules():
        for name, value in list(vars(m).items()):
            made = any(own.startswith(name + "_") for own in m._parameters) and m._forward_pre_hooks
            if type(value) is torch.Tensor and not value.requires_grad and not made:
                delattr(m, name)
                m.register_buffer(name, value, persistent=False)


def joint_of(program):
    """The program with the gradients of its first result, a loss, as PyTorch's own autograd writes them out."""
    import torch
    try:
        from torch.export.experimental import _export_forward_backward
    except ImportError:
        raise ValueError(f"PyTorch {torch.__version__} has no joint graph of a module and its gradients") from None
    results = [s.arg.name for s in program.graph_signature.output_specs if s.kind.name == "USER_OUTPUT"]
    value = next(n for n in program.graph.nodes if n.name == results[0]).meta["val"] if results else None
    if not isinstance(value, torch.Tensor) or value.numel() != 1 or not value.is_floating_point():
        raise ValueError("with --train the first result has to be a loss, one number")
    return _export_forward_backward(program)


def of_parts(target):
    """Is it a call that PyTorch itself makes of other calls, whatever the device?"""
    import torch
    return isinstance(target, torch._ops.OpOverload) and torch._C._dispatch_has_kernel_for_dispatch_key(
        target.name(), "CompositeImplicitAutograd")


@contextlib.contextmanager
def masks_as_given():
    """nn.Transformer asks a mask's values whether it is causal, which no trace can know; the mask itself says the same."""
    from torch.nn.modules import transformer
    kept = transformer._detect_is_causal_mask
    transformer._detect_is_causal_mask = lambda mask, is_causal=None, size=None: bool(is_causal)
    try:
        yield
    finally:
        transformer._detect_is_causal_mask = kept


def exported(net, inputs, words=None, train=False):
    """The program of a module, the example of each of its inputs by name, and the lines of each call by its name, which later
    passes may lose. Changes in place and contexts (no_grad, autocast) are written out; calls that CALLS lacks are taken apart
    as PyTorch itself does it. `words`: inputs by keyword; `train`: in training mode, with gradients of the loss."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    know_caches()
    keep_state(net)
    with torch.set_grad_enabled(train), shapes_as_run(), masks_as_given(), sdpa_kernel(SDPBackend.MATH) if train else contextlib.nullcontext():
        program = torch.export.export(net.train(train), inputs, words or {})
        program = joint_of(program) if train else program
        lines = {}
        for n in calls_of(program):
            lines.setdefault(called(n), set()).add(place_of(n))
        if any(called(n)[-1:] == "_" and called(n) not in CALLS or called(n).startswith("wrap_with") for n in calls_of(program)):
            program = program.run_decompositions({})  # the same calls
        table = torch.export.default_decompositions()
        for _ in range(4):  # what a part is made of may need taking apart too
            missing = {n.target for n in calls_of(program) if called(n) not in CALLS and called(n) not in COMPLEX and (
                n.target in table or of_parts(n.target))}
            if not missing:
                break
            program = program.run_decompositions({target: table[target] for target in missing if target in table})
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    return program, dict(zip(names, torch.utils._pytree.tree_leaves((inputs, words or {})))), lines


def stand_in(value):
    """In the place of what a refused call would have given, so that calls after it can be looked at."""
    if isinstance(value, (list, tuple)):
        return [stand_in(v) for v in value]
    dtype = DTYPES.get(str(getattr(value, "dtype", "")).replace("torch.", ""))
    known = dtype and all(type(n) is int for n in value.shape)
    return Value(0, value.shape, dtype) if known else None


def same(name, got, value):
    """What was written has to be what PyTorch gives, in shape and dtype."""
    import torch
    if isinstance(value, (list, tuple)):
        if not isinstance(got, list) or len(got) != len(value):
            raise Unsupported(f"aten.{name} with {len(value)} results")
        for one, v in zip(got, value):
            same(name, one, v) if one is not None else None  # a None that is read is refused where it is read
    elif isinstance(value, torch.Tensor):
        if value.is_complex():
            return is_of(got, value) or refuse(f"aten.{name} of complex numbers in this dtype")
        theirs = f"{dtype_of(value.dtype)}{list(value.shape)}"
        if not isinstance(got, Value):
            raise Unsupported(f"this result of aten.{name}")
        if f"{got.dtype}{got.shape}" != theirs:
            raise Unsupported(f"aten.{name} gives {theirs} in PyTorch, and {got.dtype}{got.shape} in fusebox's ops")


def hangs_on_values(value):
    """Is it a number, or of a size, that nobody knows before the values?"""
    if isinstance(value, (list, tuple)):
        return any(map(hangs_on_values, value))
    return any(type(n) is not int for n in value.shape) if hasattr(value, "shape") else type(value).__name__.startswith("Sym")


def gradient_name(parameter):
    return word("grad_" + parameter)


class Importer:
    """A program on its way into a graph; `failed` has what was refused."""

    def __init__(self, program, examples, lines, title, folder, unroll):
        self.g, self.failed, self.title, self.lines, self.examples = Graph(title, folder), [], title, lines, examples
        self.g.unroll = unroll
        self.program, self.known, self.refused = program, Known(self.g), set()
        self.g.keep_names(examples)

    def where(self, node):
        """The user's line and the module, as far as they are known."""
        place = place_of(node)
        if not place:
            lines = sorted(line for line in self.lines.get(called(node), ()) if line)
            place = " or ".join(lines[:3]) or (node.name if node.op == "call_function" else self.title)
        return place, module_of(node)

    def refuse(self, node, why):
        place, module = self.where(node)
        self.failed.append(f"{place}: {why}" + (f" (in {module})" if module else ""))
        self.known[node] = stand_in(node.meta.get("val"))
        self.refused.add(node)

    def source(self, node):
        signature, program = self.program.graph_signature, self.program
        weights = {**signature.inputs_to_parameters, **signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
        if node.name not in weights:
            return add_input(self.g, node.name, self.examples[node.name])
        name = weights[node.name]
        state = {**dict(program.named_parameters()), **dict(program.named_buffers()), **program.constants}
        modules, own = name.rsplit(".", 1) if "." in name else ("", name)
        self.g.enter(modules)
        return of_tensor(self.g, own, state[name])

    def keep(self, spec, value):
        """A buffer that the module changes is a parameter that gets its new value at the end: the next call sees it."""
        if spec.kind.name != "BUFFER_MUTATION":
            raise Unsupported(f"the module changes {spec.target}, which is no buffer of its own")
        node = next(n for n in self.program.graph.nodes if self.program.graph_signature.inputs_to_buffers.get(n.name) == spec.target)
        if self.known[node] is None:  # only written
            self.known[node] = self.source(node)
        own = self.known[node]
        if self.g.nodes[own.id]["op"] != "param":
            raise Unsupported(f"the module changes {spec.target} of truth values")
        if own.id != value.id:
            self.g.scope = -1
            self.g.add("assign", [own, value], own.shape, own.dtype, "kept_" + spec.target)

    def output(self, node):
        specs = self.program.graph_signature.output_specs
        for v, spec in zip(operands(list(node.args[0]), self.known), specs, strict=True):
            if v is None:
                continue
            if spec.kind.name.endswith("MUTATION"):
                self.keep(spec, v)
                continue
            if not isinstance(v, Value):
                raise Unsupported("it gives a complex tensor: let it give torch.view_as_real of that" if any_in(v) else
                                  f"it gives {v}, which is no tensor")
            n = len(self.g.outputs)
            gradient = spec.kind.name == "GRADIENT_TO_PARAMETER"
            self.g.outputs.append({"name": gradient_name(spec.target) if gradient else f"out{n + 1}" if n else "out", "node": v.id})
        if not self.g.outputs:
            raise Unsupported("it gives no tensor")

    def one(self, node):
        import torch
        value = node.meta.get("val")
        behind = node.op == "call_function" and self.refused.intersection(node.all_input_nodes)
        if behind and (hangs_on_values(value) or not isinstance(value, (torch.Tensor, list, tuple))):
            self.refused.add(node)  # a size that hangs on what was refused
            self.known[node] = None
        elif node.op == "call_function" and hangs_on_values(value) and called(node) not in NOTHING:
            what = "the size of its result" if isinstance(value, (torch.Tensor, list, tuple)) else "the number that it gives"
            raise Unsupported(f"{OF_VALUES.get(called(node), 'aten.' + called(node))}: {what} hangs on values")
        elif node.op == "placeholder":
            self.known[node] = self.source(node) if node.users else None
        elif node.op == "get_attr":
            self.known[node] = None  # a graph inside this one: the call that takes it is refused
        elif node.op == "output":
            self.output(node)
        elif called(node) == "getitem" and not node.users:
            self.known[node] = None
        elif not self.known.fold(node):
            self.known[node] = convert_call(self.g, node, self.known)
            same(called(node), self.known[node], value) if called(node) not in NOTHING else None

    def run(self):
        for node in self.program.graph.nodes:
            try:
                self.one(node)
            except Unsupported as why:
                if node.op != "output" or not self.refused.intersection(node.all_input_nodes):
                    self.refuse(node, why)
            except Exception as why:  # of arguments that a function did not think of
                if not self.refused.intersection(node.all_input_nodes):  # else they may be missing for what was refused
                    self.refuse(node, f"aten.{called(node)} with arguments that are not known to fusebox ({why})")
                self.known[node] = stand_in(node.meta.get("val"))
                self.refused.add(node)


# Calls that give nothing a value depends on, and calls of which some operands are taken as they are where they are constants.
NOTHING = ("sym_size", "sym_numel", "_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_constrain_range_for_size")
OF_VALUES = {"index": "an index that is a mask", "_local_scalar_dense": "a number taken out of a tensor", "item": "a number taken out of a tensor"}
UNTRACED = ("GuardOnDataDependentSymNode", "DynamicOutputShapeException", "DataDependentOutputException")
AS_IT_IS = {"index": (1,), "_unsafe_index": (1,), "embedding_bag": (2,)}
# Calls that a library adds to PyTorch's own, as their names begin; torch_layers.py has them.
OF_OTHERS = ("transformers.grouped_mm_fallback.",)
RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
DRAWS = "aten.{} draws numbers that nobody can draw again: give them as an input"
REFUSED = {"cond": "torch.cond, of which fusebox would have to choose one side before it runs",
           "while_loop": "a loop whose length its values decide"}


BY_STRIDE = ("as_strided", "as_strided_copy")


def lies_in_order(value):
    return value.is_contiguous() and not value.storage_offset() and value.untyped_storage().nbytes() == value.nbytes


def convert_call(g, node, known):
    name = called(node)
    if name in NOTHING:
        return None
    if name == "getitem":
        part = operands(node.args[0], known)[node.args[1]]
        return part if part is not None else refuse(f"result {node.args[1]} of aten.{called(node.args[0])}")
    inplace, fn = name.endswith("_") and not name.startswith("_"), CALLS.get(name)
    of_complex = any_in([known.get(n) for n in node.all_input_nodes]) or getattr(node.meta.get("val"), "is_complex", bool)()
    if of_complex or name in ("view_as_real", "view_as_complex"):
        fn = COMPLEX.get(name) or fn and refuse(f"aten.{name} of complex numbers")
    overload = str(node.target).rpartition(".")[2]
    if name in REFUSED or not str(node.target).startswith(("aten.", *OF_OTHERS)):
        raise Unsupported(REFUSED.get(name, f"{name} is not known to fusebox"))
    if name in RECURRENT and overload == "data":
        raise Unsupported(f"aten.{name} of packed sequences")
    import torch
    if not fn and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        raise Unsupported(DRAWS.format(name))
    if not fn:
        name = origin(node) or name
        raise Unsupported(f"aten.{name} {'changes its operand, which' if inplace else ''} is not known to fusebox".replace("  ", " "))
    if name in BY_STRIDE and not lies_in_order(node.args[0].meta["val"]):
        raise Unsupported(f"aten.{name} of a tensor that does not lie in order")
    args = list(node.args)
    for k in AS_IT_IS.get(name, ()):
        args[k] = plain(args[k], known.constants)
    args = operands(args, known)
    g.enter(module_of(node))
    by_place, by_word = bound(fn, node, args, known)
    if name in RECURRENT:  # many calls, whatever PyTorch's library makes of them
        return fn(g, *by_place, **by_word)
    return g.call("aten_" + name.lstrip("_"), values_in([by_place, list(by_word.values())]), lambda: fn(g, *by_place, **by_word))


def convert(program, examples, lines, title, folder, unroll, report):
    """The graph, or None where something was refused, after each refusal was reported."""
    importer = Importer(program, examples, lines, title, folder, unroll)
    importer.run()
    for line in dict.fromkeys(importer.failed):
        report(line)
    return None if importer.failed else importer.g


def load(what):
    from torch import nn
    path, _, function = what.partition(":")
    if not os.path.isfile(path):
        sys.exit(f"{ME}: {path}: there is no such file")
    spec = importlib.util.spec_from_file_location("model", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        spec.loader.exec_module(module)
        make = getattr(module, function or "make", None)
        if not callable(make):
            sys.exit(f"{ME}: {path}: it has no function {function or 'make'}")
        made = make()
    except Exception as why:  # the file's own
        line = next((text for text in str(why).splitlines() if text.strip()), "")
        place = f"{path}:{why.lineno}" if isinstance(why, SyntaxError) and why.filename and os.path.samefile(why.filename, path) else raised_at(why) or path
        sys.exit(f"{ME}: {place}: {type(why).__name__}: {line.strip()}")
    net, inputs, words = (*made, {})[:3] if isinstance(made, tuple) and len(made) in (2, 3) else (made, None, {})
    if inputs is None or not isinstance(net, nn.Module) or not isinstance(words, dict):
        sys.exit(f"{ME}: {what}: it must give a module and a tuple of example inputs, and may give a dict of more by keyword")
    return net, tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,), words


def main():
    parser = argparse.ArgumentParser(description="A PyTorch module as a fusebox graph in JSON.")
    parser.add_argument("model", metavar="MODEL.py:make")
    parser.add_argument("-o", "--out", metavar="NAME.json")
    parser.add_argument("--weights", choices=["files", "drawn"], default="files")
    parser.add_argument("--unroll", type=int, default=8, metavar="N", help="recurrent layers of at most so many steps are written out")
    parser.add_argument("--train", action="store_true", help="in training mode: the first result is a loss, and gradients are results")
    o = parser.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit(f"{ME}: PyTorch is not installed for this Python")
    net, inputs, words = load(o.model)
    out = o.out or os.path.splitext(os.path.basename(o.model.partition(":")[0]))[0] + ".json"
    folder = re.sub(r"\.json$", "", out) + ".weights" if o.weights == "files" else None
    said = io.StringIO()  # where it fails, a line says what; torch.export would print the graph so far
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stderr(said):
            program, examples, lines = exported(net, inputs, words, o.train)
    except Exception as why:  # whatever torch.export or the module itself raises: its first line says what
        line = next((text for text in str(why).splitlines() if text.strip()), "")
        what = "what is done, or a size, hangs on a tensor's values: " if type(why).__name__ in UNTRACED else ""
        sys.exit(f"{ME}: {raised_at(why) or o.model}: torch.export does not trace it: {what}{type(why).__name__}: {line.strip()}")
    logging.disable(logging.NOTSET)
    sys.stderr.write(said.getvalue())
    g = convert(program, examples, lines, type(net).__name__, folder, o.unroll, lambda line: print(f"{ME}: {line}", file=sys.stderr))
    if not g:
        sys.exit(1)
    try:
        g.write_files()
        with open(out + ".part", "w") as f:
            f.write(g.document())
        os.replace(out + ".part", out)
    except OSError as why:
        sys.exit(f"{ME}: {why.filename or out}: {why.strerror}")
    print(f"{out}: {len(g.nodes)} nodes, {len(g.scopes)} scopes" + (f", weights in {folder}" if g.files else ""))


if __name__ == "__main__":
    main()
