"""Make profiles in memory: for tests of views and their layouts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tests.support.rundir import MONO_NS, UNIX_NS, bucket
from tfprobe.analysis.breakdown.cycles import StepParts, parts_by_loop
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import STRING_COLUMNS, Executions, Place, Row, SpanKind, Spans
from tfprobe.profile.profile import (
    Capture,
    Durations,
    Hooks,
    Loop,
    Process,
    Profile,
    RecentSteps,
    Run,
)
from tfprobe.profile.tables import Columns, Interner, TableBuilder

HOOKS = Hooks(
    calls_measured=100,
    measured_ns=50_000,
    fold_ns=1_000,
    once_ns=4_000,
    traced_ns=1_000_000,
    wall_ns=1_000_000_000,
)


@dataclass
class Step:
    """A traced step: its rows and its length."""

    rows: Iterable[Row]
    duration_us: int = 100
    loop: int = 0
    spans: Iterable[Span] = ()


class Span(NamedTuple):
    """A span by itself; its time counts from the start of its step."""

    kind: SpanKind
    name: str
    start_us: float
    duration_us: float
    lane: str = "1"
    detail: str = ""
    background: bool = False
    identity: int = 0
    parent: int = 0


def op(
    op_type: str, start_us: int, duration_us: int, place: Place = Place.HOST, **more: Any
) -> Row:
    """Return a row whose time counts from the start of its step."""
    start_ns = UNIX_NS + start_us * 1000
    return Row("d", "1", f"n/{op_type}", op_type, place, start_ns, duration_us * 1000, **more)


def executions(rows: Iterable[Row], interner: Interner) -> Executions:
    """Return the columns of some rows of one capture."""
    columns = Columns(Executions)
    for row in rows:
        facts = row._asdict()
        texts = {name: interner.position(facts[name]) for name in STRING_COLUMNS}
        columns.add(1, **{**facts, **texts})
    return columns.rows(interner)


def table(steps: Iterable[Iterable[Row]]) -> Executions:
    """Return the rows of several captures, numbered from 0."""
    builder = TableBuilder(Executions, Interner())
    for capture, rows in enumerate(steps):
        builder.add(capture, executions(rows, builder.interner))
    return builder.table()


def spans(steps: Iterable[Iterable[Span]]) -> Spans:
    """Return the spans of several captures, numbered from 0."""
    builder = TableBuilder(Spans, Interner())
    for capture, each in enumerate(steps):
        columns = Columns(Spans)
        for span in each:
            facts = span._asdict()
            start_us, duration_us = facts.pop("start_us"), facts.pop("duration_us")
            texts = {
                name: builder.interner.position(facts[name]) for name in ("lane", "name", "detail")
            }
            times = {
                "start_ns": UNIX_NS + round(start_us * 1000),
                "duration_ns": round(duration_us * 1000),
            }
            columns.add(1, **{**facts, **texts, **times})
        builder.add(capture, columns.rows(builder.interner))
    return builder.table()


def traced_step_parts(recorded: Profile) -> list[StepParts]:
    """Return the parts of each traced step, in the order of the captures."""
    steps = [step for loop in parts_by_loop(recorded) for step in loop.steps]
    return sorted(steps, key=lambda step: step.capture.index)


def durations(values_ns: Sequence[int]) -> Durations:
    """Return the aggregate of some durations."""
    buckets = np.zeros(768, dtype=np.int64)
    for value in values_ns:
        buckets[bucket(value)] += 1
    low, high = min(values_ns, default=0), max(values_ns, default=0)
    return Durations(len(values_ns), sum(values_ns), low, high, buckets)


def loop(
    values_ns: Sequence[int] = (1_000_000,) * 10,
    *,
    raised: Sequence[int] = (),
    remembered: int | None = None,
    **changes: Any,
) -> Loop:
    """Return a loop whose steps took `values_ns`, of which the ring holds the last ones."""
    kept = len(values_ns) if remembered is None else remembered
    first = len(values_ns) - kept
    ends = np.cumsum(np.array(values_ns, dtype=np.int64) + 1000)
    starts = ends - np.array(values_ns, dtype=np.int64)
    marks = np.array([i in raised for i in range(len(values_ns))], dtype=np.bool_)
    sampled = np.zeros(kept, dtype=np.bool_)
    facts: dict[str, Any] = {
        "process": 0,
        "index": 0,
        "kind": "session_run",
        "name": "loss",
        "thread": "MainThread",
        "executed": len(values_ns),
        "raised": len(raised),
        "sampled": 0,
        "retraces": 0,
        "steps_per_execution": 1,
        "optimizer_steps": Missing("none"),
        "times": durations(values_ns),
        "gaps": durations([1000] * max(len(values_ns) - 1, 0)),
        "recent": RecentSteps(first, starts[first:], ends[first:], sampled, marks[first:]),
    }
    return Loop(**{**facts, **changes})


def timed_loop(
    steps_ns: Sequence[int],
    gaps_ns: Sequence[int] | int = 1000,
    *,
    sampled: Sequence[int] = (),
    start_ns: int = MONO_NS,
    **changes: Any,
) -> Loop:
    """Return a work with these steps and the gaps before them, from a monotonic time on."""
    steps = np.array(steps_ns, dtype=np.int64)
    gaps = np.broadcast_to(np.array(gaps_ns, dtype=np.int64), steps.shape)
    ends = start_ns + np.cumsum(steps + gaps) - gaps[0]
    marks = np.isin(np.arange(len(steps)), sampled)
    facts: dict[str, Any] = {
        "sampled": len(sampled),
        "gaps": durations([int(each) for each in gaps[1:]]),
        "recent": RecentSteps(0, ends - steps, ends, marks, np.zeros_like(marks)),
        "first_seen_ns": start_ns + UNIX_NS - MONO_NS,
    }
    return loop([int(each) for each in steps_ns], **{**facts, **changes})


def process(**changes: Any) -> Process:
    """Return a process that finished."""
    facts: dict[str, Any] = {
        "index": 0,
        "folder": "4711-1",
        "host": "node7",
        "pid": 4711,
        "state": "finished",
        "argv": ("train.py",),
        "python": "3.11.7",
        "tensorflow": "2.21.0",
        "rank": None,
        "role": None,
        "started_unix_ns": UNIX_NS,
        "devices": Missing("none"),
        "hooks": HOOKS,
        "captures": 1,
    }
    return Process(**{**facts, **changes})


def profile(
    steps: Sequence[Step] = (),
    *,
    loops: Sequence[Loop] = (),
    processes: Sequence[Process] | None = None,
    **changes: Any,
) -> Profile:
    """Return a profile of one process with these traced steps."""
    captures = tuple(
        Capture(
            index=i,
            process=0,
            loop=step.loop,
            step=i,
            file=f"{i}.pb",
            level="full",
            start_ns=UNIX_NS,
            duration_ns=step.duration_us * 1000,
            plain_ns=Missing("none"),
        )
        for i, step in enumerate(steps)
    )
    facts: dict[str, Any] = {
        "run": Run(
            "r1", "/runs/r1", ("python", "train.py"), "2026-11-20T20:04:18+00:00", "finished"
        ),
        "processes": tuple([process()] if processes is None else processes),
        "interpreters": (),
        "loops": tuple(loops),
        "captures": captures,
        "executions": table(step.rows for step in steps),
        "problems": (),
        "spans": spans(step.spans for step in steps),
    }
    return Profile(**{**facts, **changes})
