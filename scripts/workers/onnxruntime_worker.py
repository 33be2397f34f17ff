#!/usr/bin/env python3
"""ONNX Runtime as a device of fusebox, `onnxruntime`: on a GPU where its CUDA provider is built in and works, else on the CPU.

    fusebox run SCRIPT split_stack:all@onnxruntime split_stack:max --worker onnxruntime

Its plans are levels of its graph optimisations:

    none    as written: each node is a kernel
    basic   what keeps the meaning of each node: constants folded, dead and doubled nodes dropped
    all     with its fusions

The graph becomes an ONNX model of opset 23: loops are Loop, op scopes the operator of their name where there is one. What ONNX
or this build has no kernel for is refused by name. Needs onnxruntime and onnx; without them the device is listed with what is
missing."""
import json
import math
import os
import re
import sys
import tempfile

import fusebox_worker as shared
from fusebox_worker import FLOATS, Lock, Refused, Walk, kernel_rows, number

MISSING = None
try:
    import numpy
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper

    import fusebox_arrays as arrays
    TYPES = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16, "f64": TensorProto.DOUBLE,
             "i32": TensorProto.INT32, "i64": TensorProto.INT64, "bool": TensorProto.BOOL}
    GPU = "CUDAExecutionProvider" in ort.get_available_providers() and os.path.exists("/dev/nvidiactl")
    ort.set_default_logger_severity(3)
except ImportError as e:
    MISSING = f"ONNX Runtime is not installed for {sys.executable or 'this python3'} ({e})"

BaseCase = shared.Case if MISSING else arrays.ArrayCase
OPSET = 23

# Ops that an operator of ONNX is, with the same operands; what has a function below goes there.
# made from engine/graph/ops.def by `make ops`: change that
DIRECT = {
    "neg": "Neg",
    "abs": "Abs",
    "sign": "Sign",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "reciprocal": "Reciprocal",
    "sin": "Sin",
    "cos": "Cos",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "erf": "Erf",
    "gelu": "Gelu",
    "relu": "Relu",
    "mish": "Mish",
    "floor": "Floor",
    "ceil": "Ceil",
    "round": "Round",
    "cast": "Cast",
    "copy": "Identity",
    "logical_not": "Not",
    "bitwise_not": "BitwiseNot",
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "pow": "Pow",
    "minimum": "Min",
    "maximum": "Max",
    "remainder": "Mod",
    "eq": "Equal",
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
    "logical_and": "And",
    "logical_or": "Or",
    "bitwise_and": "BitwiseAnd",
    "bitwise_or": "BitwiseOr",
    "bitwise_xor": "BitwiseXor",
    "bitwise_left_shift": "BitShift",
    "bitwise_right_shift": "BitShift",
    "where": "Where",
}
# end of what is made from ops.def
DIRECT.update({"matmul": "MatMul", "receive": "Identity"})
REDUCED = {"sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin", "prod": "ReduceProd"}


