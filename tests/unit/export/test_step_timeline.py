"""The timeline of one step: what is drawn where. tests/tf compares it with TensorFlow's own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.step_stats import START_US, gpu_step
from tfprobe.errors import UnreadableInput
from tfprobe.export.step_timeline import step_timeline
from tfprobe.formats.run_metadata.step_stats import step_stats


def events(**flags: Any) -> list[dict[str, Any]]:
    """Return the events of the odd step. Any: JSON."""
    found: list[dict[str, Any]] = json.loads(step_timeline(step_stats(gpu_step()), **flags))[
        "traceEvents"
    ]
    return found


def box(name: str, **flags: Any) -> tuple[int, int]:
    """Return start, from that of the step, and duration of the first box of this node."""
    found = next(each for each in events(**flags) if each.get("args", {}).get("name") == name)
    return found["ts"] - START_US, found["dur"]


def test_an_op_is_drawn_for_its_scheduling_or_its_kernels_or_both() -> None:
    """`op_time` chooses; the kernels of `product` run from 22 to 59."""
    assert box("product") == (20, 5)
    assert box("product", op_time="gpu") == (22, 37)
    assert box("product", op_time="all") == (20, 39)


def test_arrows_lead_from_producers_to_consumers() -> None:
    """By output, and through a send and a receive; each start has its end."""
    arrows = [each for each in events() if each["ph"] in "st"]

    starts = {each["id"]: each for each in arrows if each["ph"] == "s"}
    ends = {each["id"]: each for each in arrows if each["ph"] == "t"}
    assert sorted(starts) == sorted(ends) == [*range(len(starts))]
    assert {"split:1", "input", "split"} <= {each["name"] for each in starts.values()}
    assert not [each for each in events(show_dataflow=False) if each["ph"] in "st"]


def test_memory_goes_up_and_down_to_nothing() -> None:
    """One counter for each allocator; every tensor is freed."""
    found = events(show_memory=True)

    counters: dict[str, list[int]] = {}
    for each in found:
        if each["ph"] == "C":
            counters.setdefault(each["name"], []).append(each["args"][each["name"]])
    assert set(counters) == {"cpu", "GPU_0_bfc"}
    assert {values[-1] for values in counters.values()} == {0}
    assert max(counters["GPU_0_bfc"]) == 64
    assert not [each for each in events() if each["ph"] in "CNOD"]


def test_boxes_of_a_lane_do_not_overlap() -> None:
    """In time, box after box."""
    lanes: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for each in events():
        if each["ph"] == "X":
            lanes.setdefault((each["pid"], each["tid"]), []).append(each)

    for boxes in lanes.values():
        ends = [0, *(each["ts"] + each["dur"] for each in boxes)]
        assert all(each["ts"] >= end for each, end in zip(boxes, ends, strict=False))


@pytest.mark.parametrize("content", [b"", b"\xff\xff", b"\x0a\x00"])
def test_what_holds_no_step_is_unreadable(content) -> None:
    """Nothing, no RunMetadata, one without devices."""
    with pytest.raises(UnreadableInput):
        step_stats(content)
