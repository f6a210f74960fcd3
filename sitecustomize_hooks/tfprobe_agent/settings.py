"""What the job has chosen, of what its speed depends on. Looks at what is there: asks TensorFlow for nothing."""

import sys

from .config import speed_variables
from .guard import never_raise_noting
from .interruptions import let_through
from .originals import ORIGINAL
from .recorder import current
from .threads import THREAD

_CONTEXT = "tensorflow.python.eager.context"
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
def tell(session_config):
    """Write the event; `session_config` is the ConfigProto of the Session whose step was sampled, or None."""
    began_ns = ORIGINAL.monotonic_ns()
    recorder = current()
    recorder.journal.event("settings", settings=read(session_config))
    recorder.spent_once(ORIGINAL.monotonic_ns() - began_ns)


def read(session_config):
    """Return the settings by name, as docs/design.md has them; None for what is not known."""
    context = getattr(sys.modules.get(_CONTEXT), "_context", None)
    model = THREAD.mine.phase.model() if THREAD.mine.phase is not None else None
    variables = speed_variables()
    return {
        "intra_op_threads": _first_int(session_config, context, "intra_op_parallelism_threads"),
        "inter_op_threads": _first_int(session_config, context, "inter_op_parallelism_threads"),
        "cpus": _asked(lambda: len(ORIGINAL.sched_getaffinity(0))),
        "mixed_precision": _asked(_policy),
        "jit": _asked(lambda: _jit(session_config, context)),
        "optimizer": _asked(lambda: _optimizer(session_config, context)),
        "xla_flags": variables.get("XLA_FLAGS"),
        "environment": variables,
        "image_data_format": _asked(lambda: _attribute(_FORMATS, "_IMAGE_DATA_FORMAT")),
        "eager": _asked(lambda: bool(_attribute(_RUN_EAGERLY, "RUN_FUNCTIONS_EAGERLY"))),
        "memory_growth": _asked(lambda: _growth(session_config, context)),
        "jit_compile": _plain(getattr(model, "__dict__", {}).get("_jit_compile")),
        "run_eagerly": _plain(getattr(model, "__dict__", {}).get("_run_eagerly")),
    }


def _asked(question):
    try:
        return question()
    except Exception:
        let_through()
        return None  # another TensorFlow's words: this one setting stays unknown


def _first_int(session_config, context, name):
    """Return a size of a thread pool; 0 leaves it to TensorFlow."""
    found = getattr(session_config, name, 0) or getattr(context, "_" + name, 0)
    return found if isinstance(found, int) else 0


def _policy():
    tracker = getattr(sys.modules.get("keras.src.backend.common.global_state"), "GLOBAL_STATE_TRACKER", None)
    policy = getattr(tracker, "dtype_policy", None) or _attribute(_POLICIES, "_global_policy")
    return _plain(getattr(policy, "name", None))


def _jit(session_config, context):
    """Tell whether XLA clusters ops of its own accord."""
    if session_config is not None and session_config.graph_options.optimizer_options.global_jit_level > 0:
        return True
    return bool(getattr(context, "_optimizer_jit", None))


def _optimizer(session_config, context):
    """Return the job's choices for grappler."""
    chosen = getattr(context, "_optimizer_experimental_options", None) or {}
    found = {str(name): _plain(value) for name, value in list(chosen.items())[:50]}
    if session_config is not None:
        rewrite = session_config.graph_options.rewrite_options
        found.update((field.name, _plain(value)) for field, value in rewrite.ListFields())
    return found


def _growth(session_config, context):
    if session_config is not None and session_config.gpu_options.allow_growth:
        return True
    return any((getattr(context, "_memory_growth_map", None) or {}).values())


def _attribute(modules, name):
    """Return an attribute of the first of these modules that is loaded and has it set."""
    for module in modules:
        found = getattr(sys.modules.get(module), name, None)
        if found is not None:
            return found
    return None


def _plain(value):
    """Return what can be written down: a number, a truth or a short text."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value)[:_RATHER_A_NAME]