class Model(shared.Ops):
    """An ONNX model as it is written: a value is a name; `shape` and `dtype` tell of each."""

    TITLE = "ONNX Runtime"
    REFUSED = {op: "ONNX shifts unsigned integers alone" for op in ("bitwise_left_shift", "bitwise_right_shift")}
    REFUSED |= {op: "ONNX has no such operator" for op in ("atan2", "copysign", "erfinv", "lgamma", "digamma")}

    def __init__(self, graph):
        self.graph, self.nodes, self.initialisers = graph, [], []
        self.shape, self.dtype, self.made, self.node_of, self.count = {}, {}, set(), "", 0

    def constant(self, value):
        """A NumPy array as a value."""
        name = f"k{self.count}"
        self.count += 1
        self.initialisers.append(numpy_helper.from_array(numpy.ascontiguousarray(value).reshape(numpy.shape(value)), name))
        return name

    def ints(self, values):
        return self.constant(numpy.asarray(values, dtype=numpy.int64))

    def literal(self, value, dtype):
        if dtype != "bf16":
            return self.constant(numpy.asarray(value, dtype=arrays.DTYPES[dtype]))
        return self.put("Cast", [self.constant(numpy.asarray(value, dtype=numpy.float32))], to=TYPES[dtype])

    def put(self, op, inputs, outputs=1, **attributes):
        names = [f"t{self.count + k}" for k in range(outputs)]
        self.count += outputs
        self.nodes.append(helper.make_node(op, list(inputs), names, name=f"{self.node_of}.{self.count}", **attributes))
        self.made.update(names)
        return names[0] if outputs == 1 else names

    # -- ops (Walk asks for these)

    def node(self, node, args):
        self.node_of = node["name"]
        return super().node(node, args)

    def usual(self, node, args):
        op = node["op"]
        if op in REDUCED:
            axes = node.get("axes", [])
            return self.put(REDUCED[op], [args[0], self.ints(axes)], keepdims=int(bool(node.get("keepdim")))) if axes else args[0]
        return self.put(DIRECT[op], args) if op in DIRECT else None

    def told(self, name, node):
        self.shape[name], self.dtype[name] = node["shape"], node["dtype"]
        return name

    def op_exp2(self, node, x):
        return self.put("Pow", [self.literal(2, node["dtype"]), x])

    def op_log2(self, node, x):
        return self.put("Mul", [self.put("Log", [x]), self.literal(1 / math.log(2), node["dtype"])])

    def op_log1p(self, node, x):
        return self.put("Log", [self.put("Add", [x, self.literal(1, node["dtype"])])])

    def op_rsqrt(self, node, x):
        return self.put("Reciprocal", [self.put("Sqrt", [x])])

    def op_elu(self, node, x):
        return self.put("Elu", [x], alpha=number(node, "value"))

    def op_softplus(self, node, x):
        beta, threshold = number(node, "value"), number(node, "high")
        scaled = x if beta == 1 else self.put("Mul", [x, self.literal(beta, node["dtype"])])
        soft = self.put("Softplus", [scaled])
        soft = soft if beta == 1 else self.put("Div", [soft, self.literal(beta, node["dtype"])])
        if not math.isfinite(threshold):
            return soft
        return self.put("Where", [self.put("Greater", [scaled, self.literal(threshold, node["dtype"])]), x, soft])

    def op_clamp(self, node, x):
        low, high = number(node, "value"), number(node, "high")
        ends = [self.literal(v, node["dtype"]) if math.isfinite(v) else "" for v in (low, high)]
        return self.put("Clip", [x, *ends])

    def op_cast(self, node, x):
        return self.put("Cast", [x], to=TYPES[node["dtype"]])

    def op_ne(self, node, a, b):
        return self.put("Not", [self.put("Equal", [a, b])])

    def op_floor_divide(self, node, a, b):
        return self.put("Div", [self.put("Sub", [a, self.put("Mod", [a, b])]), b])

    def op_remainder(self, node, a, b):
        if node["dtype"] not in FLOATS:
            return self.put("Mod", [a, b])
        return self.put("Sub", [a, self.put("Mul", [self.put("Floor", [self.put("Div", [a, b])]), b])])

    def bits(self, op, node, args):
        logical = {"and": "And", "or": "Or", "xor": "Xor"}[op]
        return self.put(logical if node["dtype"] == "bool" else "Bitwise" + logical, args)

    def op_bitwise_and(self, node, *args):
        return self.bits("and", node, args)

    def op_bitwise_or(self, node, *args):
        return self.bits("or", node, args)

    def op_bitwise_xor(self, node, *args):
        return self.bits("xor", node, args)

    def best(self, op, node, x):
        return self.put(op, [x], axis=node["axes"][0], keepdims=int(bool(node.get("keepdim"))))

    def op_argmax(self, node, x):
        return self.best("ArgMax", node, x)

    def op_argmin(self, node, x):
        return self.best("ArgMin", node, x)

    def op_cumsum(self, node, x):
        return self.put("CumSum", [x, self.ints(node["dim"])])

    def op_cumprod(self, node, x):
        """By doubling, for ONNX has no CumProd before opset 26: each step multiplies by what lies 1, 2, 4 … before."""
        dim, by, pads = node["dim"], 1, [0] * (2 * len(node["shape"]))
        while by < node["shape"][dim]:
            pads[dim] = by
            before = self.put("Pad", [self.part(x, [0], [-by], [dim], [1]), self.ints(pads), self.literal(1, node["dtype"])])
            x, by = self.put("Mul", [x, before]), by * 2
        return x

    def op_rank(self, node, x):
        """TopK of all, of whose equals the first goes first. It has no place for NaN, so these are sorted apart, as the largest."""
        dim, n, largest = node["dim"], node["shape"][node["dim"]], int(bool(node.get("start")))

        def sorting(values, largest):
            return self.put("TopK", [values, self.ints([n])], outputs=2, axis=dim, largest=largest, sorted=1)[1]
        if 0 in node["shape"]:
            return self.put("Cast", [x], to=TYPES["i64"])
        if self.dtype[x] not in FLOATS:
            return sorting(sorting(x, largest), 0)
        wide = "f64" if self.dtype[x] == "f64" else "f32"
        x = x if self.dtype[x] == wide else self.put("Cast", [x], to=TYPES[wide])
        nan = self.put("IsNaN", [x])
        order = sorting(self.put("Where", [nan, self.literal(math.inf, wide), x]), largest)
        late = self.put("GatherElements", [self.put("Cast", [nan], to=TYPES["i32"]), order], axis=dim)
        return sorting(self.put("GatherElements", [order, sorting(late, largest)], axis=dim), 0)

    def op_view(self, node, x):
        return self.put("Reshape", [x, self.ints(node["shape"])], allowzero=1)

    def op_permute(self, node, x):
        return self.put("Transpose", [x], perm=node["axes"])

    def part(self, x, starts, stops, axes, steps):
        return self.put("Slice", [x, *(self.ints(v) for v in (starts, stops, axes, steps))])

    def op_slice(self, node, x):
        return self.part(x, [node["start"]], [node["stop"]], [node["dim"]], [node.get("step", 1)])

    def op_expand(self, node, x):
        return self.put("Expand", [x, self.ints(node["shape"])])

    def op_flip(self, node, x):
        axes = node["axes"]
        return self.part(x, [-1] * len(axes), [-(2**62)] * len(axes), axes, [-1] * len(axes))

    def op_unfold(self, node, x):
        dim, size, step, rank = node["dim"], node["stop"], node.get("step", 1), len(node["shape"])
        at = numpy.arange(node["shape"][dim])[:, None] * step + numpy.arange(size)[None, :]
        windows = self.put("Gather", [x, self.ints(at)], axis=dim)
        last = [d for d in range(rank) if d != dim + 1] + [dim + 1]
        return self.put("Transpose", [windows], perm=last)

    def op_pad(self, node, x):
        return self.put("Pad", [x, self.ints(node["before"] + node["after"]), self.literal(arrays.Ops.filler(node), node["dtype"])])

    def op_cat(self, node, *xs):
        return self.put("Concat", xs, axis=node["dim"])

    def op_stack(self, node, *xs):
        return self.put("Concat", [self.put("Unsqueeze", [x, self.ints([node["dim"]])]) for x in xs], axis=node["dim"])

    def op_embedding(self, node, table, index):
        return self.put("Gather", [table, index], axis=0)

    def op_index_add(self, node, values, index):
        rest = node["shape"][1:]
        zeros = self.put("Expand", [self.literal(0, node["dtype"]), self.ints(node["shape"])])
        return self.put("ScatterND", [zeros, self.put("Reshape", [index, self.ints([-1, 1])]),
                                      self.put("Reshape", [values, self.ints([-1] + rest)])], reduction="add")

    # -- loops

    def loop(self, walk, node, values):
        """ONNX's Loop: carried values and assigned parameters go round, items are gathered by the step's number."""
        body, names, stacked, every, _, assigns = walk.loop_parts(node)
        self.node_of = node["name"]
        args, trips, turned = node.get("args", []), body["trips"], body.get("backwards", False)
        of = {n["id"]: n for n in walk.a.nodes}
        start = [values[a] for a in args[:len(names)]] + [values[p] for p, _ in assigns]
        nodes = [of[a] for a in args[:len(names)]] + [of[p] for p, _ in assigns]
        kept, self.nodes, i = self.nodes, [], node["id"]
        going = [self.told(f"c{i}_{k}", n) for k, n in enumerate(nodes)]
        place = self.put("Sub", [self.ints(trips - 1), f"i{i}"]) if turned else f"i{i}"
        items = [self.put("Gather", [values[a], place], axis=0) for a in args[len(names):]]
        carried, made, assigned = walk.body(node, values, f"i{i}", going[:len(names)], items, going[len(names):])
        made_of = [of[s] for s in stacked]
        ends = [self.put("Identity", [x]) for x in [f"g{i}", *carried, *assigned, *made]]
        inner = helper.make_graph(
            self.nodes, f"body{i}",
            [helper.make_tensor_value_info(f"i{i}", TensorProto.INT64, []), helper.make_tensor_value_info(f"g{i}", TensorProto.BOOL, [])]
            + [helper.make_tensor_value_info(g, TYPES[n["dtype"]], n["shape"]) for g, n in zip(going, nodes)],
            [helper.make_tensor_value_info(ends[0], TensorProto.BOOL, [])]
            + [helper.make_tensor_value_info(e, TYPES[n["dtype"]], n["shape"]) for e, n in zip(ends[1:], nodes + made_of)])
        self.nodes, self.node_of = kept, node["name"]
        out = self.put("Loop", [self.ints(trips), "", *start], outputs=len(ends) - 1, body=inner) if len(ends) > 1 else []
        out = [out] if isinstance(out, str) else out
        values.update({a: v for (_, a), v in zip(assigns, out[len(names):])})
        return out[:len(names)] + [self.stack_of(x, e, turned) for x, e in zip(out[len(names) + len(assigns):], every)]

    def stack_of(self, x, every, turned):
        if every > 1:
            x = self.part(x, [every - 1], [2**62], [0], [every])
        return self.part(x, [-1], [-(2**62)], [0], [-1]) if turned else x

    # -- op scopes

    def call(self, call, args):
        op, attributes = call.what
        self.node_of = op
        return [getattr(self, "call_" + op)(attributes, *args)]

    def call_softmax(self, a, x):
        return self.put("Softmax", [x], axis=a.get("dim", -1))

    def call_log_softmax(self, a, x):
        return self.put("LogSoftmax", [x], axis=a.get("dim", -1))

    def call_addmm(self, a, bias, x, y):
        return self.put("Gemm", [x, y, bias])

    def call_linear(self, a, x, w, *bias):
        return self.put("Gemm", [x, w, *bias], transB=1)

    def call_layer_norm(self, a, x, *weights):
        scale = weights[:1] or [self.put("Expand", [self.literal(1, self.dtype[x]), self.ints(a["normalized_shape"])])]
        return self.put("LayerNormalization", [x, *scale, *weights[1:]], axis=-len(a["normalized_shape"]),
                        epsilon=float(a.get("eps", 1e-5)))

    def call_conv(self, a, x, w, *bias):
        return self.put("Conv", [x, w, *bias], strides=a["stride"], pads=a["before"] + a["after"], dilations=a["dilation"],
                        group=a["groups"])

    def call_conv_transpose(self, a, x, w, *bias):
        return self.put("ConvTranspose", [x, w, *bias], strides=a["stride"], pads=a["padding"] * 2, dilations=a["dilation"],
                        group=a["groups"], output_padding=a["output_padding"])

    def call_max_pool(self, a, x):
        return self.put("MaxPool", [x], kernel_shape=a["kernel"], strides=a["stride"], pads=a["padding"] * 2,
                        dilations=a["dilation"])

    def call_avg_pool(self, a, x):
        return self.put("AveragePool", [x], kernel_shape=a["kernel"], strides=a["stride"], pads=a["padding"] * 2,
                        count_include_pad=1)


