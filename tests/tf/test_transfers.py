"""Real workers: who waits for whom in a collective."""

from __future__ import annotations

import pytest

from tests.tf.laboratory import Laboratory, Outcome, tfprobe_json
from tests.tf.requirements import need_tensorflow

LATE_US = 200_000


@pytest.fixture(scope="module")
def slow_worker(laboratory: Laboratory) -> Outcome:
    """Two workers, of which worker 1 sleeps 200 ms before each all-reduce."""
    # Newer ones are not traced in a cluster: see docs/limits.md.
    need_tensorflow(laboratory, (2, 4), (2, 16))
    recorded = laboratory.start("slow_worker.py", record=["--every", "3"]).outcome()
    assert recorded.status == 0, recorded.stderr[-3000:]
    return recorded


def test_the_slow_worker_is_a_finding_by_its_rank(slow_worker: Outcome) -> None:
    """The other waits for it in each collective."""
    findings = tfprobe_json("advise", str(slow_worker.run))["findings"]

    (finding,) = [each for each in findings if each["rule"] == "straggler"]
    assert finding["subject"]["rank"] == 1
    assert finding["severity"] != "info"


def test_the_slow_one_of_two_workers_is_who_the_other_waits_for(slow_worker: Outcome) -> None:
    """Worker 0 spends the time that worker 1 sleeps waiting."""
    found = tfprobe_json("transfers", str(slow_worker.run))

    early, late = found["collectives"]["ranks"]
    assert (early["rank"], late["rank"]) == (0, 1)
    # Of TensorFlow 2.4's collectives some go on when the recording of their step ends.
    assert early["matched"] == late["matched"] >= 1
    assert late["came_last"] == late["matched"]
    assert early["waiting_us"] / early["matched"] > LATE_US * 0.8
    assert late["waiting_us"] < early["waiting_us"] / 2
    [kind] = found["collectives"]["ops"]
    assert kind["bytes"] == kind["sized"] * 4000


def test_waiting_for_the_slow_worker_is_not_productive(slow_worker: Outcome) -> None:
    """The account of worker 0 names whom it waits for; worker 1 waits for nobody."""
    of_rank = {each["rank"]: each["account"]["parts"] for each in slow_worker.report["processes"]}
    waited = {
        rank: [item for part in parts for item in part["of"] if item["what"].startswith("for rank")]
        for rank, parts in of_rank.items()
    }

    [item] = waited[0]
    assert item["what"].startswith("for rank 1 in Collective")
    assert item["us"] > 0
    assert item["samples"] >= 1
    assert waited[1] == []
    assert [sum(part["ratio"] for part in parts) for parts in of_rank.values()] == [1, 1]
