"""Divide the time between the steps of main loops: usual gaps, long ones, ends of epochs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tfprobe.analysis.account import shares
from tfprobe.analysis.account.categories import OF_KIND, Category, gap_category
from tfprobe.analysis.account.gaps import GapKind
from tfprobe.analysis.account.ledger import Item, Ledger
from tfprobe.analysis.account.shares import Shares, add_lines, item_of, label
from tfprobe.analysis.account.timeline import AccountFacts, TimelineLayer, title
from tfprobe.analysis.breakdown.gap_breakdown import WatchedGaps, watched_gaps
from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.analysis.core.intervals import union
from tfprobe.analysis.steps.slow_step_causes import OF_MACHINE, Causes, describe_cause
from tfprobe.errors import Missing
from tfprobe.profile.activities import Gap
from tfprobe.profile.profile import Loop
from tfprobe.profile.tables import Flags, Int64s

_UNWATCHED = "gaps of {loop} that were not watched"
_LONG = "long gaps of {loop}: no reason was seen"
# A watched gap stands for an unwatched one that is at most so many times longer or shorter.
_ALIKE_TIMES = 2.0


def add_gaps(facts: AccountFacts, ledger: Ledger, forgotten_ns: int) -> None:
    """Add the time between the steps of main loops, with that between forgotten steps."""
    gaps, left_ns = facts.gaps, facts.timeline.left_ns(facts.gaps)
    count = len(facts.roles.main)
    usual = _sums(gaps.loop, left_ns, gaps.kind == GapKind.USUAL, count)
    spans = _sums(gaps.loop, gaps.end_ns - gaps.start_ns, gaps.kind == GapKind.USUAL, count)
    traced = _traced_gaps(facts, left_ns)
    remembered_ns = int(usual.sum() + traced.sum()) or 1
    extra_ns = int(left_ns[gaps.kind == GapKind.TRACED].sum()) - int(traced.sum())
    for index in range(count):
        own_ns = int(usual[index] + traced[index])
        # Forgotten gaps divide like the remembered ones.
        more_ns = forgotten_ns * own_ns // remembered_ns
        covered = 1 - usual[index] / spans[index] if spans[index] else 0.0
        _divide_usual(facts, ledger, index, own_ns + more_ns, covered, left_ns)
    ledger.add(Category.RECORDING, Item("gaps after traced steps", "", extra_ns))
    _add_long(facts, ledger, left_ns)
    _add_epoch_ends(facts, ledger)


def _sums(loop: Int64s, ns: Int64s, chosen: Flags, count: int) -> Int64s:
    sums = np.bincount(loop[chosen], weights=ns[chosen].astype(np.float64), minlength=count)
    return sums.astype(np.int64)


def _traced_gaps(facts: AccountFacts, left_ns: Int64s) -> Int64s:
    """Return how much of the gaps after traced steps is the job's, by loop: a usual gap at most."""
    gaps = facts.gaps
    own_ns = np.zeros(len(facts.roles.main), dtype=np.int64)
    for index in range(len(own_ns)):
        usual = left_ns[(gaps.kind == GapKind.USUAL) & (gaps.loop == index)]
        traced = left_ns[(gaps.kind == GapKind.TRACED) & (gaps.loop == index)]
        most_ns = int(np.median(usual)) if len(usual) else 0
        own_ns[index] = int(np.minimum(traced, most_ns).sum())
    return own_ns


def _divide_usual(
    facts: AccountFacts, ledger: Ledger, index: int, ns: int, covered: float, left_ns: Int64s
) -> None:
    """Divide the usual gaps of a main loop by those that were watched."""
    loop = facts.roles.main[index]
    key = (loop.process, loop.index)
    watched = watched_gaps(facts.profile, {key: loop}).get(key, WatchedGaps({}))
    found = shares.gap_shares(
        watched.by_step.values(),
        has_accelerator=shares.on_device(facts.parts),
        usual=watched.usual,
    )
    if isinstance(found, Missing):
        gaps = facts.gaps
        rows = np.flatnonzero((gaps.kind == GapKind.USUAL) & (gaps.loop == index)).tolist()
        reason = _UNWATCHED.format(loop=title(loop))
        _add_unknown(facts, ledger, reason, rows, left_ns)
        ledger.add(Category.NOT_KNOWN, Item(reason, "", ns - int(left_ns[rows].sum())))
        return
    if covered > 0:
        # Callbacks, summaries and saves in gaps were already added as activities.
        done = dict.fromkeys((Part.CALLBACKS, Part.SUMMARIES, Part.CHECKPOINTS), covered)
        found = shares.without_parts(found, done)
    _divide_gap(ledger, found, ns, None)


