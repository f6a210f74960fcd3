"""Fixes of tf.data pipelines, on data sets that only remember how they were made."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

DATASETS = """
class DatasetV2:
    def __init__(self, source=None, **options):
        self._input_dataset, self.options, self.operations = source, options, ()
    def _inputs(self):
        return [self._input_dataset] if self._input_dataset is not None else []
    def _functions(self):
        return [self.function] if hasattr(self, "function") else []
    def map(self, map_func, num_parallel_calls=None, deterministic=None):
        mapped = MapDataset(self, parallel=num_parallel_calls)
        mapped.function = map_func
        return mapped
    def interleave(self, map_func, cycle_length=None, block_length=None, num_parallel_calls=None):
        return MapDataset(self, parallel=num_parallel_calls)
    def cache(self):
        return CacheDataset(self)
    def prefetch(self, buffer_size):
        return PrefetchDataset(self, size=buffer_size)
    def __iter__(self):
        return iter([type(self).__name__])
    def of_a_library(self, map_func):
        return self.map(map_func)
class DatasetV1(DatasetV2):
    def _make_one_shot_iterator(self):
        return type(self).__name__
    def _make_initializable_iterator(self, shared_name=None):
        return type(self).__name__, shared_name
class MapDataset(DatasetV2): pass
class CacheDataset(DatasetV2): pass
class PrefetchDataset(DatasetV1): pass
class ShuffleDataset(DatasetV2): pass
class _OptionsDataset(DatasetV2): pass
"""


@pytest.fixture
def data(make_module):
    """TensorFlow's module of data sets."""
    return make_module("tensorflow.python.data.ops.dataset_ops", DATASETS)


def _function(*operations):
    """A traced function with ops of these kinds, and whether each has state."""
    graph = SimpleNamespace(
        get_operations=lambda: [
            SimpleNamespace(type=kind, op_def=SimpleNamespace(is_stateful=is_stateful))
            for kind, is_stateful in operations
        ],
        as_graph_def=lambda: SimpleNamespace(library=SimpleNamespace(function=[])),
    )
    return SimpleNamespace(function=SimpleNamespace(graph=graph))


DECODE = _function(("DecodePng", False))
PYTHON = _function(("PyFunc", True))
NOISE = _function(("RandomUniform", True))


def test_a_pipeline_is_prefetched_where_it_is_iterated(data, fix):
    """In TensorFlow 1, where its iterator is made."""
    note = fix("prefetch", data)

    assert list(data.MapDataset()) == ["PrefetchDataset"]
    assert data.DatasetV1()._make_one_shot_iterator() == "PrefetchDataset"
    assert data.DatasetV1()._make_initializable_iterator("name") == ("PrefetchDataset", "name")
    assert note.times == 3


def test_one_that_prefetches_stays(data, fix):
    """Whatever options follow."""
    note = fix("prefetch", data)

    assert list(data.PrefetchDataset()) == ["PrefetchDataset"]
    assert list(data._OptionsDataset(data.PrefetchDataset())) == ["_OptionsDataset"]
    assert (note.times, note.reasons) == (0, {"prefetches already": 2})


@pytest.mark.parametrize(("value", "calls"), [(None, -1), (16, 16)])
def test_a_map_of_the_job_becomes_parallel(data, fix, value, calls):
    """Python functions too: they may wait for something."""
    note = fix("parallel_map", data, value)

    assert data.DatasetV2().map(PYTHON).options == {"parallel": calls}
    assert note.times == 1


def test_maps_stay_serial_where_others_decide(data, fix):
    """The program, a library, or random numbers that another element would get."""
    note = fix("parallel_map", data)
    dataset = data.DatasetV2()

    assert dataset.map(DECODE, 4).options == {"parallel": 4}
    assert dataset.of_a_library(DECODE).options == {"parallel": None}
    assert dataset.map(NOISE).options == {"parallel": None}
    reasons = {"the program has set num_parallel_calls": 1, "the function draws random numbers": 1}
    assert (note.times, note.reasons) == (0, reasons)


def test_what_a_map_makes_is_cached(data, fix):
    """Each epoch has the same elements."""
    note = fix("cache", data)

    assert type(data.DatasetV2().map(DECODE)) is data.CacheDataset
    assert note.times == 1


def test_what_differs_between_epochs_is_not_cached(data, fix):
    """Nor what is cached before."""
    note = fix("cache", data)

    made = [
        data.ShuffleDataset(data.DatasetV2()).map(DECODE),
        data.CacheDataset(data.DatasetV2()).map(DECODE),
        data.DatasetV2().map(NOISE),
        data.DatasetV2().of_a_library(DECODE),
    ]

    assert {type(dataset) for dataset in made} == {data.MapDataset}
    assert note.reasons == {
        "behind a ShuffleDataset": 1,
        "behind a cache": 1,
        "the function has state or runs Python": 1,
    }
