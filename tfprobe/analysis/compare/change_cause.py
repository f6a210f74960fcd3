"""Decide whether the program or the machine caused a change in step time.

With one recording per side that is often unknown, and the answer says so: two recordings of the
same program on a shared machine can differ by half, which their intervals do not cover.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.analysis.compare.measurements import Change, MeasuredLevel
from tfprobe.analysis.compare.op_changes import CostChange, OpChanges
from tfprobe.analysis.compare.step_changes import StepChange
from tfprobe.errors import Missing
from tfprobe.profile.activities import ResourceSample
from tfprobe.profile.profile import Loop, Profile

# Waiting for a CPU explains a change if it is at least this part of it, and does not matter below
# the second.
_EXPLAINS_RATIO = 0.5
_MATTERS_RATIO = 0.25
# CPU time is unchanged if it changed by at most this part of the change of steps, on logarithms,
_SAME_CPU_RATIO = 0.25
# and it follows the steps if it changed by at least this part.
_FOLLOWS_CPU_RATIO = 0.5


class CauseKind(Enum):
    """What caused a change. The value is its word in documents and texts."""

    PROGRAM = "program"
    MACHINE = "machine"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ChangeCause:
    """What caused a change in step time, and the evidence, as the rest of a sentence."""

    kind: CauseKind
    why: str

    @property
    def sentence(self) -> str:
        """Return the cause and the evidence as a sentence."""
        if self.kind is CauseKind.UNKNOWN:
            return f"The cause cannot be determined from one run per side: {self.why}."
        return f"The cause is the {self.kind.value}: {self.why}."


@dataclass(frozen=True, slots=True)
class ChangeEvidence:
    """What is known about a change of `growth_ratio`, which is +0.12 if steps are 12 % longer.

    `fed_ratio` is how many more bytes a step is fed in B, `requested_ratio` how many more its ops
    request from their allocators: no machine changes either. `same_setup`: versions, settings and
    CPUs are the same. `is_busy`: other processes kept the machine busy.
    """

    growth_ratio: float
    before: Processor | Missing
    after: Processor | Missing
    shapes: tuple[ChangeShape, ...]
    fed_ratio: float = 0.0
    requested_ratio: float = 0.0
    same_setup: bool = True
    is_busy: bool = False


NO_EVIDENCE = "the recordings do not separate the program from the machine"


def cause(evidence: ChangeEvidence) -> ChangeCause:
    """Return what caused a change."""
    log_growth = math.log1p(evidence.growth_ratio)
    if _goes_with(evidence.fed_ratio, log_growth):
        return ChangeCause(
            CauseKind.PROGRAM, f"a step is fed {1 + evidence.fed_ratio:.3g} times the bytes"
        )
    if _goes_with(evidence.requested_ratio, log_growth):
        times = f"{1 + evidence.requested_ratio:.3g} times the memory"
        return ChangeCause(CauseKind.PROGRAM, f"the ops of a step request {times}")
    waited = _waited_ratio(evidence)
    concentrated = _concentrated(evidence)
    if concentrated is not None:
        return _of_concentrated(evidence, concentrated, waited)
    alike = next((shape for shape in _matching(evidence) if shape.is_alike), None)
    if alike is None:
        return ChangeCause(CauseKind.UNKNOWN, NO_EVIDENCE)
    parts = "steps and the time between them" if alike.of == "cycle" else f"all {alike.of}"
    if waited is not None and waited >= _EXPLAINS_RATIO:
        return ChangeCause(
            CauseKind.MACHINE,
            f"{parts} changed alike, and {min(waited, 1) * 100:.0f} % of the change is waiting "
            "for a CPU",
        )
    if evidence.same_setup and _cpu_is_same(evidence, log_growth):
        return ChangeCause(
            CauseKind.MACHINE, f"{parts} changed alike, and a step takes the same CPU time"
        )
    return ChangeCause(
        CauseKind.UNKNOWN,
        f"{parts} changed alike, and there is no evidence of a change of the machine",
    )


def _goes_with(ratio: float, log_growth: float) -> bool:
    """Return whether a quantity of the program grew with its steps, whose growth is a logarithm."""
    return (
        bool(log_growth)
        and log_growth * math.log1p(max(ratio, -0.99)) >= _FOLLOWS_CPU_RATIO * log_growth**2
    )


def _of_concentrated(
    evidence: ChangeEvidence, shape: ChangeShape, waited: float | None
) -> ChangeCause:
    where = _where(shape)
    if waited is not None and waited >= _MATTERS_RATIO:
        why = f"{where}, but {min(waited, 1) * 100:.0f} % of the change is waiting for a CPU"
        return ChangeCause(CauseKind.UNKNOWN, why)
    if evidence.is_busy and not _is_own(evidence, shape, waited):
        return ChangeCause(CauseKind.UNKNOWN, f"{where}, but other processes kept the machine busy")
    return ChangeCause(CauseKind.PROGRAM, where)


def _is_own(evidence: ChangeEvidence, shape: ChangeShape, waited: float | None) -> bool:
    """Return whether the program caused a piece although others kept the machine busy.

    Between steps the first thread runs, and how long it waited for a CPU is recorded. Ops run in
    threads whose waits are not recorded: there the CPU time of a step must have grown, too.
    """
    if shape.of == "cycle" and shape.most.name != "the step":
        return waited is not None
    log_growth = math.log1p(evidence.growth_ratio)
    cpu = _cpu_growth(evidence)
    return cpu is not None and cpu * log_growth >= _FOLLOWS_CPU_RATIO * log_growth**2


def _where(shape: ChangeShape) -> str:
    least = "" if shape.witness is None else f", while {shape.witness.name} hardly changed"
    return f"{shape.most.name} changed most{least}"


def _concentrated(evidence: ChangeEvidence) -> ChangeShape | None:
    return next((shape for shape in _matching(evidence) if shape.is_concentrated), None)


def _matching(evidence: ChangeEvidence) -> Sequence[ChangeShape]:
    """Return the shapes that show the change: traced steps can differ from others."""
    log_growth = math.log1p(evidence.growth_ratio)
    return [
        shape
        for shape in evidence.shapes
        if shape.growth_ratio > -1
        and math.log1p(shape.growth_ratio) * log_growth >= _FOLLOWS_CPU_RATIO * log_growth**2
    ]


def _waited_ratio(evidence: ChangeEvidence) -> float | None:
    """Return which part of the change of a step was waiting for a CPU, None if unknown."""
    one, other = evidence.before, evidence.after
    if isinstance(one, Missing) or isinstance(other, Missing):
        return None
    if isinstance(one.waited_ns, Missing) or isinstance(other.waited_ns, Missing):
        return None
    change_ns = one.wall_ns * evidence.growth_ratio
    return max((other.waited_ns - one.waited_ns) / change_ns, 0.0)


def _cpu_growth(evidence: ChangeEvidence) -> float | None:
    """Return the change of the CPU time of a step as a logarithm, None if unknown."""
    one, other = evidence.before, evidence.after
    if isinstance(one, Missing) or isinstance(other, Missing):
        return None
    if isinstance(one.cpu_ns, Missing) or isinstance(other.cpu_ns, Missing):
        return None
    return math.log(max(other.cpu_ns, 1.0) / max(one.cpu_ns, 1.0))


def _cpu_is_same(evidence: ChangeEvidence, log_growth: float) -> bool:
    cpu = _cpu_growth(evidence)
    return cpu is not None and abs(cpu) <= _SAME_CPU_RATIO * abs(log_growth)


# A piece smaller than this share of the whole is no evidence.
LEAST_SHARE_RATIO = 0.1
# If one piece is larger than this share, there is nothing to compare it with.
MOST_SHARE_RATIO = 0.8
# A change is concentrated if the pieces that changed less grew by at most this part of it,
OTHERS_GROWTH_RATIO = 0.5
# and alike if at most this part of it would vanish if all pieces had changed by one factor.
ALIKE_RATIO = 0.25


@dataclass(frozen=True, slots=True)
class ChangePiece:
    """A piece of a whole, in ns; `change` has the interval of its change, if known."""

    name: str
    before_ns: float
    after_ns: float
    change: Change | Missing

    @property
    def is_one_sided(self) -> bool:
        """Return whether only one of the recordings has it."""
        return not self.before_ns or not self.after_ns


@dataclass(frozen=True, slots=True)
class ChangeShape:
    """How the change of a whole is distributed over its pieces.

    `excess_ratio` is the part of the change that would vanish if all pieces had changed alike;
    `most` is the piece with most of it. `others_growth_ratio` is the growth of the pieces that
    changed less than the whole; `witness` is the largest piece that significantly did so.
    """

    of: str
    growth_ratio: float
    others_growth_ratio: float
    excess_ratio: float
    largest_share_ratio: float
    most: ChangePiece
    witness: ChangePiece | None
    is_one_way: bool

    @property
    def is_concentrated(self) -> bool:
        """Return whether most of the change is in one piece, while another hardly changed."""
        change = self.most.change
        is_sure = self.most.is_one_sided or (
            isinstance(change, Change)
            and change.is_significant
            and change.ratio * self.growth_ratio > 0
        )
        few = self.others_growth_ratio / self.growth_ratio <= OTHERS_GROWTH_RATIO
        return few and is_sure and self.witness is not None

    @property
    def is_alike(self) -> bool:
        """Return whether every piece changed by about the same factor."""
        has_others = self.largest_share_ratio <= MOST_SHARE_RATIO
        return has_others and self.is_one_way and self.excess_ratio <= ALIKE_RATIO


def shape(of: str, pieces: Sequence[ChangePiece]) -> ChangeShape | Missing:
    """Return how a change is distributed over `pieces`, which together are the whole."""
    whole_ns = sum(piece.before_ns for piece in pieces)
    delta_ns = sum(piece.after_ns - piece.before_ns for piece in pieces)
    if len(pieces) < 2 or not whole_ns or not delta_ns:
        return Missing("there are no pieces to compare")
    growth = delta_ns / whole_ns
    excess_ns = {
        piece.name: (piece.after_ns - piece.before_ns * (1 + growth)) / delta_ns for piece in pieces
    }
    others = [piece for piece in pieces if excess_ns[piece.name] <= 0]
    large = [piece for piece in pieces if piece.before_ns >= LEAST_SHARE_RATIO * whole_ns]
    witnesses = [piece for piece in large if _changed_less(piece, growth)]
    return ChangeShape(
        of=of,
        growth_ratio=growth,
        others_growth_ratio=_growth(others),
        excess_ratio=sum(excess for excess in excess_ns.values() if excess > 0),
        largest_share_ratio=max(piece.before_ns for piece in pieces) / whole_ns,
        most=max(pieces, key=lambda piece: excess_ns[piece.name]),
        witness=max(witnesses, key=lambda piece: piece.before_ns, default=None),
        is_one_way=all((piece.after_ns - piece.before_ns) * delta_ns > 0 for piece in large),
    )


def _growth(pieces: Sequence[ChangePiece]) -> float:
    before_ns = sum(piece.before_ns for piece in pieces)
    return sum(piece.after_ns for piece in pieces) / before_ns - 1 if before_ns else 0.0


def _changed_less(piece: ChangePiece, growth: float) -> bool:
    change = piece.change
    if not isinstance(change, Change):
        return False
    return change.high_ratio < growth if growth > 0 else change.low_ratio > growth


def of_cycle(steps: StepChange) -> ChangeShape | Missing:
    """Return the shape of a change by steps and the gaps between them."""
    changes = (("the step", steps.step), ("the time between steps", steps.gap))
    pieces = [
        ChangePiece(name, change.before, change.after, change)
        for name, change in changes
        if isinstance(change, Change)
    ]
    return shape("cycle", pieces)


def of_parts(parts: Sequence[CostChange] | Missing) -> ChangeShape | Missing:
    """Return the shape of a change by the parts of traced steps, without the cost of tracing."""
    if isinstance(parts, Missing):
        return parts
    return shape("parts", _pieces(part for part in parts if part.name != Part.RECORDING.value))


def of_ops(ops: OpChanges | Missing) -> ChangeShape | Missing:
    """Return the shape of a change by op types."""
    return ops if isinstance(ops, Missing) else shape("ops", _pieces(ops.types))


def _pieces(costs: Iterable[CostChange]) -> list[ChangePiece]:
    """Return the levels of what was compared, and the means of what only one side has.

    Costs with too few samples are left out: the mean of a few says nothing.
    """
    found = []
    for cost in costs:
        if isinstance(cost.change, Change):
            found.append(ChangePiece(cost.name, cost.change.before, cost.change.after, cost.change))
        elif cost.before_ns is None or cost.after_ns is None:
            found.append(
                ChangePiece(cost.name, cost.before_ns or 0, cost.after_ns or 0, cost.change)
            )
    return found


# The first resource sample is from the first step, so the time before the second is start-up.
_LEAST_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class Processor:
    """Wall and CPU time of a step in ns, from the second to the last resource sample.

    `cpu_ns` is the CPU time of all threads; `waited_ns` is how long the first thread was runnable
    without a CPU, plus what the hypervisor stole from a CPU; `others_cpus` is how many CPUs other
    processes kept busy.
    """

    wall_ns: float
    cpu_ns: float | Missing
    waited_ns: float | Missing
    others_cpus: float | Missing


def processor(profile: Profile, loop: Loop) -> Processor | Missing:
    """Return the processor time of a loop's steps, or why the resource samples do not have it."""
    samples = [
        resource_sample
        for resource_sample in profile.resource_samples
        if resource_sample.process == loop.process and not resource_sample.at_exit
    ]
    if len(samples) < _LEAST_SAMPLES:
        return Missing("the run is too short for resource samples")
    first, last = _ends(samples)
    steps, wall_ns = last.steps - first.steps, last.at_ns - first.at_ns
    if steps <= 0 or wall_ns <= 0:
        return Missing("no step ended between two resource samples")
    cpu_ns = _sum(_grown(first.user_ns, last.user_ns), _grown(first.system_ns, last.system_ns))
    waited_ns = _grown(first.run_delay_ns, last.run_delay_ns)
    busy_ns = _grown(first.machine_busy_ns, last.machine_busy_ns)
    return Processor(
        wall_ns=wall_ns / steps,
        cpu_ns=_over(cpu_ns, steps),
        waited_ns=_over(_sum(waited_ns, _stolen_ns(first, last)), steps),
        others_cpus=_over(_sum(busy_ns, _negative(cpu_ns)), wall_ns),
    )