def _divide_gap(
    ledger: Ledger, found: Shares, ns: int, category: Category | None, times: int = 0
) -> None:
    """Divide a time between steps; all of it belongs to one category if that is given."""
    left_ns = ns
    for share in found.shares:
        what = share.what or label(share.part)
        item = replace(item_of(share, what, ns, found.samples), times=times)
        left_ns -= item.ns
        ledger.add(category or gap_category(share.part), item)
    ledger.add(category or Category.PYTHON, Item("", "", left_ns))


def _watched(facts: AccountFacts, loop: Loop, *kinds: GapKind) -> list[Gap]:
    """Return the watched gaps of a loop that are of these kinds."""
    found = []
    for gap in shares.watched(facts.profile, facts.process, loop):
        row = facts.gap_of(gap)
        if row is not None and facts.gaps.kind[row] in kinds:
            found.append(gap)
    return found


def _add_long(facts: AccountFacts, ledger: Ledger, left_ns: Int64s) -> None:
    """Add long gaps: by their cause, by similar watched gaps, or else as not known."""
    gaps = facts.gaps
    for index, loop in enumerate(facts.roles.main):
        rows = np.flatnonzero((gaps.kind == GapKind.LONG) & (gaps.loop == index) & (left_ns > 0))
        if not len(rows):
            continue
        shift_ns = facts.shift_ns
        causes = Causes(facts.profile, loop).explain(
            gaps.start_ns[rows] - shift_ns, gaps.end_ns[rows] - shift_ns, left_ns[rows]
        )
        watched = _watched(facts, loop, GapKind.LONG)
        unknown: list[int] = []
        for row, cause in zip(rows.tolist(), causes, strict=True):
            ns = int(left_ns[row])
            if not isinstance(cause, Missing):
                category = Category.OTHERS if cause.kind in OF_MACHINE else OF_KIND[cause.kind]
                ledger.add(category, Item(describe_cause(cause), "", ns))
                continue
            alike = _alike(watched, int(gaps.end_ns[row] - gaps.start_ns[row]))
            divided = shares.gap_shares(alike, has_accelerator=shares.on_device(facts.parts))
            if isinstance(divided, Missing):
                unknown.append(row)
            else:
                _divide_gap(ledger, divided, ns, None)

        _add_unknown(facts, ledger, _LONG.format(loop=title(loop)), unknown, left_ns)


def _add_unknown(
    facts: AccountFacts, ledger: Ledger, reason: str, rows: Sequence[int], left_ns: Int64s
) -> None:
    """Add gaps without a known cause: by line where stacks were read in them."""
    ns = int(left_ns[rows].sum())
    times = union(facts.gaps.start_ns[rows], facts.gaps.end_ns[rows])
    unknown_ns = add_lines(facts, ledger, Category.PYTHON, times, ns)
    ledger.add(Category.NOT_KNOWN, Item(reason, "", unknown_ns))


def _alike(watched: Sequence[Gap], length_ns: int) -> list[Gap]:
    return [
        gap
        for gap in watched
        if length_ns / _ALIKE_TIMES <= gap.duration_ns <= length_ns * _ALIKE_TIMES
    ]


def _add_epoch_ends(facts: AccountFacts, ledger: Ledger) -> None:
    """Add the ends of epochs, divided like those that were watched."""
    ns = facts.timeline.total_ns(TimelineLayer.EPOCH_END)
    watched = [gap for loop in facts.roles.main for gap in _watched(facts, loop, GapKind.EPOCH_END)]
    shares_of_gap = shares.gap_shares(watched, has_accelerator=shares.on_device(facts.parts))
    ends = int((facts.gaps.kind == GapKind.EPOCH_END).sum())
    if isinstance(shares_of_gap, Missing):
        what = "outside of callbacks: the data set ends, the next iterator begins"
        times = facts.timeline.layers[TimelineLayer.EPOCH_END]
        left_ns = add_lines(facts, ledger, Category.EPOCH_ENDS, times, ns)
        ledger.add(Category.EPOCH_ENDS, Item(what, "", left_ns, times=ends))
    else:
        _divide_gap(ledger, shares_of_gap, ns, Category.EPOCH_ENDS, times=ends)
