"""Make up events of processes whose clocks are known: offsets, drifts, jitter, mistakes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support.profiles import process
from tests.support.rundir import UNIX_NS
from tfprobe.analysis.distributed.synchronization_events import (
    SynchronizationEvents,
    SynchronizationKind,
)
from tfprobe.profile.profile import Process
from tfprobe.profile.tables import Strings

Floats = npt.NDArray[np.float64]

S, MS, US = 1e9, 1e6, 1e3
TEXTS = ("", "fit resnet", "reduce", "CollectiveReduceV2", "_Send", "_Recv", "tensor")
LOOP, REDUCE, REDUCE_OP, SEND, RECV = 1, 2, 3, 4, 5


@dataclass(frozen=True)
class Known:
    """Processes, their events, and the truth: a clock shows `(1 + drift) t + ahead` at time t."""

    processes: tuple[Process, ...]
    events: SynchronizationEvents
    drift: Floats
    ahead_ns: Floats
    first_ns: float
    last_ns: float

    def shown(self, at: int, time_ns: Floats) -> npt.NDArray[np.int64]:
        """Return the unix times that a process's clock shows at true times."""
        shown: npt.NDArray[np.int64] = UNIX_NS + np.rint(
            time_ns * (1 + self.drift[at]) + self.ahead_ns[at]
        ).astype(np.int64)
        return shown


def known_clocks(seed: int, **changes: Any) -> Known:
    """Return a job with clocks up to 5 s apart, of which seeds make any kind."""
    turn = np.random.default_rng(seed)
    facts: dict[str, Any] = {
        "machines": int(turn.integers(2, 9)),
        "per_machine": int(turn.integers(1, 4)),
        "steps": int(turn.integers(3, 21)),
        "every_ns": float(S * 10 ** turn.uniform(-1, 2.5)),
        "collectives": int(turn.integers(3, 31)),
        "offset_ns": 5 * S,
        "drift_ppm": float(turn.choice([0, 5, 50])),
        "late_ns": float(MS * 10 ** turn.uniform(-1, 1)),
        "moving_ns": float(US * 10 ** turn.uniform(1.5, 3.5)),
        "outliers": 0.01,
        "lost": float(turn.choice([0.0, 0.2])),
        "mistaken": float(turn.choice([0.0, 0.0, 0.005])),
        "is_chain": bool(turn.random() < 0.2),
        "only_sends": bool(turn.random() < 0.15),
    }
    facts |= changes
    return _make(turn, facts)


def _make(turn: np.random.Generator, facts: dict[str, Any]) -> Known:
    machines, each = facts["machines"], facts["per_machine"]
    machine = np.repeat(np.arange(machines), each)
    drift = turn.uniform(-1, 1, machines)[machine] * facts["drift_ppm"] * 1e-6
    ahead_ns = turn.uniform(-1, 1, machines)[machine] * facts["offset_ns"]
    processes = tuple(
        process(
            index=at,
            rank=at,
            role="worker",
            # Names tell nothing: containers call themselves alike.
            host=f"node{number % 3}",
            boot_id=f"boot-{number}",
            unix_minus_monotonic_ns=UNIX_NS + int(ahead_ns[at]),
        )
        for at, number in enumerate(machine.tolist())
    )
    rows = _sends(turn, facts, machine) if facts["only_sends"] else _reduces(turn, facts, machine)
    columns = _shown(rows, drift, ahead_ns, turn, facts)
    last_ns = max(row["end"].max() for row in rows)
    return Known(processes, columns, drift, ahead_ns, rows[0]["start"].min(), last_ns)


def _reduces(
    turn: np.random.Generator, facts: dict[str, Any], machine: npt.NDArray[np.int64]
) -> list[dict[str, Any]]:
    """Return collectives: all begin when they are ready, and end together when the last has."""
    count, rows = len(machine), []
    # Who is the last hop of the ring ends a little later than others, always.
    hop_ns = turn.uniform(0, 20 * US, count)
    usual_late_ns = facts["late_ns"] * turn.lognormal(0, 0.5, count)
    machines = int(machine.max()) + 1
    teams = (
        [(machine == at) | (machine == at + 1) for at in range(machines - 1)]
        if facts["is_chain"]
        else [np.ones(count, dtype=np.bool_)]
    )
    for step in range(facts["steps"]):
        at_ns = step * facts["every_ns"] * turn.uniform(0.9, 1.1)
        for nth in range(facts["collectives"]):
            for number, team in enumerate(teams):
                late_ns = usual_late_ns * turn.lognormal(0, 0.7, count)
                start_ns = at_ns + np.where(team, late_ns, 0)
                moving_ns = facts["moving_ns"] * turn.lognormal(0, 0.4)
                end_ns = start_ns[team].max() + moving_ns + hop_ns
                end_ns = end_ns + turn.exponential(5 * US, count)
                delayed = turn.random(count) < facts["outliers"]
                end_ns[delayed] += turn.exponential(10 * MS, int(delayed.sum()))
                seen = team & (turn.random(count) > 0.02)
                rows.append(
                    _row(step, nth * len(teams) + number, seen, start_ns, end_ns, kind=REDUCE)
                )
                at_ns = end_ns[team].max() + turn.exponential(2 * MS)
    return rows


