"""Tell whether steps of another length are the program's doing or the machine's.

Of one recording a side that is often not known, and then it is said: two recordings of one program
on a machine that others use differ by half, and their intervals do not know of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from tfprobe.errors import Missing
from tfprobe.views.diff.machine import Processor
from tfprobe.views.diff.shape import Shape

# Waiting for a CPU explains a change from this part of it on, and is no matter below the other.
_EXPLAINS_RATIO = 0.5
_MATTERS_RATIO = 0.25
# CPU time is the same that changed by at most this part of what steps did, on logarithms.
_SAME_CPU_RATIO = 0.25
# And it goes with steps that changed by at least this part.
_FOLLOWS_CPU_RATIO = 0.5


class Whose(Enum):
    """Whose doing a change is. The value is its word in documents and texts."""

    PROGRAM = "program"
    MACHINE = "machine"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Cause:
    """Whose doing a change of steps is, and what says so, as the rest of a sentence."""

    whose: Whose
    why: str

    @property
    def sentence(self) -> str:
        """Say whose doing a change is."""
        if self.whose is Whose.UNKNOWN:
            return f"Whose doing that is cannot be told from one run each: {self.why}."
        return f"That is the {self.whose.value}: {self.why}."


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a change of `growth_ratio`, which is +0.12 where steps are 12 % longer.

    `fed_ratio` is by how much a step is fed more bytes in B, `asked_ratio` by how much more its
    ops ask their allocators for: no machine changes either. `same_setup` says that versions,
    settings and CPUs are the same; `is_busy` that others kept the machine busy.
    """

    growth_ratio: float
    before: Processor | Missing
    after: Processor | Missing
    shapes: tuple[Shape, ...]
    fed_ratio: float = 0.0
    asked_ratio: float = 0.0
    same_setup: bool = True
    is_busy: bool = False


NO_EVIDENCE = "the recordings do not tell the program from the machine"


def cause(evidence: Evidence) -> Cause:
    """Return whose doing a change is."""
    grown = math.log1p(evidence.growth_ratio)
    if _goes_with(evidence.fed_ratio, grown):
        return Cause(Whose.PROGRAM, f"a step is fed {1 + evidence.fed_ratio:.3g} times the bytes")
    if _goes_with(evidence.asked_ratio, grown):
        times = f"{1 + evidence.asked_ratio:.3g} times the memory"
        return Cause(Whose.PROGRAM, f"the ops of a step ask for {times}")
    waited = _waited_ratio(evidence)
    concentrated = _concentrated(evidence)
    if concentrated is not None:
        return _of_concentrated(evidence, concentrated, waited)
    alike = next((shape for shape in _matching(evidence) if shape.is_alike), None)
    if alike is None:
        return Cause(Whose.UNKNOWN, NO_EVIDENCE)
    parts = "steps and the time between them" if alike.of == "cycle" else f"all {alike.of}"
    if waited is not None and waited >= _EXPLAINS_RATIO:
        return Cause(
            Whose.MACHINE,
            f"{parts} changed alike, and {min(waited, 1) * 100:.0f} % of the change is waiting "
            "for a CPU",
        )
    if evidence.same_setup and _cpu_is_same(evidence, grown):
        return Cause(Whose.MACHINE, f"{parts} changed alike, and a step takes as much CPU time")
    return Cause(Whose.UNKNOWN, f"{parts} changed alike, and nothing shows that the machine did")


def _goes_with(ratio: float, grown: float) -> bool:
    """Say whether something of the program's grew with its steps, whose growth is a logarithm."""
    return bool(grown) and grown * math.log1p(max(ratio, -0.99)) >= _FOLLOWS_CPU_RATIO * grown**2


def _of_concentrated(evidence: Evidence, shape: Shape, waited: float | None) -> Cause:
    where = _where(shape)
    if waited is not None and waited >= _MATTERS_RATIO:
        why = f"{where}, but {min(waited, 1) * 100:.0f} % of the change is waiting for a CPU"
        return Cause(Whose.UNKNOWN, why)
    if evidence.is_busy and not _is_own(evidence, shape, waited):
        return Cause(Whose.UNKNOWN, f"{where}, but others kept the machine busy")
    return Cause(Whose.PROGRAM, where)


def _is_own(evidence: Evidence, shape: Shape, waited: float | None) -> bool:
    """Say whether a piece is the program's own although others kept the machine busy.

    The first thread waits for no CPU between steps, or that was seen. Ops run in threads of which
    nobody knows how long they waited: there the CPU time of a step has to go with it.
    """
    if shape.of == "cycle" and shape.most.name != "the step":
        return waited is not None
    grown = math.log1p(evidence.growth_ratio)
    cpu = _cpu_growth(evidence)
    return cpu is not None and cpu * grown >= _FOLLOWS_CPU_RATIO * grown**2


def _where(shape: Shape) -> str:
    least = "" if shape.witness is None else f", while {shape.witness.name} hardly did"
    return f"{shape.most.name} changed most{least}"


def _concentrated(evidence: Evidence) -> Shape | None:
    return next((shape for shape in _matching(evidence) if shape.is_concentrated), None)


def _matching(evidence: Evidence) -> Sequence[Shape]:
    """Return the shapes that show the change: traced steps may differ from the others."""
    grown = math.log1p(evidence.growth_ratio)
    return [
        shape
        for shape in evidence.shapes
        if shape.growth_ratio > -1
        and math.log1p(shape.growth_ratio) * grown >= _FOLLOWS_CPU_RATIO * grown**2
    ]


def _waited_ratio(evidence: Evidence) -> float | None:
    """Return which part of the change of a step was waiting for a CPU, None where nobody knows."""
    one, other = evidence.before, evidence.after
    if isinstance(one, Missing) or isinstance(other, Missing):
        return None
    if isinstance(one.waited_ns, Missing) or isinstance(other.waited_ns, Missing):
        return None
    change_ns = one.wall_ns * evidence.growth_ratio
    return max((other.waited_ns - one.waited_ns) / change_ns, 0.0)


def _cpu_growth(evidence: Evidence) -> float | None:
    """Return the change of the CPU time of a step, as a logarithm."""
    one, other = evidence.before, evidence.after
    if isinstance(one, Missing) or isinstance(other, Missing):
        return None
    if isinstance(one.cpu_ns, Missing) or isinstance(other.cpu_ns, Missing):
        return None
    return math.log(max(other.cpu_ns, 1.0) / max(one.cpu_ns, 1.0))


def _cpu_is_same(evidence: Evidence, grown: float) -> bool:
    cpu = _cpu_growth(evidence)
    return cpu is not None and abs(cpu) <= _SAME_CPU_RATIO * abs(grown)
