"""What every Python process of the job pays for: one line written and one finder armed, under a millisecond.

Everything else of the agent is imported when the job imports one of the TARGETS.
"""

import os
import sys
from _thread import get_ident

from .imports import ALWAYS, Imports, have_find_spec, is_watched, watching
from .unpatched import UNPATCHED

# When this interpreter came to us, on both clocks; in a forked child another process did.
INTERPRETER_PID, STARTED = UNPATCHED.getpid(), (UNPATCHED.monotonic_ns(), UNPATCHED.unix_ns())
# Modules in which TensorFlow and Keras, over the years, have defined the classes that run steps, and what is done
# rarely.
_KERAS_HOMES = ("tensorflow.python.keras", "keras", "keras.src", "tf_keras", "tf_keras.src")
_KERAS_PARTS = (
    "engine.training",
    "engine.training_v1",
    "backend",
    "optimizer_v2.optimizer_v2",
    "optimizers.optimizer_v2.optimizer_v2",
    "optimizers.optimizer_experimental.optimizer",
    "optimizers.legacy.optimizer_v2",
    "optimizers.optimizer",
    "engine.network",
    "engine.functional",
    "engine.sequential",
    "engine.saving",
    "callbacks",
    "saving.save",
    "saving.saving_api",
)
TARGETS = frozenset(
    (
        "tensorflow.python.client.session",
        "tensorflow.python.eager.def_function",
        "tensorflow.python.eager.polymorphic_function.polymorphic_function",
        "tensorflow.python.eager.function",
        "tensorflow.python.eager.polymorphic_function.monomorphic_function",
        "tensorflow.python.eager.polymorphic_function.concrete_function",
        "tensorflow.python.eager.profiler",
        "tensorflow.python.eager.backprop",
        "tensorflow.python.profiler.profiler_v2",
        "tensorflow.python.training.optimizer",
        "tensorflow.python.keras.engine.training_v2_utils",
        "keras.src.backend.tensorflow.trainer",
        "keras.src.optimizers.base_optimizer",
        "keras.src.trainers.trainer",
        "keras.src.models.functional",
        "keras.src.models.model",
        "keras.src.models.sequential",
        "keras.src.callbacks.callback_list",
        "tensorflow.python.data.ops.dataset_ops",
        "tensorflow.python.framework.func_graph",
        "tensorflow.python.training.saver",
        "tensorflow.python.training.server_lib",
        "tensorflow.python.training.checkpoint_management",
        "tensorflow.python.training.tracking.util",
        "tensorflow.python.checkpoint.checkpoint",
        "tensorflow.python.checkpoint.checkpoint_management",
        "tensorflow.python.saved_model.save",
        "tensorflow.python.summary.writer.writer",
        "tensorflow.python.ops.script_ops",
        "tensorflow.python.ops.summary_ops_v2",
        "tensorflow_estimator.python.estimator.estimator",
    )
    + tuple(home + "." + part for home in _KERAS_HOMES for part in _KERAS_PARTS)
)
# What a program imports to name its activities (its marks.py); supplied where it is not installed.
MARKS = "tfprobe"
# What a process imports that may start others, and tell them to end; or it forks by itself.
SENDERS = frozenset(("subprocess", "multiprocessing.popen_fork"))
# What gevent and eventlet import: several of them share a thread.
GREENLETS = "greenlet"
_SEEN = TARGETS.union(ALWAYS, SENDERS, (MARKS, GREENLETS))


def arm(boot):
    """Report this interpreter to the run in directory `boot`'s parent and watch for TensorFlow."""
    finder = Finder(boot)
    sys.meta_path.insert(0, finder)
    for name in TARGETS.intersection(sys.modules):
        finder.fire(name, sys.modules[name])
    _report_interpreter(boot)
    if not SENDERS.isdisjoint(sys.modules):
        _watch_signals(boot)
    elif hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_parent=_watching_signals(boot))  # who forks by itself ends what it forked, too