def _sends(
    turn: np.random.Generator, facts: dict[str, Any], machine: npt.NDArray[np.int64]
) -> list[dict[str, Any]]:
    """Return tensors that each process sends to the next one and back, over links of their own."""
    count, rows = len(machine), []
    base_ns = turn.uniform(20 * US, 60 * US, (count, count))
    for step in range(facts["steps"]):
        at_ns = step * facts["every_ns"]
        for nth in range(facts["collectives"] * 3):
            one = nth % max(count - 1, 1)
            for source, target in ((one, one + 1), (one + 1, one)):
                took_ns = base_ns[source, target] + turn.exponential(100 * US)
                at_ns += turn.exponential(MS)
                start, end = np.full(count, at_ns), np.full(count, at_ns + 5 * US)
                key = nth * 2 + (source > target)
                rows.append(_row(step, key, np.arange(count) == source, start, end, kind=SEND))
                began = np.full(count, at_ns - turn.exponential(MS))
                ended = np.full(count, at_ns + took_ns)
                rows.append(_row(step, key, np.arange(count) == target, began, ended, kind=RECV))
    return rows


def _row(
    step: int, nth: int, seen: npt.NDArray[np.bool_], start: Floats, end: Floats, *, kind: int
) -> dict[str, Any]:
    return {"step": step, "nth": nth, "seen": seen, "start": start, "end": end, "kind": kind}


def _shown(
    rows: list[dict[str, Any]],
    drift: Floats,
    ahead_ns: Floats,
    turn: np.random.Generator,
    facts: dict[str, Any],
) -> SynchronizationEvents:
    """Return the rows as the clocks of the processes show them, with some lost or mistaken."""
    count = len(drift)
    seen = np.array([row["seen"] for row in rows])
    step = np.array([row["step"] for row in rows])
    lost = turn.random((facts["steps"], count)) < facts["lost"]
    kept = np.flatnonzero((seen & ~lost[step]).reshape(-1))
    process_at = kept % count
    of_row = kept // count

    def told(name: str) -> npt.NDArray[np.int64]:
        time_ns = np.array([row[name] for row in rows]).reshape(-1)[kept]
        shown = time_ns * (1 + drift[process_at]) + ahead_ns[process_at]
        found: npt.NDArray[np.int64] = UNIX_NS + np.rint(shown).astype(np.int64)
        return found

    kind = np.array([row["kind"] for row in rows])[of_row]
    nth = np.array([row["nth"] for row in rows])[of_row]
    # What was lost of a loop shifts the turns of what follows.
    nth = nth + (turn.random(len(nth)) < facts["mistaken"])
    is_sent = kind != REDUCE
    kinds = {
        REDUCE: SynchronizationKind.COLLECTIVE,
        SEND: SynchronizationKind.SEND,
        RECV: SynchronizationKind.RECV,
    }
    size = len(kept)
    return SynchronizationEvents(
        strings=Strings(TEXTS),
        process=process_at.astype(np.int32),
        loop=np.full(size, LOOP, dtype=np.int32),
        step=step[of_row].astype(np.int64),
        name=kind.astype(np.int32),
        nth=nth.astype(np.int64),
        collective=np.zeros(size, dtype=np.int32),
        part=np.zeros(size, dtype=np.int64),
        start_ns=told("start"),
        end_ns=told("end"),
        kind=np.array([kinds[each] for each in kind.tolist()], dtype=np.int8),
        bytes=np.zeros(size, dtype=np.int64),
        key=np.where(is_sent, TEXTS.index("tensor"), 0).astype(np.int32),
        source=np.zeros(size, dtype=np.int32),
        target=np.zeros(size, dtype=np.int32),
        op=np.where(is_sent, kind, REDUCE_OP).astype(np.int32),
    )


def errors_ns(known: Known, clocks: Any) -> list[tuple[float, int] | None]:
    """Return of each clock the largest error while events were recorded, and its bound; None
    where it is not told. Any: Clocks, whose module is under test.
    """
    times_ns = np.linspace(known.first_ns, known.last_ns, 201)
    reference = known.shown(clocks.reference, times_ns)
    found: list[tuple[float, int] | None] = []
    for clock in clocks.clocks:
        if not isinstance(clock.offset_ns, int):
            found.append(None)
            continue
        moved = clock.on_reference(known.shown(clock.process, times_ns))
        is_promised = np.abs(reference - clock.at_ns) <= clock.reach_ns
        if clock.reach_ns == 0:
            is_promised = np.ones_like(is_promised)
        found.append((float(np.abs(moved - reference)[is_promised].max()), clock.error_ns))
    return found
