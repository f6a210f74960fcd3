"""What runs in every Python process of the job: write one line and install one import finder, in under a millisecond.

The rest of the agent is imported when the job imports one of the TARGETS.
"""

import os
import sys
from _thread import get_ident

from .imports import ALWAYS, Imports, have_find_spec, is_watched, watching
from .unpatched import UNPATCHED

# When the agent started in this interpreter, on both clocks. In a forked child these are another process's.
INTERPRETER_PID, STARTED = UNPATCHED.getpid(), (UNPATCHED.monotonic_ns(), UNPATCHED.unix_ns())
# Modules in which the releases of TensorFlow and Keras define the classes that run steps or rare activities.
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
_TENSORFLOW = (
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
_KERAS = (
    "tensorflow.python.keras.engine.training_v2_utils",
    "keras.src.backend.tensorflow.trainer",
    "keras.src.backend.jax.trainer",
    "keras.src.backend.torch.trainer",
    "keras.src.optimizers.base_optimizer",
    "keras.src.trainers.trainer",
    "keras.src.models.functional",
    "keras.src.models.model",
    "keras.src.models.sequential",
    "keras.src.callbacks.callback_list",
)
_JAX = (
    "jax",
    "jax.experimental.pjit",
    "jax.experimental.shard_map",
    "jax._src.compilation_cache",
    "jax._src.dispatch",
    "jax._src.profiler",
    "jax._src.stages",
)
_TORCH = (
    "torch",
    "torch._dynamo.convert_frame",
    "torch._dynamo.eval_frame",
    "torch._dynamo.metrics_context",
    "torch._dynamo.utils",
)
# The modules to patch, and the folder of `frameworks/` that knows each.
TARGETS = dict.fromkeys(_TENSORFLOW, "tensorflow")
TARGETS.update(dict.fromkeys(_KERAS, "keras"))
TARGETS.update(dict.fromkeys(_JAX, "jax"))
TARGETS.update(dict.fromkeys(_TORCH, "torch"))
TARGETS.update((home + "." + part, "keras") for home in _KERAS_HOMES for part in _KERAS_PARTS)
# What a program imports to name its activities; supplied where tfprobe is not installed.
MARKS = "tfprobe"
# Modules of a process that may start other processes and signal them. One that forks directly needs neither.
SENDERS = frozenset(("subprocess", "multiprocessing.popen_fork"))
# Imported by gevent and eventlet: several greenlets share a thread.
GREENLETS = "greenlet"
_SEEN = set(ALWAYS).union(TARGETS, SENDERS, (MARKS, GREENLETS))


def arm(boot):
    """Report this interpreter to the run, whose boot directory is `boot`, and watch for the frameworks."""
    finder = Finder(boot)
    sys.meta_path.insert(0, finder)
    for name in set(TARGETS).intersection(sys.modules):
        finder.fire(name, sys.modules[name])
    _report_interpreter(boot)
    if not SENDERS.isdisjoint(sys.modules):
        _watch_signals(boot)
    elif hasattr(os, "register_at_fork"):
        # a process that forks directly may also signal its children
        os.register_at_fork(after_in_parent=_watching_signals(boot))


class Finder:
    """A meta path finder that defers to the others, inspects target modules once they have run, and times libraries."""

    def __init__(self, boot):
        self.boot = boot
        self.imports = Imports()

    def find_spec(self, name, path=None, target=None):
        """Return the other finders' spec with its loader watched; None for modules that are of no interest."""
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
            import_and_let_through()  # the loader cannot be watched: the module is not recorded, the import goes on
        return spec

    def _may_watch(self, name):
        """Return whether an outermost import may be inspected. The agent's own never are, whatever is wrong."""
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
        own_ns = []  # when it began; empty if the module turns out to be executed inside another import

        def begin():
            loader.__dict__.pop("exec_module", None)
            try:
                if is_timed and get_ident() not in imports.under_way:
                    own_ns.append(imports.begin() - finding_ns)
            except Exception:
                import_and_let_through()  # the import is not recorded

        def end(module):
            try:
                if own_ns and imports.end(name, own_ns.pop()):
                    self._record_imports()
            except Exception:
                import_and_let_through()  # without hooks there is nothing to record, and no log

        def ready(module):
            try:
                self._look_at(name, module)
            except Exception:
                import_and_let_through()

        loader.exec_module = watching(loader.exec_module, begin, end, ready)

    def _look_at(self, name, module):
        """Handle a module that has just run."""
        if name in SENDERS:
            _watch_signals(self.boot)
        elif name == GREENLETS:
            self._follow_greenlets(module)
        elif name in TARGETS and module.__name__ == name:  # the loader of a zip file serves a whole directory
            self.fire(name, module)

    def _record_imports(self):
        """Record how long imports took, if a recording is open."""
        activities = sys.modules.get(__package__ + ".activities")
        if activities is not None:
            pending, self.imports.pending = self.imports.pending, []
            for record in pending:
                activities.imported(*record)

    def _follow_greenlets(self, module):
        """Notify the hooks if they are loaded; otherwise they check for greenlet when they load."""
        hooks = sys.modules.get(__package__ + ".hooks")
        if hooks is not None:
            hooks.greenlets_ready(module)

    def fire(self, name, module):
        """Hand a target module that has just run to the hooks. Imports that the hooks make are not the job's."""
        under_way, ident = self.imports.under_way, get_ident()
        is_inside = ident in under_way
        under_way.add(ident)
        try:
            from . import hooks

            hooks.module_ready(name, module, self.boot)
        except Exception:
            import_and_let_through()
            # the hooks handle their own errors: this is an agent that cannot even be imported
            self.find_spec = _find_nothing
        finally:
            if not is_inside:
                under_way.discard(ident)
        self._record_imports()


def watch(names):
    """Hand these modules to the hooks, too, although no folder of `frameworks/` knows them."""
    for name in names:
        TARGETS.setdefault(name, None)
    _SEEN.update(names)


def started():
    """Return when the agent started in this process, as monotonic and wall clock time."""
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
            import_and_let_through()  # signals that this process sends are not recorded then

    return forked


def _supplied():
    """Return the spec of a module that has what a job asks tfprobe for, and nothing else."""
    from _frozen_importlib import ModuleSpec

    return ModuleSpec(MARKS, _Supplier(), origin="supplied by the recording")


class _Supplier:
    """The loader of the supplied module."""

    def create_module(self, spec):
        """Let the interpreter create an ordinary module."""

    def exec_module(self, module):
        """Add `activity` and what `%load_ext` calls; raise ImportError, as without a recording, if that fails."""
        try:
            from .activities import activity
            from .notebooks import load_ipython_extension
        except Exception:
            import_and_let_through()
            raise ImportError("No module named %r" % MARKS, name=MARKS)
        module.activity = activity
        module.load_ipython_extension = load_ipython_extension


def import_and_let_through():
    """Re-raise the exception being handled if the job threw it. Most interpreters never import what decides that."""
    try:
        from .interruptions import let_through
    except ImportError:
        return  # a file of the agent is missing
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
