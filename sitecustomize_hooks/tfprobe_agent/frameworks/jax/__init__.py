"""JAX: functions of jax.jit and pmap, ahead-of-time executables, and its profiler."""

import sys

from tfprobe_agent.core.framework import Framework

from . import compiles, functions, profiler, waits

_BY_MODULE = {
    "jax": functions.patch,
    "jax.experimental.pjit": functions.patch,
    "jax.experimental.shard_map": functions.patch,
    "jax._src.stages": functions.patch_executables,
    "jax._src.dispatch": compiles.patch,
    "jax._src.compilation_cache": compiles.patch_cache,
    "jax._src.profiler": profiler.patch,
}


class Jax(Framework):
    """JAX as the recording sees it."""

    name = "jax"

    def patch(self, name, module):
        _BY_MODULE[name](module)
        if name == "jax":
            waits.patch(module)

    def opens_recording(self, name):
        return name == "jax"

    def version(self):
        version = getattr(sys.modules.get("jax"), "__version__", None)
        return version if isinstance(version, str) else None

    def job_holds_profiler(self):
        return profiler.job_holds_profiler()

    def forget_parent(self):
        compiles.reset()


FRAMEWORK = Jax()
