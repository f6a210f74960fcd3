"""What JAX and torch.compile compiled in a process: how long it took, and why again."""

from __future__ import annotations

from dataclasses import dataclass

XLA, TORCH_COMPILE = "XLA", "torch.compile"


@dataclass(frozen=True, slots=True)
class ArgumentChange:
    """What differs in one argument: `what` is its shape, dtype or the like.

    `argument` is the parameter and the path in it. `before` and `after` are words, such as
    `float32[8,3]`, "" if there was nothing. Of a guard of PyTorch that is none of the known kinds,
    `what` is "guard", and `before` its text.
    """

    argument: str
    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Compilation:
    """One compilation of a function of the program, in unix ns.

    `loop` and `step` say in which step it was, None if in none. The times are those of tracing (by
    JAX, or by Dynamo), of lowering (AOTAutograd) and of the backend (XLA, or Inductor), None for a
    stage that was not needed or not measured apart. `is_first` says that this function object had
    not been compiled before, and `is_cached` whether the backend's result came from a cache on
    disk, None if that was not looked into. `changes` are None for a first compilation, and where
    they are not known; an empty tuple says that no argument differs. There are `changes_left_out`
    more.
    """

    process: int
    loop: int | None
    step: int | None
    name: str
    start_ns: int
    trace_ns: int | None
    lower_ns: int | None
    backend_ns: int | None
    is_first: bool
    is_cached: bool | None
    changes: tuple[ArgumentChange, ...] | None
    file: str = ""
    line: int = 0
    changes_left_out: int = 0
    compiler: str = XLA

    @property
    def duration_ns(self) -> int:
        """Return the time of all stages."""
        return sum(ns or 0 for ns in (self.trace_ns, self.lower_ns, self.backend_ns))


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """A line at which torch.compile ended a graph, found when it compiled the function `name`.

    `is_skipped` says that the whole function runs without having been compiled.
    """

    process: int
    loop: int | None
    step: int | None
    name: str
    unix_ns: int
    reason: str
    file: str
    line: int
    is_skipped: bool = False