def fast_cpu_ns(profile: Profile, loop: Loop) -> float | Missing:
    """Return the 10th percentile, over intervals between samples, of the CPU time of a step.

    Sharing a CPU or its caches can only increase it.
    """
    samples = [
        resource_sample
        for resource_sample in profile.resource_samples
        if resource_sample.process == loop.process and not resource_sample.at_exit
    ]
    rates_ns = []
    for first, last in itertools.pairwise(samples[1:]):
        cpu_ns = _sum(_grown(first.user_ns, last.user_ns), _grown(first.system_ns, last.system_ns))
        steps = last.steps - first.steps
        if steps > 0 and not isinstance(cpu_ns, Missing) and cpu_ns > 0:
            rates_ns.append(cpu_ns / steps)
    if not rates_ns:
        return Missing("no step ended between two resource samples with CPU times")
    return float(np.quantile(rates_ns, MeasuredLevel.FAST.value or 0.0))


def _ends(samples: Sequence[ResourceSample]) -> tuple[ResourceSample, ResourceSample]:
    """Return the second sample and the last, of those that could read /proc/stat in time."""
    usable = [sample for sample in samples[1:] if not isinstance(sample.machine_busy_ns, Missing)]
    chosen = usable if len(usable) > 1 else samples[1:]
    return chosen[0], chosen[-1]


def _stolen_ns(first: ResourceSample, last: ResourceSample) -> float | Missing:
    """Return what the hypervisor stole from each CPU; 0 if the system does not report it."""
    stolen_ns = _grown(first.machine_steal_ns, last.machine_steal_ns)
    cpus = 1 if isinstance(last.cpus, Missing) else max(last.cpus, 1)
    return 0.0 if isinstance(stolen_ns, Missing) else stolen_ns / cpus


def _grown(first: int | Missing, last: int | Missing) -> float | Missing:
    if isinstance(first, Missing):
        return first
    return last if isinstance(last, Missing) else float(max(last - first, 0))


def _sum(one: float | Missing, other: float | Missing) -> float | Missing:
    if isinstance(one, Missing):
        return one
    return other if isinstance(other, Missing) else one + other


def _negative(value: float | Missing) -> float | Missing:
    return value if isinstance(value, Missing) else -value


def _over(value: float | Missing, divisor: int) -> float | Missing:
    return value if isinstance(value, Missing) else max(value / divisor, 0.0)
