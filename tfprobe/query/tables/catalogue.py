"""Every table there is, by name."""

from __future__ import annotations

from collections.abc import Mapping

from tfprobe.query.tables.accounts import ACCOUNT
from tfprobe.query.tables.history import HISTORY
from tfprobe.query.tables.of_captures import ALLOCATIONS, CAPTURES, EXECUTIONS, SPANS
from tfprobe.query.tables.of_runs import (
    ACCELERATORS,
    ACTIVITIES,
    CALLS,
    GAPS,
    INTERPRETERS,
    PROBLEMS,
    PROCESSES,
    PULSES,
    RUNS,
    STEPS,
    THREAD_TIMES,
    WORKS,
)
from tfprobe.query.tables.shapes import Shape

SHAPES: tuple[Shape, ...] = (
    RUNS,
    PROCESSES,
    WORKS,
    STEPS,
    CAPTURES,
    EXECUTIONS,
    SPANS,
    ALLOCATIONS,
    ACTIVITIES,
    GAPS,
    CALLS,
    PULSES,
    THREAD_TIMES,
    ACCELERATORS,
    INTERPRETERS,
    ACCOUNT,
    PROBLEMS,
)
# What is made of other tables, and needs no reading of its own.
VIEWS: tuple[Shape, ...] = (HISTORY,)
BY_NAME: Mapping[str, Shape] = {shape.name: shape for shape in SHAPES}
