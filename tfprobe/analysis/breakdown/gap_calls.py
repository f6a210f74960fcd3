"""Divide the time between two steps by what its thread called there: innermost known call first.

A call is known by where its function is written and how it is called. What an unknown function
does belongs to the nearest known one around it; what is in none is idle, with the call as evidence.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.analysis.core.source_lines import is_of_library
from tfprobe.errors import Missing
from tfprobe.profile.activities import Call, Gap
from tfprobe.profile.profile import Loop

# By the file a function is in and its name, both searched for; the first that fits.
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
# What prepares a batch is written by the job, under names like these.
_PREPARES = re.compile(
    r"^(__next__|__getitem__|get_?(next|batch|item)|next_?batch|load_?(batch|data|image)s?"
    r"|(sample|fetch|read|make|prepare)_?(a_)?batch(es)?|batches|collate(_fn)?|augment\w*"
    r"|preprocess\w*|decode_\w+|data_?generator|minibatch\w*)$"
)
# What makes the pipeline for a call of fit or predict, once, and what waits for other threads and
# processes: nothing below it is the making of a batch.
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
# Functions of ops, those that make what is handed to a step, and what TensorFlow puts around
# its functions.
_MAKES = re.compile(r"^(zeros|ones|fill|eye|range|stack|constant|convert_\w+)(_v2|_v1)?$")
_OPS = re.compile(r"tensorflow(_core)?/python/ops/")
_WRAPS = re.compile(
    r"tensorflow(_core)?/python/(util/|profiler/|framework/ops\.py|ops/weak_tensor_ops\.py)|^$"
)
# What libraries put around a function: it cuts tracebacks, or asks who takes such arguments.
_WRAPPERS = re.compile(r"^(_?wrap(per|ped)|error_handler|op_dispatch_handler|new_func|inner)$")
_INPUT = frozenset({Part.INPUT_WAIT, Part.HOST_PREPROCESS, Part.FEED})
# The generator that a loop over steps takes from goes on once between two of them; at the end of an
# epoch it ends, and another one begins.
_MOST_TURNS = 2
_NEXT = re.compile(r"^(builtins\.)?(__)?next(__)?$")
# With fewer gaps nobody knows what is usual.
_FEWEST_GAPS = 8
# The agent measures what an event costs on functions that do nothing; in a job it is more.
_MOST_TIMES_COST = 12
_LONGEST_USUAL = 4
# Gaps of a loop in C are so short that anything is many times longer.
_SMALLEST_GAP_NS = 1_000_000
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Usual:
    """The gaps of a loop that nobody watched: median, mean of the usual, the longest of these."""

    median_ns: float
    mean_ns: float
    longest_ns: int


class OwnTime(NamedTuple):
    """The own time of a call of a gap: its part, and the call and the line that stand for it."""

    at: int
    part: Part
    what: str
    file: str
    line: int
    own_ns: int
    in_callback: bool


def own_times(gap: Gap, usual: Usual | None = None) -> Iterator[OwnTime]:
    """Give the own time of each call of a gap, without what watching it cost; see `divide`."""
    places: list[_Place] = []
    described: dict[int, tuple[str, str, int]] = {}
    total_ns = _total_ns(gap.calls)
    for at, own_ns in enumerate(_without_cost(gap, added_ns(gap, usual))):
        places.append(_place(gap.calls, at, places))
        part, shown, _, in_callback = places[at]
        if shown not in described:
            described[shown] = _described(gap.calls, shown, total_ns)
        yield OwnTime(at, part, *described[shown], own_ns, in_callback)


def added_ns(gap: Gap, usual: Usual | None) -> int:
    """Return what watching added to a gap: what the agent says, or all beyond the `usual` gap.

    Never more than its thread computed, nor many times what the agent says.
    """
    if usual is None:
        return min(gap.cost_ns, gap.duration_ns)
    computed_ns = gap.duration_ns if isinstance(gap.cpu_ns, Missing) else gap.cpu_ns
    most_ns = min(computed_ns, _MOST_TIMES_COST * gap.cost_ns, gap.duration_ns)
    return min(max(int(gap.duration_ns - usual.median_ns), 0), most_ns)


def usual_gaps(loop: Loop) -> Usual | None:
    """Return what the gaps of a loop usually are, as far as nobody watched them; None unknown.

    Where one gap in ten or more is long, long ones are usual: a checkpoint at each step, say. What
    comes seldom, as the end of an epoch, would weigh too much in a mean of few traced steps.
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
    """Return own times less what watching cost, which goes with the number of events.

    Of each call one lies in what is called, and one, the return, in the caller. Times sum to the
    gap less that cost: what is more than the whole time of small calls is taken off all others,
    in their shares.
    """
    events = [0 if call.parent is None else call.count for call in gap.calls]
    for call in gap.calls:
        if call.parent is not None:
            events[call.parent] += call.count
    all_events = sum(events) or 1
    costs = [cost_ns * count // all_events for count in events]
    own_ns = [max(call.self_ns - cost, 0) for call, cost in zip(gap.calls, costs, strict=True)]
    left_ns = max(sum(call.self_ns for call in gap.calls) - cost_ns, 0)
    whole_ns = sum(own_ns) or 1
    scaled_ns = [ns * left_ns // whole_ns for ns in own_ns]
    if scaled_ns:
        largest = scaled_ns.index(max(scaled_ns))
        scaled_ns[largest] += left_ns - sum(scaled_ns)
    return scaled_ns


class _Place(NamedTuple):
    """The part of a call, and the position of the call that stands for it.

    Where it `has_no_input`, whatever is called there makes no batch. What is called `in_callback`
    is so by one, whatever its part.
    """

    part: Part
    shown: int
    has_no_input: bool
    in_callback: bool


def _place(calls: tuple[Call, ...], at: int, places: Sequence[_Place]) -> _Place:
    """Return the place of a call.

    Of unknown calls, the one made by the code around the step stands for all below; of known ones,
    the first that the job wrote itself, or else the outermost. What a callback or a checkpoint
    runs is theirs, even if it is written to make batches.
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


# Steps call the same functions, and so do processes.
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
    """Say whether a call of the job's own code makes the next batch.

    A generator does where the loop over steps takes from it, itself or by other generators; not the
    one in `sum(x for x in ...)`.
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
    """Say whether a conversion is asked for by an op that the job computes between steps.

    Nothing is fed by that: it is part of computing.
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
    """Return a function with its module, since all callbacks have functions of the same names."""
    return f"{call.file.rpartition('/')[2].removesuffix('.py')}.{call.function}"


def _is_list_of_callbacks(call: Call) -> bool:
    """Say whether a call only hands on to the callbacks that Keras was given."""
    return call.file.endswith(
        ("/callback_list.py", "/keras/callbacks.py", "/keras/src/callbacks.py")
    )


def _total_ns(calls: tuple[Call, ...]) -> list[int]:
    """Return the time of each call with all that it called; callers come before what they call."""
    total_ns = [call.self_ns for call in calls]
    for at in range(len(calls) - 1, -1, -1):
        parent = calls[at].parent
        if parent is not None:
            total_ns[parent] += total_ns[at]
    return total_ns


def _wrapped(calls: tuple[Call, ...], at: int, total_ns: Sequence[int]) -> Call:
    """Return the call that TensorFlow's and Keras' wrappers are around, such as that of an op."""
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
    """Return what is called, and the innermost line of the job on the way there.

    What only wraps another function is told by the name of that. Where no code of the job is on the
    way, the line of the library that calls it. Code around the step is told by the line it was at,
    that of the step; by its first line in older recordings.
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
