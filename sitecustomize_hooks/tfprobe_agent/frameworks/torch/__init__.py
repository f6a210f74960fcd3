"""PyTorch: optimizer steps, inference by modules, functions of torch.compile, and its profiler."""

import os
import sys

from tfprobe_agent.core.framework import Framework

from . import callables, inputs, optimizers, profiler, saves, settings

_COMPILER = "torch._dynamo.eval_frame"


class Torch(Framework):
    """PyTorch as the recording sees it."""

    name = "torch"

    def patch(self, name, module):
        if name == _COMPILER:
            callables.patch_compiler(module)
            return
        profiler.patch(module)
        optimizers.patch(module)
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


FRAMEWORK = Torch()
