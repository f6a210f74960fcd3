"""Render what occupies memory: allocators at their peaks, and processes on their hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from tfprobe.analysis.core.source_lines import shown
from tfprobe.analysis.memory.host_memory import Growth, GrowthVerdict, HostMemory
from tfprobe.analysis.memory.memory_peak import GroupKey, Holder, Role
from tfprobe.analysis.memory.memory_summary import Lasting, MemorySummary
from tfprobe.analysis.memory.program_memory import ProgramMemory
from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop, titled
from tfprobe.report.format import numbers, page
from tfprobe.report.format.page import TextColumn, sparkline

# A table shows at most this many rows; --json has all.
MOST_ROWS = 10
_CURVE_WIDTH = 60
ROLES = {
    Role.PARAMETERS: "parameters",
    Role.OPTIMIZER_STATE: "optimizer state",
    Role.UPDATE: "update",
    Role.GRADIENTS: "gradients",
    Role.ACTIVATIONS: "activations",
    Role.INPUT: "input",
    Role.OUTPUT: "output",
    Role.CONSTANT: "constant",
    Role.COMMUNICATION: "communication",
    Role.TEMPORARY: "temporary",
    Role.ALLOCATED_BEFORE: "held before",
}
_HOLDER = (
    TextColumn("", is_number=False, may_be_cut=True),
    TextColumn("role", is_number=False),
    TextColumn("largest", is_number=False, may_go=True),
    TextColumn("op", is_number=False, may_be_cut=True, may_go=True),
    TextColumn("pieces"),
    TextColumn("size"),
    TextColumn("share"),
)


def render_memory(
    loop: Loop | None,
    allocators: tuple[MemorySummary, ...] | Missing,
    variables: Lasting | Missing,
    hosts: tuple[HostMemory, ...] | Missing,
    by: GroupKey,
    *,
    width: int,
    colour: bool,
) -> str:
    """Return the page of `tfprobe memory`."""
    parts = _parts(loop, allocators, variables, hosts, by, width)
    return page.render(parts, width=width, colour=colour)


def _parts(
    loop: Loop | None,
    allocators: tuple[MemorySummary, ...] | Missing,
    variables: Lasting | Missing,
    hosts: tuple[HostMemory, ...] | Missing,
    by: GroupKey,
    width: int,
) -> Iterator[RenderableType]:
    yield page.heading("What holds memory")
    if loop is not None:
        yield page.paragraph(f"{loop.kind} {loop.name}{_variables(variables)}")
    yield page.blank()
    if isinstance(allocators, Missing):
        yield page.paragraph(f"Device memory is unknown: {allocators.reason}.")
    else:
        several = len({allocator.process for allocator in allocators}) > 1
        for allocator in allocators:
            yield from _allocator(allocator, by, width, several=several)
            yield page.blank()
    if loop is not None and loop.kind == "file":
        return  # a file has a step, not a process
    if isinstance(hosts, Missing):
        yield page.paragraph(f"Host memory is unknown: {hosts.reason}.")
        return
    for process in hosts:
        yield from _host(process, width)


def _variables(found: Lasting | Missing) -> str:
    if isinstance(found, Missing):
        return ""
    text = f": its variables are {numbers.size(found.parameters_bytes)} of parameters"
    state = found.optimizer_state_bytes
    return f"{text} and {numbers.size(state)} of optimizer state" if state else text


def _allocator(
    found: MemorySummary, by: GroupKey, width: int, *, several: bool
) -> Iterator[RenderableType]:
    where = f"{found.device or 'unknown device'}, {found.allocator or 'unknown allocator'}"
    process = f"process {found.process}, " if several else ""
    estimate = " (an estimate)" if found.is_estimate else ""
    yield page.heading(f"{process}{where}{estimate}")
    yield page.paragraph(_facts(found))
    if found.is_estimate:
        yield page.paragraph(_how_estimated(found))
    if found.program is not None:
        yield page.paragraph(_program(found.program))
    curve = sparkline(found.curve.live_bytes.tolist(), width=min(_CURVE_WIDTH, width - 2), least=0)
    yield page.paragraph(curve)
    yield page.paragraph(_roles(found))
    if not isinstance(found.growth, Missing):
        yield page.paragraph(_growth(found.growth, "What steps leave behind"))
    known = ", as far as sizes are known" if found.is_at_least else ""
    yield page.paragraph(f"At the peak, by {by}{known}:")
    holders = found.peak.holders[:MOST_ROWS]
    total = sum(holder.bytes for holder in found.peak.holders)
    yield page.table(_HOLDER, [_holder(holder, total, by) for holder in holders], width=width)
    rest = len(found.peak.holders) - len(holders)
    if rest > 0:
        yield page.paragraph(f"and {numbers.count(rest)} more; --json has all.")


def _facts(found: MemorySummary) -> str:
    above = "" if found.is_absolute or found.is_estimate else " above its level before"
    after = numbers.duration(max(found.peak.after_ns, 0))
    peak = f"{'at least ' if found.is_at_least else ''}{numbers.size(found.peak.bytes)}"
    facts = [f"peak {peak}{above}, {after} into step {found.peak.capture.step}"]
    if not found.is_estimate:
        steps = "one step" if found.captures == 1 else f"{found.captures} steps"
        facts.append(f"in {steps}")
    if not isinstance(found.lifetime_peak_bytes, Missing):
        facts.append(f"highest ever {numbers.size(found.lifetime_peak_bytes)}")
    if not isinstance(found.capacity_bytes, Missing):
        used = numbers.percent(found.peak.bytes / found.capacity_bytes)
        facts.append(f"limit {numbers.size(found.capacity_bytes)} ({used})")
    if not isinstance(found.fragmentation_ratio, Missing):
        facts.append(f"fragmentation {numbers.percent(found.fragmentation_ratio)}")
    return ", ".join(facts)


def _how_estimated(found: MemorySummary) -> str:
    text = (
        "No allocator was recorded. This estimate is the size of op outputs until the last op that "
        "reads them has run, without workspace and variables."
    )
    if not found.is_at_least:
        return text
    unknown, of = numbers.count(found.unknown_sizes), numbers.count(found.sizes)
    return f"{text} The sizes of {unknown} of {of} outputs are unknown and not included."


def _program(found: ProgramMemory) -> str:
    """Say what the memory of a program consists of, and when it is fullest."""
    parts = [f"arguments {numbers.size(found.argument_bytes)}"]
    parts.append(f"results {numbers.size(found.output_bytes)}")
    if found.donated_bytes:
        parts[-1] += f" ({numbers.size(found.donated_bytes)} of them in donated arguments)"
    parts.append(f"temporary {numbers.size(found.temporary_bytes)}")
    if found.constant_bytes:
        parts.append(f"constants {numbers.size(found.constant_bytes)}")
    text = f"As XLA planned it: {', '.join(parts)}."
    return f"{text} Fullest during {found.peak_op}." if found.peak_op else text


def _roles(found: MemorySummary) -> str:
    parts = [f"{ROLES[role]} {numbers.size(size)}" for role, size in found.peak.by_role]
    return ", ".join(parts)


def _holder(found: Holder, total: int, by: GroupKey) -> Sequence[str]:
    return (
        shown(found.label, by),
        ROLES[found.role],
        found.shape,
        found.op_type,
        numbers.count(found.pieces),
        numbers.size(found.bytes),
        numbers.percent(found.bytes / total) if total else numbers.NOTHING,
    )


def _host(found: HostMemory, width: int) -> Iterator[RenderableType]:
    process = found.process
    rank = "" if process.rank is None else f", rank {process.rank}"
    named = titled(f"process {process.pid}", process.title)
    yield page.heading(f"Host memory of {named} on {process.host}{rank}")
    last = numbers.size(int(found.resident_bytes[-1]))
    facts = [f"resident {last} at the end", f"peak {numbers.size(found.peak_bytes)}"]
    if not isinstance(found.limit_bytes, Missing) and not isinstance(found.used_ratio, Missing):
        used = numbers.percent(found.used_ratio)
        facts.append(f"limit {numbers.size(found.limit_bytes)} ({used})")
    yield page.paragraph(", ".join(facts))
    resident = found.resident_bytes.tolist()
    yield page.paragraph(sparkline(resident, width=min(_CURVE_WIDTH, width - 2), least=0))
    if isinstance(found.growth, Missing):
        yield page.paragraph(f"Growth is unknown: {found.growth.reason}.")
    else:
        yield page.paragraph(_growth(found.growth, "Resident memory"))


def _growth(found: Growth, what: str) -> str:
    over = f"from step {numbers.count(found.first_step)} to {numbers.count(found.last_step)}"
    if found.verdict is GrowthVerdict.STEADY:
        return f"{what} does not grow, {over}."
    low, high = numbers.size(found.low), numbers.size(found.high)
    slope = f"{numbers.size(found.bytes_per_step)} a step ({low} to {high})"
    if found.verdict is GrowthVerdict.WARMING_UP:
        return f"{what} grew less and less: {slope}, {over}."
    return f"{what} grows by {slope}, {over}, and still grows."
