"""Which patch belongs to which module, and what else the process needs: fork and exit hooks, servers, the sampler."""

import atexit
import os
import sys
import threading

from . import activities, activity_hooks, config, exits, patching, ranks
from .boot import GREENLETS
from .core import graphs, recorder, resource_samples, threads, tracing
from .core.guard import STATE, failed, never_raise, never_raise_noting
from .core.recorder import current_recorder
from .core.resource_samples import PAUSES
from .frameworks import functions, keras, optimizers, profiler, python_ops, session
from .interruptions import let_through
from .unpatched import UNPATCHED


def _patch_servers(module):
    """Patch the class of servers in the module that defines it, to learn which rank this process is."""
    server = module.__dict__.get("Server")
    if isinstance(server, type):
        patching.patch_call(server, "__init__", _around_server)


def _around_server(original):
    def start(self, *args, **kwargs):
        original(self, *args, **kwargs)
        _note_server(self)

    return start


@never_raise_noting
def _note_server(server):
    """Write the rank at once: a parameter server joins its server next, and does nothing else until it is killed."""
    ranks.SERVERS.add(server.server_def)
    current_recorder().write_process()


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
    "tensorflow.python.training.server_lib": _patch_servers,
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

# Option of prctl that allows a process that is not the parent to read this one.
_PR_SET_PTRACER = 0x59616D61

_unarmed = threading.Lock()  # acquired once, by the thread that installs the hooks: two may import TensorFlow at once


@never_raise
def module_ready(name, module, boot):
    """Patch a target module that has just been imported."""
    began_ns = UNPATCHED.monotonic_ns()
    _arm(boot)
    patch = _BY_MODULE.get(name) or next((patch for ending, patch in _BY_ENDING if name.endswith(ending)), None)
    if "tensorflow.python.client.session" in sys.modules or name.startswith("tensorflow."):
        if patch is not None:
            patch(module)
        activity_hooks.patch(module)
    if name == "tensorflow.python.client.session":
        recorder.current_recorder()
    if recorder.CURRENT.recorder is not None:
        recorder.CURRENT.recorder.spent_once(UNPATCHED.monotonic_ns() - began_ns, in_budget=False)
    STATE.log.line("patched %s" % name)


@never_raise
def greenlets_ready(module):
    """Follow the greenlets of a job that imports greenlet after TensorFlow; `_arm` covers the other order."""
    threads.follow_greenlets(module)


def _arm(boot):
    """Install the fork and exit hooks of the process, once, at the first target module."""
    recorder.CURRENT.boot = boot
    if not _unarmed.acquire(False):
        return
    if GREENLETS in sys.modules:
        threads.follow_greenlets(sys.modules[GREENLETS])
    PAUSES.follow()
    _allow_ptracer()
    exits.patch()
    exits.watch_multiprocessing()
    atexit.register(exits.at_exit)
    atexit.register(recorder.at_exit)  # the next three run before it: exit hooks run in reverse order
    atexit.register(activities.at_exit)
    atexit.register(resource_samples.at_exit)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)
    else:
        patching.patch_call(threading, "_after_fork", _around_after_fork)


def _around_after_fork(original):
    """Follow forks in Python 3.6, which has no os.register_at_fork: its interpreter calls this in each child."""

    def after_fork(*args, **kwargs):
        original(*args, **kwargs)
        _after_fork()

    return after_fork


def _after_fork():
    try:
        tracing.reset()
        graphs.reset()
        activities.reset()
        resource_samples.reset()
        python_ops.reset()
        ranks.forget_servers()
        recorder.forget_parent()
        exits.watch_multiprocessing()
        _allow_ptracer()
    except Exception:
        failed("after fork")


def _allow_ptracer():
    """Allow the stack sampler to read this process, where the kernel requires that (Yama, ptrace_scope 1).

    `tfprobe run --stacks` allows it for the first process of the job, before it becomes the job; children do not
    inherit that. Nothing happens unless the launcher asks for it. Uses the job's own ctypes, which NumPy imports;
    without ctypes this process is not sampled.
    """
    pid = config.ptracer()
    ctypes = sys.modules.get("ctypes")
    if pid is None or ctypes is None:
        return
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)
    except (OSError, AttributeError):
        let_through()
