"""Move what processes waited for each other in collectives from their productive steps.

The account of one process cannot tell it: it shows where several recorded the same steps, and is
then what `distributed.rank_waits` says, as far as nothing else went on in the step meanwhile.
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
from tfprobe.analysis.distributed.rank_waits import CollectiveWaits, in_collectives
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

    `work` is as in Meetings, `total_ns` what all steps of the loop took. `step` numbers ascend,
    `step_ns` without recording, and `devices` how many there are: `moments` are by device those
    that are charged to collectives, by the clock of the rows.
    """

    loop: str
    total_ns: int
    step: Int64s
    step_ns: Int64s
    devices: Int64s
    collective_ns: Int64s
    moments: tuple[Intervals, ...]


# Of one process, by loop.
ProcessCollectives = tuple[LoopCollectives, ...]


class _Wait(NamedTuple):
    """What a process waited for another one in one collective op, and how sure that is."""

    op: str
    whom: int
    ns: int
    samples: int
    low_ns: int | None
    high_ns: int | None


class _Waited(NamedTuple):
    """Of the time of a process in collectives: what it waited, and of it what lies elsewhere.

    `unseen_ns` is of steps whose collectives the trace lost: it was charged to other parts.
    """

    waits: tuple[_Wait, ...]
    unseen_ns: int


def run_accounts(
    profile: Profile, loops: Sequence[LoopParts] | None = None
) -> tuple[Account | Missing, ...]:
    """Return the account of each process, which knows of the others."""
    loops = parts_by_loop(profile) if loops is None else loops
    alone = process_accounts(profile, loops)
    told = process_collectives(profile, loops)
    return (
        with_waits(alone, told, profile.processes, synchronization_events.part(profile))
        if any(told)
        else alone
    )


def process_collectives(
    profile: Profile, loops: Sequence[LoopParts]
) -> tuple[ProcessCollectives, ...]:
    """Return what each process did in collectives; mostly nothing."""
    # Most jobs have none, and pay nothing.
    found = [loop for loop in loops if any(step.collectives for step in loop.steps)]
    return tuple(
        tuple(_of_loops(profile, process, found) if found else ()) for process in profile.processes
    )


def with_waits(
    alone: Sequence[Account | Missing],
    told: Sequence[ProcessCollectives],
    processes: Sequence[Process],
    met: SynchronizationEvents,
) -> tuple[Account | Missing, ...]:
    """Return the accounts of processes, in which what each waited for others is no longer
    productive. `processes` are in the order of the accounts, and `met` numbers them so.
    """
    joint = met.only(met.kind == SynchronizationKind.COLLECTIVE)
    if sum(map(bool, told)) < 2 or not _has_meeting(joint):
        return tuple(alone)
    generation = [slot.matched_by for slot in rank_slots(processes)]
    waits = in_collectives(joint, clocks(processes, met), generation)
    everywhere = _steps_of(joint)
    found: list[Account | Missing] = []
    for at, (account, loops) in enumerate(zip(alone, told, strict=True)):
        if isinstance(account, Missing) or not loops:
            found.append(account)
            continue
        mine = joint.process[waits.row] == at
        own = CollectiveWaits(waits.row[mine], waits.whom[mine], waits.waiting_ns[mine])
        here = _steps_of(joint.only(joint.process == at))
        lost = {
            loop: np.setdiff1d(steps, here.get(loop, NONE.start_ns))
            for loop, steps in everywhere.items()
        }
        found.append(_moved(account, _waited(account, loops, joint, own, lost), processes))
    return tuple(found)


def _of_loops(
    profile: Profile, process: Process, loops: Sequence[LoopParts]
) -> Iterator[LoopCollectives]:
    own = [loop for loop in profile.loops if loop.process == process.index]
    main = {loop.index for loop in loop_roles(own).main}
    for each in loops:
        loop = each.loop
        if isinstance(loop, Loop) and loop.process == process.index and loop.index in main:
            yield _columns(loop, each.steps)


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
            joined(NONE, *(step.collectives[at] for step in steps if at < len(step.collectives)))
            for at in range(int(devices.max()))
        ),
    )


