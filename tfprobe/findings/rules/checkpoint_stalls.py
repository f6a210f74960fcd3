"""Tell of training that stands while it is saved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Gain
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import ProcessSignals, Signals, WorkSignals
from tfprobe.findings.thresholds import Thresholds

# Half as often is half the time; whoever saves at every step saves far more than that.
LIKELY = 0.5


# How a Saver of TensorFlow 1 names its ops.
_OF_SAVER = "save/"


def check(signals: Signals, limits: Thresholds) -> Iterator[Verdict]:
    """Give a finding for each process where saving takes long; the bound is all of its time."""
    for process in signals.processes:
        works = [work for work in signals.works if work.process.subject == process.subject]
        yield _of_process(process, works, limits)


def _of_process(
    process: ProcessSignals, works: Iterable[WorkSignals], limits: Thresholds
) -> Verdict:
    saves = [each for each in process.activities if each.kind == "save"]
    total_ns = min(sum(each.own_ns for each in saves), process.loop_ns)
    gain = Gain(round(LIKELY * total_ns), total_ns, process.loop_ns)
    if not saves or gain.high_ratio < limits.checkpoint_ratio:
        return None
    dearest = max(saves, key=lambda each: each.own_ns)
    return Finding(
        title="Steps wait while checkpoints are saved",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                f"{dearest.name}, {dearest.count:,} times",
                time_ns=dearest.own_ns,
                source=_line(works) or dearest.source,
            ),
            Evidence("a time", time_ns=dearest.own_ns // dearest.count),
        ),
        action="Save less often (ModelCheckpoint: save_freq='epoch' or more batches; Estimator: "
        "save_checkpoints_secs), to a local disk, only the weights, or in the background "
        "(CheckpointOptions(enable_async=True) from TensorFlow 2.13 on).",
        gain=gain,
        part="checkpoints",
        subject=process.subject,
    )


def _line(works: Iterable[WorkSignals]) -> str:
    """Return the line that saves: the one that runs a Saver's ops, or one seen between steps."""
    works = tuple(works)
    savers = (work.python for work in works if work.loop.name.startswith(_OF_SAVER))
    lines = [python.step_source for python in savers if not isinstance(python, Missing)]
    lines += [work.save_source for work in works]
    return next((line for line in lines if line), "")
