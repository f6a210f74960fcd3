"""Tell of several runs of a Session in each turn of a loop that could be one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Gain
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import ProcessSignals, Signals, WorkSignals
from tfprobe.findings.thresholds import Thresholds

# Their ops stay, and the one run that is left has more to fetch.
LIKELY = 0.5
_KIND = "session_run"
# Runs of one turn are as long apart, but for what chance does.
_ALIKE = 1.25
_SHOWN = 3


def check(signals: Signals, limits: Thresholds) -> Iterator[Verdict]:
    """Give a finding for each loop that fetches tensors by runs of their own.

    The bound is the time of these runs but for their ops, known from those that were traced.
    """
    for process in signals.processes:
        runs = [
            work
            for work in signals.works
            if work.process.subject == process.subject
            and work.loop.kind == _KIND
            and work.loop.steps >= limits.graph_steps_least
        ]
        for turn in _turns(runs):
            yield _of_turn(process, turn, limits)


def _turns(runs: Iterable[WorkSignals]) -> Iterator[Sequence[WorkSignals]]:
    """Give works of one thread that take turns: each runs once between two runs of another."""
    turns: dict[tuple[int, int], list[WorkSignals]] = {}
    for work in runs:
        turns.setdefault((work.loop.thread_ns, work.loop.steps), []).append(work)
    for works in turns.values():
        cycles_ns = [work.loop.usual_step_ns + work.loop.usual_gap_ns for work in works]
        steps_ns = sum(work.loop.usual_step_ns for work in works)
        is_one = max(cycles_ns) <= _ALIKE * min(cycles_ns) and steps_ns <= _ALIKE * min(cycles_ns)
        if is_one:
            yield works


def _of_turn(process: ProcessSignals, turn: Sequence[WorkSignals], limits: Thresholds) -> Verdict:
    reads = [work for work in turn if _only_reads(work)]
    if len(turn) < limits.runs_least or len(reads) < limits.runs_least - 1:
        return None
    # Where nothing else is run, one of them stays.
    spare = reads if len(reads) < len(turn) else reads[1:]
    spare_ns = sum(work.loop.regular_step_ns for work in spare)
    whole_ns = turn[0].loop.thread_ns
    high_ns = min(round(spare_ns * (1 - _busy_ratio(reads))), whole_ns)
    gain = Gain(round(LIKELY * high_ns), high_ns, whole_ns)
    if gain.high_ratio < limits.runs_ratio:
        return None
    reads.sort(key=lambda work: -work.loop.regular_step_ns)
    return Finding(
        title=f"Each turn of the loop makes {len(turn):,} runs of the Session",
        severity=limits.severity(gain),
        evidence=(
            Evidence(f"{len(reads):,} of them fetch tensors alone", source=_line(reads)),
            *(
                Evidence(
                    f"{work.loop.name}, {work.loop.steps:,} times",
                    time_ns=work.loop.regular_step_ns,
                )
                for work in reads[:_SHOWN]
            ),
            Evidence("shown by", command="tfprobe steps"),
        ),
        action="Fetch all of it in one run: session.run([train_op, loss, *metrics]). Where a value "
        "from after the update is wanted, fetch these together in a second run.",
        gain=gain,
        part="dispatch",
        subject=process.subject,
    )


def _only_reads(work: WorkSignals) -> bool:
    """Say whether a run fetches tensors: what trains or assigns may have to come by itself."""
    fetches = work.loop.name.split(", ")
    return all(":" in name and "Assign" not in name for name in fetches)


def _busy_ratio(reads: Iterable[WorkSignals]) -> float:
    """Return the share of ops in those runs that were traced, 0 where none was."""
    known = [work.ops for work in reads if not isinstance(work.ops, Missing)]
    steps_ns = sum(ops.step_ns for ops in known)
    return min(sum(ops.busy_ns for ops in known) / steps_ns, 1.0) if steps_ns else 0.0


def _line(reads: Iterable[WorkSignals]) -> str:
    pythons = (work.python for work in reads)
    lines = (each.step_source for each in pythons if not isinstance(each, Missing))
    return next((line for line in lines if line), "")
