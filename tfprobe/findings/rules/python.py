"""Find what Python itself costs: the GIL, garbage collection, the start, reads of tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tfprobe.analysis.account.categories import BEFORE_STEPS, Category
from tfprobe.analysis.breakdown.python_lines import LineKind, TensorReads
from tfprobe.analysis.core import intervals
from tfprobe.analysis.steps.cycle_shares import CycleShares
from tfprobe.analysis.system.thread_times import PythonThread
from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Severity
from tfprobe.findings.rule import LoopAnalysis, ProcessAnalysis, RunAnalysis, Verdict, lacking
from tfprobe.findings.rules.accelerator import ON_DEVICE
from tfprobe.findings.thresholds import Thresholds

# In another process the thread does not need the lock; exchanging data with it costs some time.
LIKELY = 0.8
# A step took 1.1 ms of CPU time when it requested the lock 200 times a second, and 0.65 ms alone.
_LOST_OF_OWN = 0.4
# Parts of a cycle in which the thread of the steps needs the lock to go on.
_PARTS = ("idle", "kernel_launch", "feed", "fetch")
# What lines of the job may wait for between steps instead.
_OTHER_WAITS = frozenset(
    {
        LineKind.SLEEP,
        LineKind.SUBPROCESS,
        LineKind.SYNC_TO_DISK,
        LineKind.COLLECTION,
        LineKind.WAIT,
        LineKind.NETWORK,
        LineKind.LOCK,
        LineKind.OUTPUT,
    }
)
# In the other samples it is within a call, which may not need the lock.
_MOSTLY = 0.5
_SHOWN = 3


def gil_held(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if steps stand still while another thread of Python computes.

    The bound is the time in which the thread of the steps did not run, and part of its own time, in
    which it requested the lock; as far as no op ran, and it did not wait for anything else.
    """
    threads, parts = loop.process.threads, loop.parts
    if isinstance(threads, Missing) or isinstance(parts, Missing):
        return lacking(threads, parts)
    others = [other for other in threads.others if other.source]
    cores = sum(other.cores for other in others)
    # With other processes on the machine, a thread cannot have all of a CPU.
    cpu_share = 1.0 if threads.is_alone else threads.had_ratio
    if not loop.is_main or not others or cores < limits.gil_cpus * cpu_share:
        return None
    waited_ratio = max(1 - threads.steps_cores - threads.delay_ratio, 0.0)
    if waited_ratio < limits.gil_ratio:
        return None
    whole_ns, open_ns = loop.timing.thread_ns, _open_ns(loop, parts)
    # A thread that computes takes a CPU, too.
    lost_ratio = waited_ratio + threads.delay_ratio + _LOST_OF_OWN * threads.steps_cores
    high_ns = min(lost_ratio * whole_ns, open_ns)
    gain = loop.gain(high_ns, LIKELY * min(waited_ratio * whole_ns, open_ns))
    if gain.high_ratio < limits.gil_ratio:
        return None
    holds = others[0].in_python_ratio >= _MOSTLY
    severity = limits.severity(gain)
    return Finding(
        title="Steps wait for the global interpreter lock (GIL), held by another Python thread",
        severity=severity if holds else min(severity, Severity.INFO),
        evidence=(
            *_evidence(others, holds=holds),
            Evidence(
                "share of time in which the thread of the steps was neither running nor ready",
                ratio=waited_ratio,
            ),
            Evidence(
                "share of the cycle without a running op",
                ratio=parts.ratio(*_PARTS),
            ),
            loop.shown_by("tiers"),
        ),
        action="Do it in a process (multiprocessing, subprocess) rather than a thread, do it with "
        "NumPy or another library that releases the lock while it computes, or let the thread "
        "sleep now and then.",
        gain=gain,
        part="gil",
    )


