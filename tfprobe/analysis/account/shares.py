"""Estimate from traced steps, watched gaps and stacks how the time of a loop divides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfprobe.analysis.account.categories import Category
from tfprobe.analysis.account.ledger import Item, Ledger
from tfprobe.analysis.account.timeline import AccountFacts
from tfprobe.analysis.breakdown.cycles import LoopParts
from tfprobe.analysis.breakdown.gap_breakdown import GapBreakdown, divide_gap, gaps_before_steps
from tfprobe.analysis.breakdown.gap_calls import Usual
from tfprobe.analysis.breakdown.step_parts import LABELS, ON_DEVICE, Part
from tfprobe.analysis.core.intervals import Intervals
from tfprobe.analysis.system.stack_lines import is_of_program, stacks_of
from tfprobe.analysis.system.stack_samples import main_thread, of_thread, samples_within
from tfprobe.errors import Missing
from tfprobe.profile.activities import Gap, SampledFrame
from tfprobe.profile.profile import Loop, Process, Profile

_ON_DEVICE = frozenset(ON_DEVICE)
# Two standard errors of a mean: an interval of about 95 %.
_STANDARD_ERRORS = 2.0


@dataclass(frozen=True, slots=True)
class Share:
    """A share of time by what it was spent on; `source` is "file:line", "" where no line is known.

    `low` and `high` are its bounds, about 95 %; None for a single sample.
    """

    part: Part
    what: str
    source: str
    ratio: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares that sum to 1, and the number of samples they are estimated from."""

    shares: tuple[Share, ...]
    samples: int


def step_shares(parts: LoopParts, *, with_compile: bool) -> Shares | Missing:
    """Return the shares of a loop's step, without recording.

    Compiling is left out unless `with_compile`: where tracing was recorded, its intervals count.
    """
    left_out = {Part.RECORDING} if with_compile else {Part.RECORDING, Part.COMPILE}
    rows = [
        {part: ns for part, ns in step.inside.items() if part not in left_out}
        for step in parts.steps
    ]
    rows = [row for row in rows if sum(row.values()) > 0]
    if not rows:
        return Missing("no step of it was traced")
    total_ns = sum(sum(row.values()) for row in rows)
    estimates: list[Share] = []
    for part in {part for row in rows for part in row}:
        ratio = sum(row.get(part, 0) for row in rows) / total_ns
        low, high = ratio_bounds([row.get(part, 0) / sum(row.values()) for row in rows], ratio)
        estimates.append(Share(part, "", "", ratio, low, high))
    return Shares(_largest_first(estimates), len(rows))


def gap_shares(
    gaps: Iterable[Gap], *, has_accelerator: bool, usual: Usual | None = None
) -> Shares | Missing:
    """Return the shares of watched gaps, by call and line; `usual` as in `divide_gap`."""
    rows = [divide_gap(gap, has_accelerator=has_accelerator, usual=usual) for gap in gaps]
    rows = [row for row in rows if row.duration_ns > 0]
    if not rows:
        return Missing("no such gap was watched")
    total_ns = sum(row.duration_ns for row in rows)
    sums_ns: dict[tuple[Part, str, str], int] = {}
    for row in rows:
        for key, ns in _causes(row):
            sums_ns[key] = sums_ns.get(key, 0) + ns
    shares = [Share(*key, ns / total_ns) for key, ns in sums_ns.items()]
    return Shares(_largest_first(shares), len(rows))


def without_parts(shares: Shares, ratios: Mapping[Part, float]) -> Shares:
    """Return the shares of what is left where these ratios of parts are already accounted for."""
    left: list[Share] = []
    for part in {share.part for share in shares.shares}:
        of_part = [share for share in shares.shares if share.part is part]
        total = sum(share.ratio for share in of_part)
        remaining = max(total - ratios.get(part, 0.0), 0.0)
        left += [_scaled(share, remaining / total) for share in of_part] if total else []
    rest = sum(share.ratio for share in left)
    if rest <= 0:
        return shares
    scaled = (_scaled(share, 1 / rest) for share in left if share.ratio)
    return Shares(_largest_first(scaled), shares.samples)


def _largest_first(shares: Iterable[Share]) -> tuple[Share, ...]:
    """Sort shares by size, equal ones by name, so that all processes agree on the order."""
    return tuple(
        sorted(
            shares,
            key=lambda share: (-round(share.ratio, 12), share.part.value, share.what, share.source),
        )
    )


