"""What a step was fed and returned, and the settings of the job that its speed depends on.

Sizes come from shapes and types: nothing is converted, copied or waited for. Settings are read from what exists:
TensorFlow is not called for them.
"""

import sys

from tfprobe_agent.core.guard import never_raise_noting
from tfprobe_agent.core.threads import THREAD
from tfprobe_agent.core.tracing import TracedStep
from tfprobe_agent.frameworks import general_settings
from tfprobe_agent.frameworks.general_settings import or_none

# A step with more leaves than this is not examined.
MAX_LEAVES = 100
_CONTEXT = "tensorflow.python.eager.context"


@never_raise_noting
def fed_bytes(feeds):
    """Return the bytes of the arrays that a Session step was fed; None if other things or too many were.

    Numbers are a few bytes each, and count as none.
    """
    numpy = sys.modules.get("numpy")
    feeds = list(feeds)
    if numpy is None or len(feeds) > MAX_LEAVES:
        return None
    total = 0
    for value in feeds:
        if isinstance(value, numpy.ndarray) and value.dtype != object:
            total += value.nbytes
        elif not isinstance(value, (bool, int, float, complex, numpy.number, numpy.bool_)):
            return None
    return total


@never_raise_noting
def result_bytes(result):
    """Return the bytes of the tensors and arrays that a step returned; None if nested deeper, or too many."""
    leaves = _leaves(result)
    if leaves is None or _is_asynchronous():
        return None
    sizes = [_bytes_of(leaf) for leaf in leaves]
    return None if None in sizes else sum(sizes)


def _leaves(result):
    """Return the parts of a flat structure, or None."""
    if isinstance(result, dict):
        result = list(result.values())
    if not isinstance(result, (list, tuple)):
        return None if result is None else [result]
    return None if len(result) > MAX_LEAVES else result


def _is_asynchronous():
    """Return whether the shape of a tensor may have to be waited for."""
    context = getattr(sys.modules.get(_CONTEXT), "_context", None)
    return bool(getattr(context, "_default_is_async", False))


def _bytes_of(leaf):
    numpy = sys.modules.get("numpy")
    if leaf is None or isinstance(leaf, (bool, int, float)):
        return 0
    if numpy is not None and isinstance(leaf, (numpy.ndarray, numpy.generic)):
        return None if leaf.dtype == object else leaf.nbytes
    if type(leaf).__name__ != "EagerTensor":
        return None
    element = leaf.dtype.as_numpy_dtype
    if element is object:  # strings: each has a length of its own
        return None
    size = numpy.dtype(element).itemsize
    for length in leaf._shape_tuple():
        size *= length
    return size


_RUN_EAGERLY = (
    "tensorflow.python.eager.polymorphic_function.eager_function_run",
    "tensorflow.python.eager.def_function",
)
_POLICIES = (
    "keras.src.mixed_precision.policy",
    "keras.mixed_precision.policy",
    "tf_keras.src.mixed_precision.policy",
    "tensorflow.python.keras.mixed_precision.policy",
    "tensorflow.python.keras.mixed_precision.experimental.policy",
)
_FORMATS = (
    "keras.src.backend.config",
    "keras.src.backend_config",
    "keras.backend_config",
    "keras.backend.common",
    "tf_keras.src.backend_config",
    "tensorflow.python.keras.backend_config",
)
_RATHER_A_NAME = 200


@never_raise_noting
def write_settings(session_config):
    """Write the settings event; `session_config` is the ConfigProto of the Session that ran the step, or None."""
    general_settings.write(lambda: read_settings(session_config))


def read_settings(session_config):
    """Return the settings by name, as listed in docs/run-directory.md; None if not known."""
    context = getattr(sys.modules.get(_CONTEXT), "_context", None)
    model = THREAD.current.phase.model() if THREAD.current.phase is not None else None
    return {
        "intra_op_threads": _first_int(session_config, context, "intra_op_parallelism_threads"),
        "inter_op_threads": _first_int(session_config, context, "inter_op_parallelism_threads"),
        "mixed_precision": or_none(_policy),
        "jit": or_none(lambda: _jit(session_config, context)),
        "optimizer": or_none(lambda: _optimizer(session_config, context)),
        "image_data_format": or_none(lambda: _attribute(_FORMATS, "_IMAGE_DATA_FORMAT")),
        "eager": or_none(lambda: bool(_attribute(_RUN_EAGERLY, "RUN_FUNCTIONS_EAGERLY"))),
        "memory_growth": or_none(lambda: _growth(session_config, context)),
        "jit_compile": _plain(getattr(model, "__dict__", {}).get("_jit_compile")),
        "run_eagerly": _plain(getattr(model, "__dict__", {}).get("_run_eagerly")),
    }


def _first_int(session_config, context, name):
    """Return a size of a thread pool; 0 leaves it to TensorFlow."""
    size = getattr(session_config, name, 0) or getattr(context, "_" + name, 0)
    return size if isinstance(size, int) else 0


def _policy():
    tracker = getattr(sys.modules.get("keras.src.backend.common.global_state"), "GLOBAL_STATE_TRACKER", None)
    policy = getattr(tracker, "dtype_policy", None) or _attribute(_POLICIES, "_global_policy")
    return _plain(getattr(policy, "name", None))


def _jit(session_config, context):
    """Return whether XLA clusters ops automatically."""
    if session_config is not None and session_config.graph_options.optimizer_options.global_jit_level > 0:
        return True
    return bool(getattr(context, "_optimizer_jit", None))


def _optimizer(session_config, context):
    """Return the job's choices for grappler."""
    chosen = getattr(context, "_optimizer_experimental_options", None) or {}
    choices = {str(name): _plain(value) for name, value in list(chosen.items())[:50]}
    if session_config is not None:
        rewrite = session_config.graph_options.rewrite_options
        choices.update((field.name, _plain(value)) for field, value in rewrite.ListFields())
    return choices


def _growth(session_config, context):
    if session_config is not None and session_config.gpu_options.allow_growth:
        return True
    return any((getattr(context, "_memory_growth_map", None) or {}).values())


def _attribute(modules, name):
    """Return an attribute of the first of these modules that is loaded and has it set."""
    for module in modules:
        value = getattr(sys.modules.get(module), name, None)
        if value is not None:
            return value
    return None


def _plain(value):
    """Return what can be written to JSON: a number, a boolean or a short text."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value)[:_RATHER_A_NAME]


class TensorFlowStep(TracedStep):
    """A step of TensorFlow being traced."""

    session_config = None  # of the Session that runs the step

    def feeds(self):
        """Return what the step was fed; None if steps are not fed."""

    def sizes(self, result):
        feeds = self.feeds()
        return None if feeds is None else fed_bytes(feeds), result_bytes(result)

    def write_settings(self):
        write_settings(self.session_config)
