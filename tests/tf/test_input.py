"""Planted causes of waiting for input are named: the stage that is slow, and no other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.tf.laboratory import Laboratory, tfprobe_json

# Cause -> the kinds of stage that hold it. Newer TensorFlows make one stage of a Map and a Batch,
# and a Map parallel, by themselves.
MAPS = frozenset({"Map", "MapAndBatch", "ParallelMap"})
BOTTLENECKS: Mapping[str, frozenset[str]] = {
    "slow_map": MAPS,
    "slow_map_of_batches": MAPS,
    "slow_graph_map": MAPS,
    "slow_generator": frozenset({"Generator"}),
    "slow_source": frozenset({"TFRecord"}),
    "no_prefetch": MAPS,
    "tiny_elements": frozenset({"Batch", "ParallelBatch"}),
    "slow_files": MAPS,
}


@pytest.fixture(scope="module")
def loops(laboratory: Laboratory) -> Mapping[str, Mapping[str, Any]]:
    """What `tfprobe input` says of each model, by its name, which is that of the planted cause."""
    if laboratory.tensorflow < (2, 2):
        pytest.skip("TensorFlow 1 records no calls of iterators")
    # Rarely, so that a buffer that is filled while a recording is written is empty again.
    return _loops(laboratory, "input_causes.py")


@pytest.fixture(scope="module")
def sessions(laboratory: Laboratory) -> Mapping[str, Mapping[str, Any]]:
    """What it says of each Session step, by the tensor fetched, named after the planted cause."""
    return _loops(laboratory, "input_sessions.py")


def _loops(laboratory: Laboratory, job: str) -> dict[str, Mapping[str, Any]]:
    outcome = laboratory.start(job, record=["--every", "8"]).outcome()
    assert outcome.status == 0, outcome.stderr
    document = tfprobe_json("input", str(outcome.run))
    return {loop["name"]: loop for loop in document["works"]}


@pytest.mark.parametrize("cause", BOTTLENECKS)
def test_a_planted_cause_is_the_bottleneck(
    loops: Mapping[str, Mapping[str, Any]], cause: str
) -> None:
    """The work is bound by its input, and the stage that was made slow is the one named."""
    loop = loops[cause]

    stage = _bottleneck(loop)

    assert loop["level"] == "high", loop["input_ratio"]
    assert loop["sources"][0]["kind"] == "iterator"
    assert stage["kind"] in BOTTLENECKS[cause], loop["pipeline"]
    assert loop["remedies"]


@pytest.mark.parametrize("cause", ["cached", "keeps_up"])
def test_a_pipeline_that_keeps_up_is_not_blamed(
    loops: Mapping[str, Mapping[str, Any]], cause: str
) -> None:
    """What a buffer held when the step asked for it was made in time, however slowly."""
    assert loops[cause]["level"] == "none", loops[cause]
    assert loops[cause]["remedies"] == []


@pytest.mark.parametrize(
    ("cause", "ops"),
    [
        ("slow_map", {"PyFunc", "EagerPyFunc"}),
        ("slow_graph_map", {"MatMul", "_MklMatMul"}),
        ("slow_generator", {"PyFunc", "EagerPyFunc"}),
    ],
)
def test_what_a_function_spends_its_time_in_is_told(
    loops: Mapping[str, Mapping[str, Any]], cause: str, ops: set[str]
) -> None:
    """The ops of a Map's function are its own, not the step's."""
    stage = _bottleneck(loops[cause])

    assert stage["ops"][0]["type"] in ops


@pytest.mark.parametrize(
    ("cause", "kind", "what"),
    [
        ("by_queue:0", "queue", "slow_queue"),
        ("by_feed:0", "feed", "feed_dict"),
        ("by_iterator:0", "iterator", "IteratorGetNext"),
    ],
)
def test_a_session_that_waits_says_for_what(
    sessions: Mapping[str, Mapping[str, Any]], cause: str, kind: str, what: str
) -> None:
    """A queue, feeds and an iterator in graph mode are told apart."""
    loop = sessions[cause]

    assert loop["level"] == "high", loop["input_ratio"]
    assert (loop["sources"][0]["kind"], loop["sources"][0]["what"]) == (kind, what)
    assert loop["remedies"]


def test_the_threads_that_fill_a_queue_are_told_with_their_ops(
    sessions: Mapping[str, Mapping[str, Any]],
) -> None:
    """What a queue waits for is what its threads spend their steps in."""
    (filler,) = sessions["by_queue:0"]["producers"]

    assert filler["ops"][0]["type"] in {"PyFunc", "EagerPyFunc"}
    assert sessions["by_feed:0"]["producers"] == []


def _bottleneck(loop: Mapping[str, Any]) -> Mapping[str, Any]:
    pipeline = loop["pipeline"]
    stage: Mapping[str, Any] = pipeline["stages"][pipeline["bottleneck"]]
    return stage
