"""Tell of a graph that is added to between steps: each step extends it and is prepared anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Gain
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import ProcessSignals, PythonUse, Signals, WorkSignals
from tfprobe.findings.thresholds import Thresholds

# What is built once costs nothing later; what it computes stays.
LIKELY = 0.8
_SESSION = ("session_run", "callable")
_MOST_STEPS = 2
# What fetches something new each time has no place of its own after some hundred.
_FURTHER = "(further works)"
# An initialisation, a restore or a last evaluation comes at once, not all through the loop.
# Half of steps that are spread evenly lie within half of the loop.
_HALF_OF_THEM = 0.25


def check(signals: Signals, limits: Thresholds) -> Iterator[Verdict]:
    """Give a finding for each process that makes ops between steps of a Session.

    They were seen being made, or steps that each fetch something new come all through the loop:
    the gap in which ops are made once in a hundred steps is seldom a watched one.

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
    if count < limits.graph_steps_least or not (made or _are_spread(once)):
        return None
    # Lines of one gap: the work with most time between its steps tells of all.
    making_ns = max((work.loop.regular_gap_ns * line.ratio for work, line in made), default=0.0)
    high_ns = round(making_ns + sum(work.loop.step_ns for work in once))
    high_ns = min(high_ns, process.loop_ns)
    gain = Gain(round(LIKELY * high_ns), high_ns, process.loop_ns)
    if gain.high_ratio < limits.python_ratio:
        return None
    return Finding(
        title="The graph grows while steps run",
        severity=limits.severity(gain),
        evidence=(
            *_making(made, making_ns),
            Evidence(f"{count:,} steps fetch what no other step does, such as {_name(once[-1])}"),
            Evidence("shown by", command="tfprobe breakdown"),
        ),
        action="Build all ops before the loop and feed what changes by a placeholder; "
        "graph.finalize() before the loop names the line that adds more.",
        gain=gain,
        part="graph",
        subject=process.subject,
    )


def _name(work: WorkSignals) -> str:
    return work.loop.name.split(",")[0]


def _making(made: list[tuple[WorkSignals, PythonUse]], making_ns: float) -> Iterator[Evidence]:
    if made:
        _, line = max(made, key=lambda each: each[0].loop.regular_gap_ns * each[1].ratio)
        yield Evidence("ops are made between steps", time_ns=round(making_ns), source=line.source)


def _are_spread(once: list[WorkSignals]) -> bool:
    """Return whether these steps come all through the loop of their thread."""
    seen_ns = sorted(work.loop.first_seen_ns for work in once if work.loop.first_seen_ns)
    if not seen_ns:
        return False
    quarter = len(seen_ns) // 4
    half_ns = seen_ns[-1 - quarter] - seen_ns[quarter]
    return half_ns >= _HALF_OF_THEM * max(work.loop.thread_ns for work in once)


def _made(work: WorkSignals) -> Iterator[PythonUse]:
    if not isinstance(work.python, Missing):
        line = work.python.of_kind("graph")
        if line is not None:
            yield line


def _is_once(work: WorkSignals) -> bool:
    return work.loop.steps <= _MOST_STEPS or work.loop.name == _FURTHER
