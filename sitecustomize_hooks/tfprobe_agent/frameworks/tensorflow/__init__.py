"""TensorFlow: Sessions, tf.functions, eager loops, its profiler, and what their traces need to be read."""

import sys
import threading

from tfprobe_agent import patching, ranks
from tfprobe_agent.core.framework import Framework
from tfprobe_agent.core.guard import never_raise_noting, never_raise_tracing
from tfprobe_agent.core.process_dir import tensorflow_version
from tfprobe_agent.core.recorder import current_recorder
from tfprobe_agent.frameworks import activity_hooks
from tfprobe_agent.unpatched import UNPATCHED

from . import functions, graphs, optimizers, profiler, python_ops, session

_SESSION = "tensorflow.python.client.session"
# A job that ends before its budget allowed the code maps gets them at exit, for this many times the budget.
EXIT_OVERDRAFT = 3
# How long the exit waits for a thread that deletes a Session, which takes milliseconds unless the machine is busy.
DELETION_WAIT_S = 1.0
DELETION_LOOK_S = 0.005
SESSION_FILE = "python/client/session.py"


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
    _SESSION: session.patch,
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
}


class TensorFlow(Framework):
    """TensorFlow as the recording sees it."""

    name = "tensorflow"

    def patch(self, name, module):
        patch = _BY_MODULE.get(name)
        if patch is not None:
            patch(module)
        activity_hooks.patch(module)

    def opens_recording(self, name):
        return name == _SESSION

    def version(self):
        return tensorflow_version()

    def job_holds_profiler(self):
        return profiler.job_holds_profiler()

    def name_sources(self, calls, functions):
        graphs.name_sources(calls, functions)

    def finish(self, recorder):
        never_raise_tracing(graphs.write_code_maps)(recorder, EXIT_OVERDRAFT)
        never_raise_noting(_await_deletions)()

    def forget_parent(self):
        graphs.reset()
        python_ops.reset()
        ranks.forget_servers()


def _await_deletions():
    """Wait, for some time, until threads that delete a Session are back in Python.

    The last one to hold a Session may be a queue thread, which is a daemon: the interpreter kills it as it returns from
    C++ that cannot be unwound, and the process aborts. Recording makes threads end later, and must not cause that.
    """
    until_ns = UNPATCHED.monotonic_ns() + int(DELETION_WAIT_S * 1e9)
    current = threading.get_ident()
    while UNPATCHED.monotonic_ns() < until_ns:
        frames = sys._current_frames()
        if not any([_deletes_session(frame) for ident, frame in frames.items() if ident != current]):
            return
        del frames  # they are the job's, and keep objects alive
        UNPATCHED.sleep(DELETION_LOOK_S)


def _deletes_session(frame):
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" and code.co_filename.endswith(SESSION_FILE):
            return True
        frame = frame.f_back
    return False


FRAMEWORK = TensorFlow()
