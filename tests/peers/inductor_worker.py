#!/usr/bin/env python3
"""A worker that tells what Inductor decides for a GPU that is not here, and measures nothing.

    fusebox explain SCRIPT VARIANT:compile@torch VARIANT:inductor --worker 'python3 tests/peers/inductor_worker.py'

Inputs are fake tensors on a CUDA device, which has the properties of an H200; Inductor lowers and schedules as it does
there, and is stopped before it writes code. Decisions that need a GPU's times (max-autotune) cannot be had this way.
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
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    interface.CudaInterface.is_triton_capable = staticmethod(lambda *_: True)
    interface.CudaInterface.raise_if_triton_unavailable = staticmethod(lambda *_: None)
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("torch") and "has_triton" in vars(module):
            module.has_triton = lambda *_: True


class Case(worker.Case):
    PLANS = ("compile",)

    def prepare(self):
        import torch
        from torch._subclasses import FakeTensorMode
        pretend()
        model, inputs = worker.function(self.graph, scopes=True)
        model.__globals__["device"] = torch.device("cuda:0")
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


class Worker(worker.Worker):
    def load_compiler(self):
        """Nothing is compiled here to the end."""


if __name__ == "__main__":
    worker.Case, worker.Worker = Case, Worker
    worker.main()