def watched(profile: Profile, process: Process, loop: Loop) -> tuple[Gap, ...]:
    """Return the watched gaps of a loop that led to another step."""
    return tuple(
        gap
        for gap in gaps_before_steps(profile, with_foreseen=True)
        if (gap.process, gap.loop) == (process.index, loop.index)
    )


def on_device(parts: Iterable[LoopParts]) -> bool:
    """Return whether an accelerator ran anything in the traced steps."""
    return any(_ON_DEVICE & set(step.inside) for part in parts for step in part.steps)


def _causes(row: GapBreakdown) -> Iterable[tuple[tuple[Part, str, str], int]]:
    named_ns = 0
    for cause in row.causes:
        source = f"{cause.file}:{cause.line}" if cause.file else ""
        named_ns += cause.duration_ns
        yield (cause.part, cause.what, source), cause.duration_ns
    if row.duration_ns > named_ns:
        yield (Part.IDLE, "", ""), row.duration_ns - named_ns


def _scaled(share: Share, factor: float) -> Share:
    low = None if share.low is None else share.low * factor
    high = None if share.high is None else share.high * factor
    return replace(share, ratio=share.ratio * factor, low=low, high=high)


def ratio_bounds(ratios: Sequence[float], ratio: float) -> tuple[float | None, float | None]:
    """Return the bounds of a mean ratio of samples, about 95 %; None for a single sample."""
    if len(ratios) < 2:
        return None, None
    error = _STANDARD_ERRORS * float(np.std(ratios, ddof=1)) / math.sqrt(len(ratios))
    return max(ratio - error, 0.0), min(ratio + error, 1.0)


# With fewer stacks in a time, nothing is said of its lines.
_FEWEST = 5
_MOST_LINES = 12
_NO_STACKS = Missing("its stacks were not sampled (`tfprobe run --stacks`)")


def add_lines(
    facts: AccountFacts,
    ledger: Ledger,
    category: Category,
    times: Intervals,
    ns: int,
    what: str = "",
) -> int:
    """Add time by the lines of the program that the stacks in these intervals show.

    `what` is appended to their names. Return what is left in ns: all where no stacks were read.
    """
    by_line = lines_within(facts, times) if ns else _NO_STACKS
    if isinstance(by_line, Missing):
        return ns
    lines, samples = by_line
    left_ns = ns
    for function, source, ratio in lines[:_MOST_LINES]:
        name = f"{function}, {what}" if what else function
        item = Item(name, source, int(ratio * ns), samples)
        left_ns -= item.ns
        ledger.add(category, item)
    return left_ns


def lines_within(
    facts: AccountFacts, intervals: Intervals
) -> tuple[tuple[tuple[str, str, float], ...], int] | Missing:
    """Return the lines that the main thread ran in these intervals, and the number of stacks.

    Each line has a function, "file:line" and its share of the time; shares sum to at most 1. The
    line is the innermost of the program, or of any file where none is the program's.
    """
    stacks = next((s for s in facts.profile.stacks if s.process == facts.process.index), None)
    if stacks is None or not stacks.chunks:
        return _NO_STACKS
    thread = main_thread(facts.profile, stacks)
    if isinstance(thread, Missing):
        return thread
    tree = samples_within(stacks, intervals, rows=of_thread(stacks, thread))
    if tree.samples < _FEWEST or not tree.total_ns:
        return Missing("too few stacks were read in it")
    times_ns: dict[tuple[str, str], int] = {}
    for stack, ns in stacks_of(tree):
        own = next((frame for frame in reversed(stack) if is_of_program(frame)), stack[-1])
        key = (stack[-1].function, _source(own))
        times_ns[key] = times_ns.get(key, 0) + ns
    ordered = sorted(times_ns.items(), key=lambda item: (-item[1], item[0]))
    return tuple((*key, ns / tree.total_ns) for key, ns in ordered), tree.samples


def _source(frame: SampledFrame) -> str:
    return f"{frame.file}:{frame.line}" if frame.file else ""


def label(part: Part) -> str:
    """Return the name of a part of a step or a gap."""
    # In an account, "idle" is a category of the process.
    return "no op runs" if part is Part.IDLE else LABELS[part]


def item_of(share: Share, what: str, ns: int, samples: int) -> Item:
    """Return the item for a share of a time."""
    low = None if share.low is None else int(share.low * ns)
    high = None if share.high is None else int(share.high * ns)
    return Item(what, share.source, int(share.ratio * ns), samples, low, high)
