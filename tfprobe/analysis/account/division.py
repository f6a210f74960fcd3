"""Divide the timeline of a process into the categories of the account.

The time of steps and gaps is measured on all of them. Traced steps and watched gaps only say how
the time of their kind divides.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tfprobe.analysis.account import shares
from tfprobe.analysis.account.categories import (
    BEFORE_STEPS,
    OF_KIND,
    SETUP,
    Category,
    step_category,
)
from tfprobe.analysis.account.gap_division import add_gaps
from tfprobe.analysis.account.ledger import AccountPart, Item, Ledger
from tfprobe.analysis.account.shares import add_lines, item_of, label
from tfprobe.analysis.account.timeline import (
    TRAINS_ANEW,
    AccountFacts,
    TimelineLayer,
    first_steps,
    names_of,
    title,
)
from tfprobe.analysis.core.intervals import NONE, Intervals, difference, joined, one
from tfprobe.analysis.core.no_data_reasons import SERVER_ROLE
from tfprobe.analysis.steps.recent_steps import recording_overhead
from tfprobe.errors import Missing
from tfprobe.profile.activities import COMPILING
from tfprobe.profile.profile import Loop
from tfprobe.profile.tables import Int64s

# The activities of each layer: its time is itemized by their names.
_KINDS: Mapping[TimelineLayer, tuple[Category, tuple[str, ...]]] = {
    TimelineLayer.TRACE: (Category.COMPILE, COMPILING),
    TimelineLayer.SAVE: (Category.CHECKPOINTS, ("save",)),
    TimelineLayer.SUMMARY: (Category.CALLBACKS, ("summary",)),
    TimelineLayer.IMPORT: (Category.IMPORTS, ("import",)),
    TimelineLayer.CALLBACKS: (Category.CALLBACKS, ("callbacks",)),
    TimelineLayer.BUILD: (Category.PREPARATION, ("build", "compile", "data")),
    TimelineLayer.BETWEEN_CELLS: (Category.IDLE, ("between_cells",)),
}
# Layers whose time is one item.
_WHOLE: Mapping[TimelineLayer, tuple[Category, str]] = {
    TimelineLayer.WARM_STEP: (Category.WARM_UP, "steps"),
    TimelineLayer.WARM_GAP: (Category.WARM_UP, "between steps"),
    TimelineLayer.INTERPRETER: (Category.INTERPRETER_START, ""),
    TimelineLayer.BEFORE: (Category.PREPARATION, "before the first step"),
    TimelineLayer.LAST_CALL: (Category.EPOCH_ENDS, "the return of the last training call"),
    TimelineLayer.AFTER: (Category.IDLE, "after the last step"),
    TimelineLayer.BETWEEN_CALLS: (Category.PYTHON, "between two training calls"),
}
_COLLECT = "gc.collect"
# Recording and short collections took, unseen, a little of the time of all these.
_SPREAD = (Category.PRODUCTIVE, Category.INPUT_WAIT, Category.PYTHON, Category.NOT_KNOWN)
_EVERYWHERE = tuple(category for category in Category if category is not Category.COLLECTION)


def divide_time(facts: AccountFacts) -> tuple[AccountPart, ...]:
    """Return all categories of a process; they sum to its wall time."""
    ledger = Ledger()
    if facts.roles.main:
        _add_activities(facts, ledger)
        steps_ns, gaps_ns = _forgotten(facts)
        _add_steps(facts, ledger, steps_ns)
        add_gaps(facts, ledger, gaps_ns)
        _take_recording(facts, ledger)
    else:
        _add_activities(facts, ledger)
        _add_stepless(facts, ledger)
    _take_unkept(facts, ledger)
    _take_collections(facts, ledger)
    return ledger.parts(facts.timeline.wall_ns)


def _add_activities(facts: AccountFacts, ledger: Ledger) -> None:
    timeline = facts.timeline
    for layer, (category, kinds) in _KINDS.items():
        _spread(ledger, category, names_of(facts.activities, kinds), timeline.total_ns(layer))
    evaluated = dict(names_of(facts.activities, ("evaluate", "predict")))
    for loop in facts.roles.evaluating:
        evaluated.setdefault((title(loop), ""), loop.times.sum_ns)
    _spread(ledger, Category.EVALUATION, evaluated, timeline.total_ns(TimelineLayer.EVALUATION))
    slow = first_steps(facts.roles.main, facts.steps)
    firsts = {
        (f"first step of {title(facts.roles.main[index])}", ""): ns for index, ns in slow.items()
    }
    _spread(ledger, Category.COMPILE, firsts, timeline.total_ns(TimelineLayer.FIRST_STEP))
    for layer, (category, what) in _WHOLE.items():
        _add_by_line(facts, ledger, category, what, timeline.layers[layer])
    _add_setups(facts, ledger)
    _add_named_by_program(facts, ledger)
    _add_single(facts, ledger)


def _add_setups(facts: AccountFacts, ledger: Ledger) -> None:
    """Add the time before the first step of each Estimator training call."""
    calls = [
        activity for activity in facts.activities if (activity.kind, activity.name) == TRAINS_ANEW
    ]
    called_at = names_of(calls, TRAINS_ANEW[:1])
    source = max(called_at, key=called_at.__getitem__)[1] if called_at else ""
    ns = facts.timeline.total_ns(TimelineLayer.SETUP)
    ledger.add(Category.PREPARATION, Item(SETUP, source, ns, times=len(calls)))


def _add_by_line(
    facts: AccountFacts, ledger: Ledger, category: Category, what: str, times: Intervals
) -> None:
    """Add the time of intervals, by lines of the program where stacks were read in them."""
    left_ns = add_lines(facts, ledger, category, times, times.length_ns, what)
    ledger.add(category, Item(what, "", left_ns))


def _add_single(facts: AccountFacts, ledger: Ledger) -> None:
    """Add steps that ran once or twice: an initialisation, or the first run of other fetches."""
    before_ns, after_ns = _split(facts, TimelineLayer.SINGLE_STEP)
    what = "steps that ran once or twice"
    ledger.add(Category.PREPARATION, Item(what, "", before_ns))
    ledger.add(Category.COMPILE, Item(f"{what}, each with its own preparation", "", after_ns))


def _split(facts: AccountFacts, layer: TimelineLayer) -> tuple[int, int]:
    """Return how much of a layer lies before the first step, and how much after."""
    times = facts.timeline.layers[layer]
    before_ns = np.clip(facts.bounds.first_ns - times.start_ns, 0, times.end_ns - times.start_ns)
    return int(before_ns.sum()), times.length_ns - int(before_ns.sum())


def _add_named_by_program(facts: AccountFacts, ledger: Ledger) -> None:
    """Add activities that the program named itself: before the first step they are preparation."""
    before_ns, after_ns = _split(facts, TimelineLayer.USER)
    named = names_of(facts.activities, ("user",))
    _spread(ledger, Category.PREPARATION, named, before_ns)
    _spread(ledger, Category.PYTHON, named, after_ns)


def _add_stepless(facts: AccountFacts, ledger: Ledger) -> None:
    """Add the remaining time of a process without steps."""
    rest_ns = facts.timeline.wall_ns - ledger.sum_ns()
    if facts.process.role == SERVER_ROLE:
        ledger.add(Category.OTHERS, Item("it serves variables to the workers", "", rest_ns))
        return
    known = joined(NONE, *facts.timeline.layers.values())
    life = one(facts.timeline.start_ns, facts.timeline.end_ns)
    left_ns = add_lines(facts, ledger, Category.PYTHON, difference(life, known), rest_ns)
    ledger.add(Category.NOT_KNOWN, Item("no step was recorded", "", left_ns))


def _spread(
    ledger: Ledger, category: Category, names: Mapping[tuple[str, str], int], ns: int
) -> None:
    """Add time to a category, divided between these names in proportion."""
    total = sum(names.values())
    left_ns = ns
    for (what, source), weight in names.items():
        share_ns = ns * weight // total if total else 0
        left_ns -= share_ns
        ledger.add(category, Item(what, source, share_ns))
    ledger.add(category, Item("", "", left_ns))


def _forgotten(facts: AccountFacts) -> tuple[Int64s, int]:
    """Return the time of forgotten steps by main loop, and the time of the gaps between them."""
    layer_ns = facts.timeline.total_ns(TimelineLayer.FORGOTTEN)
    lost_ns = np.zeros(len(facts.roles.main), dtype=np.int64)
    for index, loop in enumerate(facts.roles.main):
        recent = loop.recent
        if recent.first_step:
            remembered_ns = int((recent.end_ns - recent.start_ns).sum())
            lost_ns[index] = max(loop.times.sum_ns - remembered_ns, 0)
    total_ns = int(lost_ns.sum())
    if total_ns > layer_ns:
        lost_ns = np.array([ns * layer_ns // total_ns for ns in lost_ns.tolist()], dtype=np.int64)
    return lost_ns, layer_ns - int(lost_ns.sum())


def _add_steps(facts: AccountFacts, ledger: Ledger, forgotten_ns: Int64s) -> None:
    """Divide the time of steps between loops, and the time of each loop by its traced steps."""
    steps = facts.steps
    counted = ~steps.warm
    own_ns = np.bincount(
        steps.loop[counted],
        weights=(steps.end_ns - steps.start_ns)[counted].astype(np.float64),
        minlength=len(facts.roles.main),
    )
    layer_ns = facts.timeline.total_ns(TimelineLayer.STEP)
    total_ns = float(own_ns.sum()) or 1.0
    left_ns = layer_ns
    for index, loop in enumerate(facts.roles.main):
        share_ns = min(int(layer_ns * own_ns[index] / total_ns), left_ns)
        left_ns -= share_ns
        _divide_steps(facts, ledger, loop, share_ns + int(forgotten_ns[index]))
    ledger.add(Category.PRODUCTIVE, Item("steps", "", left_ns))


def _divide_steps(facts: AccountFacts, ledger: Ledger, loop: Loop, ns: int) -> None:
    parts = facts.parts_of(loop)
    knows_traces = any(activity.kind in COMPILING for activity in facts.activities)
    found = (
        parts
        if isinstance(parts, Missing)
        else shares.step_shares(parts, with_compile=not knows_traces)
    )
    if isinstance(found, Missing):
        ledger.add(Category.PRODUCTIVE, Item(f"{title(loop)}: {found.reason}", "", ns))
        return
    has_accelerator = shares.on_device(facts.parts)
    left_ns = ns
    for share in found.shares:
        item = item_of(share, label(share.part), ns, found.samples)
        left_ns -= item.ns
        ledger.add(step_category(share.part, has_accelerator=has_accelerator), item)
    ledger.add(Category.PRODUCTIVE, Item("", "", left_ns))


def _take_recording(facts: AccountFacts, ledger: Ledger) -> None:
    """Set recording to what the agent measured; what exceeds it is returned to the job."""
    cost = recording_overhead(facts.process, facts.loops)
    if isinstance(cost, Missing):
        return
    took_ns = cost.traced_ns + cost.hook_ns
    seen_ns = ledger.total_ns(Category.RECORDING)
    if seen_ns > took_ns:
        ledger.move(
            (Category.RECORDING,),
            Category.PYTHON,
            Item("after traced steps", "", seen_ns - took_ns),
        )
    else:
        ledger.move(_SPREAD, Category.RECORDING, Item("within steps", "", took_ns - seen_ns))


def _take_unkept(facts: AccountFacts, ledger: Ledger) -> None:
    """Move the time of activities that were only counted and summed to their category."""
    for kind in {activity.kind for activity in facts.activities}:
        category = OF_KIND.get(kind)
        if category is None:
            continue
        for name in {activity.name for activity in facts.activities if activity.kind == kind}:
            rows = [a for a in facts.activities if a.kind == kind and a.name == name]
            kept_ns = sum(row.end_ns - row.start_ns for row in rows)
            lost_ns = max(row.total_ns for row in rows) - kept_ns
            if lost_ns > 0:
                ledger.move(_SPREAD, category, Item(name, "", lost_ns))


def _take_collections(facts: AccountFacts, ledger: Ledger) -> None:
    """Add garbage collections: the longest at their times, and those that were only counted."""
    before_ns, after_ns = _split(facts, TimelineLayer.COLLECTION)
    ledger.add(Category.COLLECTION, Item(BEFORE_STEPS, "", before_ns))
    ledger.add(Category.COLLECTION, Item("while steps ran", _collect_line(facts), after_ns))
    counters = [
        sample.gc_ns for sample in facts.resource_samples if not isinstance(sample.gc_ns, Missing)
    ]
    if not counters:
        return
    kept_ns = sum(
        end - start for sample in facts.resource_samples for start, end in sample.gc_pauses
    )
    item = Item("short collections", "", max(counters) - kept_ns)
    ledger.move(_EVERYWHERE, Category.COLLECTION, item)


def _collect_line(facts: AccountFacts) -> str:
    """Return the line of the job that calls gc.collect() between steps; "" where none was seen."""
    for loop in facts.roles.main:
        for gap in shares.watched(facts.profile, facts.process, loop):
            for call in gap.calls:
                if call.function == _COLLECT and call.parent is not None:
                    return f"{gap.calls[call.parent].file}:{call.called_line}"
    return ""
