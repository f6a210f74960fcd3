"""List the inputs that steps wait for: iterators, queues, feeds, Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from tfprobe.analysis.breakdown.cycles import LoopParts, StepParts
from tfprobe.analysis.breakdown.gap_breakdown import GapBreakdown, GapCause
from tfprobe.analysis.breakdown.step_parts import GET_NEXT, Part, takes_token
from tfprobe.analysis.core.main_loop import RUNNER_THREAD, fills_queue
from tfprobe.analysis.input.stage_stats import MOST_OPS
from tfprobe.analysis.ops.op_stats import OpStats, by_type
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.profile import TORCH_KINDS, Loop
from tfprobe.profile.tables import having

INPUT_PARTS: tuple[Part, ...] = (Part.INPUT_WAIT, Part.HOST_PREPROCESS, Part.FEED)
# Ops that take from a queue that other threads fill.
_DEQUEUES = (
    "QueueDequeue",
    "FIFOQueueDequeue",
    "RandomShuffleQueueDequeue",
    "ReaderRead",
    "Unstage",
)
# The name of the source if an op of the step takes the elements.
ITERATOR = "IteratorGetNext"
# What PyTorch's programs take their batches from.
LOADER = "DataLoader"
LOADER_WORKERS = "workers of the DataLoader"
_NEXT = frozenset({"__next__", "_next_internal", "get_next", "get_next_as_optional", "next"})
# Putting an element into a queue with room takes no time: a thread that spends most of its time on
# it waits for room.
_FULL_RATIO = 0.5


class SourceKind(Enum):
    """Where input comes from. The value is its name in documents."""

    ITERATOR = "iterator"
    QUEUE = "queue"
    FEED = "feed"
    PYTHON = "python"


@dataclass(frozen=True, slots=True)
class InputSource:
    """Something steps wait for, with its time in the mean cycle.

    `is_between`: the wait is between steps, in Python. `file` is "" if no line is known.
    """

    kind: SourceKind
    what: str
    file: str
    line: int
    is_between: bool
    time_ns: float
    ratio: float


# Kind, what, file, line, and whether it is between steps.
_Key = tuple[SourceKind, str, str, int, bool]


@dataclass(frozen=True, slots=True)
class Producer:
    """A thread that fills a queue: its steps, and their longest ops.

    `step_ns` is its mean step, including waits for room in the queue. `enqueue_ratio` is the share
    of its traced steps spent on putting elements into the queue, that is, on waiting for room.
    """

    thread: str
    name: str
    steps: int
    step_ns: float
    ops: tuple[OpStats, ...]
    enqueue_ratio: float = 0.0

    @property
    def queue(self) -> str:
        """Return the name of the queue, after which TensorFlow names the thread."""
        return self.thread.removeprefix(RUNNER_THREAD).removeprefix("-").partition("-")[0]


def sources(item: LoopParts, executions: Executions) -> tuple[InputSource, ...]:
    """Return what the mean cycle of a loop waits for, longest first; `executions` are its own."""
    mean_ns: dict[_Key, float] = {}
    waits = _waits_by_op(executions)
    is_torch = not isinstance(item.loop, Missing) and item.loop.kind in TORCH_KINDS
    prepares = f"{LOADER} in the step" if is_torch else "py_function in the step"
    for step in item.steps:
        # No op waits for the workers of a loader.
        waited = {(SourceKind.QUEUE, LOADER_WORKERS): 1} if is_torch else {}
        waited = waits.get(step.capture.index, waited)
        for key, time_ns in _inside(step, waited, prepares):
            mean_ns[key] = mean_ns.get(key, 0.0) + time_ns / len(item.steps)
    watched = item.watched
    for gap in watched:
        for key, time_ns in _after(gap):
            mean_ns[key] = mean_ns.get(key, 0.0) + time_ns / len(watched)
    cycle_ns = item.cycle_ns or 1
    found = [
        InputSource(*key, time_ns=ns, ratio=ns / cycle_ns) for key, ns in mean_ns.items() if ns > 0
    ]
    return tuple(sorted(found, key=lambda source: (-source.time_ns, source.what)))


def _inside(
    step: StepParts, waits: Mapping[tuple[SourceKind, str], int], prepares: str
) -> Iterator[tuple[_Key, float]]:
    wait_ns = step.inside.get(Part.INPUT_WAIT, 0)
    whole_ns = sum(waits.values()) or 1
    for (kind, what), ns in waits.items():
        yield (kind, what, "", 0, False), wait_ns * ns / whole_ns
    prepared_ns = step.inside.get(Part.HOST_PREPROCESS, 0)
    yield (SourceKind.PYTHON, prepares, "", 0, False), prepared_ns
    yield (SourceKind.FEED, "feed_dict", "", 0, False), step.inside.get(Part.FEED, 0)


def _after(gap: GapBreakdown) -> Iterator[tuple[_Key, float]]:
    for cause in gap.causes:
        if cause.part in INPUT_PARTS:
            yield (_kind(cause), cause.what, cause.file, cause.line, True), cause.duration_ns


def _kind(cause: GapCause) -> SourceKind:
    if cause.part is Part.FEED:
        return SourceKind.FEED
    is_iterator = cause.part is Part.INPUT_WAIT and cause.what in _NEXT
    return SourceKind.ITERATOR if is_iterator else SourceKind.PYTHON


def _waits_by_op(executions: Executions) -> dict[int, dict[tuple[SourceKind, str], int]]:
    """Return by capture how long ops waited for input, by the name of the op for queues."""
    texts = executions.strings.values
    takes = having(
        executions.strings,
        executions.op_type,
        lambda text: text.startswith((*GET_NEXT, *_DEQUEUES)),
    )
    rows = executions.only(takes & ~executions.background & (executions.place == Place.HOST))
    found: dict[int, dict[tuple[SourceKind, str], int]] = {}
    columns = (rows.capture, rows.name, rows.op_type, rows.duration_ns)
    for capture, name, op_type, ns in zip(*(column.tolist() for column in columns), strict=True):
        if takes_token(texts[name]):
            continue
        is_iterator = texts[op_type].startswith(GET_NEXT)
        key = (SourceKind.ITERATOR, ITERATOR) if is_iterator else (SourceKind.QUEUE, texts[name])
        of_capture = found.setdefault(capture, {})
        of_capture[key] = of_capture.get(key, 0) + max(ns, 1)
    return found


def closes_queue(loop: Loop) -> bool:
    """Return whether the only step of a loop waits for the end of the job to close a queue."""
    return fills_queue(loop) and loop.thread.endswith("close_on_stop")


def is_full(source: InputSource, fillers: Sequence[Producer]) -> bool:
    """Return whether the threads that fill a queue wait for room in it: the input keeps up."""
    scope = source.what.partition("/")[0]
    known = [filler for filler in fillers if filler.ops]
    own = [filler for filler in known if filler.queue.partition("/")[0] == scope] or known
    return bool(own) and min(filler.enqueue_ratio for filler in own) >= _FULL_RATIO


def producer(loop: Loop, executions: Executions, recorded_ns: int) -> Producer:
    """Return the producer of a loop that fills a queue.

    `executions` are those of its own traced steps, which took `recorded_ns`.
    """
    ops = by_type(executions.only(executions.place == Place.HOST))[:MOST_OPS]
    enqueue_ns = sum(op.time_ns for op in ops if "Enqueue" in op.type)
    return Producer(
        thread=loop.thread,
        name=loop.name,
        steps=loop.count,
        step_ns=loop.times.sum_ns / loop.times.count if loop.times.count else 0.0,
        ops=ops,
        enqueue_ratio=min(enqueue_ns / recorded_ns, 1.0) if recorded_ns else 0.0,
    )
