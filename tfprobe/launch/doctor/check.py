"""One thing the doctor looked at, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """How a check ended: a warning costs detail, a failure costs the recording."""

    PASSED = "passed"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """A finding in one sentence and, unless it passed, the action that mends it."""

    name: str
    state: State
    message: str
    action: str = ""

    @classmethod
    def passed(cls, name: str, message: str) -> Check:
        """Report something as it should be."""
        return cls(name, State.PASSED, message)

    @classmethod
    def warning(cls, name: str, message: str, action: str) -> Check:
        """Report something that leaves a recording with less in it."""
        return cls(name, State.WARNING, message, action)

    @classmethod
    def failed(cls, name: str, message: str, action: str) -> Check:
        """Report something that leaves no recording."""
        return cls(name, State.FAILED, message, action)
