"""Tell of a graph that is added to between steps: each step extends it and is prepared anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tfprobe.advice.finding import Evidence, Finding, Gain
from tfprobe.advice.rule import Verdict
from tfprobe.advice.signals import ProcessSignals, PythonUse, Signals, WorkSignals
from tfprobe.advice.thresholds import Thresholds
from tfprobe.errors import Missing

# What is built once costs nothing later; what it computes stays.
LIKELY = 0.8
_SESSION = ("session_run", "callable")
_MOST_STEPS = 2
# What fetches something new each time has no place of its own after some hundred.
_FURTHER = "(further works)"


def check(signals: Signals, limits: Thresholds) -> Iterator[Verdict]:
    """Give a finding for each process that makes ops between steps of a Session.

    The bound is what making them takes, and all steps that fetch what no other step does: those
    extend the graph, place and optimize it again.
    """
    for process in signals.processes:
        works = [
            work
            for work in signals.works
            if work.process.subject == process.subject and work.loop.kind in _SESSION
        ]
        yield _of_process(process, works, limits)


def _of_process(
    process: ProcessSignals, works: Iterable[WorkSignals], limits: Thresholds
) -> Verdict:
    works = tuple(works)
    made = [(work, line) for work in works for line in _made(work)]
    once = [work for work in works if _is_once(work)]
    count = sum(work.loop.steps for work in once)
    if not made or count < limits.graph_steps_least:
        return None
    # Lines of one gap: the work with most time between its steps tells of all.
    making_ns = max(work.loop.regular_gap_ns * line.ratio for work, line in made)
    high_ns = round(making_ns + sum(work.loop.step_ns for work in once))
    high_ns = min(high_ns, process.loop_ns)
    gain = Gain(round(LIKELY * high_ns), high_ns, process.loop_ns)
    if gain.high_ratio < limits.python_ratio:
        return None
    _, line = max(made, key=lambda each: each[0].loop.regular_gap_ns * each[1].ratio)
    return Finding(
        title="The graph grows while steps run",
        severity=limits.severity(gain),
        evidence=(
            Evidence("ops are made between steps", time_ns=round(making_ns), source=line.source),
            Evidence(f"{count:,} steps fetch what no other step does"),
            Evidence("shown by", command="tfprobe breakdown"),
        ),
        action="Build all ops before the loop and feed what changes by a placeholder; "
        "graph.finalize() before the loop names the line that adds more.",
        gain=gain,
        part="graph",
        subject=process.subject,
    )


def _made(work: WorkSignals) -> Iterator[PythonUse]:
    if not isinstance(work.python, Missing):
        line = work.python.of_kind("graph")
        if line is not None:
            yield line


def _is_once(work: WorkSignals) -> bool:
    return work.loop.steps <= _MOST_STEPS or work.loop.name == _FURTHER
