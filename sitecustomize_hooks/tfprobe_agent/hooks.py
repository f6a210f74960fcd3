"""What a process needs once: its frameworks patched as they are imported, fork and exit hooks, the stack sampler."""

import atexit
import os
import sys
import threading

from . import activities, cells, config, exits, patching
from .boot import GREENLETS, TARGETS
from .core import framework, recorder, resource_samples, threads, tracing
from .core.guard import STATE, failed, never_raise
from .core.resource_samples import PAUSES
from .interruptions import let_through
from .unpatched import UNPATCHED

# Option of prctl that allows a process that is not the parent to read this one.
_PR_SET_PTRACER = 0x59616D61

# What to call with the name of each target module and the module, before it is patched: in a trial alone.
PATCH_FIRST = []

_unarmed = threading.Lock()  # acquired once, by the thread that installs the hooks: two may import TensorFlow at once


@never_raise
def module_ready(name, module, boot):
    """Patch a target module that has just been imported."""
    began_ns = UNPATCHED.monotonic_ns()
    _arm(boot)
    for patch in PATCH_FIRST:
        patch(name, module)
    if TARGETS[name] is None:
        return
    known = framework.load(TARGETS[name])
    known.patch(name, module)
    if known.opens_recording(name):
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
    cells.follow()
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
    recorder.CURRENT.config = config.read_config(boot)
    if recorder.CURRENT.config.trial is not None:
        from .trial import arm

        arm.begin(recorder.CURRENT.config.trial)


def _around_after_fork(original):
    """Follow forks in Python 3.6, which has no os.register_at_fork: its interpreter calls this in each child."""

    def after_fork(*args, **kwargs):
        original(*args, **kwargs)
        _after_fork()

    return after_fork


def _after_fork():
    try:
        tracing.reset()
        activities.reset()
        cells.reset()
        resource_samples.reset()
        for known in list(framework.LOADED):
            known.forget_parent()
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
