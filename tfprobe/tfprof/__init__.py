"""The old tool's surface: its options, its reports, its shell, and its Python interface.

A program written for tf.profiler or tf.contrib.tfprof runs with `from tfprobe import tfprof` and
`tfprof` in their place. Importing this imports no TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfprobe.tfprof import model_analyzer, option_builder, tfprof_logger
    from tfprobe.tfprof.op_log import OpLogProto, write_op_log
    from tfprobe.tfprof.option_builder import ProfileOptionBuilder
    from tfprobe.tfprof.profile_context import ProfileContext
    from tfprobe.tfprof.profiler import ALL_ADVICE, Profiler, advise, profile
    from tfprobe.tfprof.results import AdviceProto, GraphNodeProto, MultiGraphNodeProto

__all__ = [
    "ALL_ADVICE",
    "AdviceProto",
    "GraphNodeProto",
    "MultiGraphNodeProto",
    "OpLogProto",
    "ProfileContext",
    "ProfileOptionBuilder",
    "Profiler",
    "advise",
    "model_analyzer",
    "option_builder",
    "profile",
    "tfprof_logger",
    "write_op_log",
]
# Where a name comes from. Read at its first use: the commands import this package for their own
# modules and must not wait for the rest.
_HOMES = {
    "ALL_ADVICE": "profiler",
    "AdviceProto": "results",
    "GraphNodeProto": "results",
    "MultiGraphNodeProto": "results",
    "OpLogProto": "op_log",
    "ProfileContext": "profile_context",
    "ProfileOptionBuilder": "option_builder",
    "Profiler": "profiler",
    "advise": "profiler",
    "profile": "profiler",
    "write_op_log": "op_log",
}
_MODULES = ("model_analyzer", "option_builder", "tfprof_logger")


def __getattr__(name: str) -> Any:
    """Import a name of the interface at its first use. Any: it may be anything of the interface."""
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
