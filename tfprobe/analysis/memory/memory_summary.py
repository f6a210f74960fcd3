"""Summarize memory in the traced steps of a loop by device and allocator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.core.source_lines import Origins
from tfprobe.analysis.core.tensor_sizes import shape_text
from tfprobe.analysis.memory.allocator_levels import (
    UNKNOWN,
    Level,
    capacity_bytes,
    is_used,
    level,
    lifetime_peak_bytes,
    pieces,
)
from tfprobe.analysis.memory.host_memory import Growth, growth
from tfprobe.analysis.memory.lifetimes import lifetimes
from tfprobe.analysis.memory.memory_peak import (
    GroupKey,
    Peak,
    Piece,
    Role,
    lasting_bytes,
    peak,
    recorded_pieces,
)
from tfprobe.analysis.memory.program_memory import (
    NO_BUFFERS,
    ProgramMemory,
    program_memory,
    variables_bytes,
)
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Allocations
from tfprobe.profile.graph import TracedLoop
from tfprobe.profile.profile import Profile
from tfprobe.profile.tables import Int64s

# The most columns of a curve on a terminal.
MOMENTS = 120
# The most steps that are listed with their levels.
_MOST_STEPS = 1000
ESTIMATE = "outputs of ops"
# If more is unknown, even the moment of the peak is a guess.
_MOST_UNKNOWN_RATIO = 0.5
_NO_ALLOCATIONS = Missing(
    "this trace of PyTorch has no allocations: they are in it with profile_memory=True"
)
_NO_SIZES = Missing(
    "these steps have neither records of an allocator nor sizes of outputs: a trace of a "
    "CPU may have none, and their graph with its shapes was not recorded"
)


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """Live bytes in the step of the peak: the most in each of equal parts of its events."""

    after_ns: Int64s
    live_bytes: Int64s


@dataclass(frozen=True, slots=True)
class StepLevel:
    """The least and the most live bytes in a traced step."""

    step: int
    low_bytes: int
    top_bytes: int


@dataclass(frozen=True, slots=True)
class MemorySummary:
    """One allocator of a device of one process over its traced steps.

    `is_estimate`: no allocator was recorded, and one step was estimated from the sizes of outputs
    and the order of ops. `sizes` then counts the outputs and `unknown_sizes` those of unknown size;
    if there are any, amounts are lower bounds.
    If not `is_absolute`, amounts do not include what was held before each step, which is unknown.
    `by_step` has the levels of the latest traced steps, in order. `program` is set if this is no
    allocator but the memory that the compiler planned for a program that ran.
    """

    process: int
    device: str
    allocator: str
    captures: int
    is_estimate: bool
    is_absolute: bool
    sizes: int
    unknown_sizes: int
    peak: Peak
    curve: MemoryCurve
    lifetime_peak_bytes: int | Missing
    capacity_bytes: int | Missing
    fragmentation_ratio: float | Missing
    growth: Growth | Missing
    by_step: tuple[StepLevel, ...]
    program: ProgramMemory | None = None

    @property
    def is_at_least(self) -> bool:
        """Return whether amounts are lower bounds, as outputs of unknown size are not included."""
        return self.unknown_sizes > 0

    @property
    def unknown_ratio(self) -> float:
        """Return the share of the outputs whose size is unknown."""
        return self.unknown_sizes / self.sizes if self.sizes else 0.0


@dataclass(frozen=True, slots=True)
class Lasting:
    """The size of the variables, from their shapes and types, wherever they are."""

    parameters_bytes: int
    optimizer_state_bytes: int


def memories(
    profile: Profile,
    traced: Sequence[TracedLoop],
    origins: Origins,
    by: GroupKey = "op",
    *,
    moments: int = MOMENTS,
) -> tuple[MemorySummary, ...] | Missing:
    """Return the allocators of the traced steps, or an estimate where none was recorded.

    `profile` has the captures of `traced`, each of which is the loop in one process. Curves have at
    most `moments` points.
    """
    if not profile.captures:
        return Missing("no step was traced")
    found = list(_recorded(profile, _variables(traced), origins, by, moments))
    recorded = {summary.process for summary in found}
    reasons = []
    for loop in traced:
        planned = tuple(_planned(loop, origins, by, moments))
        found += planned
        if planned or loop.loop.process in recorded:
            continue
        if loop.programs and not loop.has_graph:
            reasons.append(NO_BUFFERS)  # without edges, nobody knows how long values live
        elif any(node.call is not None for node in loop.graph.nodes):
            reasons.append(_NO_ALLOCATIONS)  # the same
        else:
            estimate = _estimated(loop, origins, by, moments)
            if isinstance(estimate, Missing):
                reasons.append(estimate)
            else:
                found.append(estimate)
    if not found:
        return reasons[0] if reasons else _NO_SIZES
    return tuple(sorted(found, key=lambda item: (item.process, -item.peak.bytes)))


def lasting(traced: Sequence[TracedLoop]) -> Lasting | Missing:
    """Return the size of the variables of the loop, or why it is unknown."""
    sizes = _variables(traced)
    if not sizes[Role.PARAMETERS]:
        programs = traced[0].programs if traced else ()
        of_arguments = variables_bytes(programs)
        if isinstance(of_arguments, Missing):
            none = Missing("the recording has no graph with the shapes of variables")
            return of_arguments if programs else none
        sizes = of_arguments
    return Lasting(sizes[Role.PARAMETERS], sizes[Role.OPTIMIZER_STATE])


def _variables(traced: Sequence[TracedLoop]) -> dict[Role, int]:
    # They are the same in each process.
    if not traced:
        return {Role.PARAMETERS: 0, Role.OPTIMIZER_STATE: 0}
    return lasting_bytes(traced[0].graph.nodes, traced[0].shapes)


def _recorded(
    profile: Profile, variables: dict[Role, int], origins: Origins, by: GroupKey, moments: int
) -> Iterator[MemorySummary]:
    rows = profile.allocations
    if not len(rows):
        return
    processes = np.array([capture.process for capture in profile.captures], dtype=np.int64)
    key = np.stack((processes[rows.capture], rows.device, rows.allocator))
    groups, group = np.unique(key, axis=1, return_inverse=True)
    for number, process in enumerate(groups[0].tolist()):
        mine = rows.only(group.reshape(-1) == number)
        if is_used(mine):
            yield _allocator(profile, mine, process, variables, origins, by, moments)


def _allocator(
    profile: Profile,
    rows: Allocations,
    process: int,
    variables: dict[Role, int],
    origins: Origins,
    by: GroupKey,
    moments: int,
) -> MemorySummary:
    levels = {number: level(mine) for number, mine in rows.by_capture()}
    number = max(levels, key=lambda capture: int(levels[capture].live_bytes.max()))
    fullest, mine = levels[number], rows.only(rows.capture == number)
    at_ns = int(fullest.at_ns[fullest.peak])
    capture = profile.captures[number]
    live = recorded_pieces(profile.executions, mine, pieces(mine), at_ns)
    device = rows.strings[rows.device[0]]
    if fullest.is_absolute:
        before = fullest.top_bytes - sum(piece.bytes for piece in live)
        live += _before(before, variables if "GPU" in device.upper() else {})
    return MemorySummary(
        process=process,
        device=device,
        allocator=rows.strings[rows.allocator[0]],
        captures=len(levels),
        is_estimate=False,
        is_absolute=fullest.is_absolute,
        sizes=0,
        unknown_sizes=0,
        peak=peak(capture, at_ns, fullest.top_bytes, live, origins, by),
        curve=_curve(fullest, capture.start_ns, moments),
        lifetime_peak_bytes=lifetime_peak_bytes(rows),
        capacity_bytes=capacity_bytes(rows),
        fragmentation_ratio=_fragmentation(mine, fullest.peak),
        growth=_growth(profile, levels),
        by_step=_by_step(profile, levels),
    )


def _before(live_bytes: int, variables: dict[Role, int]) -> list[Piece]:
    """Split what was held before a step into variables, by their shapes, and the rest."""
    found = []
    for role, label in (
        (Role.PARAMETERS, "(parameters)"),
        (Role.OPTIMIZER_STATE, "(optimizer state)"),
    ):
        part = min(max(live_bytes, 0), variables.get(role, 0))
        if part:
            found.append(Piece("", "", "", part, role, label))
            live_bytes -= part
    if live_bytes > 0:
        label = "(held before the step)"
        found.append(Piece("", "", "", live_bytes, Role.ALLOCATED_BEFORE, label))
    return found


def _fragmentation(rows: Allocations, at: int) -> float | Missing:
    """Return the share of the free memory at an event that was not in the largest free block."""
    is_known = (rows.free_bytes > 0) & (rows.largest_free_bytes != UNKNOWN)
    before = np.flatnonzero(is_known[: at + 1])
    if not len(before):
        return Missing("this allocator does not report its largest free block")
    row = before[-1]
    return float(1 - rows.largest_free_bytes[row] / rows.free_bytes[row])


def _growth(profile: Profile, levels: dict[int, Level]) -> Growth | Missing:
    """Return how the lowest level of a step grows over the steps."""
    if not all(item.is_absolute for item in levels.values()):
        return Missing("this allocator does not report its level from step to step")
    steps = np.array([profile.captures[number].step for number in levels], dtype=np.int64)
    lows = np.array([item.live_bytes.min() for item in levels.values()], dtype=np.int64)
    order = np.argsort(steps, kind="stable")
    return growth(steps[order], lows[order])


def _by_step(profile: Profile, levels: dict[int, Level]) -> tuple[StepLevel, ...]:
    every = [
        StepLevel(profile.captures[number].step, int(item.live_bytes.min()), item.top_bytes)
        for number, item in levels.items()
    ]
    return tuple(sorted(every, key=lambda item: item.step)[-_MOST_STEPS:])


def _curve(found: Level, start_ns: int, moments: int) -> MemoryCurve:
    parts = np.array_split(np.arange(len(found.at_ns)), min(len(found.at_ns), moments))
    return MemoryCurve(
        after_ns=np.array([found.at_ns[part[0]] for part in parts], dtype=np.int64) - start_ns,
        live_bytes=np.array([found.live_bytes[part].max() for part in parts], dtype=np.int64),
    )


def _planned(
    loop: TracedLoop, origins: Origins, by: GroupKey, moments: int
) -> Iterator[MemorySummary]:
    """Yield the memory of the programs that ran in the last traced step of a process."""
    if not loop.captures:
        return
    capture = loop.captures[-1]
    starts_ns = _starts_ns(loop, capture.index)
    for ran in loop.programs:
        found = program_memory(ran)
        if isinstance(found, Missing):
            continue
        nodes = {instruction.name: name for name, instruction in ran.names.items()}
        timed = [
            (starts_ns[nodes[name]], live_bytes)
            for name, live_bytes in found.moments
            if nodes.get(name) in starts_ns
        ]
        at_ns = starts_ns.get(found.peak_op, capture.start_ns)
        not_recorded = Missing("the compiler planned it; no allocator was recorded")
        yield MemorySummary(
            process=loop.loop.process,
            device=_device(loop, nodes.values()),
            allocator=f"program {found.program}",
            captures=len(loop.captures),
            is_estimate=False,
            is_absolute=True,
            sizes=0,
            unknown_sizes=0,
            peak=peak(capture, at_ns, found.bytes, found.pieces, origins, by),
            curve=_planned_curve(timed, capture.start_ns, found.bytes, moments),
            lifetime_peak_bytes=not_recorded,
            capacity_bytes=not_recorded,
            fragmentation_ratio=not_recorded,
            growth=not_recorded,
            by_step=(),
            program=found,
        )


def _starts_ns(loop: TracedLoop, capture: int) -> dict[str, int]:
    """Return when each node began in a capture."""
    rows = loop.executions
    found: dict[str, int] = {}
    for row in np.flatnonzero(rows.capture == capture).tolist():
        name, start_ns = loop.graph.nodes[loop.node[row]].name, int(rows.start_ns[row])
        found[name] = min(start_ns, found.get(name, start_ns))
    return found


def _device(loop: TracedLoop, names: Iterable[str]) -> str:
    """Return the device on which nodes of these names ran."""
    wanted = set(names)
    nodes = zip(loop.graph.nodes, loop.devices, strict=True)
    ran_on = (device for node, device in nodes if device and node.name in wanted)
    return next(ran_on, "").replace("|", ", ")


def _planned_curve(
    timed: Sequence[tuple[int, int]], start_ns: int, size_bytes: int, moments: int
) -> MemoryCurve:
    """Return the live bytes by the times at which instructions began, as far as they were traced.

    Without temporary values, all is live from the start.
    """
    ordered = sorted(timed) or [(start_ns, size_bytes)]
    parts = np.array_split(np.arange(len(ordered)), min(len(ordered), moments))
    return MemoryCurve(
        after_ns=np.array([ordered[part[0]][0] for part in parts], dtype=np.int64) - start_ns,
        live_bytes=np.array([max(ordered[at][1] for at in part) for part in parts], dtype=np.int64),
    )


def _estimated(
    loop: TracedLoop, origins: Origins, by: GroupKey, moments: int
) -> MemorySummary | Missing:
    """Return an estimate of the last traced step of a process, or why there is none."""
    capture = loop.captures[-1]
    found = lifetimes(loop, capture.index)
    if found is None:
        return _NO_SIZES
    if found.unknown_sizes > found.sizes * _MOST_UNKNOWN_RATIO:
        return Missing(
            f"no allocator was recorded, and neither the step nor the graph has the sizes of "
            f"{found.unknown_sizes:,} of {found.sizes:,} outputs of ops"
        )
    rows = loop.executions
    estimate = found.level()
    at_ns = int(estimate.at_ns[estimate.peak])
    live = [
        Piece.of(
            rows.strings[rows.name[row]],
            rows.strings[rows.op_type[row]],
            shape_text(loop.graph.nodes[loop.node[row]], 0, found.shapes),
            size,
        )
        for row, size in zip(*found.live_at(at_ns), strict=True)
    ]
    not_recorded = Missing("no allocator was recorded")
    return MemorySummary(
        process=loop.loop.process,
        device=rows.strings[rows.device[found.pieces.row[0]]],
        allocator=ESTIMATE,
        captures=1,
        is_estimate=True,
        is_absolute=False,
        sizes=found.sizes,
        unknown_sizes=found.unknown_sizes,
        peak=peak(capture, at_ns, estimate.top_bytes, live, origins, by),
        curve=_curve(estimate, capture.start_ns, moments),
        lifetime_peak_bytes=not_recorded,
        capacity_bytes=not_recorded,
        fragmentation_ratio=not_recorded,
        growth=not_recorded,
        by_step=(),
    )
