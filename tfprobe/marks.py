"""Let a program name its activities: `tfprobe.activity`. Runs in the job, so it imports nothing of
tfprobe. If the job is recorded, the agent times what is named; otherwise, naming does nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    # Any: whatever the program's function takes and gives.
    F = TypeVar("F", bound=Callable[..., Any])


class _Unrecorded:
    """Name what a piece of a program does: `with activity("load"): ...`, or `@activity("load")`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> _Unrecorded:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __call__(self, function: F) -> F:
        return function


def _recorded() -> type[_Unrecorded]:
    """Return the agent's class of the same name if this process is recorded."""
    if "tfprobe_agent.boot" not in sys.modules:
        return _Unrecorded
    try:
        from tfprobe_agent.activities import activity as recorded
    except Exception:
        # An agent that cannot be imported is no reason for the program to fail.
        return _Unrecorded
    found: type[_Unrecorded] = recorded
    return found


if TYPE_CHECKING:
    activity = _Unrecorded
else:
    activity = _recorded()