def _open_ns(loop: LoopAnalysis, parts: CycleShares) -> float:
    """Return the time of these parts of all cycles, without known waits of lines."""
    python = loop.python
    lines = () if isinstance(python, Missing) else python.lines
    waits = sum(line.ratio for line in lines if line.kind in _OTHER_WAITS)
    return max(parts.of_all_steps(*_PARTS) - waits * loop.timing.regular_gap_ns, 0.0)


def _evidence(others: list[PythonThread], *, holds: bool) -> Iterator[Evidence]:
    for other in others[:_SHOWN]:
        where = f", in {other.function}" if other.function else ""
        doing = "computed in Python" if holds else "ran, within calls of Python,"
        yield Evidence(
            f"thread {other.name} {doing} for {100 * other.cores:.0f} % of the time{where}",
            source=other.source,
        )


def garbage_collection(process: ProcessAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if garbage collection takes long, without that before the first step."""
    account = process.account
    if isinstance(account, Missing):
        return account
    items = [item for item in account.items(Category.COLLECTION) if item.what != BEFORE_STEPS]
    high_ns = sum(item.ns for item in items)
    # Without collecting objects that always exist, few collections remain.
    gain = process.of_wall(high_ns, round(LIKELY * high_ns))
    if not items or gain.high_ratio < limits.collection_ratio:
        return None
    source = next((item.source for item in items if item.source), "")
    first = "Take the calls of gc.collect() out of the loop" if source else "Call gc.freeze() once"
    return Finding(
        title="Python's garbage collector takes a lot of time during steps",
        severity=limits.severity(gain),
        evidence=tuple(Evidence(item.what, time_ns=item.ns, source=item.source) for item in items),
        action=f"{first}{', or' if source else ' after the first steps (Python 3.7), or'} "
        "collect less often: gc.set_threshold(100_000, 50, 50).",
        gain=gain,
        part="garbage_collection",
    )


# Reading at every tenth step saves nine tenths; half allows for other causes.
HOST_SYNC_LIKELY = 0.5
# With fewer gaps, "every step" means nothing.
_LEAST_GAPS = 3


def host_sync(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if Python waits for each step to read a tensor.

    Without an accelerator, the bound is the time of the reads. With one, or where calls only queue
    steps, the host could run ahead of the device, which at best hides the shorter of the two: that
    is the bound.
    """
    if loop.timing.queue is not None:
        return _step_waits(loop, limits)
    reads = loop.reads
    if isinstance(reads, Missing):
        return reads
    if reads.gaps < _LEAST_GAPS or reads.ratio < limits.sync_ratio:
        return None
    gain_ns = _bound_ns(loop, reads)
    gain = loop.gain(gain_ns, HOST_SYNC_LIKELY * gain_ns)
    severity = limits.severity(gain)
    if not reads.source:
        # Keras itself reads what it shows: no line of the job can be changed.
        severity = min(severity, Severity.INFO)
    return Finding(
        title="Python reads the value of a tensor after every step",
        severity=severity,
        evidence=(
            Evidence(
                f"{_count(reads.calls)} per step by {reads.function}, time per step",
                time_ns=round(reads.ns),
                source=reads.source,
            ),
            Evidence(f"share of {reads.gaps} watched gaps with a read", ratio=reads.ratio),
            loop.shown_by("breakdown"),
        ),
        action="Read losses and metrics at every Nth step (.numpy(), float(), print, if), or keep "
        "them in a tf.metrics object and read that at the end of the epoch.",
        gain=gain,
        part="sync",
    )


def _step_waits(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if the program waits for each step before it prepares the next one."""
    timing, queue = loop.timing, loop.timing.queue
    if queue is None or not queue.is_one_by_one or queue.waits < _LEAST_GAPS:
        return None
    calls_ns = queue.call_ns / queue.waits * timing.steps
    host_ns = timing.regular_gap_ns + calls_ns
    bound_ns = min(host_ns, max(timing.regular_step_ns - calls_ns, 0.0))
    # Without an accelerator, both compute on the same CPUs.
    likely = HOST_SYNC_LIKELY if loop.process.has_accelerator else 0.0
    gain = loop.gain(bound_ns, likely * bound_ns)
    if gain.high_ratio < limits.sync_wait_ratio:
        return None
    return Finding(
        title="Python waits for each step before it prepares the next one",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                f"{queue.waits:,} of {timing.steps:,} steps waited for, time of a wait",
                time_ns=round(queue.wait_ns / queue.waits),
                source=loop.waits_source,
            ),
            Evidence(
                "the device is idle meanwhile: call and Python between two steps",
                time_ns=round(host_ns / timing.steps),
            ),
            loop.shown_by("steps"),
        ),
        action="Read losses and metrics at every Nth step.",
        gain=gain,
        part="sync",
    )


def _count(calls: float) -> str:
    number = f"{calls:.3g}"
    return "1 read" if number == "1" else f"{number} reads"


def _bound_ns(loop: LoopAnalysis, reads: TensorReads) -> float:
    if isinstance(loop.parts, Missing) or not loop.process.has_accelerator:
        return reads.ns * loop.timing.steps
    device_ratio = loop.parts.ratio(*ON_DEVICE)
    return min(device_ratio, 1 - device_ratio) * loop.parts.total_ns


# Prepared data still has to be read.
SLOW_START_LIKELY = 0.5


def slow_start(run: RunAnalysis, limits: Thresholds) -> Iterator[Verdict]:
    """Yield a finding for each process that prepares data and models for long, of its whole time.

    Garbage collection in that time counts; imports do not, nothing after the first step, and not
    the time in which processes that it has started run steps of their own.
    """
    for process in run.processes:
        found = _slow_start(process, _children_step_ns(run, process), limits)
        yield replace(found, subject=process.subject) if isinstance(found, Finding) else found


def _children_step_ns(run: RunAnalysis, process: ProcessAnalysis) -> int:
    """Return how long processes that this one started ran steps before its own first one."""
    host, pid = process.subject.host, process.subject.pid
    loops = [loop for loop in run.loops if loop.timing.first_seen_ns]
    own = [loop.timing.first_seen_ns for loop in loops if loop.process.subject == process.subject]
    if not own:
        return 0
    first_ns = min(own)
    theirs = (
        loop.timing
        for loop in loops
        if loop.process.ppid == pid and loop.process.subject.host == host
    )
    steps = [
        intervals.one(each.first_seen_ns, min(each.first_seen_ns + each.thread_ns, first_ns))
        for each in theirs
    ]
    return intervals.joined(intervals.NONE, *steps).length_ns


def _slow_start(process: ProcessAnalysis, children_ns: int, limits: Thresholds) -> Verdict:
    account = process.account
    if isinstance(account, Missing):
        return account
    collected = account.items(Category.COLLECTION)
    collected_ns = sum(item.ns for item in collected if item.what == BEFORE_STEPS)
    high_ns = max(account.prepared_ns + collected_ns - children_ns, 0)
    gain = process.of_wall(high_ns, round(SLOW_START_LIKELY * high_ns))
    if not account.steps or gain.high_ratio < limits.preparation_ratio:
        return None
    items = account.items(Category.PREPARATION)
    has_line = any(item.source for item in items[:_SHOWN])
    return Finding(
        title="The first step starts late",
        severity=limits.severity(gain),
        evidence=(
            *(
                Evidence(item.what or "elsewhere", time_ns=item.ns, source=item.source)
                for item in items[:_SHOWN]
            ),
            *([] if has_line else [Evidence("lines", command="tfprobe run --stacks")]),
        ),
        action="Prepare the data once and keep it (np.save, TFRecord, Dataset.save), read it while "
        "steps run (Dataset.map with prefetch), and load no more than the steps take.",
        gain=gain,
        part="preparation",
    )
