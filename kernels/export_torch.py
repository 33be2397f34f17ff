# ---- the same for every export
#
# Each C library becomes an operator of torch.library: it takes the addresses of tensors as they lie, and allocates what
# it gives with PyTorch. Nothing is compiled against PyTorch, so that one folder serves all of its versions.
import ctypes
import pathlib

import torch

_library = torch.library.Library(_NAME + "_torch", "DEF")
_tags = tuple(
    getattr(torch.Tag, tag) for tag in ("pt2_compliant_tag", "needs_exact_strides") if hasattr(torch.Tag, tag)
)


_host = torch.device("cpu")


class _Tensor:
    """A tensor of a program, in the order of the library's struct."""

    def __init__(self, name, script, role, dtype, shape, written, start=None):
        self.name, self.script, self.role = name, script, role
        self.dtype, self.shape, self.written, self.start = dtype, shape, written, start
        self.given = role != "output"


class _Program:
    """A library of the folder and the operator that runs it. PyTorch knows operators of so many arguments; more tensors are
    in lists: those that are read, and those that are changed."""

    MOST = 64

    def __init__(self, op, name, folder, tensors):
        self.name, self.qualified = name, f"{_NAME}_torch::{op}"
        self.tensors = tensors
        self.given = [t for t in tensors if t.given]
        self.made = [t for t in tensors if not t.given]
        self.forms = [(t.dtype, torch.Size(t.shape)) for t in self.given]
        self.written = any(t.written for t in tensors)
        self.listed = len(self.given) > self.MOST
        self.lists = [here for here in ([i for i, t in enumerate(self.given) if t.written == w] for w in (False, True)) if here]
        self.place = [(t.given, (self.given if t.given else self.made).index(t)) for t in tensors]
        self.idle = {}  # handles that nobody uses, of each stream
        self.captured = {}  # handles of CUDA graphs, by the stream that was captured
        self.open(pathlib.Path(__file__).resolve().parent / folder / f"lib{name}.so")
        self.define(op)

    def open(self, path):
        if not path.exists():
            raise ImportError(f"{_NAME}: {path} is not built yet: make -C {path.parent.parent}")
        try:
            library = ctypes.CDLL(str(path))
        except OSError as e:
            raise ImportError(f"{_NAME}: {path} cannot be loaded: {e}") from e
        self.struct = ctypes.c_void_p * max(len(self.tensors), 1)
        self.c_create, self.c_run = getattr(library, self.name + "_create"), getattr(library, self.name + "_run")
        self.c_error, self.c_explain = getattr(library, self.name + "_error"), getattr(library, self.name + "_explain")
        self.c_create.argtypes = [ctypes.POINTER(ctypes.c_void_p)]
        self.c_run.argtypes = [ctypes.c_void_p, self.struct] + [ctypes.c_void_p] * (_DEVICE == "cuda")
        self.c_error.argtypes, self.c_error.restype = [ctypes.c_void_p], ctypes.c_char_p
        self.c_explain.argtypes, self.c_explain.restype = [ctypes.c_int], ctypes.c_char_p

    def define(self, op):
        takes = [f"Tensor(a{i}!) {t.name}" if t.written else f"Tensor {t.name}" for i, t in enumerate(self.given)]
        if self.listed:
            takes = ["Tensor(a!)[] changed" if self.given[here[0]].written else "Tensor[] given" for here in self.lists]
        takes = ", ".join(takes)
        gives = "Tensor" if len(self.made) == 1 else "(" + ", ".join(["Tensor"] * len(self.made)) + ")"
        _library.define(f"{op}({takes}) -> {gives}", tags=_tags)
        _library.impl(op, self.compute, "CompositeExplicitAutograd")
        torch.library.register_fake(self.qualified, self.pretend, lib=_library)
        self.op = getattr(getattr(torch.ops, _NAME + "_torch"), op).default

    def arguments(self, given):
        """Tensors in order as the operator takes them, or what else there is of each."""
        return tuple([given[i] for i in here] for here in self.lists) if self.listed else tuple(given)

    def ordered(self, arguments):
        if not self.listed:
            return arguments
        given = [None] * len(self.given)
        for here, parts in zip(self.lists, arguments):
            for i, part in zip(here, parts):
                given[i] = part
        return given

    def call(self, *given):
        """What it makes, several or none."""
        made = self.op(*self.arguments(given))
        return (made,) if len(self.made) == 1 else made

    # ---- what is given

    def refuse(self, t, got, device):
        """The sentence about a tensor that cannot be taken."""
        where = f"{_NAME}: {t.name}"
        if got.layout is not torch.strided:
            return TypeError(f"{where} is {got.layout}; a dense tensor is wanted")
        if got.dtype is not t.dtype:
            return TypeError(f"{where} is {got.dtype}; it was exported for {t.dtype}")
        if got.device.type != _DEVICE:
            return ValueError(f"{where} is on {got.device}; it was exported for {_DEVICE}")
        if got.device != device:
            return ValueError(f"{where} is on {got.device}, and others are on {device}")
        if tuple(got.shape) != t.shape:
            return ValueError(
                f"{where} has the shape {tuple(got.shape)}; it was exported for {t.shape}, and another size is "
                "another export"
            )
        return ValueError(
            f"{where} has the strides {tuple(got.stride())}; it is "
            + ("written where it lies, and must be" if t.written else "not copied, and must be")
            + f" packed row by row, as {t.name}.contiguous() is"
        )

    def check(self, given):
        """The device of what is given, which is as the table has it."""
        device = given[0].device if given else torch.device(_DEVICE, torch.cuda.current_device() if _DEVICE == "cuda" else None)
        for t, got in zip(self.given, given):
            if (
                got.layout is not torch.strided
                or got.dtype is not t.dtype
                or got.shape != t.shape
                or got.device != device
                or device.type != _DEVICE
                or not got.is_contiguous()
            ):
                raise self.refuse(t, got, device)
        return device

    def fits(self, given):
        """The same of tensors that are really there, in less time; False sends to check()."""
        for (dtype, shape), got in zip(self.forms, given):
            if got.dtype is not dtype or got.shape != shape or not got.is_cpu or got.layout is not torch.strided:
                return False
            if not got.is_contiguous():
                return False
        return True

    # ---- what is made of it

    def results(self, device):
        made = [torch.empty(t.shape, dtype=t.dtype, device=device) for t in self.made]
        return made, made[0] if len(made) == 1 else tuple(made)

    def pretend(self, *arguments):
        return self.results(self.check(self.ordered(arguments)))[1]

    def compute(self, *arguments):
        given = self.ordered(arguments)
        device = _host if _DEVICE == "cpu" and self.fits(given) else self.check(given)
        made, results = self.results(device)
        self.launch(device, [given[i] if is_given else made[i] for is_given, i in self.place])
        if self.written:
            torch.autograd.graph.increment_version(
                [got for t, got in zip(self.given, given) if t.written and not got.is_inference()]
            )
        return results

    def launch(self, device, tensors):
        at = self.struct(*[t.data_ptr() for t in tensors])
        if _DEVICE == "cpu":
            handle, idle = self.take(self.idle.setdefault(None, []))
            status = self.c_run(handle, at)
        else:
            stream = torch.cuda.current_stream(device).cuda_stream
            handle, idle = self.on_stream(device, stream)
            status = self.c_run(handle, at, stream)
        said = self.c_error(handle).decode() if status else ""
        if idle is not None:
            idle.append(handle)
        if status:
            raise RuntimeError(f"{_NAME}: {said}")

    # ---- handles: each runs one call at a time, and on a GPU its workspace is one stream's

    def take(self, idle):
        try:
            return idle.pop(), idle
        except IndexError:
            return self.create(), idle

    def create(self):
        handle = ctypes.c_void_p()
        status = self.c_create(ctypes.byref(handle))
        if status:
            raise RuntimeError(f"{_NAME}: {self.c_explain(status).decode()}")
        return handle

    def on_stream(self, device, stream):
        key = (device.index, stream)
        if not torch.cuda.is_current_stream_capturing():
            idle = self.idle.setdefault(key, [])
            if not idle:
                torch.zeros(1, device=device)  # makes the device's context this thread's
                with torch.cuda.device(device):
                    idle.append(self.create())
            return self.take(idle)
        # A handle that was made before belongs to the graphs of this stream from now on.
        if key not in self.captured:
            other = [idle for of, idle in list(self.idle.items()) if of[0] == device.index and idle]
            if not other:
                raise RuntimeError(f"{_NAME}: call it once before a CUDA graph is captured: nothing is allocated in one")
            self.captured[key] = other[0].pop()
        return self.captured[key], None