class Finder:
    """A meta path finder that lets the others find, looks at a target module once it has run, and times libraries."""

    def __init__(self, boot):
        self.boot = boot
        self.imports = Imports()

    def find_spec(self, name, path=None, target=None):
        """Return the other finders' spec with its loader watched; None for what is none of our business."""
        if name not in _SEEN and (get_ident() in self.imports.under_way or not self._may_watch(name)):
            return None
        began_ns = UNPATCHED.monotonic_ns()
        spec = self._find_with_others(name, path, target)
        try:
            if name == MARKS:
                return spec if spec is not None else _supplied()
            if spec is not None and spec.loader is not None:
                self._watch(spec, name, UNPATCHED.monotonic_ns() - began_ns)
        except Exception:
            import_and_let_through()  # a loader that cannot be watched: the module goes unrecorded, the import goes on
        return spec

    def _may_watch(self, name):
        """Tell whether an outermost import may be looked at; ours never are, whatever has gone wrong in them."""
        try:
            return not name.startswith(__package__) and have_find_spec(sys.meta_path)
        except Exception:
            import_and_let_through()
            return False

    def _find_with_others(self, name, path, target):
        for finder in sys.meta_path:
            find_spec = None if finder is self else getattr(finder, "find_spec", None)
            spec = find_spec(name, path, target) if find_spec is not None else None
            if spec is not None:
                return spec
        return None

    def _watch(self, spec, name, finding_ns):
        """Shadow `exec_module` of a loader by an instance attribute that removes itself before the module runs."""
        loader, imports = spec.loader, self.imports
        is_timed = get_ident() not in imports.under_way and is_watched(name, spec)
        if not is_timed and name not in _SEEN:
            return
        own_ns = []  # when it began; not where a module that was looked for is executed inside another after all

        def begin():
            loader.__dict__.pop("exec_module", None)
            try:
                if is_timed and get_ident() not in imports.under_way:
                    own_ns.append(imports.begin() - finding_ns)
            except Exception:
                import_and_let_through()  # it goes untold

        def end(module):
            try:
                if own_ns and imports.end(name, own_ns.pop()):
                    self._record_imports()
            except Exception:
                import_and_let_through()  # without hooks there is nothing to tell, and no log to tell it to

        def ready(module):
            try:
                self._look_at(name, module)
            except Exception:
                import_and_let_through()

        loader.exec_module = watching(loader.exec_module, begin, end, ready)

    def _look_at(self, name, module):
        """Do what a module that has just run is waited for."""
        if name in SENDERS:
            _watch_signals(self.boot)
        elif name == GREENLETS:
            self._follow_greenlets(module)
        elif name in TARGETS and module.__name__ == name:  # a zip file's loader serves a whole directory
            self.fire(name, module)

    def _record_imports(self):
        """Record how long imports took, once there is a recording."""
        activities = sys.modules.get(__package__ + ".activities")
        if activities is not None:
            pending, self.imports.pending = self.imports.pending, []
            for record in pending:
                activities.imported(*record)

    def _follow_greenlets(self, module):
        """Tell the hooks, where they are loaded; otherwise they look for it as they are."""
        hooks = sys.modules.get(__package__ + ".hooks")
        if hooks is not None:
            hooks.greenlets_ready(module)

    def fire(self, name, module):
        """Hand a target module that has just run to the hooks; what these import is no import of the job."""
        under_way, ident = self.imports.under_way, get_ident()
        is_inside = ident in under_way
        under_way.add(ident)
        try:
            from . import hooks

            hooks.module_ready(name, module, self.boot)
        except Exception:
            import_and_let_through()
            # hooks guard themselves; what gets here is an agent that cannot even be imported
            self.find_spec = _find_nothing
        finally:
            if not is_inside:
                under_way.discard(ident)
        self._record_imports()


def started():
    """Return when this process came to us, by the monotonic and by the wall clock."""
    is_fork = UNPATCHED.getpid() != INTERPRETER_PID
    return (UNPATCHED.monotonic_ns(), UNPATCHED.unix_ns()) if is_fork else STARTED


def _watch_signals(boot):
    from . import os_calls

    os_calls.watch_signals(boot)


def _watching_signals(boot):
    def forked():
        try:
            _watch_signals(boot)
        except Exception:
            import_and_let_through()  # whom this process ends is not told, then

    return forked


def _supplied():
    """Return the spec of a module with `activity` and nothing else."""
    from _frozen_importlib import ModuleSpec

    return ModuleSpec(MARKS, _Supplier(), origin="supplied by the recording")


class _Supplier:
    """The loader of that module."""

    def create_module(self, spec):
        """Have an ordinary module made."""

    def exec_module(self, module):
        """Put into it what a program needs; an ImportError, as where nothing records, if that fails."""
        try:
            from .activities import activity
        except Exception:
            import_and_let_through()
            raise ImportError("No module named %r" % MARKS, name=MARKS)
        module.activity = activity


def import_and_let_through():
    """Raise the exception being handled again if it is the job's; most interpreters never need to know how to tell."""
    try:
        from .interruptions import let_through
    except ImportError:
        return  # an agent of which a file is missing
    let_through()


def _find_nothing(name, path=None, target=None):
    return None


def _report_interpreter(boot):
    line = "\t".join(
        (
            UNPATCHED.uname().nodename,
            str(UNPATCHED.getpid()),
            str(UNPATCHED.unix_ns()),
            ".".join(str(part) for part in sys.version_info[:3]),
            (sys.executable or "").replace("\t", " ").replace("\n", " "),
        )
    )
    descriptor = UNPATCHED.open(
        os.path.join(boot, "interpreters.tsv"), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    try:
        UNPATCHED.write(descriptor, (line + "\n").encode("utf-8", "replace"))
    finally:
        UNPATCHED.close(descriptor)
