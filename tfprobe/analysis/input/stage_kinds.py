"""What kinds of iterators of tf.data do, and what helps where one of them is the bottleneck."""

from __future__ import annotations

import re
from collections.abc import Mapping

SEPARATOR = "::"
# Every path begins so: what the rest of the name says is where in the pipeline it is.
PREFIX = "Iterator"

# Their calls take from a buffer that other threads fill (XProf: IsAsyncIterator, and those since).
_ASYNC = frozenset(
    {
        "DataService",
        "LegacyParallelInterleave",
        "MapAndBatch",
        "ParallelBatch",
        "ParallelFilter",
        "ParallelInterleave",
        "ParallelMap",
        "ParseExample",
        "Prefetch",
    }
)
# They run a function that the program gave.
_WITH_FUNCTION = frozenset(
    {
        "Filter",
        "FlatMap",
        "Generator",
        "GroupByReducer",
        "GroupByWindow",
        "Interleave",
        "LegacyParallelInterleave",
        "Map",
        "MapAndBatch",
        "ParallelFilter",
        "ParallelInterleave",
        "ParallelMap",
        "Scan",
        "TakeWhile",
    }
)
# TensorFlow puts them there by itself, to apply options.
_WRAPPERS = frozenset(
    {"FinalizeDataset", "MaxIntraOpParallelism", "Model", "Options", "PrivateThreadPool", "Root"}
)
_BATCHES = frozenset({"Batch", "MapAndBatch", "PaddedBatch", "ParallelBatch"})
# They pass on what others made: no time of theirs can be long. A FlatMap or an Interleave has a
# function that names inputs, and those are there; what they are opened for shows as calls of them.
_PASS_ON = _WRAPPERS | {"FlatMap", "Interleave", "Prefetch", "Repeat", "Skip", "Take", "Zip"}
# How many elements a buffer can hold, by the fact that says so; in a full one the next is ready.
_CAPACITIES = {
    "MapAndBatch": "max_batch_results",
    "ParallelBatch": "parallelism",
    "ParallelMap": "parallelism",
}
_FILES = frozenset(
    {"CSV", "FixedLengthRecord", "LMDB", "RecordIO", "SSTable", "TFRecord", "TextLine"}
)
# They make elements of nothing that tf.data made.
_SOURCES = _FILES | {
    "FromTensor",
    "Generator",
    "List",
    "Random",
    "Range",
    "SparseTensorSlice",
    "Sql",
    "Tensor",
    "TensorSlice",
}
# Deeper is no pipeline that anybody wrote: a damaged name.
_DEEPEST = 100
_INDEX = re.compile(r"\[\d+\]$")
# One implementation for each way to repeat or cut: "ForeverRepeat", "FiniteTake", "EmptySkip".
_REPEATS_AND_CUTS = re.compile(r"^(Forever|Finite|Empty)(?=(Repeat|Take|Skip)$)")
_VERSION = re.compile(r"V\d+$")


def parts_of(path: str) -> tuple[str, ...]:
    """Return the stages of an iterator's path, outermost first.

    An interleave has an iterator for each of its inputs, "Interleave[2]::Map": one stage.
    """
    names = path.split(SEPARATOR)
    inner = names[1:] if names[0] == PREFIX else names
    return tuple(_INDEX.sub("", name) for name in inner[:_DEEPEST])


def kind_of(name: str) -> str:
    """Return what a stage is, without the version of its implementation."""
    kind = _VERSION.sub("", name)
    return _REPEATS_AND_CUTS.sub("", kind)


def is_async(kind: str) -> bool:
    """Say whether other threads make what a call of this returns."""
    return kind in _ASYNC


def has_function(kind: str) -> bool:
    """Say whether this runs a function of the program."""
    return kind in _WITH_FUNCTION


def has_next(kind: str, facts: Mapping[str, str]) -> bool:
    """Say whether a call found the element it took in its buffer, by what was told as it began.

    A prefetch fills its buffer in order; others may hold a later element and still make the next.
    TensorFlow 2.4 does not tell, 2.12 does; and only where a buffer is not empty.
    """
    held = facts.get("buffered_elements", "")
    if not held.isdecimal():
        return False
    if kind == "Prefetch":
        return True
    capacity = facts.get(_CAPACITIES.get(kind, ""), "")
    return capacity.isdecimal() and int(held) >= int(capacity)


def passes_on(kind: str) -> bool:
    """Say whether this takes no time itself, whatever it is waited for."""
    return kind in _PASS_ON


def joins(kind: str) -> bool:
    """Say whether this makes one element of many."""
    return kind in _BATCHES


def is_wrapper(kind: str) -> bool:
    """Say whether TensorFlow put this there by itself."""
    return kind in _WRAPPERS


def is_source(kind: str) -> bool:
    """Say whether no other stage is below this: it reads, or has, or had, the data itself."""
    return kind in _SOURCES or "Cache" in kind or kind == "MemoryReader"


def reads_files(kind: str) -> bool:
    """Say whether this reads from storage."""
    return kind in _FILES
