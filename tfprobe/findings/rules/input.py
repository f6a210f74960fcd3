"""Find steps that wait for their input, and input that takes the CPUs of the steps."""

from __future__ import annotations

from collections.abc import Iterator

from tfprobe.analysis.account.categories import Category
from tfprobe.analysis.input.input_sources import LOADER_WORKERS
from tfprobe.analysis.input.step_input import StepInput
from tfprobe.analysis.ops.step_ops import StepOps
from tfprobe.analysis.steps.cycle_shares import CycleShares
from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Gain, Severity
from tfprobe.findings.rule import LoopAnalysis, Verdict, lacking, much, part_label
from tfprobe.findings.thresholds import Thresholds

# Input that runs in parallel with the step costs nothing if it is as fast. In tests/tf the fix must
# save at least half.
LIKELY = 0.5
# As in epoch_ends: there is nothing but that wait.
LIKELY_AT_ENDS = 0.9
# The calls that take elements from a queue of Python or from another process.
_OF_QUEUES = frozenset({"get", "recv", "recv_bytes"})
# Taking an element from a prefetch buffer took 0.3 to 1.1 ms, in Python or an op, on two busy CPUs.
_HANDING_NS = 1_500_000
_HANDING_RATIO = 0.1
# TensorFlow takes about 100 us to convert an array, however small it is.
_SMALL_FEED_NS = 500_000
_PARTS = ("input_wait", "host_preprocess", "feed", "host_to_device")
_ACTIONS = {
    "input_wait": "Make the input faster than the step: num_parallel_calls=tf.data.AUTOTUNE, "
    ".prefetch(tf.data.AUTOTUNE) at the end, .cache() before what is random.",
    "host_preprocess": "Make batches in the background: a tf.data pipeline with prefetch, or for a "
    "Keras Sequence or PyDataset workers=N and use_multiprocessing=True.",
    "feed": "Hand over less at each step: read by tf.data, keep constant arrays in a tf.Variable, "
    "and feed arrays of the dtype and layout that the graph wants.",
    "host_to_device": "Copy ahead of the step: dataset.apply(tf.data.experimental."
    "prefetch_to_device('/GPU:0')), or send 8-bit images and widen them on the device.",
}
# Of a loader without workers, where the threads of the steps take all CPUs: of two, a worker made
# the steps of a public program half again as long, and with one thread a tenth shorter.
_LOADER_WITHOUT_CPUS = (
    "Do less for each example in __getitem__, or prepare it once before training; a collate_fn can "
    "work on the whole batch at once. DataLoader(num_workers=N) would take CPUs from the steps: "
    "leave it some with torch.set_num_threads, and see whether that wins."
)


