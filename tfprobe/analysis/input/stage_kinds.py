"""The kinds of tf.data iterators, and their properties."""

from __future__ import annotations

import re
from collections.abc import Mapping

SEPARATOR = "::"
# The first name of every path; the rest is the position in the pipeline.
PREFIX = "Iterator"

# They take from a buffer that other threads fill (XProf: IsAsyncIterator, and later kinds).
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
# They run a function of the program.
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
# TensorFlow adds them to apply options.
_WRAPPERS = frozenset(
    {"FinalizeDataset", "MaxIntraOpParallelism", "Model", "Options", "PrivateThreadPool", "Root"}
)
_BATCHES = frozenset({"Batch", "MapAndBatch", "PaddedBatch", "ParallelBatch"})
# They forward elements, so their own time is short. The function of a FlatMap or an Interleave only
# names inputs, whose opening appears as calls of the inputs.
_PASS_ON = _WRAPPERS | {"FlatMap", "Interleave", "Prefetch", "Repeat", "Skip", "Take", "Zip"}
# The attribute with the capacity of a buffer; if it is full, the next element is ready.
_CAPACITIES = {
    "MapAndBatch": "max_batch_results",
    "ParallelBatch": "parallelism",
    "ParallelMap": "parallelism",
}
_FILES = frozenset(
    {"CSV", "FixedLengthRecord", "LMDB", "RecordIO", "SSTable", "TFRecord", "TextLine"}
)
# They have no stage below them.
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
# No pipeline is deeper: the name is damaged.
_DEEPEST = 100
_INDEX = re.compile(r"\[\d+\]$")
# Each way to repeat or cut is an implementation: "ForeverRepeat", "FiniteTake", "EmptySkip".
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
    """Return the kind of a stage, without the version of its implementation."""
    kind = _VERSION.sub("", name)
    return _REPEATS_AND_CUTS.sub("", kind)


def is_async(kind: str) -> bool:
    """Return whether other threads make the elements that a call returns."""
    return kind in _ASYNC


def has_function(kind: str) -> bool:
    """Return whether a stage runs a function of the program."""
    return kind in _WITH_FUNCTION


def has_next(kind: str, facts: Mapping[str, str]) -> bool:
    """Return whether a call found its element in the buffer, by the attributes at its start.

    A prefetch fills its buffer in order; others can have a later element while the next is being
    made. TensorFlow 2.4 does not record this, 2.12 does, and only if the buffer is not empty.
    """
    buffered = facts.get("buffered_elements", "")
    if not buffered.isdecimal():
        return False
    if kind == "Prefetch":
        return True
    capacity = facts.get(_CAPACITIES.get(kind, ""), "")
    return capacity.isdecimal() and int(buffered) >= int(capacity)


def passes_on(kind: str) -> bool:
    """Return whether a stage only forwards elements and takes no time itself."""
    return kind in _PASS_ON


def joins(kind: str) -> bool:
    """Return whether a stage makes one element of many."""
    return kind in _BATCHES


def is_wrapper(kind: str) -> bool:
    """Return whether TensorFlow added a stage by itself."""
    return kind in _WRAPPERS


def is_source(kind: str) -> bool:
    """Return whether a stage has none below it: it reads, holds or has cached the data."""
    return kind in _SOURCES or "Cache" in kind or kind == "MemoryReader"


def reads_files(kind: str) -> bool:
    """Return whether a stage reads from storage."""
    return kind in _FILES