def scope_call(graph, scope, args):
    """The operator of an op scope's name, where it takes these operands."""
    a, op = scope.get("attrs") or {}, scope["op"]
    shapes, dtypes = [graph["nodes"][i]["shape"] for i in args], {graph["nodes"][i]["dtype"] for i in args}
    if op in ("softmax", "log_softmax"):
        return (op, a)
    if op in ("addmm", "linear") and dtypes <= {"f32", "f64"}:
        matrices = shapes[1:] if op == "addmm" else shapes[:2]
        return (op, a) if all(len(s) == 2 for s in matrices) and all(len(s) <= 2 for s in shapes) else None
    if op == "layer_norm" and "normalized_shape" in a and dtypes <= {"f32", "f64"}:
        return (op, a)
    if re.fullmatch(r"conv[123]d", op) and "before" in a and dtypes == {"f32"}:
        return ("conv", a)
    if op.startswith("conv_transpose") and dtypes == {"f32"} and "output_padding" in a:
        return ("conv_transpose", a)
    pool = op.startswith(("max_pool", "avg_pool")) and dtypes == {"f32"} and len(shapes[0]) == len(a.get("kernel", ())) + 2
    return (op[:8], a) if pool and (op.startswith("avg") or "dilation" in a) else None


# ---- measuring ----------------------------------------------------------------------------------------------------------

