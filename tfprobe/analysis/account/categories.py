"""Name the categories of the account, and map parts of steps and gaps to them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from tfprobe.analysis.breakdown.step_parts import Part


class Category(Enum):
    """What wall time is spent on, in the order of a process's life. The value is the JSON name."""

    INTERPRETER_START = "interpreter_start"
    IMPORTS = "imports"
    PREPARATION = "preparation"
    COMPILE = "compile"
    WARM_UP = "warm_up"
    PRODUCTIVE = "productive"
    INPUT_WAIT = "input_wait"
    EVALUATION = "evaluation"
    CHECKPOINTS = "checkpoints"
    CALLBACKS = "callbacks"
    EPOCH_ENDS = "epoch_ends"
    PYTHON = "python_between_steps"
    COLLECTION = "garbage_collection"
    RECORDING = "recording"
    OTHERS = "waiting_for_others"
    IDLE = "idle"
    NOT_KNOWN = "not_known"

    # Sums by category are everywhere, and Enum's own hash takes longer than the sum.
    __hash__ = object.__hash__


# The name of garbage collections before any step: those of imports and preparation.
BEFORE_STEPS = "before the first step"
SETUP = "Estimator.train before its steps"

# Their names in text.
LABELS: Mapping[Category, str] = {
    Category.INTERPRETER_START: "interpreter start",
    Category.IMPORTS: "imports",
    Category.PREPARATION: "preparation",
    Category.COMPILE: "tracing and compiling",
    Category.WARM_UP: "warm-up",
    Category.PRODUCTIVE: "productive steps",
    Category.INPUT_WAIT: "waiting for input",
    Category.EVALUATION: "evaluation",
    Category.CHECKPOINTS: "checkpoints and exports",
    Category.CALLBACKS: "callbacks, summaries, logging",
    Category.EPOCH_ENDS: "ends of epochs",
    Category.PYTHON: "Python between steps",
    Category.COLLECTION: "garbage collection",
    Category.RECORDING: "recording by tfprobe",
    Category.OTHERS: "waiting for other processes",
    Category.IDLE: "idle",
    Category.NOT_KNOWN: "not known",
}

# Their names in a sentence after a share: "17 % went to ...".
WENT_TO: Mapping[Category, str] = {
    Category.INTERPRETER_START: "starting Python",
    Category.IMPORTS: "imports",
    Category.PREPARATION: "preparation",
    Category.COMPILE: "tracing and compiling",
    Category.WARM_UP: "warm-up",
    Category.INPUT_WAIT: "waiting for input",
    Category.EVALUATION: "evaluation",
    Category.CHECKPOINTS: "checkpoints and exports",
    Category.CALLBACKS: "callbacks, summaries and logging",
    Category.EPOCH_ENDS: "the ends of epochs",
    Category.PYTHON: "Python between steps",
    Category.COLLECTION: "garbage collection",
    Category.RECORDING: "recording by tfprobe",
    Category.OTHERS: "waiting for other processes",
    Category.IDLE: "idle time",
    Category.NOT_KNOWN: "time that the recording does not explain",
}

# Parts of a step that are not productive.
_OF_STEP: Mapping[Part, Category] = {
    Part.INPUT_WAIT: Category.INPUT_WAIT,
    Part.HOST_PREPROCESS: Category.INPUT_WAIT,
    Part.COMPILE: Category.COMPILE,
    Part.CHECKPOINTS: Category.CHECKPOINTS,
    Part.SUMMARIES: Category.CALLBACKS,
    Part.CALLBACKS: Category.CALLBACKS,
}
# Parts of the time between steps. Waiting for a device there belongs to an asynchronous step.
_OF_GAP: Mapping[Part, Category] = {
    **_OF_STEP,
    Part.SYNC_WAIT: Category.PRODUCTIVE,
    Part.FEED: Category.INPUT_WAIT,
}
# Kinds of activities, and of the causes of gaps (see steps.slow_step_causes).
OF_KIND: Mapping[str, Category] = {
    "import": Category.IMPORTS,
    "build": Category.PREPARATION,
    "data": Category.PREPARATION,
    "trace": Category.COMPILE,
    "lower": Category.COMPILE,
    "xla": Category.COMPILE,
    "torch_compile": Category.COMPILE,
    "compilations": Category.COMPILE,
    "compile": Category.PREPARATION,
    "save": Category.CHECKPOINTS,
    "evaluate": Category.EVALUATION,
    "predict": Category.EVALUATION,
    "callbacks": Category.CALLBACKS,
    "summary": Category.CALLBACKS,
    "user": Category.PYTHON,
    "epoch": Category.EPOCH_ENDS,
    "calls": Category.PYTHON,
    "after_wait": Category.PYTHON,
    "work": Category.PYTHON,
    "gc": Category.COLLECTION,
    "between_cells": Category.IDLE,
}


def step_category(part: Part, *, has_accelerator: bool) -> Category:
    """Return the category of a part of a step.

    Without an accelerator, a synchronization waits for other processes, not for a device.
    """
    if part is Part.SYNC_WAIT and not has_accelerator:
        return Category.OTHERS
    return _OF_STEP.get(part, Category.PRODUCTIVE)


def gap_category(part: Part) -> Category:
    """Return the category of a part of the time between two steps."""
    return _OF_GAP.get(part, Category.PYTHON)
