"""Tell of steps that wait for the interpreter's lock (GIL), which another thread of Python has."""

from __future__ import annotations

from collections.abc import Iterator

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Severity
from tfprobe.findings.rule import Verdict, lacking
from tfprobe.findings.signals import Parts, PythonThread, WorkSignals
from tfprobe.findings.thresholds import Thresholds

# In another process the thread leaves the lock alone; what it hands over costs some of that.
LIKELY = 0.8
# A step took 1.1 ms of CPU where it asked for the lock 200 times a second, and 0.65 ms alone.
_LOST_OF_OWN = 0.4
# Parts of a cycle in which the thread of the steps itself is to go on: it needs the lock.
_PARTS = ("idle", "kernel_launch", "feed", "fetch")
# What the job's lines between steps wait for otherwise.
_OTHER_WAITS = frozenset(
    {"sleep", "subprocess", "fsync", "collection", "wait", "network", "lock", "output"}
)
# Of the moments at which it was seen; at the others it is in a call, which may do without the lock.
_MOSTLY = 0.5
_SHOWN = 3


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where steps do not go on while another thread of Python computes.

    The bound is the time in which the thread of the steps did not run, and what asking for the lock
    took of its own, as far as no op ran and nothing else was waited for.
    """
    threads, parts = work.process.threads, work.parts
    if isinstance(threads, Missing) or isinstance(parts, Missing):
        return lacking(threads, parts)
    others = [each for each in threads.others if each.source]
    cores = sum(each.cores for each in others)
    # Beside other processes a thread that wants all of a CPU has no more of it than others want.
    to_have = 1.0 if threads.is_alone else threads.had_ratio
    if not work.is_main or not others or cores < limits.gil_cpus * to_have:
        return None
    waited_ratio = max(1 - threads.steps_cores - threads.delay_ratio, 0.0)
    if waited_ratio < limits.gil_ratio:
        return None
    whole_ns, open_ns = work.loop.thread_ns, _open_ns(work, parts)
    # A thread that computes takes a CPU, too.
    lost_ratio = waited_ratio + threads.delay_ratio + _LOST_OF_OWN * threads.steps_cores
    high_ns = min(lost_ratio * whole_ns, open_ns)
    gain = work.gain(high_ns, LIKELY * min(waited_ratio * whole_ns, open_ns))
    if gain.high_ratio < limits.gil_ratio:
        return None
    holds = others[0].in_python_ratio >= _MOSTLY
    severity = limits.severity(gain)
    return Finding(
        title="Steps wait for the interpreter's lock (GIL), which another thread of Python has",
        severity=severity if holds else min(severity, Severity.INFO),
        evidence=(
            *_evidence(others, holds=holds),
            Evidence(
                "of the time the thread of the steps neither ran nor was ready to",
                ratio=waited_ratio,
            ),
            Evidence(
                "of the cycle no op ran",
                ratio=parts.ratio(*_PARTS),
            ),
            work.shown_by("tiers"),
        ),
        action="Let a process do it (multiprocessing, subprocess) in place of a thread, do it with "
        "NumPy or another library that gives up the lock while it computes, or let the thread "
        "sleep between its turns.",
        gain=gain,
        part="gil",
    )


def _open_ns(work: WorkSignals, parts: Parts) -> float:
    """Return how long the cycles were in these parts, but for what lines are known to wait for."""
    python = work.python
    lines = () if isinstance(python, Missing) else python.lines
    waits = sum(line.ratio for line in lines if line.kind in _OTHER_WAITS)
    return max(parts.of_all_steps(*_PARTS) - waits * work.loop.regular_gap_ns, 0.0)


def _evidence(others: list[PythonThread], *, holds: bool) -> Iterator[Evidence]:
    for each in others[:_SHOWN]:
        where = f", in {each.function}" if each.function else ""
        doing = "computed in Python" if holds else "ran, within calls of Python,"
        yield Evidence(
            f"thread {each.name} {doing} for {100 * each.cores:.0f} % of the time{where}",
            source=each.source,
        )
