"""Tell of training that stands while it is saved."""

from __future__ import annotations

from tfprobe.advice.finding import Evidence, Finding, Gain
from tfprobe.advice.rule import Verdict
from tfprobe.advice.signals import ProcessSignals
from tfprobe.advice.thresholds import Thresholds

# Half as often is half the time; whoever saves at every step saves far more than that.
LIKELY = 0.5


def check(process: ProcessSignals, limits: Thresholds) -> Verdict:
    """Return a finding where saving takes long; the bound is all of its time."""
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
            Evidence(f"{dearest.name}, {dearest.count:,} times", time_ns=dearest.own_ns),
            Evidence("a time", time_ns=dearest.own_ns // dearest.count),
        ),
        action="Save less often (ModelCheckpoint: save_freq='epoch' or more batches; Estimator: "
        "save_checkpoints_secs), to a local disk, only the weights, or in the background "
        "(CheckpointOptions(enable_async=True) from TensorFlow 2.13 on).",
        gain=gain,
        part="checkpoints",
    )
