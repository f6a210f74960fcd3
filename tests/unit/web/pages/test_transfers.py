"""What moves, and of what does not, why."""

from __future__ import annotations

import json
from typing import Any

from tests.support.open_runs import ToldRun
from tests.support.profiles import Step, loop, op, process, profile
from tests.unit.analysis.distributed.test_collectives import recorded, reduce
from tests.unit.analysis.transfers.test_transfers import PAGEABLE, copy, kernel
from tfprobe.profile.activities import Call, Gap
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.profile import Profile
from tfprobe.web.pages import transfers
from tfprobe.web.params import Params


def told(made: Profile, **arguments: str) -> dict[str, Any]:
    document = transfers.document(ToldRun(made), Params(arguments))
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    return document


def test_a_cpu_has_no_bus_and_the_page_says_so() -> None:
    """Three sentences, no wall of dashes."""
    document = told(profile([Step([op("MatMul", 0, 9)])], loops=[loop(sampled=1)]))

    assert [document[name] for name in ("transfers", "collectives", "sends")] == [None] * 3
    assert document["missing"] == {
        "transfers": "no accelerator in this run, so nothing moved over the bus",
        "collectives": "the traced steps have no collective",
        "sends": "the traced steps send nothing between devices or tasks",
    }


def test_copies_are_told_by_direction_and_by_op() -> None:
    """With the host's memory that they go from, and what kernels hide."""
    rows = [
        copy("edge_1_x", 0, 100, Place.HOST_TO_DEVICE, detail=PAGEABLE),
        kernel("k", 50, 100),
    ]

    document = told(profile([Step(rows)], loops=[loop(sampled=1)]))

    (flow,) = document["transfers"]["directions"]
    assert (flow["direction"], flow["count"], flow["hidden_ratio"]) == ("host_to_device", 1, 0.5)
    assert list(flow["host_memory"]) == ["pageable"]
    assert document["transfers"]["causes"][0]["name"] == "x"
    assert document["transfers"]["more_causes"] == 0


def test_of_very_many_causes_the_dearest_are_told() -> None:
    """And how many more there are."""
    rows = [copy(f"op<b>{at}", at, 1, Place.HOST_TO_DEVICE, detail=PAGEABLE) for at in range(1_500)]

    document = told(profile([Step(rows)], loops=[loop(sampled=1)]))

    assert len(document["transfers"]["causes"]) == transfers.MOST_CAUSES
    assert document["transfers"]["more_causes"] == 500


def test_the_ranks_of_a_work_meet_in_its_collectives() -> None:
    """Whichever of them is asked for, all of them are compared."""
    loops = [loop(process=at, sampled=1) for at in range(2)]
    made = recorded({0: [[reduce(0, 100)]], 1: [[reduce(70, 30)]]}, loops=loops)

    documents = [told(made, work=str(at)) for at in range(2)]

    assert [each["about"]["rank"] for each in documents] == [0, 1]
    for each in documents:
        ranks = each["collectives"]["ranks"]
        assert [(one["rank"], one["waiting_ns"]) for one in ranks] == [(0, 70_000), (1, 0)]


def test_values_that_python_asks_for_are_told_with_their_line() -> None:
    """A step that was not sampled says why nothing is known of its waits."""
    library = "/x/site-packages/tensorflow/python/framework/ops.py"
    calls = (
        Call(None, "loop", "/home/ada/train.py", 10, 0, False, 1, 0),
        Call(0, "numpy", library, 300, 14, False, 1, 5_000),
    )
    gap = Gap(0, 0, 1, 0, 5_000, 0, False, calls)

    syncs = told(profile(loops=[loop()], gaps=(gap,)))["syncs"]

    assert (syncs["source"], syncs["ns_per_gap"]) == ("/home/ada/train.py:14", 5_000)
    assert syncs["sync_wait_ratio"] is None
    assert syncs["missing"] == {"parts": "no step of this loop was traced"}


def test_a_work_that_was_not_sampled_moves_nothing_known() -> None:
    """The reason is the same for all of it."""
    document = told(profile(loops=[loop()], processes=[process()]))

    assert set(document["missing"].values()) == {"no step of this loop was traced"}
