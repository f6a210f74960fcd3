"""What to do when the job has imported a module that runs steps. Visible tables; one line a home."""

import atexit
import os
import sys
import threading

from . import (
    activities,
    exits,
    functions,
    graphs,
    keras,
    occasions,
    optimizers,
    patching,
    profiler,
    ptracer,
    pulses,
    python_ops,
    ranks,
    recorder,
    servers,
    session,
    threads,
    tracing,
)
from .boot import GREENLETS
from .garbage import PAUSES
from .guard import STATE, failed, never_raise
from .originals import ORIGINAL

_BY_MODULE = {
    "tensorflow.python.client.session": session.patch,
    "tensorflow.python.eager.def_function": functions.patch,
    "tensorflow.python.eager.polymorphic_function.polymorphic_function": functions.patch,
    "tensorflow.python.eager.function": functions.patch,
    "tensorflow.python.eager.polymorphic_function.monomorphic_function": functions.patch,
    "tensorflow.python.eager.polymorphic_function.concrete_function": functions.patch,
    "tensorflow.python.eager.profiler": profiler.patch,
    "tensorflow.python.ops.script_ops": python_ops.patch,
    "tensorflow.python.eager.backprop": optimizers.patch_tape,
    "tensorflow.python.profiler.profiler_v2": profiler.patch,
    "tensorflow.python.training.optimizer": optimizers.patch,
    "tensorflow.python.training.server_lib": servers.patch,
    "tensorflow.python.keras.engine.training_v2_utils": keras.patch_execution_functions,
    "keras.src.backend.tensorflow.trainer": keras.patch_model,
    "keras.src.optimizers.base_optimizer": optimizers.patch,
}
_BY_ENDING = (
    (".engine.training", keras.patch_model),
    (".engine.training_v1", keras.patch_model),
    (".backend", session.patch_keras_backend),
    (".optimizer_v2", optimizers.patch),
    (".optimizer", optimizers.patch),
)

_unarmed = threading.Lock()  # taken once, by the thread that arms: two may import TensorFlow at once


@never_raise
def module_ready(name, module, boot):
    """Patch a target module that has just been imported."""
    began_ns = ORIGINAL.monotonic_ns()
    _arm(boot)
    patch = _BY_MODULE.get(name) or next((patch for ending, patch in _BY_ENDING if name.endswith(ending)), None)
    if "tensorflow.python.client.session" in sys.modules or name.startswith("tensorflow."):
        if patch is not None:
            patch(module)
        occasions.patch(module)
    if name == "tensorflow.python.client.session":
        recorder.current()
    if recorder.CURRENT.recorder is not None:
        recorder.CURRENT.recorder.spent_once(ORIGINAL.monotonic_ns() - began_ns, in_budget=False)
    STATE.log.line("patched %s" % name)


@never_raise
def greenlets_ready(module):
    """Follow the greenlets of a job that imports them after TensorFlow; `_arm` does it for one that had before."""
    threads.follow_greenlets(module)


def _arm(boot):
    """Do once, at the first target module, what the process needs: the way home, fork and exit."""
    recorder.CURRENT.boot = boot
    if not _unarmed.acquire(False):
        return
    if GREENLETS in sys.modules:
        threads.follow_greenlets(sys.modules[GREENLETS])
    PAUSES.follow()
    ptracer.allow()
    exits.patch()
    exits.watch_multiprocessing()
    atexit.register(exits.at_exit)
    atexit.register(recorder.at_exit)  # these run before it: the last registered is the first
    atexit.register(activities.at_exit)
    atexit.register(pulses.at_exit)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)
    else:
        patching.patch_call(threading, "_after_fork", _around_after_fork)


def _around_after_fork(original):
    """Until Python 3.7 brings os.register_at_fork: the interpreter calls this of `threading` in every forked child."""

    def after_fork(*args, **kwargs):
        original(*args, **kwargs)
        _after_fork()

    return after_fork


def _after_fork():
    try:
        tracing.reset()
        graphs.reset()
        activities.reset()
        pulses.reset()
        python_ops.reset()
        ranks.forget_servers()
        recorder.forget_parent()
        exits.watch_multiprocessing()
        ptracer.allow()
    except Exception:
        failed("after fork")
