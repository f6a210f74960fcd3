"""Tell of functions that are traced again for each model, data set or call."""

from __future__ import annotations

from collections.abc import Sequence

from tfprobe.analysis.account.categories import Category
from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Gain
from tfprobe.findings.rule import Verdict
from tfprobe.findings.rules.retracing import OF_TENSORFLOW
from tfprobe.findings.signals import ActivityUse, ProcessSignals
from tfprobe.findings.thresholds import Thresholds

# Models of other shapes have traces of their own.
LIKELY = 0.8
_SHOWN = 3
_OF_DATASETS = "Dataset_"
_MAKING = ("build", "compile")
_MODELS = (
    "Each new or newly compiled model traces its own step. Make and compile one model and give it "
    "other weights (model.set_weights), or train small ones in processes beside each other; for a "
    "few steps run_eagerly=True is faster."
)
_DATASETS = (
    "Each call makes a tf.data pipeline anew. Make the data set once, outside of the loop; instead "
    "of predict and evaluate in a loop call the model itself, model(x, training=False)."
)


def check(process: ProcessSignals, limits: Thresholds) -> Verdict:
    """Return a finding where functions of one name are traced often; the first trace is not lost.

    The bound is the time of all further traces, of the whole process; where models make them, also
    that of making models and of first steps, in which TensorFlow optimizes what was traced. What
    saving traces is part of saving, and a function that is a step of its own is retracing's.
    """
    traces = [each for each in process.activities if _counts(process, each, limits)]
    if not traces:
        return None
    traces.sort(key=lambda each: -_further_ns(each))
    high_ns = min(_bound_ns(process, traces), process.wall_ns)
    gain = Gain(round(LIKELY * high_ns), high_ns, process.wall_ns)
    if gain.high_ratio < limits.trace_ratio:
        return None
    return Finding(
        title="Functions are traced again for each model or call",
        severity=limits.severity(gain),
        evidence=(
            *(
                Evidence(
                    f"{each.name}, traced {each.count:,} times",
                    time_ns=each.own_ns,
                    source=each.source,
                )
                for each in traces[:_SHOWN]
            ),
            Evidence("shown by", command="tfprobe report"),
        ),
        action=_DATASETS if traces[0].name.startswith(_OF_DATASETS) else _MODELS,
        gain=gain,
        part="tracing",
    )


def _counts(process: ProcessSignals, use: ActivityUse, limits: Thresholds) -> bool:
    if use.kind != "trace" or use.count <= limits.retraces_least:
        return False
    is_own = use.name in process.functions
    return not is_own and not use.name.startswith(tuple(OF_TENSORFLOW))


def _bound_ns(process: ProcessSignals, traces: Sequence[ActivityUse]) -> int:
    further_ns, dearest = sum(map(_further_ns, traces)), traces[0]
    if isinstance(process.account, Missing) or dearest.name.startswith(_OF_DATASETS):
        return further_ns
    others = sum(
        each.own_ns for each in process.activities if each.kind == "trace" and each not in traces
    )
    compiling_ns = process.account.ns(Category.COMPILE) - others
    made = (each for each in process.activities if each.kind in _MAKING and each.count > 1)
    compiling_ns = max(further_ns, round(compiling_ns * (dearest.count - 1) / dearest.count))
    return compiling_ns + sum(map(_further_ns, made))


def _further_ns(use: ActivityUse) -> int:
    return round(use.own_ns * (use.count - 1) / use.count)
