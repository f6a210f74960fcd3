"""The one thing that a page may have done: let a running job record its next steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfprobe.errors import UsageError
from tfprobe.live.orders import document, order
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine

DEFAULT_STEPS = 5
# A step that is under way has to end before a process can answer.
PATIENCE_S = 10.0


def record_steps(run: RunFolder, here: Machine, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Order the next `steps` from all processes of a run; return who answered what.

    Any: JSON values. Raises what `order` raises, and UsageError for what is no number of steps.
    """
    steps = fields.get("steps", DEFAULT_STEPS)
    if not isinstance(steps, int) or isinstance(steps, bool):
        raise UsageError("How many steps to record is a whole number.")
    given = order(run, here, steps=steps)
    answers = given.follow(until_met=False, patience_s=PATIENCE_S, tell=lambda _: None)
    return document(given, answers)
