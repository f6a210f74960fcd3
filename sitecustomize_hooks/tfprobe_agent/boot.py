"""What every Python process of the job pays for: one line written and one finder armed, under a millisecond.

Everything else of the agent is imported when the job imports one of the TARGETS.
"""

import os
import sys

from .originals import ORIGINAL

# In a forked child another process's.
INTERPRETER_PID = ORIGINAL.getpid()
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
        "tensorflow.python.framework.func_graph",
        "tensorflow.python.training.saver",
        "tensorflow.python.training.server_lib",
        "tensorflow.python.training.checkpoint_management",
        "tensorflow.python.training.tracking.util",
        "tensorflow.python.checkpoint.checkpoint",
        "tensorflow.python.checkpoint.checkpoint_management",
        "tensorflow.python.saved_model.save",
        "tensorflow.python.summary.writer.writer",
        "tensorflow.python.ops.summary_ops_v2",
        "tensorflow_estimator.python.estimator.estimator",
    )
    + tuple(home + "." + part for home in _KERAS_HOMES for part in _KERAS_PARTS)
)
# Packages whose import takes seconds: told as an activity, from the finder's sight of it to its end.
TIMED = frozenset(("tensorflow", "keras", "tf_keras"))
# What a program imports to name its activities (its marks.py); supplied where it is not installed.
MARKS = "tfprobe"
# What a process imports that may start others, and tell them to end; or it forks by itself.
SENDERS = frozenset(("subprocess", "multiprocessing.popen_fork"))
# What gevent and eventlet import: several of them share a thread.
GREENLETS = "greenlet"
_SEEN = TARGETS.union(TIMED, SENDERS, (MARKS, GREENLETS))


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
    """A meta path finder that lets the others find, and looks at a target module once it has run."""

    def __init__(self, boot):
        self.boot = boot
        self.timing = 0  # imports of TIMED packages under way: one inside another is part of it
        self.untold = []  # imports that have ended, while there is nobody to record them

    def find_spec(self, name, path=None, target=None):
        """Return the other finders' spec for a target module, with its loader watched; None for any other name."""
        if name not in _SEEN:
            return None
        seen_ns = ORIGINAL.monotonic_ns()
        spec = self._ask_the_others(name, path, target)
        try:
            if name == MARKS:
                return spec if spec is not None else _supplied()
            if spec is not None:
                self._watch(spec.loader, name, seen_ns)
        except Exception:
            import_and_let_through()  # a loader that cannot be watched: the module goes unrecorded, the import goes on
        return spec

    def _ask_the_others(self, name, path, target):
        for finder in sys.meta_path:
            find_spec = None if finder is self else getattr(finder, "find_spec", None)
            spec = find_spec(name, path, target) if find_spec is not None else None
            if spec is not None:
                return spec
        return None

    def _watch(self, loader, name, seen_ns):
        """Shadow `loader.exec_module` by an instance attribute that removes itself before the module runs."""
        exec_module = loader.exec_module
        timed = name in TIMED

        def exec_and_fire(module):
            loader.__dict__.pop("exec_module", None)
            self.timing += timed
            try:
                exec_module(module)
            finally:
                self.timing -= timed
            try:
                if timed:
                    self._note_import(name, seen_ns)
                elif name in SENDERS:
                    _watch_signals(self.boot)
                elif name == GREENLETS:
                    self._follow_greenlets(module)
                elif module.__name__ == name:  # a zip file's loader serves a whole directory
                    self.fire(name, module)
            except Exception:
                import_and_let_through()  # as below: without hooks there is nothing to tell, and no log to tell it to

        loader.exec_module = exec_and_fire

    def _note_import(self, name, seen_ns):
        if not self.timing:
            self.untold.append((name, seen_ns, ORIGINAL.monotonic_ns()))
            self._tell_imports()

    def _tell_imports(self):
        """Record how long imports took, once there is a recording."""
        activities = sys.modules.get(__package__ + ".activities")
        if activities is not None:
            untold, self.untold = self.untold, []
            for each in untold:
                activities.imported(*each)

    def _follow_greenlets(self, module):
        """Tell the hooks, where they are loaded; otherwise they look for it as they are."""
        hooks = sys.modules.get(__package__ + ".hooks")
        if hooks is not None:
            hooks.greenlets_ready(module)

    def fire(self, name, module):
        """Hand a target module that has just run to the hooks."""
        try:
            from . import hooks

            hooks.module_ready(name, module, self.boot)
            self._tell_imports()
        except Exception:
            import_and_let_through()
            # hooks guard themselves; what gets here is an agent that cannot even be imported
            self.find_spec = _find_nothing


def _watch_signals(boot):
    from . import signals

    signals.watch(boot)


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
            ORIGINAL.uname().nodename,
            str(ORIGINAL.getpid()),
            str(ORIGINAL.unix_ns()),
            ".".join(str(part) for part in sys.version_info[:3]),
            (sys.executable or "").replace("\t", " ").replace("\n", " "),
        )
    )
    descriptor = ORIGINAL.open(
        os.path.join(boot, "interpreters.tsv"), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    try:
        ORIGINAL.write(descriptor, (line + "\n").encode("utf-8", "replace"))
    finally:
        ORIGINAL.close(descriptor)
