"""Compare xprof's table of ops with our rows of the same XSpace, op by op."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tfprobe.profile.reader.run_reader import load
from tfprobe.runs.catalogue import find_run
from tfprobe.runs.liveness import this_machine

# xprof adds µs as doubles; ours are whole ns.
_ROUNDING_US = 0.002


@dataclass(frozen=True, slots=True)
class Compared:
    """How many ops xprof shows (500 at most, the dearest), and how many of them are ours alike."""

    shown: int
    same: int
    differing: tuple[str, ...]


def compared(table: str, run: Path) -> Compared:
    """Compare runs and self time of each op that xprof shows with those of the run's captures."""
    ours = _durations_ns(run)
    differing = []
    shown = 0
    for op_type, name, runs, self_us in _rows(table):
        # What xprof calls IDLE is no op.
        if op_type == "IDLE":
            continue
        shown += 1
        found = ours[op_type, name]
        if len(found) != runs or abs(sum(found) / 1000 - self_us) > _ROUNDING_US:
            differing.append(f"{name}: xprof {runs} {self_us} us, ours {found[:10]}")
    return Compared(shown, shown - len(differing), tuple(differing))


def _durations_ns(run: Path) -> dict[tuple[str, str], list[int]]:
    rows = load(find_run(str(run), run.parent), this_machine()).executions
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    columns = (rows.op_type.tolist(), rows.name.tolist(), rows.duration_ns.tolist())
    for op_type, name, duration_ns in zip(*columns, strict=True):
        found[rows.strings[op_type], rows.strings[name]].append(duration_ns)
    return found


def _rows(table: str) -> list[tuple[str, str, int, float]]:
    document = json.loads(table)[0]
    columns = [column["id"] for column in document["cols"]]
    wanted = [
        columns.index(name) for name in ("type", "operation", "occurrences", "total_self_time")
    ]
    found = []
    for row in document["rows"]:
        op_type, name, runs, self_us = (row["c"][at]["v"] for at in wanted)
        found.append((op_type, name, int(runs), self_us))
    return found
