"""What JAX compiled in a process: how long it took, and why it was needed again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ArgumentChange:
    """What differs in one argument: `what` is its shape, dtype or the like.

    `argument` is the parameter and the path in it. `before` and `after` are words, such as
    `float32[8,3]`, "" if there was nothing.
    """

    argument: str
    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Compilation:
    """One compilation of a function of the program, in unix ns.

    `loop` and `step` say in which step it was, None if in none. The times are those of tracing,
    lowering and XLA, None for a stage that was not needed. `is_first` says that this function
    object had not been compiled before, and `is_cached` whether XLA's result came from the
    persistent cache, None if that was not looked into. `changes` are None for a first compilation,
    and where they are not known; an empty tuple says that no argument differs. There are
    `changes_left_out` more.
    """

    process: int
    loop: int | None
    step: int | None
    name: str
    start_ns: int
    trace_ns: int | None
    lower_ns: int | None
    xla_ns: int | None
    is_first: bool
    is_cached: bool | None
    changes: tuple[ArgumentChange, ...] | None
    file: str = ""
    line: int = 0
    changes_left_out: int = 0

    @property
    def duration_ns(self) -> int:
        """Return the time of all stages."""
        return sum(ns or 0 for ns in (self.trace_ns, self.lower_ns, self.xla_ns))
