"""Divide the time between two steps by what its thread called there: innermost known call first.

A call is known by where its function is written and how it is called. What an unknown function
does belongs to the nearest known one around it; what is in none is idle, with the call as evidence.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfprobe.model.activities import Call, Gap
from tfprobe.model.profile import Work
from tfprobe.views.breakdown.parts import Part
from tfprobe.views.source_lines import is_of_library

# By the file a function is in and its name, both searched for; the first that fits.
_KNOWN: tuple[tuple[Part, re.Pattern[str], re.Pattern[str]], ...] = tuple(
    (part, re.compile(file), re.compile(name))
    for part, file, name in (
        (
            Part.COMPILE,
            r"tensorflow/python/(framework/func_graph|eager/polymorphic_function/tracing)",
            r"func_graph_from_py_func|_maybe_define_function|trace_function",
        ),
        (
            Part.CHECKPOINTS,
            r"/(tensorflow|keras|tf_keras|tensorflow_estimator)/.*"
            r"(checkpoint|saver|saving|saved_model|save)",
            r"^_?(save|write|export|sync)",
        ),
        (Part.CHECKPOINTS, r"/(keras|tf_keras)/", r"^(save|save_weights|save_model)$"),
        (Part.CHECKPOINTS, r"/(h5py|orbax|safetensors)/", r""),
        (Part.SUMMARIES, r"/(tensorboard|tensorboardX|summary)[/_.]|summary_(ops|io)", r""),
        (
            Part.SYNC_WAIT,
            r"tensorflow/python/(framework/ops|framework/tensor|eager/context)",
            r"^(_?numpy|__(float|int|bool|array|index|len|complex|long)__|async_wait|sync_.*)$",
        ),
        (Part.SYNC_WAIT, r"", r"EagerTensor\._numpy|_numpy_internal"),
        (
            Part.INPUT_WAIT,
            r"tensorflow/python/data/|multi_device_iterator|distribute/input_lib",
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
            r"",
        ),
        (
            Part.HOST_PREPROCESS,
            r"/(PIL|cv2|h5py|imageio|skimage|librosa|tensorflow_datasets|pandas|pyarrow|torch/utils/data)/",
            r"",
        ),
        (
            Part.FEED,
            r"tensorflow/python/framework/(constant_op|tensor_conversion|tensor_util)",
            r"",
        ),
        (
            Part.CALLBACKS,
            r"",
            r"^on_(train|test|predict|epoch|batch)(_batch)?_(begin|end)$|^(before|after)_run$",
        ),
    )
)
# What prepares a batch is written by the job, under names like these.
_PREPARES = re.compile(
    r"^(__next__|__getitem__|get_?(next|batch|item)|next_?batch|load_?(batch|data|image)s?"
    r"|(sample|fetch|read|make|prepare)_?(a_)?batch(es)?|batches|collate(_fn)?|augment\w*"
    r"|preprocess\w*|decode_\w+|data_?generator|minibatch\w*)$"
)
# With fewer gaps nobody knows what is usual; watching lengthens a gap, by less than this.
_FEWEST_GAPS = 8
_LONGEST_USUAL = 4
# Gaps of a loop in C are so short that anything is many times longer.
_SMALLEST_GAP_NS = 1_000_000
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Cause:
    """Something that time went to, by the call or the phase it was spent in.

    `file` is "" and `line` 0 where no line of Python stands for it.
    """

    part: Part
    what: str
    file: str
    line: int
    duration_ns: int


@dataclass(frozen=True, slots=True)
class Between:
    """The parts of the time between two steps, summing to `duration_ns`, and what they went to.

    What watching cost is taken out.
    """

    duration_ns: int
    parts: Mapping[Part, int]
    causes: tuple[Cause, ...]


def divide(gap: Gap, *, has_accelerator: bool) -> Between:
    """Return the parts of a gap. Without an accelerator, reading a value waits for nothing."""
    own_ns = _without_cost(gap)
    parts: dict[Part, int] = {}
    causes: dict[tuple[Part, str, str, int], int] = {}
    places: list[tuple[Part, int]] = []
    for at in range(len(gap.calls)):
        part, shown = _place(gap.calls, at, places)
        places.append((part, shown))
        part = _meant(part, has_accelerator=has_accelerator)
        parts[part] = parts.get(part, 0) + own_ns[at]
        key = (part, *_described(gap.calls, shown))
        causes[key] = causes.get(key, 0) + own_ns[at]
    found = [Cause(*key, duration_ns=ns) for key, ns in causes.items() if ns]
    return Between(
        duration_ns=sum(own_ns),
        parts={part: ns for part, ns in parts.items() if ns},
        causes=tuple(sorted(found, key=lambda cause: -cause.duration_ns)),
    )


def shortened(item: Between, kept_ns: int) -> Between:
    """Return as much of a gap, each part in its share; what a division leaves over is idle."""
    whole_ns = item.duration_ns or 1
    parts = {part: ns * kept_ns // whole_ns for part, ns in item.parts.items()}
    left_ns = kept_ns - sum(parts.values())
    if left_ns:
        parts[Part.IDLE] = parts.get(Part.IDLE, 0) + left_ns
    causes = tuple(
        replace(each, duration_ns=each.duration_ns * kept_ns // whole_ns) for each in item.causes
    )
    return Between(kept_ns, {part: ns for part, ns in parts.items() if ns}, causes)


def longest_usual_ns(work: Work) -> int | None:
    """Return how long the time after a step of a work may be to count as usual; None unknown.

    Where one gap in ten or more is long, long ones are usual: a checkpoint at each step, say. What
    comes seldom, as the end of an epoch, would weigh too much in a mean of few recorded steps.
    """
    recent = work.recent
    is_usual = recent.has_gap[1:] & ~recent.sampled[:-1]
    gaps_ns = (recent.start_ns[1:] - recent.end_ns[:-1])[is_usual]
    if len(gaps_ns) < _FEWEST_GAPS:
        return None
    return int(_LONGEST_USUAL * max(float(np.quantile(gaps_ns, 0.9)), _SMALLEST_GAP_NS))


def _without_cost(gap: Gap) -> list[int]:
    """Return own times less what watching cost, which goes with the number of calls.

    They sum to the gap less that cost: what is more than the whole time of small calls is taken
    off all others, in their shares.
    """
    calls = sum(call.count for call in gap.calls) or 1
    costs = [gap.cost_ns * call.count // calls for call in gap.calls]
    own_ns = [max(call.self_ns - cost, 0) for call, cost in zip(gap.calls, costs, strict=True)]
    left_ns = max(sum(call.self_ns for call in gap.calls) - gap.cost_ns, 0)
    whole_ns = sum(own_ns) or 1
    scaled_ns = [ns * left_ns // whole_ns for ns in own_ns]
    if scaled_ns:
        largest = scaled_ns.index(max(scaled_ns))
        scaled_ns[largest] += left_ns - sum(scaled_ns)
    return scaled_ns


def _place(
    calls: tuple[Call, ...], at: int, places: Sequence[tuple[Part, int]]
) -> tuple[Part, int]:
    """Return the part of a call, and the position of the call that stands for it.

    Of unknown calls, the one made by the code around the step stands for all below; of known ones,
    the first that the job wrote itself, or else the outermost.
    """
    call = calls[at]
    known = _known(call.file, call.function, is_generator=call.is_generator)
    if call.parent is None:
        return known or Part.IDLE, at
    part, shown = places[call.parent]
    if known is not None and known is not part:
        return known, at
    is_first = part is Part.IDLE and calls[call.parent].parent is None
    is_jobs_own = (
        part is not Part.IDLE and is_of_library(calls[shown].file) and not is_of_library(call.file)
    )
    return part, at if is_first or is_jobs_own else shown


# Steps call the same functions, and so do processes.
@functools.lru_cache(maxsize=_REMEMBERED)
def _known(file: str, function: str, *, is_generator: bool) -> Part | None:
    for part, files, names in _KNOWN:
        if files.search(file) and names.search(function):
            return part
    if not is_of_library(file) and (is_generator or _PREPARES.match(function)):
        return Part.HOST_PREPROCESS
    return None


def _meant(part: Part, *, has_accelerator: bool) -> Part:
    return Part.FETCH if part is Part.SYNC_WAIT and not has_accelerator else part


def _described(calls: tuple[Call, ...], at: int) -> tuple[str, str, int]:
    """Return what is called, and the innermost line of the job on the way there.

    Where no code of the job is on it, the line of the library that calls it. Code around the step
    is told by the line it was at, that of the step; by its first line in older recordings.
    """
    call = calls[at]
    name = call.function
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
