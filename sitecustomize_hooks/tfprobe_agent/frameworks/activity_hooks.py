"""The methods that a job calls rarely: each call is an activity. One line per method.

Nothing that runs in every step belongs here: steps have a step wrapper, and the rest is seen in the gaps between them.
"""

import re

from tfprobe_agent import activities, patching

_CALLBACKS = tuple(
    "on_%s_%s" % (what, side) for what in ("epoch", "train", "test", "predict") for side in ("begin", "end")
)
_DATASETS = (
    "batch", "cache", "filter", "flat_map", "from_generator", "from_tensor_slices", "from_tensors", "interleave",
    "list_files", "map", "padded_batch", "prefetch", "range", "repeat", "shuffle", "shard", "skip", "take", "zip",
)  # fmt: skip
# Class, methods, and kind of activity. A class is patched in whichever module defines it.
_METHODS = (
    ("CallbackList", _CALLBACKS, "callbacks"),
    ("Checkpoint", ("save", "write"), "save"),
    ("CheckpointManager", ("save",), "save"),
    ("CheckpointV1", ("save", "write"), "save"),
    ("DatasetV2", _DATASETS, "data"),
    ("Estimator", ("_call_model_fn",), "build"),
    ("Estimator", ("evaluate",), "evaluate"),
    ("Estimator", ("train",), "train"),
    ("FileWriter", ("flush", "close"), "summary"),
    ("Functional", ("build",), "build"),
    ("Model", ("build",), "build"),
    ("Model", ("compile",), "compile"),
    ("Model", ("save", "save_weights"), "save"),
    ("Network", ("build",), "build"),
    ("Network", ("save", "save_weights"), "save"),
    ("ResourceSummaryWriter", ("flush", "close"), "summary"),
    ("Saver", ("save",), "save"),
    ("Sequential", ("build",), "build"),
    ("Trainer", ("_symbolic_build",), "build"),
    ("Trainer", ("compile",), "compile"),
    ("_LegacyResourceSummaryWriter", ("flush", "close"), "summary"),
    ("_ResourceSummaryWriter", ("flush", "close"), "summary"),
)
# The names by which a program knows these classes.
_KNOWN_AS = {
    "CheckpointV1": "Checkpoint",
    "DatasetV2": "Dataset",
    "Network": "Model",
    "ResourceSummaryWriter": "SummaryWriter",
    "Trainer": "Model",
    "_LegacyResourceSummaryWriter": "SummaryWriter",
    "_ResourceSummaryWriter": "SummaryWriter",
}
_METHODS_KNOWN_AS = {"_call_model_fn": "model_fn", "_symbolic_build": "build"}
# TensorFlow adds to the name of a function that it traces.
_TRACED_NAME = re.compile(r"^__(?:inference|forward|backward)_(.*)_\d+$")
# The end of a module's name, a function in it, and the kind and name of the activity.
_FUNCTIONS = (
    (".engine.saving", "save_model", "save", "save_model"),
    (".saving.save", "save_model", "save", "save_model"),
    (".saving_api", "save_model", "save", "save_model"),
    ("tensorflow.python.saved_model.save", "save", "save", "saved_model.save"),
)


def patch(module):
    """Patch those of the methods and functions that this module defines."""
    for class_name, methods, kind in _METHODS:
        cls = module.__dict__.get(class_name)
        if isinstance(cls, type) and cls.__module__ == module.__name__:
            for method in methods:
                patching.patch_call(cls, method, activities.noted(kind, _known_as(class_name, method)))
    for ending, function, kind, name in _FUNCTIONS:
        if module.__name__.endswith(ending):
            patching.patch_call(module, function, activities.noted(kind, name))
    if module.__name__.endswith(".func_graph"):
        patching.patch_call(module, "func_graph_from_py_func", activities.noted("trace", _traced_name))


def _known_as(class_name, method):
    return "%s.%s" % (_KNOWN_AS.get(class_name, class_name), _METHODS_KNOWN_AS.get(method, method))


def _traced_name(args, kwargs):
    """Return the name of the traced function, without the numbers that TensorFlow adds."""
    name = args[0] if args else kwargs["name"]
    return plain_name(name if isinstance(name, str) else str(name))


def plain_name(name):
    """Return the name of a function without the parts that TensorFlow adds when it traces it."""
    traced = _TRACED_NAME.match(name)
    return traced.group(1) if traced else name
