"""List the events in which processes synchronize: collectives, sends and receives of traced steps.

Times are those of the clock of each process; `clocks` computes how these differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, ClassVar

import numpy as np

from tfprobe.analysis.core.collective_ops import names_collective
from tfprobe.analysis.transfers.collective_runs import CollectiveRuns, collective_runs, turns
from tfprobe.analysis.transfers.sends import Ends, ends_of, is_sent, tensor_of
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Executions
from tfprobe.profile.profile import Profile
from tfprobe.profile.tables import Flags, Int8s, Int32s, Int64s, Interner, Strings, having


class SynchronizationKind(IntEnum):
    """What synchronizes processes: a collective of a group, or a send and its receive."""

    COLLECTIVE = 0
    SEND = 1
    RECV = 2


@dataclass(frozen=True, slots=True)
class SynchronizationEvents:
    """Executions in which a process synchronizes with others, one per row.

    `loop` is the kind and name of the loop, "" if unknown; `step` is the number of the step. `name`
    is the op, and `nth` counts those of this name (and `key`, for a send) before it in the step.
    `collective` is what all ranks call it, "" if they do not, and `part` counts those before it.
    `op` is the type of the op, or the kernel. Times are unix ns by the clock of the `process`.
    `bytes` is 0 if unknown. `key` is the name of the tensor, which a send and its receive share;
    `source` and `target` are their devices, "" if unknown. All three are "" for a collective.
    Columns of text contain positions in `strings`.
    """

    DTYPES: ClassVar[Mapping[str, type[np.generic]]] = {
        "process": np.int32,
        "loop": np.int32,
        "step": np.int64,
        "name": np.int32,
        "nth": np.int64,
        "collective": np.int32,
        "part": np.int64,
        "start_ns": np.int64,
        "end_ns": np.int64,
        "kind": np.int8,
        "bytes": np.int64,
        "key": np.int32,
        "source": np.int32,
        "target": np.int32,
        "op": np.int32,
    }
    TEXTS: ClassVar[tuple[str, ...]] = (
        *("loop", "name", "collective"),
        *("key", "source", "target", "op"),
    )

    strings: Strings
    process: Int32s
    loop: Int32s
    step: Int64s
    name: Int32s
    nth: Int64s
    collective: Int32s
    part: Int64s
    start_ns: Int64s
    end_ns: Int64s
    kind: Int8s
    bytes: Int64s
    key: Int32s
    source: Int32s
    target: Int32s
    op: Int32s

    def __len__(self) -> int:
        return len(self.process)

    def only(self, chosen: Flags) -> SynchronizationEvents:
        """Return the rows where `chosen` is true."""
        columns = {name: getattr(self, name)[chosen] for name in self.DTYPES}
        return SynchronizationEvents(strings=self.strings, **columns)


def find_events(profile: Profile) -> SynchronizationEvents:
    """Return the events of the traced steps of a profile, those of each step by their start."""
    texts = Interner()
    runs = collective_runs(profile)
    columns = [_of_collectives(profile, runs, texts), _of_sends(profile, runs, texts)]
    both = {
        name: np.concatenate([arrays[name] for arrays in columns])
        for name in SynchronizationEvents.DTYPES
    }
    order = np.lexsort((both["end_ns"], both["start_ns"], both["step"], both["process"]))
    return _table(texts, {name: column[order] for name, column in both.items()})


def merge_events(parts: Sequence[SynchronizationEvents]) -> SynchronizationEvents:
    """Return the events of several processes, each of which is one part: `process` becomes the
    place of the part.
    """
    return join_events(
        [
            replace(part, process=np.full(len(part), at, dtype=np.int32))
            for at, part in enumerate(parts)
        ]
    )


def join_events(parts: Sequence[SynchronizationEvents]) -> SynchronizationEvents:
    """Return all events in one table."""
    texts = Interner()
    columns: dict[str, list[Any]] = {
        name: [np.empty(0, np.int64)] for name in SynchronizationEvents.DTYPES
    }
    for part in parts:
        moved = np.array([texts.position(text) for text in part.strings.values], dtype=np.int32)
        for name, found in columns.items():
            column = getattr(part, name)
            found.append(moved[column] if name in SynchronizationEvents.TEXTS else column)
    return _table(texts, {name: np.concatenate(found) for name, found in columns.items()})


def _table(texts: Interner, columns: Mapping[str, Any]) -> SynchronizationEvents:
    """Return a table. Any: arrays of whatever type, or one value for all rows."""
    typed = {
        name: columns[name].astype(kind) for name, kind in SynchronizationEvents.DTYPES.items()
    }
    return SynchronizationEvents(strings=texts.strings(), **typed)


def _of_collectives(profile: Profile, runs: CollectiveRuns, texts: Interner) -> dict[str, Any]:
    rows = profile.executions
    return _of_rows(profile, runs.row, texts) | {
        "name": _moved(rows.name[runs.row], rows.strings, texts),
        "nth": runs.nth,
        "collective": _moved(rows.collective[runs.row], rows.strings, texts),
        "part": runs.part,
        "start_ns": runs.start_ns,
        "end_ns": runs.end_ns,
        "kind": np.full(len(runs), SynchronizationKind.COLLECTIVE),
    }


def _of_sends(profile: Profile, runs: CollectiveRuns, texts: Interner) -> dict[str, Any]:
    """Return the columns of sends and receives that may be between tasks."""
    rows = profile.executions
    chosen = np.flatnonzero(is_sent(rows) & ~runs.found)
    triples = np.stack((rows.name[chosen], rows.op_type[chosen], rows.detail[chosen]))
    kinds, inverse = np.unique(triples, axis=1, return_inverse=True)
    labels = [_sent(rows.strings, each, texts) for each in kinds.T.tolist()]
    facts = np.array(labels, dtype=np.int64).reshape(-1, 6)[inverse.reshape(-1)]
    leaves = facts[:, 5] > 0
    chosen, facts = chosen[leaves], facts[leaves]
    key, kind, labelled_bytes, source, target = facts.T[:5]
    name = _moved(rows.name[chosen], rows.strings, texts)
    size = np.where(rows.output_bytes[chosen] > 0, rows.output_bytes[chosen], labelled_bytes)
    return _of_rows(profile, chosen, texts) | {
        "name": name,
        "nth": turns(np.stack((rows.capture[chosen], name, key)), rows.start_ns[chosen]),
        "start_ns": rows.start_ns[chosen],
        "end_ns": rows.start_ns[chosen] + rows.duration_ns[chosen],
        "kind": kind,
        "bytes": size,
        "key": key,
        "source": source,
        "target": target,
    }


def _sent(strings: Strings, triple: Sequence[int], texts: Interner) -> tuple[int, ...]:
    """Return key, kind, bytes, source and target of a send, and 1 if it may leave its task."""
    name, op_type, detail = (strings[each] for each in triple)
    ends = ends_of(detail) or Ends("", "", "", 0)
    kind = SynchronizationKind.SEND if op_type.endswith("Send") else SynchronizationKind.RECV
    return (
        texts.position(tensor_of(ends.tensor or name)),
        int(kind),
        ends.bytes,
        texts.position(ends.source),
        texts.position(ends.target),
        int(not ends.is_within_task),
    )


def _of_rows(profile: Profile, at: Int64s, texts: Interner) -> dict[str, Any]:
    """Return the columns that all kinds have, and the others with the values for unknown."""
    capture = profile.executions.capture[at]
    names = {(loop.process, loop.index): f"{loop.kind} {loop.name}" for loop in profile.loops}
    loops = [
        "" if isinstance(traced.loop, Missing) else names.get((traced.process, traced.loop), "")
        for traced in profile.captures
    ]
    nothing = np.zeros(len(at), dtype=np.int64)
    return {
        "process": _of_captures([traced.process for traced in profile.captures])[capture],
        "loop": _of_captures([texts.position(loop) for loop in loops])[capture],
        "step": _of_captures([traced.step for traced in profile.captures])[capture],
        "bytes": np.maximum(profile.executions.output_bytes[at], 0),
        "op": _moved(_op(profile.executions, at), profile.executions.strings, texts),
        **dict.fromkeys(("collective", "part", "key", "source", "target"), nothing),
    }


def _op(rows: Executions, at: Int64s) -> Int32s:
    """Return the kernel of each row if that is one of a collective, else the type of its op."""
    detail = rows.detail[at]
    return np.where(having(rows.strings, detail, names_collective), detail, rows.op_type[at])


def _of_captures(values: Sequence[int]) -> Int64s:
    return np.array(values, dtype=np.int64)


def _moved(column: Int32s, strings: Strings, texts: Interner) -> Int64s:
    """Return the positions of the same strings in `texts`."""
    used, inverse = np.unique(column, return_inverse=True)
    positions = [texts.position(strings[at]) for at in used.tolist()]
    return np.array(positions, dtype=np.int64)[inverse.reshape(-1)]


@dataclass(frozen=True, slots=True)
class MatchedRuns:
    """For each execution, whether others of its group were recorded, and how it compares with them.

    `moving_ns` is the time in which all of a group were inside, -1 if the execution is not
    `is_matched`; `is_last` says that none of the group began later; `last` is the position of one
    that began last.
    """

    is_matched: Flags
    moving_ns: Int64s
    is_last: Flags
    last: Int64s

    @classmethod
    def of(cls, group: Int64s, process: Int64s, start_ns: Int64s, end_ns: Int64s) -> MatchedRuns:
        """Return how the executions of each group, numbered from 0, compare."""
        is_matched = in_several(group, process)
        count = int(group.max(initial=-1)) + 1
        first_ns = np.full(count, np.iinfo(np.int64).min)
        last_ns = np.full(count, np.iinfo(np.int64).max)
        shortest_ns = np.full(count, np.iinfo(np.int64).max)
        np.maximum.at(first_ns, group, start_ns)
        np.minimum.at(last_ns, group, end_ns)
        np.minimum.at(shortest_ns, group, end_ns - start_ns)
        common_ns = last_ns - first_ns
        # None ends before all have begun. If the clocks say otherwise, they are wrong, and the
        # shortest time of a rank is the best estimate.
        moving_ns = np.where(common_ns > 0, common_ns, shortest_ns)[group]
        is_last = start_ns == first_ns[group]
        last = np.zeros(count, dtype=np.int64)
        last[group[is_last]] = np.flatnonzero(is_last)
        return cls(
            is_matched=is_matched,
            moving_ns=np.where(is_matched, np.minimum(moving_ns, end_ns - start_ns), -1),
            is_last=is_matched & is_last,
            last=last[group],
        )


def alike_in_all_ranks(
    within: Int64s, *, name: Int64s, nth: Int64s, collective: Int64s, part: Int64s
) -> Int64s:
    """Return columns that are equal for the executions of one collective in all ranks.

    Collectives are known by what all ranks call them, a position other than 0, where all executions
    of a name `within` the same values have that, else by their name and order.
    """
    place = groups(np.vstack((within, name)))
    is_numbered = np.ones(int(place.max(initial=-1)) + 1, dtype=np.bool_)
    is_numbered[place[collective == 0]] = False
    numbered = is_numbered[place]
    return np.vstack(
        (
            within,
            numbered.astype(np.int64),
            np.where(numbered, collective, name),
            np.where(numbered, part, nth),
        )
    )


def groups(columns: Int64s) -> Int64s:
    """Return a number from 0 on for each row, the same for rows with the same values."""
    found: Int64s = np.unique(columns, axis=1, return_inverse=True)[1].reshape(-1)
    return found


def in_several(group: Int64s, process: Int64s) -> Flags:
    """Say for each execution whether its group has executions of another process."""
    processes = np.zeros(int(group.max(initial=-1)) + 1, dtype=np.int64)
    pairs = np.unique(np.stack((group, process)), axis=1)
    np.add.at(processes, pairs[0], 1)
    found: Flags = (processes > 1)[group]
    return found
