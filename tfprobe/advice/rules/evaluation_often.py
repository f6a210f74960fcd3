"""Tell of training that stands while the model is evaluated."""

from __future__ import annotations

from tfprobe.advice.finding import Evidence, Finding, Gain
from tfprobe.advice.rule import Verdict
from tfprobe.advice.signals import ProcessSignals
from tfprobe.advice.thresholds import Thresholds

# At every second epoch it takes half.
LIKELY = 0.5


def check(process: ProcessSignals, limits: Thresholds) -> Verdict:
    """Return a finding where evaluating between epochs takes long; the bound is all of it.

    A process that only evaluates does what it is for.
    """
    trains = any(each.kind == "train" for each in process.activities)
    evaluations = [each for each in process.activities if each.kind == "evaluate"]
    high_ns = min(sum(each.total_ns for each in evaluations), process.loop_ns)
    gain = Gain(round(LIKELY * high_ns), high_ns, process.loop_ns)
    if not trains or not evaluations or gain.high_ratio < limits.evaluation_ratio:
        return None
    dearest = max(evaluations, key=lambda each: each.total_ns)
    return Finding(
        title="Training waits while the model is evaluated",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                f"{dearest.name}, {dearest.count:,} times",
                time_ns=dearest.total_ns,
                source=dearest.source,
            ),
            Evidence("a time", time_ns=dearest.total_ns // dearest.count),
            Evidence("shown by", command="tfprobe report"),
        ),
        action="Evaluate at every Nth epoch (validation_freq=N; an Estimator: throttle_secs), on "
        "fewer batches (validation_steps), or on larger ones (validation_batch_size).",
        gain=gain,
        part="evaluation",
    )
