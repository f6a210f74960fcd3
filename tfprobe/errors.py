"""The errors that tfprobe shows: what was tried, on what, and what to do next.

TfprobeError
├── UsageError         exit 2   the command line or a setting is wrong
├── NoAnswer           exit 1   the question has no answer in this run
└── UnreadableInput    exit 3   a file or directory cannot be read as what it should be
"""

from __future__ import annotations

from dataclasses import dataclass


class TfprobeError(Exception):
    """An error with a one-paragraph message for a person and an exit status for a shell."""

    exit_code = 1

    def __init__(self, problem: str, *, hint: str = "") -> None:
        """Say what was tried on what (`problem`) and what to do next (`hint`)."""
        super().__init__(problem)
        self.problem = problem
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.problem} {self.hint}".strip()


class UsageError(TfprobeError):
    """The command line, a variable or tfprobe.toml is wrong."""

    exit_code = 2


class NoAnswer(TfprobeError):
    """The run is readable but has no answer to the question."""

    exit_code = 1


class UnreadableInput(TfprobeError):
    """A path is missing, truncated, corrupt, or not what it should be."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Missing:
    """A value that is unknown, with the reason, in place of 0, -1 or NaN."""

    reason: str
