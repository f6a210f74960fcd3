"""What the memory page tells, and why something is not there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.open_runs import ToldRun
from tests.support.profiles import Step, loop, process, profile
from tests.support.tiers import resource_sample
from tests.unit.analysis.memory.test_whole import BFC, GPU, KIB, STEP, Event, allocations
from tfprobe.errors import UsageError
from tfprobe.profile.profile import Profile
from tfprobe.web.pages.costs import memory
from tfprobe.web.params import Params

HOSTILE = '<script>alert("1")</script>\u202e' + "x" * 1000


def recorded(*steps: tuple[Event, ...], **changes: Any) -> Profile:
    made = profile([Step([]) for _ in steps], loops=[loop(sampled=len(steps))], **changes)
    return replace(made, allocations=allocations(steps))


def told(made: Profile, arguments: Mapping[str, str] | None = None) -> dict[str, Any]:
    document = memory.document(ToldRun(made), Params(arguments or {}))
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    return document


def test_the_fullest_allocator_is_told_in_full() -> None:
    """Its level over the step, who held the peak, and the pieces one by one."""
    document = told(recorded(STEP, STEP))

    chosen = document["chosen"]
    assert (chosen["device"], chosen["allocator"], chosen["sampled_steps"]) == (GPU, BFC, 2)
    assert (chosen["peak_bytes"], chosen["peak"]["after_ns"]) == (360 * KIB, 2000)
    assert max(chosen["timeline"]["bytes"]) == chosen["peak_bytes"]
    assert sum(each["bytes"] for each in chosen["peak"]["holders"]) == chosen["peak_bytes"]
    assert [each["name"] for each in chosen["pieces"]] == [
        "(held before the step)",
        "dense/MatMul",
        "dense/Relu",
    ]
    assert chosen["by_step"]["top_bytes"] == [360 * KIB, 360 * KIB]
    assert chosen["growth"]["verdict"] is None
    assert "8 measurements" in chosen["growth"]["missing"]


@pytest.mark.parametrize("by", ["op", "layer", "line", "scope", "type", "shape", "role"])
def test_holders_are_counted_by_what_was_asked(by: str) -> None:
    """Whatever that is, they sum to the peak."""
    document = told(recorded(STEP), {"by": by})

    assert document["by"] == by
    assert sum(each["bytes"] for each in document["chosen"]["peak"]["holders"]) == 360 * KIB


@pytest.mark.parametrize("arguments", [{"by": "colour"}, {"at": "7"}, {"at": "x"}, {"work": "9"}])
def test_nonsense_is_refused(arguments: dict[str, str]) -> None:
    """With a sentence, not with another answer."""
    with pytest.raises(UsageError):
        told(recorded(STEP), arguments)


def test_a_level_of_very_many_moments_keeps_its_peak() -> None:
    """A chart has no more points than it can show."""
    events = tuple(
        (at, 8, at + 1, "a", 9_999_999 if at == 31_337 else 8 * at + 8) for at in range(50_000)
    )

    chosen = told(recorded(events))["chosen"]

    assert len(chosen["timeline"]["bytes"]) == memory.MOST_MOMENTS
    assert max(chosen["timeline"]["bytes"]) == 9_999_999


def test_of_very_many_holders_the_rest_is_counted() -> None:
    """Names are told as they are, however hostile."""
    events = tuple((at, at + 1, at + 1, f"{HOSTILE}/{at}", -1) for at in range(3_000))

    document = told(recorded(events))

    chosen = document["chosen"]
    assert (len(chosen["peak"]["holders"]), chosen["more_holders"]) == (1_000, 2_000)
    assert chosen["more_holders_bytes"] == sum(range(1, 2_001))
    assert chosen["peak"]["holders"][0]["name"].startswith("<script>")
    assert len(json.dumps(document)) < 5_000_000


def test_a_run_without_steps_tells_of_its_processes() -> None:
    """Their memory was measured, whether or not a step came."""
    made = profile(
        resource_samples=[resource_sample(at, resident_bytes=at * KIB) for at in range(1, 4)]
    )

    document = told(made)

    assert document["work"] is None
    assert document["missing"] == {"allocators": "no step has been recorded"}
    (host,) = document["hosts"]
    assert (host["last_bytes"], host["peak_bytes"], host["limit_bytes"]) == (3 * KIB, 3 * KIB, None)
    (line,) = document["over_time"]["lines"]
    assert line["resident_bytes"] == [KIB, 2 * KIB, 3 * KIB]
    assert "cgroup" in host["missing"]["limit_bytes"]


def test_nothing_measured_is_told_with_its_reasons() -> None:
    """There is no table of dashes."""
    document = told(profile(loops=[loop()]))

    assert document["chosen"] is None
    assert document["missing"]["allocators"] == "no step of this loop was traced"
    assert "no process" in document["missing"]["hosts"]
    assert document["variables"]["missing"] == "no step of this loop was traced"


def test_a_host_over_a_long_time_keeps_its_highest_moments() -> None:
    """100,000 pulses are 2,000 points; the one that was highest is among them."""
    resource_samples = [
        resource_sample(at, resident_bytes=99_999 if at == 51_111 else 7) for at in range(100_000)
    ]

    found = told(profile(resource_samples=resource_samples))["over_time"]

    (line,) = found["lines"]
    assert len(line["resident_bytes"]) == memory.MOST_MOMENTS
    assert max(line["resident_bytes"]) == 99_999
    assert np.all(np.diff(found["after_ns"]) > 0)


def test_of_many_processes_those_with_most_memory_are_drawn() -> None:
    """All are in the table."""
    resource_samples = [resource_sample(1, process=at, resident_bytes=at + 1) for at in range(40)]
    made = profile(
        processes=[process(index=at) for at in range(40)], resource_samples=resource_samples
    )

    document = told(made)

    assert len(document["hosts"]) == 40
    lines = document["over_time"]["lines"]
    assert [each["process"] for each in lines] == list(range(24, 40))
    assert document["over_time"]["more"] == 24
