"""Say which part each call of a watched gap belongs to, and how long it took by itself.

A call is known by the file and the name of its function. The time of an unknown function belongs to
the nearest known call around it; outside of any it is idle, with the call as evidence. What
watching added to the gap is taken out of the times.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.errors import Missing
from tfprobe.profile.activities import Call, Gap
from tfprobe.profile.graph import is_of_library
from tfprobe.profile.profile import Loop

# By the file of a function and its name, both searched for; the first match counts.
_KNOWN: tuple[tuple[Part, re.Pattern[str], re.Pattern[str]], ...] = tuple(
    (part, re.compile(file), re.compile(name))
    for part, file, name in (
        (
            Part.COMPILE,
            r"tensorflow(_core)?/python/(framework/func_graph|eager/polymorphic_function/tracing)",
            r"func_graph_from_py_func|_maybe_define_function|trace_function",
        ),
        (
            Part.CHECKPOINTS,
            r"/(tensorflow(_core)?|keras|tf_keras|tensorflow_estimator)/.*"
            r"(checkpoint|saver|saving|saved_model|save)",
            r"^_?(save|write|export|sync)",
        ),
        (Part.CHECKPOINTS, r"/(keras|tf_keras)/", r"^(save|save_weights|save_model)$"),
        (Part.CHECKPOINTS, r"/(h5py|orbax|safetensors)/", r""),
        (Part.SUMMARIES, r"/(tensorboard|tensorboardX|summary)[/_.]|summary_(ops|io)", r""),
        (
            Part.SYNC_WAIT,
            r"tensorflow(_core)?/python/(ops/(array_ops|tensor_getitem_override)|framework/tensor)",
            r"^_?slice_helper$|^_tensor_getitem$",
        ),
        (
            Part.SYNC_WAIT,
            r"tensorflow(_core)?/python/(framework/ops|framework/tensor|eager/context)",
            r"^(_?numpy|__(float|int|bool|array|index|len|complex|long)__|async_wait|sync_.*)$",
        ),
        (Part.SYNC_WAIT, r"", r"EagerTensor\._numpy|_numpy_internal"),
        (
            Part.SYNC_WAIT,
            r"/jax/_src/(array|api)\.py$",
            r"^(__(float|int|bool|array|index|complex|format|str|repr)__|_?value|item|tolist"
            r"|block_until_ready|device_get)$",
        ),
        (Part.FEED, r"/jax/_src/(api|dispatch)\.py$", r"^_?device_put"),
        (
            Part.INPUT_WAIT,
            r"tensorflow(_core)?/python/data/|multi_device_iterator|distribute/input_lib",
            r"^(__next__|next|get_next|_?next_internal|get_next_as_optional)$",
        ),
        (
            Part.INPUT_WAIT,
            r"/(queue|multiprocessing/(queues|connection|pool))\.py$",
            r"^(get|recv|next)$",
        ),
        (
            Part.HOST_PREPROCESS,
            r"data_adapter|data_utils|epoch_iterator|py_dataset|keras_preprocessing|preprocessing",
            # Not Keras' own loop over steps and epochs.
            r"^(?!(steps|enumerate_epochs?|_enumerate_iterator|catch_stop_iteration)$)",
        ),
        (
            Part.HOST_PREPROCESS,
            r"/(PIL|cv2|h5py|imageio|skimage|librosa|tensorflow_datasets|pandas|pyarrow|torch/utils/data)/",
            r"",
        ),
        (
            Part.FEED,
            r"tensorflow(_core)?/python/framework/(constant_op|tensor_conversion|tensor_util)",
            r"",
        ),
        (
            Part.CALLBACKS,
            r"",
            r"^on_(train|test|predict|epoch|batch)(_batch)?_(begin|end)$|^(before|after)_run$"
            r"|^_batch_update_progbar$",
        ),
    )
)
# The job itself writes what prepares a batch, under names like these.
_PREPARES = re.compile(
    r"^(__next__|__getitem__|get_?(next|batch|item)|next_?batch|load_?(batch|data|image)s?"
    r"|(sample|fetch|read|make|prepare)_?(a_)?batch(es)?|batches|collate(_fn)?|augment\w*"
    r"|preprocess\w*|decode_\w+|data_?generator|minibatch\w*)$"
)
# Code that builds the pipeline once for a call of fit or predict, and code that waits for other
# threads and processes: nothing below it makes a batch.
_NO_INPUT: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = tuple(
    (re.compile(file), re.compile(name))
    for file, name in (
        (
            r"data_adapter|epoch_iterator|/keras/.*trainer",
            r"^(__init__|get_data_(handler|adapter)|select_data_adapter|train_validation_split)$",
        ),
        (r"/(threading|multiprocessing/(process|pool))\.py$", r"^_?join\w*$"),
    )
)
# Functions that make tensors to feed, files of ops, and TensorFlow's wrappers around functions.
_MAKES = re.compile(r"^(zeros|ones|fill|eye|range|stack|constant|convert_\w+)(_v2|_v1)?$")
_OPS = re.compile(r"tensorflow(_core)?/python/ops/")
_WRAPS = re.compile(
    r"tensorflow(_core)?/python/(util/|profiler/|framework/ops\.py|ops/weak_tensor_ops\.py)|^$"
)
# Wrappers that libraries put around functions, to shorten tracebacks or to dispatch by argument.
_WRAPPERS = re.compile(r"^(_?wrap(per|ped)|error_handler|op_dispatch_handler|new_func|inner)$")
_INPUT = frozenset({Part.INPUT_WAIT, Part.HOST_PREPROCESS, Part.FEED})
# The generator that feeds a loop over steps is resumed once between two of them; at the end of an
# epoch it ends and another one begins.
_MOST_TURNS = 2
_NEXT = re.compile(r"^(builtins\.)?(__)?next(__)?$")
# With fewer gaps there is no saying what is usual.
_FEWEST_GAPS = 8
# The agent measures the cost of an event on functions that do nothing; in a job it is higher.
_MOST_TIMES_COST = 12
_LONGEST_USUAL = 4
# Gaps of a loop in C are so short that anything would be many times longer.
_SMALLEST_GAP_NS = 1_000_000
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Usual:
    """The unwatched gaps of a loop: median, mean of the usual ones, and the longest usual one."""

    median_ns: float
    mean_ns: float
    longest_ns: int


class OwnTime(NamedTuple):
    """The own time of a call of a gap, with its part, and the call and line it is shown under.

    `call` is the position of the call in the gap.
    """

    call: int
    part: Part
    what: str
    file: str
    line: int
    own_ns: int
    in_callback: bool


def own_times(gap: Gap, usual: Usual | None = None) -> Iterator[OwnTime]:
    """Yield the own time of each call of a gap, without the cost of watching."""
    places: list[_Place] = []
    described: dict[int, tuple[str, str, int]] = {}
    total_ns = _total_ns(gap.calls)
    for index, own_ns in enumerate(_without_cost(gap, added_ns(gap, usual))):
        places.append(_place(gap.calls, index, places))
        part, shown, _, in_callback = places[index]
        if shown not in described:
            described[shown] = _described(gap.calls, shown, total_ns)
        yield OwnTime(index, part, *described[shown], own_ns, in_callback)


def added_ns(gap: Gap, usual: Usual | None) -> int:
    """Return what watching added to a gap: the agent's estimate, or all beyond the `usual` gap.

    Never more than the thread computed, nor more than a multiple of the agent's estimate.
    """
    if usual is None:
        return min(gap.cost_ns, gap.duration_ns)
    computed_ns = gap.duration_ns if isinstance(gap.cpu_ns, Missing) else gap.cpu_ns
    most_ns = min(computed_ns, _MOST_TIMES_COST * gap.cost_ns, gap.duration_ns)
    return min(max(int(gap.duration_ns - usual.median_ns), 0), most_ns)


def usual_gaps(loop: Loop) -> Usual | None:
    """Return how long the unwatched gaps of a loop usually are, None where that is unknown.

    Where at least one gap in ten is long, long ones are usual: a checkpoint at each step, say. Rare
    ones such as the end of an epoch would weigh too much in a mean of few traced steps.
    """
    recent = loop.recent
    is_usual = recent.has_gap[1:] & ~recent.gap_is_ours[1:]
    gaps_ns = (recent.start_ns[1:] - recent.end_ns[:-1])[is_usual]
    if len(gaps_ns) < _FEWEST_GAPS:
        return None
    longest_ns = int(_LONGEST_USUAL * max(float(np.quantile(gaps_ns, 0.9)), _SMALLEST_GAP_NS))
    mean_ns = float(gaps_ns[gaps_ns <= longest_ns].mean())
    return Usual(float(np.median(gaps_ns)), mean_ns, longest_ns)


def _without_cost(gap: Gap, cost_ns: int) -> list[int]:
    """Return own times without the cost of watching, which grows with the number of events.

    Each call has one event inside and one, its return, in the caller. Times sum to the gap less
    the cost: what exceeds the time of small calls is taken off the others in proportion.
    """
    events = [0 if call.parent is None else call.count for call in gap.calls]
    for call in gap.calls:
        if call.parent is not None:
            events[call.parent] += call.count
    all_events = sum(events) or 1
    costs = [cost_ns * count // all_events for count in events]
    own_ns = [max(call.self_ns - cost, 0) for call, cost in zip(gap.calls, costs, strict=True)]
    left_ns = max(sum(call.self_ns for call in gap.calls) - cost_ns, 0)
    total_ns = sum(own_ns) or 1
    scaled_ns = [ns * left_ns // total_ns for ns in own_ns]
    if scaled_ns:
        largest = scaled_ns.index(max(scaled_ns))
        scaled_ns[largest] += left_ns - sum(scaled_ns)
    return scaled_ns


class _Place(NamedTuple):
    """The part of a call, and the index of the call that it is shown under.

    Below a call that `has_no_input`, nothing makes a batch. `in_callback` says whether a callback
    made the call, whatever its part.
    """

    part: Part
    shown: int
    has_no_input: bool
    in_callback: bool


def _place(calls: tuple[Call, ...], at: int, places: Sequence[_Place]) -> _Place:
    """Return the place of a call.

    Unknown calls are shown under the one that the code around the step made; known ones under the
    first that the job wrote itself, or else the outermost. What a callback or a checkpoint runs
    belongs to it, even code that is written to make batches.
    """
    call = calls[at]
    known = _known(call.file, call.function)
    if call.parent is None:
        is_callback = known is Part.CALLBACKS
        return _Place(known or Part.IDLE, at, _has_no_input(call.file, call.function), is_callback)
    if known is Part.FEED and _is_of_op(calls, call.parent):
        known = None
    part, shown, has_no_input, in_callback = places[call.parent]
    in_callback = in_callback or known is Part.CALLBACKS
    if known is None and part is Part.IDLE and _makes_batches(calls, at, places):
        known = Part.HOST_PREPROCESS
    if part is Part.IDLE:
        has_no_input = has_no_input or _has_no_input(call.file, call.function)
    may_be_input = part in _INPUT or (part is Part.IDLE and not has_no_input)
    if known is not None and known is not part and (may_be_input or known not in _INPUT):
        return _Place(known, at, has_no_input, in_callback)
    is_first = part is Part.IDLE and calls[call.parent].parent is None
    is_first = is_first or (known is Part.CALLBACKS and _is_list_of_callbacks(calls[shown]))
    is_jobs_own = (
        part is not Part.IDLE and is_of_library(calls[shown].file) and not is_of_library(call.file)
    )
    return _Place(part, at if is_first or is_jobs_own else shown, has_no_input, in_callback)


# All steps call the same functions, and so do all processes.
@functools.lru_cache(maxsize=_REMEMBERED)
def _known(file: str, function: str) -> Part | None:
    for part, files, names in _KNOWN:
        if files.search(file) and names.search(function):
            return part
    return None


@functools.lru_cache(maxsize=_REMEMBERED)
def _has_no_input(file: str, function: str) -> bool:
    return any(files.search(file) and names.search(function) for files, names in _NO_INPUT)


def _makes_batches(calls: tuple[Call, ...], at: int, places: Sequence[_Place]) -> bool:
    """Return whether a call of the job's own code makes the next batch.

    A generator does if the loop over steps takes from it, directly or through other generators, but
    not one as in `sum(x for x in ...)`.
    """
    call, count = calls[at], calls[at].count
    if is_of_library(call.file) or call.parent is None:
        return False
    if _PREPARES.match(call.function):
        return True
    if not call.is_generator:
        return False
    parent: int | None = call.parent
    while parent is not None:
        around = calls[parent]
        if places[parent].part in _INPUT or _NEXT.match(around.function):
            return True
        if around.parent is None:
            return count <= _MOST_TURNS
        if not around.is_generator:
            return False
        parent = around.parent
    return False


def _is_of_op(calls: tuple[Call, ...], at: int | None) -> bool:
    """Return whether an op that the job computes between steps makes this conversion.

    Such a conversion feeds nothing: it is part of computing.
    """
    while at is not None:
        call = calls[at]
        if not _WRAPS.search(call.file):
            if _OPS.search(call.file):
                return not _MAKES.match(call.function)
            if _known(call.file, call.function) is not Part.FEED:
                return False
        at = call.parent
    return False


def _is_of_callback(call: Call) -> bool:
    return "/callbacks/" in call.file and is_of_library(call.file)


def _in_module(call: Call) -> str:
    """Return a function with its module: the functions of all callbacks have the same names."""
    return f"{call.file.rpartition('/')[2].removesuffix('.py')}.{call.function}"


def _is_list_of_callbacks(call: Call) -> bool:
    """Return whether a call only dispatches to the callbacks that Keras was given."""
    return call.file.endswith(
        ("/callback_list.py", "/keras/callbacks.py", "/keras/src/callbacks.py")
    )


def _total_ns(calls: tuple[Call, ...]) -> list[int]:
    """Return the time of each call with its callees; callers come before their callees."""
    total_ns = [call.self_ns for call in calls]
    for at in range(len(calls) - 1, -1, -1):
        parent = calls[at].parent
        if parent is not None:
            total_ns[parent] += total_ns[at]
    return total_ns


def _wrapped(calls: tuple[Call, ...], at: int, total_ns: Sequence[int]) -> Call:
    """Return the call inside the wrappers of TensorFlow and Keras, such as that of an op."""
    while _WRAPPERS.match(calls[at].function) and is_of_library(calls[at].file):
        inside = [
            below
            for below in range(at + 1, len(calls))
            if calls[below].parent == at and calls[below].file
        ]
        if not inside:
            break
        at = max(inside, key=total_ns.__getitem__)
    return calls[at]


def _described(calls: tuple[Call, ...], at: int, total_ns: Sequence[int]) -> tuple[str, str, int]:
    """Return the name of a call, and the innermost line of the job on the way there.

    A wrapper has the name of the function it wraps. Where no code of the job is on the way, the
    line is that of the calling library. Code around the step has the line it was at, which is of
    the step; in older recordings, its first line.
    """
    call = calls[at]
    named = _wrapped(calls, at, total_ns)
    name = _in_module(named) if _is_of_callback(named) else named.function
    if call.parent is None:
        name = f"{name} itself" if name else "Python"
        return name, call.file, call.called_line or call.line
    if not is_of_library(call.file) and is_of_library(calls[call.parent].file):
        return name, call.file, call.line
    nearest = None
    while call.parent is not None:
        caller = calls[call.parent]
        # A function written in C has no lines: `next(batches)` is called where next is.
        if caller.file and call.called_line:
            if not is_of_library(caller.file):
                return name, caller.file, call.called_line
            nearest = nearest or (caller.file, call.called_line)
        call = caller
    return name, *(nearest or (calls[at].file, calls[at].line))
