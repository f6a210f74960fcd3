"""Account for the wall time of a process, and of a run as the sum of its processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.account.categories import SETUP, Category
from tfprobe.analysis.account.division import divide_time
from tfprobe.analysis.account.gaps import (
    Gaps,
    LoopRoles,
    LoopSteps,
    gaps_between,
    loop_roles,
    loop_steps,
)
from tfprobe.analysis.account.ledger import AccountPart, Item, merge_parts
from tfprobe.analysis.account.timeline import (
    AccountFacts,
    LifeBounds,
    Timeline,
    TimelineLayer,
    life_timeline,
)
from tfprobe.analysis.breakdown.cycles import LoopParts, parts_by_loop
from tfprobe.analysis.core.intervals import within_ns
from tfprobe.analysis.core.main_loop import unknown_account
from tfprobe.analysis.steps.phases import ProcessClock, process_clock
from tfprobe.errors import Missing
from tfprobe.profile.activities import Activity
from tfprobe.profile.profile import Loop, Process, Profile

_NO_INTS = np.zeros(0, dtype=np.int64)
_NO_FLAGS = np.zeros(0, dtype=np.bool_)
# The kind of loop of which the first step is seen only from its update on.
_SEEN_FROM_ITS_UPDATE = "optimizer_step"


@dataclass(frozen=True, slots=True)
class Account:
    """What the wall time of one or more processes was spent on, in ns.

    `parts` are all categories in the order of a process's life; they sum to `wall_ns`, which is
    itself a sum over processes. `loop` is the main loop, by kind and name; None without steps or
    where processes have different main loops. `steps` counts the steps that make progress.
    `prepared_ns` is how much of the preparation lies before the first step of the main loop.
    `strip` shows the life in equal slices; it is None for several processes.
    """

    wall_ns: int
    processes: int
    parts: tuple[AccountPart, ...]
    steps: int
    loop: tuple[str, str] | None
    strip: Strip | None
    prepared_ns: int

    @property
    def goodput_ratio(self) -> float:
        """Return the share of productive steps."""
        return self.ratio(Category.PRODUCTIVE)

    def ns(self, category: Category) -> int:
        """Return the time of a category."""
        return next(part.ns for part in self.parts if part.category is category)

    def items(self, category: Category) -> tuple[Item, ...]:
        """Return what the time of a category was spent on, largest first."""
        return next(part.items for part in self.parts if part.category is category)

    @property
    def setups(self) -> tuple[int, int]:
        """Return how often Estimators set up a training call, and how long that took, in ns."""
        setups = [item for item in self.items(Category.PREPARATION) if item.what == SETUP]
        return sum(item.times for item in setups), sum(item.ns for item in setups)

    def ratio(self, category: Category) -> float:
        """Return the share of a category."""
        return self.ns(category) / self.wall_ns if self.wall_ns else 0.0


def process_accounts(
    profile: Profile, loops: Sequence[LoopParts] | None = None
) -> tuple[Account | Missing, ...]:
    """Return the account of each process; `loops` are its traced steps, if already divided."""
    parts = parts_by_loop(profile) if loops is None else loops
    return tuple(process_account(profile, process, parts) for process in profile.processes)


def merge_accounts(accounts: Iterable[Account | Missing]) -> Account | Missing:
    """Return the account of a run: the sum of the accounts of its processes."""
    accounts = list(accounts)
    known = [account for account in accounts if isinstance(account, Account)]
    if not known:
        reasons = dict.fromkeys(a.reason for a in accounts if isinstance(a, Missing))
        return Missing("; ".join(reasons) or "no process was recorded")
    if len(known) == 1:
        return known[0]
    names = {account.loop for account in known if account.loop is not None}
    return Account(
        wall_ns=sum(account.wall_ns for account in known),
        processes=sum(account.processes for account in known),
        parts=merge_parts(account.parts for account in known),
        steps=sum(account.steps for account in known),
        loop=names.pop() if len(names) == 1 else None,
        strip=None,
        prepared_ns=sum(account.prepared_ns for account in known),
    )


def process_account(
    profile: Profile, process: Process, parts: Sequence[LoopParts]
) -> Account | Missing:
    """Return the account of a process, or why there is none."""
    clock = process_clock(process)
    if isinstance(clock, Missing):
        return clock
    shift_ns = clock.shift_ns
    loops = [loop for loop in profile.loops if loop.process == process.index]
    activities = [activity for activity in profile.activities if activity.process == process.index]
    roles = loop_roles(loops)
    unknown = unknown_account(roles.main, loops)
    if unknown is not None:
        return unknown
    steps = _steps(roles, loops, shift_ns)
    bounds = _bounds(process, roles, steps, activities, clock)
    gaps = _gaps(roles, steps, activities, bounds)
    resource_samples = [
        sample for sample in profile.resource_samples if sample.process == process.index
    ]
    facts = AccountFacts(
        profile=profile,
        process=process,
        loops=loops,
        roles=roles,
        steps=steps,
        gaps=gaps,
        activities=activities,
        resource_samples=resource_samples,
        parts=[part for part in parts if _is_of(part, process)],
        bounds=bounds,
        timeline=life_timeline(roles, steps, gaps, activities, resource_samples, bounds, shift_ns),
        shift_ns=shift_ns,
    )
    main = roles.main[0] if roles.main else None
    filled = divide_time(facts)
    return Account(
        wall_ns=facts.timeline.wall_ns,
        processes=1,
        parts=filled,
        steps=sum(loop.count * loop.steps_per_execution for loop in roles.main),
        loop=None if main is None else (main.kind, main.name),
        strip=strip_of(facts.timeline, filled),
        prepared_ns=0 if main is None else _prepared_ns(facts.timeline, main, steps),
    )


def _prepared_ns(timeline: Timeline, main: Loop, steps: LoopSteps) -> int:
    """Return how much of the preparation lies before the first step.

    Where that is seen from its update on, a usual step more belongs to it.
    """
    of_main = steps.loop == 0
    prepared_ns = timeline.prepared_ns(int(steps.start_ns[of_main].min()))
    if main.kind != _SEEN_FROM_ITS_UPDATE:
        return prepared_ns
    usual_ns = int(np.median((steps.end_ns - steps.start_ns)[of_main]))
    return max(prepared_ns - usual_ns, 0)


def _is_of(parts: LoopParts, process: Process) -> bool:
    return not isinstance(parts.loop, Missing) and parts.loop.process == process.index


def _steps(roles: LoopRoles, loops: Sequence[Loop], shift_ns: int) -> LoopSteps:
    if roles.main:
        return loop_steps(roles.main, loops, shift_ns)
    return LoopSteps(_NO_INTS, _NO_INTS, _NO_INTS, _NO_INTS, _NO_FLAGS, _NO_FLAGS, _NO_FLAGS)


def _gaps(
    roles: LoopRoles, steps: LoopSteps, activities: Sequence[Activity], bounds: LifeBounds
) -> Gaps:
    if roles.main:
        return gaps_between(steps, roles.main, activities, bounds.forgotten[1])
    return Gaps(_NO_INTS, _NO_INTS, _NO_INTS, _NO_INTS, _NO_INTS)


def _bounds(
    process: Process,
    roles: LoopRoles,
    steps: LoopSteps,
    activities: Sequence[Activity],
    clock: ProcessClock,
) -> LifeBounds:
    shift_ns = clock.shift_ns
    booted_ns = min([process.started_unix_ns, *(activity.start_ns for activity in activities)])
    exec_ns = process.exec_ns
    start_ns = booted_ns if isinstance(exec_ns, Missing) else min(exec_ns, booted_ns)
    # The last end that a killed process noted may be older than its last step.
    ends_ns = [clock.noted_end_ns, *(activity.end_ns for activity in activities)]
    if not roles.main:
        end_ns = max(ends_ns)
        return LifeBounds(start_ns, booted_ns, booted_ns, end_ns, end_ns, end_ns, (0, 0))
    first_seen_ns = [
        min(loop.first_seen_ns or _first_ns(loop, shift_ns), _first_ns(loop, shift_ns))
        for loop in roles.main
    ]
    last_ns = int(steps.end_ns.max())
    forgetting = [index for index, loop in enumerate(roles.main) if loop.recent.first_step]
    forgotten = (
        min((first_seen_ns[index] for index in forgetting), default=0),
        max((_first_ns(roles.main[index], shift_ns) for index in forgetting), default=0),
    )
    calls_ns = [
        activity.end_ns
        for activity in activities
        if activity.kind == "train" and activity.start_ns < last_ns <= activity.end_ns
    ]
    return LifeBounds(
        start_ns=start_ns,
        booted_ns=booted_ns,
        first_ns=min(first_seen_ns),
        last_ns=last_ns,
        last_call_ns=max(calls_ns, default=last_ns),
        end_ns=max([last_ns, *ends_ns]),
        forgotten=forgotten,
    )


def _first_ns(loop: Loop, shift_ns: int) -> int:
    return int(loop.recent.start_ns[0]) + shift_ns


# More do not fit on a screen or a page.
SLICES = 200
# The time between steps is drawn as the category that most of it was spent on.
_GAPS = (TimelineLayer.USUAL_GAP, TimelineLayer.TRACED_GAP, TimelineLayer.LONG_GAP)
_OF_GAPS = (
    Category.PYTHON,
    Category.CALLBACKS,
    Category.INPUT_WAIT,
    Category.CHECKPOINTS,
    Category.OTHERS,
)
# In the strip, all time of steps counts as productive: only the sums divide it further.
_OF_LAYER: Mapping[TimelineLayer, Category] = {
    TimelineLayer.COLLECTION: Category.COLLECTION,
    TimelineLayer.TRACE: Category.COMPILE,
    TimelineLayer.FIRST_STEP: Category.COMPILE,
    TimelineLayer.SAVE: Category.CHECKPOINTS,
    TimelineLayer.EVALUATION: Category.EVALUATION,
    TimelineLayer.SUMMARY: Category.CALLBACKS,
    TimelineLayer.IMPORT: Category.IMPORTS,
    TimelineLayer.SINGLE_STEP: Category.PREPARATION,
    TimelineLayer.WARM_STEP: Category.WARM_UP,
    TimelineLayer.STEP: Category.PRODUCTIVE,
    TimelineLayer.CALLBACKS: Category.CALLBACKS,
    TimelineLayer.BUILD: Category.PREPARATION,
    TimelineLayer.USER: Category.PYTHON,
    TimelineLayer.BETWEEN_CELLS: Category.IDLE,
    TimelineLayer.SETUP: Category.PREPARATION,
    TimelineLayer.WARM_GAP: Category.WARM_UP,
    TimelineLayer.USUAL_GAP: Category.PYTHON,
    TimelineLayer.TRACED_GAP: Category.PYTHON,
    TimelineLayer.LONG_GAP: Category.PYTHON,
    TimelineLayer.EPOCH_END: Category.EPOCH_ENDS,
    TimelineLayer.BETWEEN_CALLS: Category.PYTHON,
    TimelineLayer.FORGOTTEN: Category.PRODUCTIVE,
    TimelineLayer.INTERPRETER: Category.INTERPRETER_START,
    TimelineLayer.LAST_CALL: Category.EPOCH_ENDS,
    TimelineLayer.BEFORE: Category.PREPARATION,
    TimelineLayer.AFTER: Category.IDLE,
}


@dataclass(frozen=True, slots=True)
class Strip:
    """Slices of equal length from `start_ns` to `end_ns`, unix ns, by category."""

    start_ns: int
    end_ns: int
    slices: tuple[Category, ...]


def strip_of(timeline: Timeline, parts: Sequence[AccountPart]) -> Strip:
    """Return the strip of a process whose account has these parts."""
    edges = np.linspace(timeline.start_ns, timeline.end_ns, SLICES + 1).astype(np.int64)
    categories, between = list(Category), _of_gaps(timeline, parts)
    spent = np.zeros((len(categories), SLICES), dtype=np.int64)
    for layer, times in timeline.layers.items():
        row = categories.index(between if layer in _GAPS else _OF_LAYER[layer])
        spent[row] += within_ns(times, edges[:-1], edges[1:])
    spent[categories.index(Category.NOT_KNOWN)] += (edges[1:] - edges[:-1]) - spent.sum(axis=0)
    return Strip(
        timeline.start_ns,
        timeline.end_ns,
        tuple(categories[index] for index in spent.argmax(axis=0).tolist()),
    )


def _of_gaps(timeline: Timeline, parts: Sequence[AccountPart]) -> Category:
    """Return what most of the time between steps was spent on, without what has its own layer."""
    left_ns = {part.category: part.ns for part in parts}
    for layer, category in _OF_LAYER.items():
        if layer not in _GAPS and layer in timeline.layers:
            left_ns[category] = left_ns.get(category, 0) - timeline.total_ns(layer)
    return max(_OF_GAPS, key=lambda category: left_ns.get(category, 0))
