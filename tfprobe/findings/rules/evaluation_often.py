"""Tell of training that stands while the model is evaluated."""

from __future__ import annotations

from tfprobe.analysis.account.categories import Category
from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Gain
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import ActivityUse, ProcessSignals
from tfprobe.findings.thresholds import Thresholds

# At every second epoch it takes half.
LIKELY = 0.5
# Of a single one none can be left away.
_LEAST = 2


def check(process: ProcessSignals, limits: Thresholds) -> Verdict:
    """Return a finding where evaluating between epochs takes long; the bound is all of it.

    An Estimator that stops training for each evaluation makes its graph and session anew, and saves
    them: that is in the bound. A process that only evaluates does what it is for.
    """
    trains = any(each.kind == "train" for each in process.activities)
    evaluations = [each for each in process.activities if each.kind == "evaluate"]
    evaluate_ns = min(sum(each.total_ns for each in evaluations), process.loop_ns)
    high_ns = min(evaluate_ns + _again_ns(process, evaluations), process.loop_ns)
    gain = Gain(round(LIKELY * evaluate_ns), high_ns, process.loop_ns)
    is_often = sum(each.count for each in evaluations) >= _LEAST
    if not trains or not is_often or evaluate_ns < limits.evaluation_ratio * process.loop_ns:
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


def _again_ns(process: ProcessSignals, evaluations: list[ActivityUse]) -> int:
    """Return what Estimators take to leave off training and take it up again, where they evaluate
    in between.
    """
    if isinstance(process.account, Missing):
        return 0
    calls, setups_ns = process.account.setups
    if not 1 < calls <= 1 + sum(each.count for each in evaluations):
        return 0
    saves_ns = process.account.ns(Category.CHECKPOINTS)
    return (setups_ns + saves_ns) * (calls - 1) // calls