def _has_meeting(joint: SynchronizationEvents) -> bool:
    """Say whether several processes recorded collectives of one step."""
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
    """Return what a process waited, of all the time that its steps spent in collectives.

    A trace may lose a collective that goes on when it ends: its time is then that of other parts.
    `lost` are, by work, the steps in which only others recorded any.
    """
    whole_ns = _in_collectives_ns(account)
    # The account divides it by all traced steps of each loop.
    ratios = [_ratio(loop.collective_ns, loop.step_ns) for loop in loops]
    weights = [loop.total_ns * ratio for loop, ratio in zip(loops, ratios, strict=True)]
    waits: list[_Wait] = []
    unseen_ns = 0.0
    for collectives, weight, ratio in zip(loops, weights, ratios, strict=True):
        kept = ~np.isin(collectives.step, lost.get(collectives.loop, NONE.start_ns))
        kept_ratio = _ratio(collectives.collective_ns[kept], collectives.step_ns[kept])
        if not weight or not kept_ratio:
            continue
        seen_ns = whole_ns * weight / sum(weights)
        found = tuple(_of_loop(collectives, joint, own, seen_ns * kept_ratio / ratio))
        waits += found
        unseen_ns += sum(each.ns for each in found) * (1 - ratio / kept_ratio)
    return _Waited(tuple(waits), int(unseen_ns))


def _in_collectives_ns(account: Account) -> int:
    items = account.items(Category.PRODUCTIVE)
    return next((item.ns for item in items if item.what == _COLLECTIVES), 0)


def _of_loop(
    collectives: LoopCollectives, joint: SynchronizationEvents, own: CollectiveWaits, all_ns: float
) -> Iterator[_Wait]:
    """Give what a loop waited by op and process, of all its time in collectives."""
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
        mine = kind.reshape(-1) == number
        by_step = np.zeros(len(collectives.step), dtype=np.int64)
        np.add.at(by_step, at[mine], waited_ns[mine])
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

    Several may be under way at once: a moment is that of the first of them.
    """
    order = np.argsort(start_ns, kind="stable")
    end_ns = (start_ns + waiting_ns)[order]
    begins_ns = start_ns[order]
    begins_ns[1:] = np.maximum(begins_ns[1:], np.maximum.accumulate(end_ns)[:-1])
    end_ns = np.maximum(end_ns, begins_ns)
    found = np.zeros(len(order), dtype=np.int64)
    for moments in collectives.moments:
        found[order] += within_ns(moments, begins_ns, end_ns)
    return found


def _moved(account: Account, found: _Waited, processes: Sequence[Process]) -> Account:
    if not found.waits:
        return account
    ledger = Ledger.of(account.parts)
    whole_ns = sum(wait.ns for wait in found.waits)
    for wait in found.waits:
        unseen_ns = found.unseen_ns * wait.ns // max(whole_ns, 1)
        what = f"for {name(processes[wait.whom])} in {wait.op}"
        low_ns = None if wait.low_ns is None else wait.low_ns - unseen_ns
        high_ns = None if wait.high_ns is None else wait.high_ns - unseen_ns
        seen = Item(what, "", wait.ns - unseen_ns, wait.samples, low_ns, high_ns)
        unseen = Item(what, "", unseen_ns, wait.samples, unseen_ns, unseen_ns)
        ledger.move_item(Category.PRODUCTIVE, (_COLLECTIVES, ""), Category.OTHERS, seen)
        ledger.move((Category.PRODUCTIVE,), Category.OTHERS, unseen)
    return replace(account, parts=ledger.parts(account.wall_ns))


def _ratio(some_ns: Int64s, of_ns: Int64s) -> float:
    whole_ns = int(of_ns.sum())
    return int(some_ns.sum()) / whole_ns if whole_ns else 0.0
