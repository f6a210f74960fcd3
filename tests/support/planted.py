"""Make up teams of processes that step together or each by itself, with and without a slow one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support.known_clocks import LOOP, MS, REDUCE, REDUCE_OP, TEXTS
from tests.support.profiles import process
from tests.support.rundir import UNIX_NS
from tfprobe.analysis.distributed.rank_parts import LatestSteps, RankPart, RecordedStep
from tfprobe.analysis.distributed.synchronization_events import (
    SynchronizationEvents,
    SynchronizationKind,
)
from tfprobe.errors import Missing
from tfprobe.profile.tables import Strings

Floats = npt.NDArray[np.float64]
KEY = TEXTS[LOOP]


@dataclass(frozen=True)
class Team:
    """Processes of one job; `slow` is the slow one, None where all are alike."""

    parts: tuple[RankPart, ...]
    slow: int | None
    facts: dict[str, Any]


def team(seed: int, *, is_slow: bool, **changes: Any) -> Team:
    """Return a team of 64; a slow one takes 5 to 30 % longer to compute, or to get its input.

    Processes differ a little by themselves, some scatter more than others, and now and then a step
    takes several times as long. Workers of parameter servers step each by itself; the others wait
    for each other in each step, so that all steps are equally long.
    """
    turn = np.random.default_rng([seed, int(is_slow)])
    kind = str(turn.choice(["together", "together", "input", "alone"]))
    few = bool(turn.random() < 0.3)
    facts: dict[str, Any] = {
        "ranks": 64,
        "kind": kind,
        "slower": float(turn.uniform(0.05, 0.3)),
        "scatter": float(10 ** turn.uniform(-2.5, -2.0 if few else -1.6)),
        "differ": float(turn.uniform(0, 0.004)),
        "steps": int(turn.integers(60, 600)),
        "recorded": int(turn.integers(8, 13) if few else turn.integers(15, 41)),
        "collectives": int(turn.integers(1, 9)),
        "per_machine": int(turn.choice([1, 8])),
        "moving": float(turn.uniform(0.02, 0.3)),
    }
    facts |= changes
    slow = int(turn.integers(facts["ranks"])) if is_slow else None
    make = _alone if facts["kind"] == "alone" else _together
    return Team(make(turn, facts, slow), slow, facts)


def _noise(turn: np.random.Generator, facts: dict[str, Any], shape: tuple[int, ...]) -> Floats:
    """Return factors around 1: heavy tails, more scatter on some, and now and then a long one."""
    of_rank = facts["scatter"] * turn.lognormal(0, 0.5, shape[0])
    scatter = of_rank.reshape(-1, *([1] * (len(shape) - 1)))
    found = 1 + scatter * turn.standard_t(4, shape)
    found[turn.random(shape) < 0.005] *= turn.uniform(1.5, 4)
    kept: Floats = np.maximum(found, 0.5)
    return kept


def _own(turn: np.random.Generator, facts: dict[str, Any], slow: int | None) -> Floats:
    found = 1 + facts["differ"] * turn.standard_normal(facts["ranks"])
    if slow is not None:
        found[slow] *= 1 + facts["slower"]
    kept: Floats = found
    return kept


def _alone(
    turn: np.random.Generator, facts: dict[str, Any], slow: int | None
) -> tuple[RankPart, ...]:
    """Return workers that ask parameter servers, each at its own pace."""
    shape = facts["ranks"], facts["steps"]
    cycle_ns = 100 * MS * _own(turn, facts, slow)[:, np.newaxis] * _noise(turn, facts, shape)
    gap_ns = cycle_ns * 0.05
    return tuple(
        _part(at, facts, cycle_ns[at] - gap_ns[at], gap_ns[at], (), _events([], at, facts))
        for at in range(facts["ranks"])
    )


def _together(
    turn: np.random.Generator, facts: dict[str, Any], slow: int | None
) -> tuple[RankPart, ...]:
    """Return ranks that wait for each other several times in a step."""
    ranks, steps, turns = facts["ranks"], facts["steps"], facts["collectives"]
    own = _own(turn, facts, slow)
    waits_for_input = facts["kind"] == "input"
    base_ns, moving_ns = 100 * MS, 100 * MS * facts["moving"] / turns
    gap_ns = 5 * MS * _noise(turn, facts, (ranks, steps))
    if waits_for_input:
        gap_ns += base_ns * np.maximum(own - 1, 0)[:, np.newaxis]
        own = np.ones(ranks)
    compute_ns = base_ns / turns * own[:, np.newaxis, np.newaxis]
    compute_ns = compute_ns * _noise(turn, facts, (ranks, steps, turns))
    recorded = np.sort(turn.choice(np.arange(1, steps), facts["recorded"], replace=False))
    at_ns, step_ns = np.zeros(ranks), np.zeros((ranks, steps))
    rows: list[tuple[int, int, Floats, Floats]] = []
    for step in range(steps):
        began_ns = at_ns + gap_ns[:, step]
        now_ns = began_ns
        for nth in range(turns):
            start_ns = now_ns + compute_ns[:, step, nth]
            now_ns = start_ns.max() + moving_ns + turn.exponential(20_000, ranks)
            if step in recorded:
                rows.append((step, nth, start_ns, now_ns))
        step_ns[:, step] = now_ns - began_ns
        at_ns = now_ns
    return tuple(
        _part(
            at, facts, step_ns[at], gap_ns[at], _recorded(rows, at, step_ns[at]),
            _events(rows, at, facts),
        )
        for at in range(ranks)
    )  # fmt: skip


def _recorded(
    rows: list[tuple[int, int, Floats, Floats]], at: int, step_ns: Floats
) -> tuple[RecordedStep, ...]:
    met_ns: dict[int, float] = {}
    for step, _, start_ns, end_ns in rows:
        met_ns[step] = met_ns.get(step, 0) + float(end_ns[at] - start_ns[at])
    return tuple(
        RecordedStep(KEY, step, round(float(step_ns[step])), round(ns))
        for step, ns in met_ns.items()
    )


def _events(
    rows: list[tuple[int, int, Floats, Floats]], at: int, facts: dict[str, Any]
) -> SynchronizationEvents:
    """Return the part of one process, whose machine has a clock of its own."""
    size = len(rows)
    ahead_ns = (at // facts["per_machine"]) * 1_234_567_891 % 5_000_000_000

    def shown(values: list[float]) -> npt.NDArray[np.int64]:
        found: npt.NDArray[np.int64] = np.rint(values).astype(np.int64) + UNIX_NS + ahead_ns
        return found

    def same(value: int) -> npt.NDArray[np.int32]:
        return np.full(size, value, dtype=np.int32)

    return SynchronizationEvents(
        strings=Strings(TEXTS),
        process=same(0),
        loop=same(LOOP),
        step=np.array([row[0] for row in rows], dtype=np.int64),
        name=same(REDUCE),
        nth=np.array([row[1] for row in rows], dtype=np.int64),
        collective=same(TEXTS.index("")),
        part=np.zeros(size, dtype=np.int64),
        start_ns=shown([float(row[2][at]) for row in rows]),
        end_ns=shown([float(row[3][at]) for row in rows]),
        kind=np.full(size, SynchronizationKind.COLLECTIVE, dtype=np.int8),
        bytes=np.zeros(size, dtype=np.int64),
        key=same(0),
        source=same(0),
        target=same(0),
        op=same(REDUCE_OP),
    )


def _part(
    at: int,
    facts: dict[str, Any],
    step_ns: Floats,
    gap_ns: Floats,
    recorded: tuple[RecordedStep, ...],
    events: SynchronizationEvents,
) -> RankPart:
    machine = at // facts["per_machine"]
    known_step_ns, known_gap_ns = step_ns.copy(), gap_ns.copy()
    for each in recorded:
        known_step_ns[each.step] = known_gap_ns[each.step] = np.nan
    return RankPart(
        process=process(
            index=at,
            rank=at,
            role="worker",
            world=facts["ranks"],
            pid=4000 + at,
            host=f"node{machine}",
            boot_id=f"boot-{machine}",
            folder=f"{4000 + at}-1",
        ),
        events=events,
        steps=(
            LatestSteps(
                key=KEY,
                executed=len(step_ns),
                total_ns=round(float(step_ns.sum())),
                first_step=0,
                step_ns=known_step_ns,
                gap_ns=known_gap_ns,
            ),
        ),
        recorded=recorded,
        overlap=Missing("not in this test"),
        served=(),
    )