# ---- gradients


def _no_gradient(program, why):
    """An operator that says why it has no gradient when it is asked for one."""
    if program.written:
        return  # PyTorch takes no formula for what changes its arguments: run() says it

    def backward(ctx, *gradients):
        raise RuntimeError(f"{_NAME}: there is no gradient through it: {why}")

    torch.library.register_autograd(program.qualified, backward, lib=_library)


def _gradient(forward, backward, gives, takes):
    """The backward program as the formula of the forward one; takes and gives are the tables of the export."""
    keeps = [forward.place[t][1] for kind, t in gives if kind == "value"]

    def zeros(t, gradients):
        return torch.zeros(t.shape, dtype=t.dtype, device=next(g.device for g in gradients if g is not None))

    def setup_context(ctx, inputs, output):
        inputs = forward.ordered(inputs)
        ctx.save_for_backward(*[inputs[i] for i in keeps])

    def back(ctx, *gradients):
        kept, arguments = iter(ctx.saved_tensors), []
        for kind, t in gives:
            if kind == "value":
                arguments.append(next(kept))
            else:
                is_given, i = forward.place[t]  # what run() gives back itself has its gradient from PyTorch
                arguments.append(zeros(forward.tensors[t], gradients) if is_given else gradients[i].contiguous())
        results = backward.call(*arguments) if backward.made else ()
        left = []
        for t in takes:
            is_given, i = (False, None) if t is None else backward.place[t]
            left.append(None if t is None else arguments[i] if is_given else results[i])
        return forward.arguments(left)

    torch.library.register_autograd(forward.qualified, back, setup_context=setup_context, lib=_library)