NO_KERNELS = ("Loop", "If", "Scan")


class OnnxCase(BaseCase):
    FRAMEWORK, DEVICE, PLANS = "ONNX Runtime", "onnxruntime", ("none", "basic", "all")

    def scope_call(self, scope, args):
        return scope_call(self.graph, scope, args)

    def model(self):
        m, nodes = Model(self.graph), self.graph["nodes"]
        values = {}
        for i, x in self.constants().items():
            name = m.constant(x)
            if nodes[i]["dtype"] == "bf16":
                name = m.put("Cast", [name], to=TYPES["bf16"])
            values[i] = m.told(name, nodes[i])
        for n in self.inputs:
            values[n["id"]] = m.told(f"v{n['id']}", n)
        results = Walk(self.analysis, m).run(values)
        m.node_of = "out"
        self.outs = [m.put("Cast", [r], to=TYPES["f32"]) if nodes[i]["dtype"] == "bf16" else m.put("Identity", [r])
                     for i, r in zip(self.analysis.results, results)]
        told = [helper.make_tensor_value_info(o, TYPES["f32" if nodes[i]["dtype"] == "bf16" else nodes[i]["dtype"]], nodes[i]["shape"])
                for i, o in zip(self.analysis.results, self.outs)]
        inputs = [helper.make_tensor_value_info(f"v{n['id']}", TYPES[n["dtype"]], n["shape"]) for n in self.inputs]
        graph = helper.make_graph(m.nodes, "fusebox", inputs, told, m.initialisers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=11)
        return model.SerializeToString()

    def session(self, **settings):
        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.graph_optimization_level = {"none": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
                                            "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
                                            "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL}[self.plan]
        for key, value in settings.items():
            setattr(options, key, value)
        try:
            return ort.InferenceSession(self.written, options, providers=PROVIDERS)
        except Exception as e:
            no = re.search(r"Could not find an implementation for (\w+)\(\d+\) node with name '([^']*)'", str(e))
            types = re.search(r"Type '(tensor\(\w+\))' of input parameter .* of operator \((\w+)\) in node \(([^)]*)\)", str(e))
            if no:
                raise Refused("unavailable", f"{no[2].rsplit('.', 1)[0]}: ONNX Runtime has no kernel here for {no[1]} of these types")
            if types:
                raise Refused("unavailable", f"{types[3].rsplit('.', 1)[0]}: ONNX has no {types[2]} of {types[1]}")
            raise

    def make(self):
        self.written = self.model()
        self.engine = self.session()
        self.call = self.bound(self.engine)

    def bound(self, engine):
        """Inputs stay where they are, outputs are left there."""
        binding = engine.io_binding()
        for o in self.outs:
            binding.bind_output(o, "cuda" if GPU else "cpu")

        def call(arguments):
            for n, value in zip(self.inputs, arguments):
                binding.bind_ortvalue_input(f"v{n['id']}", value)
            engine.run_with_iobinding(binding)
            return binding.get_outputs()
        return call

    def place(self, x, dtype):
        where = ("cuda", 0) if GPU else ("cpu", 0)
        if dtype == "bf16":
            bits = (numpy.ascontiguousarray(x).reshape(x.shape).view(numpy.uint32) >> 16).astype(numpy.uint16)
            return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TYPES["bf16"])
        return ort.OrtValue.ortvalue_from_numpy(numpy.ascontiguousarray(x).reshape(x.shape), *where)

    def fetch(self, value):
        return value.numpy()

    def wait(self):
        """A run with bindings returns when it is done."""

    def profile(self):
        """What one run launches, as its own profiler has it."""
        with tempfile.TemporaryDirectory() as folder:
            engine = self.session(enable_profiling=True, profile_file_prefix=os.path.join(folder, "run"))
            call, rounds = self.bound(engine), 5
            for _ in range(rounds):
                call(self.arguments)
            with open(engine.end_profiling()) as f:
                events = json.load(f)
        launches = [(e["args"]["op_name"], e["ts"], e["dur"]) for e in events
                    if e.get("cat") == "Node" and e["name"].endswith("_kernel_time") and e["args"]["op_name"] not in NO_KERNELS]
        if launches:
            self.kernels, self.launches, self.busy = kernel_rows(launches, rounds)

    def flush(self):
        FLUSH[:] += 1


class Framework(shared.Framework):
    device, title, case = "onnxruntime", "ONNX Runtime", OnnxCase

    def name(self):
        return f"ONNX Runtime {ort.__version__} on {'CUDA' if GPU else 'the CPU'}, ONNX {onnx.__version__}"

    def is_full(self, error):
        return "Failed to allocate memory" in str(error)


if not MISSING:
    PROVIDERS = (["CUDAExecutionProvider"] if GPU else []) + ["CPUExecutionProvider"]
    FLUSH = numpy.zeros(16 << 20, dtype=numpy.int32)

if __name__ == "__main__":
    Framework.missing, Framework.lock = MISSING, Lock("cuda:0" if not MISSING and GPU else "host")
    shared.main(Framework())
