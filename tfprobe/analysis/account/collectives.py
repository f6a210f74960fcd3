"""Move the time that processes waited for each other in collectives out of productive steps.

One process alone cannot tell waiting from communicating. Where several recorded the same steps,
`distributed.rank_waits` gives the waits; they count as far as the step did nothing else meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tfprobe.analysis.account.account import Account, process_accounts
from tfprobe.analysis.account.categories import Category
from tfprobe.analysis.account.gaps import loop_roles
from tfprobe.analysis.account.ledger import Item, Ledger
from tfprobe.analysis.account.shares import label, ratio_bounds
from tfprobe.analysis.breakdown.cycles import LoopParts, StepParts, parts_by_loop
from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.analysis.core.intervals import NONE, Intervals, joined, within_ns
from tfprobe.analysis.distributed import synchronization_events
from tfprobe.analysis.distributed.clocks import clocks
from tfprobe.analysis.distributed.rank_facts import name
from tfprobe.analysis.distributed.rank_slots import rank_slots
from tfprobe.analysis.distributed.rank_waits import CollectiveWaits, waits_in_collectives
from tfprobe.analysis.distributed.synchronization_events import (
    SynchronizationEvents,
    SynchronizationKind,
    in_several,
)
from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop, Process, Profile
from tfprobe.profile.tables import Int64s

_COLLECTIVES = label(Part.COLLECTIVES)


@dataclass(frozen=True, slots=True)
class LoopCollectives:
    """The traced steps of a main loop that runs collectives, one a row of the columns.

    `loop` is its name as in `SynchronizationEvents`, `total_ns` the time of all its steps. `step`
    numbers ascend; `step_ns` excludes recording. `devices` is the number of devices; `moments` are,
    by device, those charged to collectives, on the clock of the rows.
    """

    loop: str
    total_ns: int
    step: Int64s
    step_ns: Int64s
    devices: Int64s
    collective_ns: Int64s
    moments: tuple[Intervals, ...]


# One entry for each main loop of a process.
ProcessCollectives = tuple[LoopCollectives, ...]


class _Wait(NamedTuple):
    """How long a process waited for another one in one collective op, with bounds."""

    op: str
    whom: int
    ns: int
    samples: int
    low_ns: int | None
    high_ns: int | None


class _Waited(NamedTuple):
    """The waits of a process in collectives.

    `unseen_ns` of them lie in steps whose collectives the trace lost: that time was charged to
    other parts.
    """

    waits: tuple[_Wait, ...]
    unseen_ns: int


def run_accounts(
    profile: Profile, loops: Sequence[LoopParts] | None = None
) -> tuple[Account | Missing, ...]:
    """Return the account of each process, with its waits for the others."""
    loops = parts_by_loop(profile) if loops is None else loops
    alone = process_accounts(profile, loops)
    collectives = process_collectives(profile, loops)
    return (
        with_waits(
            alone, collectives, profile.processes, synchronization_events.find_events(profile)
        )
        if any(collectives)
        else alone
    )


def process_collectives(
    profile: Profile, loops: Sequence[LoopParts]
) -> tuple[ProcessCollectives, ...]:
    """Return the collectives of each process, by main loop; most jobs have none."""
    active = [loop for loop in loops if any(step.collectives for step in loop.steps)]
    return tuple(
        tuple(_of_loops(profile, process, active) if active else ())
        for process in profile.processes
    )


def with_waits(
    alone: Sequence[Account | Missing],
    collectives: Sequence[ProcessCollectives],
    processes: Sequence[Process],
    events: SynchronizationEvents,
) -> tuple[Account | Missing, ...]:
    """Return the accounts with waits for other processes moved out of the productive time.

    `alone`, `collectives` and `processes` are in the same order, which `events` numbers them by.
    """
    joint = events.only(events.kind == SynchronizationKind.COLLECTIVE)
    if sum(map(bool, collectives)) < 2 or not _is_shared(joint):
        return tuple(alone)
    generation = [slot.matched_by for slot in rank_slots(processes)]
    waits = waits_in_collectives(joint, clocks(processes, events), generation)
    everywhere = _steps_of(joint)
    accounts: list[Account | Missing] = []
    for index, (account, loops) in enumerate(zip(alone, collectives, strict=True)):
        if isinstance(account, Missing) or not loops:
            accounts.append(account)
            continue
        is_own = joint.process[waits.row] == index
        own = CollectiveWaits(waits.row[is_own], waits.whom[is_own], waits.waiting_ns[is_own])
        here = _steps_of(joint.only(joint.process == index))
        lost = {
            loop: np.setdiff1d(steps, here.get(loop, NONE.start_ns))
            for loop, steps in everywhere.items()
        }
        accounts.append(_moved(account, _waited(account, loops, joint, own, lost), processes))
    return tuple(accounts)


def _of_loops(
    profile: Profile, process: Process, loops: Sequence[LoopParts]
) -> Iterator[LoopCollectives]:
    own = [loop for loop in profile.loops if loop.process == process.index]
    main = {loop.index for loop in loop_roles(own).main}
    for parts in loops:
        loop = parts.loop
        if isinstance(loop, Loop) and loop.process == process.index and loop.index in main:
            yield _columns(loop, parts.steps)


def _columns(loop: Loop, steps: Sequence[StepParts]) -> LoopCollectives:
    steps = sorted(steps, key=lambda step: step.capture.step)
    devices = np.array([max(len(step.collectives), 1) for step in steps], dtype=np.int64)
    lengths_ns = [sum(some.length_ns for some in step.collectives) for step in steps]
    step_ns = [sum(step.inside.values()) - step.inside.get(Part.RECORDING, 0) for step in steps]
    return LoopCollectives(
        loop=f"{loop.kind} {loop.name}",
        total_ns=loop.times.sum_ns,
        step=np.array([step.capture.step for step in steps], dtype=np.int64),
        step_ns=np.array(step_ns, dtype=np.int64),
        devices=devices,
        collective_ns=np.array(lengths_ns, dtype=np.int64) // devices,
        moments=tuple(
            joined(
                NONE,
                *(step.collectives[device] for step in steps if device < len(step.collectives)),
            )
            for device in range(int(devices.max()))
        ),
    )


def _is_shared(joint: SynchronizationEvents) -> bool:
    """Return whether several processes recorded collectives of the same step."""
    if not len(joint):
        return False
    group = np.unique(_keys(joint), axis=1, return_inverse=True)[1].reshape(-1)
    return bool(in_several(group, joint.process.astype(np.int64)).any())


def _keys(joint: SynchronizationEvents) -> Int64s:
    return np.stack((joint.loop.astype(np.int64), joint.step))


def _steps_of(joint: SynchronizationEvents) -> dict[str, Int64s]:
    """Return the steps of each loop in which a collective was recorded."""
    return {
        joint.strings[loop]: np.unique(joint.step[joint.loop == loop])
        for loop in np.unique(joint.loop).tolist()
    }


def _waited(
    account: Account,
    loops: ProcessCollectives,
    joint: SynchronizationEvents,
    own: CollectiveWaits,
    lost: Mapping[str, Int64s],
) -> _Waited:
    """Return how long a process waited, of the time that its steps spent in collectives.

    A trace may lose a collective that is still running when it ends: its time is then charged to
    other parts. `lost` are, by loop, the steps in which only other processes recorded collectives.
    """
    total_ns = _in_collectives_ns(account)
    # The account estimates it from all traced steps of each loop.
    ratios = [_ratio(loop.collective_ns, loop.step_ns) for loop in loops]
    weights = [loop.total_ns * ratio for loop, ratio in zip(loops, ratios, strict=True)]
    waits: list[_Wait] = []
    unseen_ns = 0.0
    for collectives, weight, ratio in zip(loops, weights, ratios, strict=True):
        kept = ~np.isin(collectives.step, lost.get(collectives.loop, NONE.start_ns))
        kept_ratio = _ratio(collectives.collective_ns[kept], collectives.step_ns[kept])
        if not weight or not kept_ratio:
            continue
        seen_ns = total_ns * weight / sum(weights)
        of_loop = tuple(_of_loop(collectives, joint, own, seen_ns * kept_ratio / ratio))
        waits += of_loop
        unseen_ns += sum(wait.ns for wait in of_loop) * (1 - ratio / kept_ratio)
    return _Waited(tuple(waits), int(unseen_ns))


def _in_collectives_ns(account: Account) -> int:
    items = account.items(Category.PRODUCTIVE)
    return next((item.ns for item in items if item.what == _COLLECTIVES), 0)


def _of_loop(
    collectives: LoopCollectives, joint: SynchronizationEvents, own: CollectiveWaits, all_ns: float
) -> Iterator[_Wait]:
    """Yield the waits of a loop by op and process, of all its time in collectives."""
    at = np.minimum(
        np.searchsorted(collectives.step, joint.step[own.row]), len(collectives.step) - 1
    )
    is_of_loop = [joint.strings[loop] == collectives.loop for loop in joint.loop[own.row].tolist()]
    known = np.array(is_of_loop, dtype=np.bool_) & (collectives.step[at] == joint.step[own.row])
    at, row, whom = at[known], own.row[known], own.whom[known]
    waited_ns = (
        _alone_ns(collectives, joint.start_ns[row], own.waiting_ns[known])
        // collectives.devices[at]
    )
    matched = np.unique(at)
    in_ns, step_ns = collectives.collective_ns[matched], collectives.step_ns[matched]
    kinds, kind = np.unique(np.stack((joint.op[row], whom)), axis=1, return_inverse=True)
    for number, (op, process) in enumerate(kinds.T.tolist()):
        is_kind = kind.reshape(-1) == number
        by_step = np.zeros(len(collectives.step), dtype=np.int64)
        np.add.at(by_step, at[is_kind], waited_ns[is_kind])
        by_step = by_step[matched]
        ratio = _ratio(by_step, step_ns)
        if not ratio:
            continue
        ns = all_ns * _ratio(by_step, in_ns)
        low, high = ratio_bounds((by_step / np.maximum(step_ns, 1)).tolist(), ratio)
        yield _Wait(
            op=joint.strings[op].partition("(")[0],
            whom=process,
            ns=int(ns),
            samples=len(matched),
            low_ns=None if low is None else int(ns * low / ratio),
            high_ns=None if high is None else int(ns * high / ratio),
        )


def _alone_ns(collectives: LoopCollectives, start_ns: Int64s, waiting_ns: Int64s) -> Int64s:
    """Return how much of each wait was charged to collectives, summed over devices.

    Where several collectives run at once, a moment counts for the one that started first.
    """
    order = np.argsort(start_ns, kind="stable")
    end_ns = (start_ns + waiting_ns)[order]
    begins_ns = start_ns[order]
    begins_ns[1:] = np.maximum(begins_ns[1:], np.maximum.accumulate(end_ns)[:-1])
    end_ns = np.maximum(end_ns, begins_ns)
    alone_ns = np.zeros(len(order), dtype=np.int64)
    for moments in collectives.moments:
        alone_ns[order] += within_ns(moments, begins_ns, end_ns)
    return alone_ns


def _moved(account: Account, waited: _Waited, processes: Sequence[Process]) -> Account:
    if not waited.waits:
        return account
    ledger = Ledger.of(account.parts)
    total_ns = sum(wait.ns for wait in waited.waits)
    for wait in waited.waits:
        unseen_ns = waited.unseen_ns * wait.ns // max(total_ns, 1)
        what = f"for {name(processes[wait.whom])} in {wait.op}"
        low_ns = None if wait.low_ns is None else wait.low_ns - unseen_ns
        high_ns = None if wait.high_ns is None else wait.high_ns - unseen_ns
        seen = Item(what, "", wait.ns - unseen_ns, wait.samples, low_ns, high_ns)
        unseen = Item(what, "", unseen_ns, wait.samples, unseen_ns, unseen_ns)
        ledger.move_item(Category.PRODUCTIVE, (_COLLECTIVES, ""), Category.OTHERS, seen)
        ledger.move((Category.PRODUCTIVE,), Category.OTHERS, unseen)
    return replace(account, parts=ledger.parts(account.wall_ns))


def _ratio(some_ns: Int64s, of_ns: Int64s) -> float:
    total_ns = int(of_ns.sum())
    return int(some_ns.sum()) / total_ns if total_ns else 0.0
