"""Tell of a tf.data pipeline without prefetch, parallel calls or cache where steps wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Gain, Severity
from tfprobe.findings.rule import Verdict, lacking
from tfprobe.findings.rules import input_bound
from tfprobe.findings.signals import Input, WorkSignals
from tfprobe.findings.thresholds import Thresholds

# Of several ways to a faster input these are two or three; a cache helps from the second epoch on.
LIKELY = 0.4
LIKELY_BY_CACHE = 0.2
_PREFETCHES = ("Prefetch",)
_CACHE = "cache"
# A node -> what does the same in parallel.
_PARALLEL = {
    "Map": ".map(..., num_parallel_calls=tf.data.AUTOTUNE)",
    "Interleave": ".interleave(..., num_parallel_calls=tf.data.AUTOTUNE)",
    "FlatMap": ".interleave(..., num_parallel_calls=tf.data.AUTOTUNE) instead of .flat_map",
    "Batch": ".batch(..., num_parallel_calls=tf.data.AUTOTUNE)",
    "Generator": "a source in TensorFlow (TFRecordDataset ...) instead of from_generator",
}


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where steps wait and the pipeline is serial; the bound is the wait."""
    if isinstance(work.input, Missing) or isinstance(work.parts, Missing):
        return lacking(work.input, work.parts)
    if not work.input.keeps_up and not (work.input.is_whole and work.input.is_measured):
        return Missing("the source or the bottleneck of its tf.data pipeline was not seen")
    gain_ns = work.parts.of_all_steps("input_wait")
    has_batch = work.process.has_parallel_batch
    lacks = tuple(each for each in _lacks(work.input) if has_batch or "Batch" not in each[0])
    likely = LIKELY_BY_CACHE if lacks and lacks[0][0] == _CACHE else LIKELY
    gain = work.gain(gain_ns, likely * gain_ns)
    if work.input.keeps_up or not lacks or gain.high_ratio < limits.tuned_input_ratio:
        return None
    return Finding(
        title=f"The tf.data pipeline does without {lacks[0][0]}",
        severity=_severity(work, limits, gain),
        evidence=(
            Evidence("pipeline, from the step down", iterator=" < ".join(work.input.nodes)),
            *work.sample(),
            work.shown_by("input"),
        ),
        action="Add " + "; ".join(action for _, action in lacks) + ".",
        gain=gain,
        part="input",
    )


def _severity(work: WorkSignals, limits: Thresholds, gain: Gain) -> Severity:
    """Return how loud to be: the same wait is told loudly once, where it has a remedy already."""
    told = isinstance(input_bound.check(work, limits), Finding)
    has_remedy = not isinstance(work.input, Missing) and bool(work.input.advice)
    return Severity.INFO if told and has_remedy else limits.severity(gain)


def _lacks(found: Input) -> Iterator[tuple[str, str]]:
    """Return what the pipeline lacks and what adds it."""
    nodes = found.nodes
    if not nodes:
        return
    if not any(node.startswith(_PREFETCHES) for node in nodes[:2]):
        yield "prefetch at its end", ".prefetch(tf.data.AUTOTUNE) as the last step"
    # from_generator is a FlatMap around a Generator.
    shown = [node for node in nodes if node != "FlatMap" or "Generator" not in nodes]
    for node in shown:
        if node in _PARALLEL:
            yield f"parallel calls in {node}", _PARALLEL[node]
    if found.may_cache and not any("Cache" in node for node in nodes):
        yield _CACHE, ".cache() before what is random, if the data fits in memory"
