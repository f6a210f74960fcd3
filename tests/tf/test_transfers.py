"""Real workers: who waits for whom in a collective."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.tf.laboratory import Laboratory
from tests.tf.requirements import need_tensorflow

LATE_US = 200_000


def test_the_slow_one_of_two_workers_is_who_the_other_waits_for(laboratory: Laboratory) -> None:
    """Worker 1 sleeps 200 ms before each all-reduce; worker 0 spends that time waiting."""
    # Newer ones are not traced in a cluster: see docs/limits.md.
    need_tensorflow(laboratory, (2, 4), (2, 16))

    recorded = laboratory.start("slow_worker.py", record=["--every", "3"]).outcome()

    assert recorded.status == 0, recorded.stderr[-3000:]
    command = [sys.executable, "-m", "tfprobe", "transfers", str(recorded.run), "--json"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    early, late = found["collectives"]["ranks"]
    assert (early["rank"], late["rank"]) == (0, 1)
    # Of TensorFlow 2.4's collectives some go on when the recording of their step ends.
    assert early["matched"] == late["matched"] >= 1
    assert late["came_last"] == late["matched"]
    assert early["waiting_us"] / early["matched"] > LATE_US * 0.8
    assert late["waiting_us"] < early["waiting_us"] / 2
    [kind] = found["collectives"]["ops"]
    assert kind["bytes"] == kind["sized"] * 4000