# ---- what people call


def _finish(given):
    """Runs the operator; an output that the script was given is that tensor itself."""
    if _forward.written and torch.is_grad_enabled() and any(t.requires_grad for t in given):
        raise RuntimeError(
            f"{_NAME}: it changes parameters in place and has no gradient: call it under torch.no_grad(), or with "
            "tensors that require none"
        )
    made = _forward.call(*given)
    results = []
    for t, shape in _OUTPUTS:
        is_given, i = _forward.place[t]
        result = given[i] if is_given else made[i]
        results.append(result if tuple(result.shape) == shape else result.view(shape))
    return results[0] if len(results) == 1 else tuple(results)


class _Module(torch.nn.Module):
    def __init__(self, device=_DEVICE):
        super().__init__()
        self._places = []  # of each parameter: the module that holds it, and its name there
        for t in _FORWARD:
            if t.role == "parameter":
                self._places.append(self._put(t, device))
        self.reset_parameters()

    def _put(self, t, device):
        *path, last = t.script.split(".")
        owner = self
        for step in path:
            if step not in owner._modules:
                owner._modules[step] = torch.nn.Module()
            owner = owner._modules[step]
        trained = t.dtype.is_floating_point and not t.written
        # Not register_parameter(): it refuses names that a module has for something else.
        owner._parameters[last] = torch.nn.Parameter(torch.empty(t.shape, dtype=t.dtype, device=device), trained)
        return owner, last

    def reset_parameters(self):
        """Draws what the script draws them from, of PyTorch's generator; what it reads from files begins as zeros."""
        for (owner, last), t in zip(self._places, (t for t in _FORWARD if t.role == "parameter")):
            kind, low, high = t.start
            draw = torch.zeros(t.shape, dtype=torch.float64)
            if kind == "uniform":
                draw.uniform_(low, high)
            elif kind == "normal":
                draw.normal_(low, high)
            elif kind == "integer":
                draw.uniform_(low, high).floor_()
            elif kind == "constant":
                draw.fill_(low)
            with torch.no_grad():
                owner._parameters[last].copy_(draw)

    def _with(self, inputs):
        """Inputs and parameters in the operator's order."""
        inputs, parameters = iter(inputs), iter(self._places)
        given = []
        for t in _forward.given:
            if t.role == "input":
                given.append(next(inputs))
            else:
                owner, last = next(parameters)
                given.append(owner._parameters[last])
        return tuple(given)
