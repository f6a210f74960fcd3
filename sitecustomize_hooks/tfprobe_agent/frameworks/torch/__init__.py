"""PyTorch: optimizer steps, inference by modules, functions of torch.compile, what it compiles, and its profiler."""

import os
import sys

from tfprobe_agent.core.framework import Framework

from . import callables, compiles, gradients, inputs, optimizers, profiler, saves, settings

_OF_COMPILER = {
    "torch._dynamo.convert_frame": compiles.patch_old,
    "torch._dynamo.eval_frame": callables.patch_compiler,
    "torch._dynamo.metrics_context": compiles.patch_contexts,
    "torch._dynamo.utils": compiles.patch,
}


class Torch(Framework):
    """PyTorch as the recording sees it."""

    name = "torch"

    def patch(self, name, module):
        if name in _OF_COMPILER:
            _OF_COMPILER[name](module)
            return
        profiler.patch(module)
        optimizers.patch(module)
        gradients.patch(module)
        callables.patch(module)
        inputs.patch()
        saves.patch()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=profiler.before_fork)

    def opens_recording(self, name):
        return name == "torch" and not settings.starts_others()

    def version(self):
        version = getattr(sys.modules.get("torch"), "__version__", None)
        # A class of PyTorch's own, derived from str.
        return str(version) if isinstance(version, str) else None

    def job_holds_profiler(self):
        return profiler.job_holds_profiler()

    def compiles_frames(self):
        return callables.WRAPPED.compiles

    def finish(self, recorder):
        profiler.end_own()
        settings.note_devices(recorder)

    def forget_parent(self):
        profiler.reset()
        compiles.reset()


FRAMEWORK = Torch()
