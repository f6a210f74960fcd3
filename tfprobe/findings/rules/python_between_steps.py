"""Tell of the job's own Python between steps: the line that takes the time, and what it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import Python, PythonUse, WorkSignals, much
from tfprobe.findings.thresholds import Thresholds

# What is done at every Nth step, in a thread beside them, or not at all leaves most of it.
LIKELY = 0.5
_SHOWN = 3
_NS_PER_US = 1000
# Between steps of Keras' own loops its callbacks, its data adapters and Keras itself have rules.
_OF_KERAS = ("fit", "evaluate", "predict")
# One call reads one loss; more take a tensor apart.
_READS_LEAST = 8


class _Told(NamedTuple):
    what: str
    action: str
    likely: float = LIKELY


_BY_KIND: Mapping[str, _Told] = {
    "sleep": _Told("sleeps", "Remove the sleep, or let a thread beside the steps wait."),
    "subprocess": _Told(
        "starts other programs",
        "Start them beside the steps (Popen without waiting for it), or at every Nth step.",
    ),
    "fsync": _Told(
        "waits until the disk has written",
        "Leave out os.fsync, or write at every Nth step or in a thread beside the steps.",
    ),
    "collection": _Told(
        "collects garbage",
        "Leave out gc.collect(), or call it once an epoch. What keeps memory is shown by "
        "`tfprobe memory`.",
    ),
    "lock": _Told(
        "computes, or waits for a lock that it takes",
        "Hold the lock for less in the other thread, or hand data over by a queue.",
    ),
    "reads": _Told(
        "reads tensors element by element",
        "Read a whole tensor once: loss.numpy() or loss.numpy().tolist(), at every Nth step.",
    ),
    "output": _Told(
        "writes logs or files", "Write at every Nth step, or in a thread beside the steps."
    ),
    # A server waits for requests: only for a training loop is that time lost.
    "wait": _Told(
        "waits for another thread or process",
        "Nothing to win where it serves requests; else let the others work ahead.",
        0.0,
    ),
    "network": _Told(
        "waits for the network",
        "Nothing to win where it serves requests; else let a thread beside the steps talk.",
        0.0,
    ),
    "python": _Told(
        "computes",
        "Do it once before the loop, with NumPy or TensorFlow on whole arrays, in tf.data beside "
        "the steps, or at every Nth step.",
    ),
}


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where lines of the job take long between steps; the bound is their time.

    How long it is between steps, all steps tell; its shares come from the gaps that were watched.
    """
    python = work.python
    if isinstance(python, Missing):
        return python
    lines = tuple(line for line in python.lines if _counts(line) and not _is_step(python, line))
    if work.loop.kind in _OF_KERAS or not lines or lines[0].kind == "graph":
        return None
    if work.loop.usual_gap_ns < limits.python_us * _NS_PER_US:
        return None
    dearest, whole_ratio = lines[0], sum(line.ratio for line in lines)
    is_most = dearest.ratio > whole_ratio / 2
    told = _BY_KIND[dearest.kind if is_most else "python"]
    gain_ns = work.loop.regular_gap_ns * (dearest.ratio if is_most else whole_ratio)
    gain = work.gain(gain_ns, told.likely * gain_ns)
    if gain.high_ratio < limits.python_ratio:
        return None
    return Finding(
        title=f"Between steps Python {told.what}",
        severity=limits.severity(gain),
        evidence=(*_evidence(work, python, lines), work.shown_by("breakdown")),
        action=told.action,
        gain=gain,
        part="sync" if dearest.kind == "reads" else "between",
    )


def _counts(line: PythonUse) -> bool:
    return line.kind != "reads" or line.calls >= _READS_LEAST


def _is_step(python: Python, line: PythonUse) -> bool:
    """Say whether it is the call of the step itself, and no call within that line."""
    return line.source == python.step_source and line.what.endswith(" itself")


def _evidence(
    work: WorkSignals, python: Python, lines: tuple[PythonUse, ...]
) -> tuple[Evidence, ...]:
    a_gap_ns = work.loop.regular_gap_ns / max(work.loop.steps, 1)
    watched = f"{python.gaps} watched gap{'' if python.gaps == 1 else 's'}"
    return (
        *(
            Evidence(
                f"{line.what} takes {much(line.ratio, 1)} of the time between steps, a step"
                if line is lines[0]
                else f"{line.what} a step",
                time_ns=round(line.ratio * a_gap_ns),
                source=line.source,
            )
            for line in lines[:_SHOWN]
        ),
        Evidence(f"lengths from all {work.loop.steps:,} steps, shares from {watched}"),
    )
