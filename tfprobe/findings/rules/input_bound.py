"""Tell of steps that wait for their input, and of the node or the line they wait for."""

from __future__ import annotations

from collections.abc import Iterator

from tfprobe.analysis.account.categories import Category
from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Severity
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import Parts, WorkSignals, much, part_label
from tfprobe.findings.thresholds import Thresholds

# An input that runs beside the step costs nothing as long as it is no slower than the step. Half is
# what applying the fix must win at least in tests/tf.
LIKELY = 0.5
# As in epoch_ends: nothing but that wait lies there.
LIKELY_AT_ENDS = 0.9
# How elements are taken from a queue of Python's own, or from another process.
_OF_QUEUES = frozenset({"get", "recv", "recv_bytes"})
# Taking an element from a prefetch buffer took 0.3 to 1.1 ms, by Python or an op, on two busy CPUs.
_HANDING_NS = 1_500_000
_HANDING_RATIO = 0.1
# Converting an array takes TensorFlow some 100 us, however small it is.
_SMALL_FEED_NS = 500_000
_PARTS = ("input_wait", "host_preprocess", "feed", "host_to_device")
_ACTIONS = {
    "input_wait": "Make the input faster than the step: num_parallel_calls=tf.data.AUTOTUNE, "
    ".prefetch(tf.data.AUTOTUNE) at the end, .cache() before what is random.",
    "host_preprocess": "Make batches beside the steps: a tf.data pipeline with prefetch, or for a "
    "Keras Sequence or PyDataset workers=N and use_multiprocessing=True.",
    "feed": "Hand over less at each step: read by tf.data, keep constant arrays in a tf.Variable, "
    "and feed arrays of the dtype and layout that the graph wants.",
    "host_to_device": "Copy ahead of the step: dataset.apply(tf.data.experimental."
    "prefetch_to_device('/GPU:0')), or send 8-bit images and widen them on the device.",
}


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where the input takes long; the bound is all of the wait.

    Ends of epochs count, too: whoever waits for elements waits there for the first of the next one.
    """
    parts = work.parts
    if isinstance(parts, Missing):
        return parts
    ratio = parts.ratio(*_PARTS)
    keeps_up = not isinstance(work.input, Missing) and work.input.keeps_up
    if (keeps_up or parts.ratio("input_wait") < limits.input_ratio) and work.held_ns:
        return _held_up(work, limits)
    if ratio < limits.input_ratio or keeps_up:
        return None
    largest = max(_PARTS, key=parts.ratio)
    waits_ns, ends_ns = parts.of_all_steps(*_PARTS), _ends_ns(work, largest)
    # What makes the elements may leave the steps too few CPUs besides.
    high_ns = waits_ns + ends_ns + min(work.beside_ns, waits_ns)
    gain = work.gain(high_ns, LIKELY * waits_ns + LIKELY_AT_ENDS * ends_ns)
    share = much(parts.ratio(largest), ratio)
    return Finding(
        title="Steps wait for their input",
        severity=_severity(work, largest, limits.severity(gain)),
        evidence=(
            Evidence(f"of the cycle, {share} of it {part_label(largest)}", ratio=ratio),
            *_waited_for(work, parts, largest),
            *work.sample(),
            work.shown_by("input" if largest == "input_wait" else "breakdown"),
        ),
        action=_action(work, largest),
        gain=gain,
        part="input",
    )


def _held_up(work: WorkSignals, limits: Thresholds) -> Finding | None:
    """Return a finding where Python that makes elements holds up steps that need not wait for them.

    It has the interpreter's lock, which the thread of the steps waits for around its ops.
    """
    found, held_ns = work.input, work.held_ns
    if isinstance(found, Missing):
        return None
    gain = work.gain(held_ns, LIKELY * held_ns)
    return Finding(
        title="Python that makes the input holds up the steps",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                "it runs beside them, with the interpreter's lock, for a step",
                time_ns=round(found.python_ns),
                source=found.source,
            ),
            Evidence("of the loop its steps are outside of ops meanwhile", ratio=gain.high_ratio),
            *work.sample(),
            work.shown_by("input"),
        ),
        action="Make batches by NumPy or TensorFlow on whole arrays, once before the steps, or in "
        "other processes (a Keras PyDataset or Sequence with use_multiprocessing=True).",
        gain=gain,
        part="input",
    )


def _ends_ns(work: WorkSignals, largest: str) -> int:
    account = work.process.account
    if largest != "input_wait" or not work.is_main or isinstance(account, Missing):
        return 0
    return sum(each.ns for each in account.items(Category.EPOCH_ENDS) if each.times > 1)


def _severity(work: WorkSignals, largest: str, severity: Severity) -> Severity:
    """Return how loud to be: what converts so little is the price of a call, not of its bytes."""
    parts = work.parts
    if isinstance(parts, Missing):
        return severity
    is_small = _serves(work, parts) or _is_ready(work) or _is_handing(work, parts)
    if largest == "input_wait" and is_small:
        return min(severity, Severity.INFO)
    if largest != "feed":
        return severity
    feed_ns = parts.ratio("feed") * parts.cycle_ns
    return min(severity, Severity.INFO) if feed_ns < _SMALL_FEED_NS else severity


def _is_ready(work: WorkSignals) -> bool:
    """Say whether a step waits for elements that lie in memory: it is short beside their number."""
    return not isinstance(work.input, Missing) and work.input.is_ready


def _is_handing(work: WorkSignals, parts: Parts) -> bool:
    """Say whether the wait is no longer than handing over what is ready.

    Of a prefetched pipeline, of which no stage was seen, or a small part of the cycle for what a
    generator takes over from Python, as Keras' does from the workers of a PyDataset.
    """
    found, ratio = work.input, parts.ratio("input_wait")
    if isinstance(found, Missing) or ratio * parts.cycle_ns >= _HANDING_NS:
        return False
    if "Generator" in found.nodes:
        return ratio < _HANDING_RATIO
    return found.prefetches and not found.nodes


def _serves(work: WorkSignals, parts: Parts) -> bool:
    """Say whether steps that train nothing wait for what others hand them: a server's requests."""
    cause = parts.cause("input_wait")
    is_queue = cause is not None and cause.what in _OF_QUEUES
    return is_queue and not isinstance(work.ops, Missing) and not work.ops.has_updates


def _waited_for(work: WorkSignals, parts: Parts, largest: str) -> Iterator[Evidence]:
    found = work.input
    if largest == "input_wait" and not isinstance(found, Missing):
        likely = "" if found.is_measured else "waiting, likely (not measured) for "
        yield Evidence(
            f"{likely}{found.bottleneck} a step",
            time_ns=round(found.own_ns),
            iterator=found.iterator,
            source=found.source,
        )
        return
    cause = parts.cause(largest)
    if cause is not None:
        yield Evidence(f"{cause.what} a step", time_ns=round(cause.ns), source=cause.source)


def _action(work: WorkSignals, largest: str) -> str:
    found = work.input
    if largest == "host_to_device" or isinstance(found, Missing) or not found.advice:
        return _ACTIONS[largest]
    return found.advice
