"""One timeline for a whole run: everything sampled, on one axis."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

from tests.support.golden import golden
from tests.support.profiles import Step, loop, op, process, profile
from tests.support.rundir import UNIX_NS
from tfprobe.analysis.distributed.aligned import align
from tfprobe.export.run_timeline import run_timeline
from tfprobe.formats import run_metadata
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.profile import Profile

KERNEL = Place.ACCELERATOR


def recorded() -> Profile:
    """Two processes; in the first a step with kernels, overlaps, nesting and memory."""
    launches = [
        op("MatMul", 0, 10, bytes=100),
        op("MatMul", 30, 10, bytes=50),
        op("Outer", 5, 20),
        op("Inner", 6, 3),
        op("Odd\"'\n", 50, 1),
    ]
    kernels = [
        replaced(op("MatMul", start, 20, KERNEL), device="/gpu", lane="stream 7")
        for start in (12, 33)
    ]
    early = replaced(op("Inner", 1, 1, KERNEL), device="/gpu", lane="stream 7")
    first = profile(
        [Step([*launches, *kernels, early]), Step([op("Sum", 200, 5)])],
        loops=[loop()],
        processes=[process(), process(index=1, pid=99, rank=1)],
    )
    captures = (first.captures[0], replace(first.captures[1], process=1))
    return replace(first, captures=captures)


def replaced(row: Any, **changes: Any) -> Any:
    """Return a Row with changes."""
    return row._replace(**changes)


def document(found: Profile) -> Any:  # Any: a JSON document
    return json.loads("".join(run_timeline(align(found))))


def of_phase(found: Any, phase: str) -> list[Any]:
    return [event for event in found["traceEvents"] if event["ph"] == phase]


def test_every_execution_and_every_step_is_a_box() -> None:
    """With the op and the step it belongs to; times count from the first moment."""
    found = document(recorded())

    boxes = of_phase(found, "X")
    assert len([box for box in boxes if box["cat"] == "step"]) == 2
    assert len(boxes) == 2 + 9
    product = next(box for box in boxes if box["name"] == "n/MatMul")
    assert product["args"] == {"op": "MatMul", "step": 0, "bytes": 100}
    assert found["otherData"]["start_unix_ns"] == str(UNIX_NS)
    assert {box["ts"] for box in boxes if box["name"] == "n/Sum"} == {200.0}


def test_each_device_of_each_process_has_a_row() -> None:
    """The steps have one too; the name says rank, host and process."""
    names = [
        event["args"]["name"]
        for event in of_phase(document(recorded()), "M")
        if event["name"] == "process_name"
    ]

    assert sorted(names) == [
        "node7 4711: /gpu",
        "node7 4711: d",
        "node7 4711: steps",
        "rank 1 node7 99: d",
        "rank 1 node7 99: steps",
    ]


def test_boxes_of_a_lane_are_beside_each_other_or_nested() -> None:
    """What overlaps goes to a lane beside it; what is inside stays inside."""
    lanes = defaultdict(list)
    for box in of_phase(document(recorded()), "X"):
        lanes[box["pid"], box["tid"]].append((box["ts"], box["ts"] + box["dur"]))

    assert len(lanes) == 2 + 1 + 2 + 1
    for boxes in lanes.values():
        open_ends: list[float] = []
        for start, end in sorted(boxes, key=lambda each: (each[0], -each[1])):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1]
            open_ends.append(end)


def test_a_kernel_has_an_arrow_from_its_last_launch_before_it() -> None:
    """A kernel that began before any launch of its op has none."""
    found = document(recorded())

    starts = {event["id"]: event for event in of_phase(found, "s")}
    ends = {event["id"]: event for event in of_phase(found, "f")}
    arrows = sorted((starts[number]["ts"], ends[number]["ts"]) for number in starts)
    assert arrows == [(0.0, 12.0), (30.0, 33.0)]
    assert sorted(starts) == sorted(ends)


def test_counters_go_back_to_nothing_at_the_end_of_a_step() -> None:
    """Memory that was requested, and how long the step took."""
    counters = defaultdict(list)
    for event in of_phase(document(recorded()), "C"):
        counters[event["name"], event["pid"]].append(next(iter(event["args"].values())))

    assert [100, 150, 0] in counters.values()
    assert [0.1, 0] in counters.values()


def test_the_file_comes_in_small_pieces() -> None:
    """A run of millions of rows is never one text in memory."""
    pieces = list(run_timeline(align(recorded())))

    assert max(map(len, pieces)) < 900


def test_a_run_without_captures_is_an_empty_timeline() -> None:
    """It still opens."""
    assert document(profile(loops=[loop()]))["traceEvents"] == []


def test_captures_can_be_picked() -> None:
    """The rows of the others go with them."""
    whole = recorded()

    second = whole.only(whole.captures[1:])

    names = {box["name"] for box in of_phase(document(second), "X")}
    assert names == {"step 1", "n/Sum"}
    assert [capture.index for capture in second.captures] == [0]


def test_a_recorded_step_of_a_gpu_has_an_arrow_for_each_kernel() -> None:
    """A real one, of TensorFlow 1 in 2017: 21 kernels, two transfers, and no copy is memory."""
    path = golden("tfprof_testdata", "run_meta")
    steps = [Step(run_metadata.rows(path.read_bytes()))]

    found = document(profile(steps, loops=[loop()]))

    assert len(of_phase(found, "s")) == len(of_phase(found, "f")) == 21
    assert Counter(box["cat"] for box in of_phase(found, "X")) == {
        "step": 1, "host": 6, "kernel": 21, "copy to device": 1, "copy to host": 1
    }  # fmt: skip
    requested = [e for e in of_phase(found, "C") if e["name"] == "requested in this step"]
    assert len({event["pid"] for event in requested}) == 1
