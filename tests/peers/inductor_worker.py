#!/usr/bin/env python3
"""A worker that tells what Inductor decides for a GPU that is not here, and measures nothing.

    fusebox explain SCRIPT VARIANT:compile@torch VARIANT:inductor --worker 'python3 tests/peers/inductor_worker.py'

Inputs are fake tensors on a CUDA device, which has the properties of an H200; Inductor lowers and schedules as it does
there, and is stopped before it writes code. Decisions that need a GPU's times (max-autotune, padding
of products) cannot be had this way.
Needs PyTorch built for CUDA, and Triton's package.
"""
import os
import sys

os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "workers"))
import inductor_plan  # noqa: E402
import torch_worker as worker  # noqa: E402


class Stopped(Exception):
    pass


class H200:
    name, major, minor, gcnArchName, warp_size, multi_processor_count = "NVIDIA H200", 9, 0, "", 32, 132
    total_memory, regs_per_multiprocessor, max_threads_per_multi_processor = 141 << 30, 65536, 2048
    shared_memory_per_block, shared_memory_per_block_optin, shared_memory_per_multiprocessor = 49152, 232448, 233472
    L2_cache_size, max_threads_per_block = 50 << 20, 1024


def pretend():
    """A GPU for everybody who asks PyTorch for one."""
    import torch
    import torch._dynamo.device_interface as interface
    import torch._inductor.compile_fx
    import torch._inductor.scheduler  # noqa: F401
    torch.cuda.get_device_properties = lambda *_: H200()
    torch.cuda.current_device = lambda: 0
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    torch._inductor.config.shape_padding = False  # decided by times
    cuda = interface.CudaInterface
    for name, value in (("get_device_properties", H200()), ("current_device", 0), ("device_count", 1), ("is_triton_capable", True),
                        ("is_bf16_supported", True), ("get_compute_capability", 90), ("raise_if_triton_unavailable", None)):
        setattr(cuda, name, staticmethod(lambda *_, value=value: value))
    cuda.Worker.get_device_properties = staticmethod(lambda *_: H200())
    cuda.Worker.current_device = staticmethod(lambda: 0)
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("torch") and "has_triton" in vars(module):
            module.has_triton = lambda *_: True


def fold_here():
    """Inductor finds constants by computing one element on the device; it is the same on the CPU."""
    import torch
    from torch._inductor.fx_passes import joint_graph
    folder = joint_graph.UniformValueConstantFolder
    deduce = folder._deduce_value

    def on_cpu(self, node):
        was = node.kwargs
        if "device" in was:
            node.kwargs = dict(was, device=torch.device("cpu"))
        try:
            return deduce(self, node)
        finally:
            node.kwargs = was

    folder._deduce_value = on_cpu
    folder._add_peephole_patterns = lambda self: None


def attention(q, k, v, attn_mask=None, scale=None):
    """What F.scaled_dot_product_attention takes of f32 on such a GPU, where a fake one has it choose the plain formula."""
    import torch
    if q.dim() != 4 or q.dtype == torch.float64:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask, scale=scale)
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            attn_mask = torch.where(attn_mask, 0.0, -float("inf")).to(q.dtype)
        attn_mask = attn_mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    return torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, attn_mask, False, scale=scale)[0]


class Functions:
    """torch.nn.functional, but for the one."""

    def __init__(self, torch):
        self.__dict__.update(vars(torch.nn.functional), scaled_dot_product_attention=attention)


class Case(worker.Case):
    PLANS = ("compile",)

    def prepare(self):
        import torch
        from torch._subclasses import FakeTensorMode
        if not hasattr(Case, "ready"):
            Case.ready = True
            pretend()
            fold_here()
        model, inputs = worker.function(self.graph, scopes=True)
        model.__globals__["device"] = torch.device("cuda:0")
        model.__globals__["F"] = Functions(torch)
        torch._dynamo.reset()
        self.settings()
        with FakeTensorMode(), torch.no_grad(), inductor_plan.Watch(stop=Stopped()) as watch:
            arguments = [torch.empty(n["shape"], dtype=worker.DTYPES[n["dtype"]], device="cuda:0") for n in inputs]
            try:
                torch.compile(model, dynamic=False)(*arguments)
            except Exception as e:
                if "Stopped" not in str(e):
                    raise
        self.theirs = watch.plan(inductor_plan.Places(*model.written), [n["name"] for n in self.graph["nodes"]])
        self.theirs["version"] = f"{torch.__version__} for an H200"

    def report(self, brief=False):
        return {"device": "torch", "plan": self.plan, "nodes": len(self.graph["nodes"]), "source": "predicted", "kernels": [],
                "their_plan": self.theirs}


class Framework(worker.Framework):
    case = Case

    def before(self, front, plan):
        """Nothing is compiled here to the end."""


if __name__ == "__main__":
    Framework.missing, Framework.lock = worker.MISSING, worker.Lock("host")
    worker.shared.main(Framework())