def input_bound(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if steps wait long for their input; the bound is all of the wait.

    Ends of epochs count as well: they wait for the first element of the next epoch.
    """
    parts = loop.parts
    if isinstance(parts, Missing):
        return parts
    ratio = parts.ratio(*_PARTS)
    keeps_up = not isinstance(loop.input, Missing) and loop.input.keeps_up
    if (keeps_up or parts.ratio("input_wait") < limits.input_ratio) and loop.gil_wait_ns:
        return _blocked(loop, limits)
    if ratio < limits.input_ratio or keeps_up:
        return None
    largest = max(_PARTS, key=parts.ratio)
    waits_ns, ends_ns = parts.of_all_steps(*_PARTS), _ends_ns(loop, largest)
    # Making the elements may also leave too few CPUs to the steps.
    high_ns = waits_ns + ends_ns + min(loop.input_cpu_ns, waits_ns)
    gain = loop.gain(high_ns, LIKELY * waits_ns + LIKELY_AT_ENDS * ends_ns)
    share = much(parts.ratio(largest), ratio)
    busy = _busy_cpus(loop, limits)
    if isinstance(busy, Missing) or largest != "host_preprocess" or not loop.loader:
        busy = ""
    has_workers = (
        largest == "input_wait"
        and not isinstance(loop.input, Missing)
        and loop.input.bottleneck == LOADER_WORKERS
    )
    return Finding(
        title="Steps wait for their input",
        severity=_severity(loop, largest, limits.severity(gain)),
        evidence=(
            Evidence(f"share of the cycle, {share} of it {part_label(largest)}", ratio=ratio),
            *_waited_for(loop, parts, largest),
            *([Evidence(busy)] if busy else ()),
            *loop.traced_step(),
            loop.shown_by("input" if largest == "input_wait" else "breakdown"),
        ),
        action=_LOADER_WITHOUT_CPUS if busy else _action(loop, largest),
        gain=gain,
        part="copies" if largest == "host_to_device" else "input",
        words_of="pytorch" if busy or has_workers else "",
    )


def _blocked(loop: LoopAnalysis, limits: Thresholds) -> Finding | None:
    """Return a finding if Python code that makes elements blocks steps that do not wait for these.

    It holds the GIL, which the thread of the steps needs before and after its ops.
    """
    found, wait_ns = loop.input, loop.gil_wait_ns
    if isinstance(found, Missing):
        return None
    gain = loop.gain(wait_ns, LIKELY * wait_ns)
    return Finding(
        title="Python code that produces the input blocks the steps",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                "Python that runs alongside the steps and holds the GIL, per step",
                time_ns=round(found.python_ns),
                source=found.source,
            ),
            Evidence(
                "share of the loop in which steps run no op because of it", ratio=gain.high_ratio
            ),
            *loop.traced_step(),
            loop.shown_by("input"),
        ),
        action="Make batches by NumPy or TensorFlow on whole arrays, once before the steps, or in "
        "other processes (a Keras PyDataset or Sequence with use_multiprocessing=True).",
        gain=gain,
        part="input",
    )


def _ends_ns(loop: LoopAnalysis, largest: str) -> int:
    account = loop.process.account
    if largest != "input_wait" or not loop.is_main or isinstance(account, Missing):
        return 0
    return sum(item.ns for item in account.items(Category.EPOCH_ENDS) if item.times > 1)


def _severity(loop: LoopAnalysis, largest: str, severity: Severity) -> Severity:
    """Return the severity: converting small arrays costs the call itself, not their bytes."""
    parts = loop.parts
    if isinstance(parts, Missing):
        return severity
    is_small = _serves(loop, parts) or _is_ready(loop) or _is_handing(loop, parts)
    if largest == "input_wait" and is_small:
        return min(severity, Severity.INFO)
    if largest == "host_preprocess" and loop.loader and _preprocess_ns(parts) < _HANDING_NS:
        # Workers made two such planted steps of 1.0 to 4.7 ms 1.3 to 3.3 times as long.
        return min(severity, Severity.INFO)
    if largest != "feed":
        return severity
    feed_ns = parts.ratio("feed") * parts.cycle_ns
    return min(severity, Severity.INFO) if feed_ns < _SMALL_FEED_NS else severity


def _preprocess_ns(parts: CycleShares) -> float:
    return parts.ratio("host_preprocess") * parts.cycle_ns


def _is_ready(loop: LoopAnalysis) -> bool:
    """Say whether a step waits for elements in memory: it is shorter than fetching them takes."""
    return not isinstance(loop.input, Missing) and loop.input.is_ready


def _is_handing(loop: LoopAnalysis, parts: CycleShares) -> bool:
    """Say whether the wait is no longer than handing over an element that is ready.

    That is so for a prefetched pipeline of which no stage was seen, and for a generator that takes
    a small part of the cycle, such as that of Keras, which gets batches from workers.
    """
    found, ratio = loop.input, parts.ratio("input_wait")
    if isinstance(found, Missing) or ratio * parts.cycle_ns >= _HANDING_NS:
        return False
    if "Generator" in found.nodes:
        return ratio < _HANDING_RATIO
    return found.prefetches and not found.nodes


def _serves(loop: LoopAnalysis, parts: CycleShares) -> bool:
    """Say whether steps that train nothing wait for others, as a server waits for requests."""
    cause = parts.cause("input_wait")
    is_queue = cause is not None and cause.what in _OF_QUEUES
    return is_queue and not isinstance(loop.ops, Missing) and not loop.ops.has_updates


def _waited_for(loop: LoopAnalysis, parts: CycleShares, largest: str) -> Iterator[Evidence]:
    found = loop.input
    if largest == "host_preprocess" and loop.loader:
        yield from _stages(loop)
        return
    if largest == "input_wait" and not isinstance(found, Missing):
        likely = "" if found.is_measured else "waiting, likely (not measured), for "
        yield Evidence(
            f"{likely}{found.bottleneck} per step",
            time_ns=round(found.own_ns),
            iterator=found.iterator,
            source=found.source,
        )
        return
    cause = parts.cause(largest)
    if cause is not None:
        yield Evidence(f"{cause.what} per step", time_ns=cause.duration_ns, source=cause.source)


def _stages(loop: LoopAnalysis) -> Iterator[Evidence]:
    """Yield the stages by which a DataLoader without workers makes a batch, the longest first."""
    by_stage: dict[str, dict[str, int]] = {}
    for (stage, source), ns in loop.loader.items():
        by_stage.setdefault(stage, {})[source] = ns
    for stage, lines in sorted(by_stage.items(), key=lambda each: -sum(each[1].values())):
        total_ns = sum(lines.values())
        source = max(lines, key=lines.__getitem__)
        yield Evidence(f"DataLoader, {stage}, per step", time_ns=total_ns, source=source)


def _action(loop: LoopAnalysis, largest: str) -> str:
    found = loop.input
    if largest == "host_to_device" or isinstance(found, Missing) or not found.advice:
        return _ACTIONS[largest]
    return found.advice


# An input that takes the CPUs of the steps is sometimes late. If the wait is at least this part of
# the time that it costs the steps, the wait is the finding.
_SMALL_WAIT = 0.25
_INPUT_PARTS = ("input_wait", "host_preprocess", "feed")
_SHOWN = 3


def input_takes_cpus(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if the input and the steps compute at the same time and no CPU is idle."""
    parts, ops, busy = loop.parts, loop.ops, _busy_cpus(loop, limits)
    if isinstance(parts, Missing) or isinstance(ops, Missing) or isinstance(busy, Missing):
        return lacking(parts, ops, busy)
    if ops.has_accelerator or _is_late(loop, parts, limits) or not busy:
        return None
    gain = loop.gain(loop.input_cpu_ns, LIKELY * loop.input_cpu_ns)
    if gain.high_ratio < limits.input_cpus_ratio:
        return None
    return Finding(
        title="The input pipeline competes with the steps for CPUs",
        severity=limits.severity(gain),
        evidence=(
            *_evidence(loop, ops),
            Evidence(busy),
            Evidence(
                "share of the cycle in which steps wait for input", ratio=parts.ratio("input_wait")
            ),
            *loop.traced_step(),
            loop.shown_by("input"),
        ),
        action=_input_takes_cpus_action(loop),
        gain=gain,
        part="input_cpus",
    )


def _is_late(loop: LoopAnalysis, parts: CycleShares, limits: Thresholds) -> bool:
    """Say whether steps wait for the input itself, for more than a small part of its delay."""
    if not isinstance(loop.input, Missing) and loop.input.keeps_up:
        return False
    waits_ns = max(limits.input_ratio * parts.total_ns, _SMALL_WAIT * loop.input_cpu_ns)
    return parts.of_all_steps(*_INPUT_PARTS) >= waits_ns


def _busy_cpus(loop: LoopAnalysis, limits: Thresholds) -> str | Missing:
    """Say how many CPUs the process kept busy, if that is nearly all that it could get; else ""."""
    machine, threads = loop.process.machine, loop.process.threads
    if isinstance(machine, Missing):
        return machine
    cpus, used_cpus = machine.cpus, machine.used_cpus
    if isinstance(cpus, Missing):
        return cpus
    if isinstance(used_cpus, Missing):
        return used_cpus
    # It could get fewer if the thread of steps waited for one.
    available = cpus if isinstance(threads, Missing) else cpus * threads.had_ratio
    if used_cpus < limits.busy_cpus_ratio * available:
        return ""
    more = ", and could get no more" if used_cpus < limits.busy_cpus_ratio * cpus else ""
    return f"the process kept {used_cpus:.2g} of {cpus:.3g} CPUs busy{more}"


def _evidence(loop: LoopAnalysis, ops: StepOps) -> Iterator[Evidence]:
    found = loop.input
    types = ", ".join(use.type for use in ops.concurrent[:_SHOWN])
    stage = "the input" if isinstance(found, Missing) else found.bottleneck
    yield Evidence(
        f"ops of {stage} that run alongside the step ({types}), per step",
        time_ns=round(ops.concurrent_ns),
        iterator="" if isinstance(found, Missing) else found.iterator,
        source="" if isinstance(found, Missing) else found.source,
        op_type=ops.concurrent[0].type if ops.concurrent else "",
    )


def _input_takes_cpus_action(loop: LoopAnalysis) -> str:
    found = loop.input
    once = ".cache() after what takes long and is not random, before .repeat(), or "
    may_cache = isinstance(found, Missing) or (
        "Generator" not in found.nodes and (found.may_cache or "Repeat" in found.nodes)
    )
    return (
        f"Prepare the data once: {once if may_cache else ''}write what it makes to files before "
        "training, or take a cheaper form of it."
    )


# These are two or three of several ways to speed up input; a cache helps from the second epoch on.
DATASET_SERIAL_LIKELY = 0.4
LIKELY_BY_CACHE = 0.2
_PREFETCHES = ("Prefetch",)
_CACHE = "cache"
# What does the same as a node in parallel.
_PARALLEL = {
    "Map": ".map(..., num_parallel_calls=tf.data.AUTOTUNE)",
    "Interleave": ".interleave(..., num_parallel_calls=tf.data.AUTOTUNE)",
    "FlatMap": ".interleave(..., num_parallel_calls=tf.data.AUTOTUNE) instead of .flat_map",
    "Batch": ".batch(..., num_parallel_calls=tf.data.AUTOTUNE)",
    "Generator": "a source in TensorFlow (TFRecordDataset ...) instead of from_generator",
}


def dataset_serial(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if steps wait for a serial pipeline; the bound is the wait."""
    if isinstance(loop.input, Missing) or isinstance(loop.parts, Missing):
        return lacking(loop.input, loop.parts)
    if not loop.input.keeps_up and not (loop.input.is_whole and loop.input.is_measured):
        return Missing("the source or the bottleneck of its tf.data pipeline was not seen")
    gain_ns = loop.parts.of_all_steps("input_wait")
    has_batch = loop.process.has_parallel_batch
    lacks = tuple(lack for lack in _lacks(loop.input) if has_batch or "Batch" not in lack[0])
    likely = LIKELY_BY_CACHE if lacks and lacks[0][0] == _CACHE else DATASET_SERIAL_LIKELY
    gain = loop.gain(gain_ns, likely * gain_ns)
    if loop.input.keeps_up or not lacks or gain.high_ratio < limits.tuned_input_ratio:
        return None
    return Finding(
        title=f"The tf.data pipeline lacks {lacks[0][0]}",
        severity=_dataset_serial_severity(loop, limits, gain),
        evidence=(
            Evidence("pipeline, from the step down", iterator=" < ".join(loop.input.nodes)),
            *loop.traced_step(),
            loop.shown_by("input"),
        ),
        action="Add " + "; ".join(action for _, action in lacks) + ".",
        gain=gain,
        part="input",
    )


def _dataset_serial_severity(loop: LoopAnalysis, limits: Thresholds, gain: Gain) -> Severity:
    """Return the severity: INFO if input_bound has a finding, and a remedy, for the same wait."""
    is_found = isinstance(input_bound(loop, limits), Finding)
    has_remedy = not isinstance(loop.input, Missing) and bool(loop.input.advice)
    return Severity.INFO if is_found and has_remedy else limits.severity(gain)


def _lacks(found: StepInput) -> Iterator[tuple[str, str]]:
    """Return what the pipeline lacks, each with the code that adds it."""
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
