"""speedscope files hold every op, by the lines or scopes it is in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.graphs import MICROS, graph_profile
from tfprobe.analysis.ops.code_view import code, code_stacks, scope_stacks
from tfprobe.analysis.ops.cost_tree import ViewOptions
from tfprobe.analysis.ops.op_stats import Costs
from tfprobe.analysis.ops.scope_view import scope
from tfprobe.analysis.ops.tfprof_records import costs
from tfprobe.export.speedscope import UNKNOWN, speedscope

UNITS = {"none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"}


def written(view: str, choice: ViewOptions, *, step: int = -1) -> Any:  # Any: a JSON document
    profile = graph_profile()
    of_step = costs(profile, step)
    if view == "code":
        stacks = code_stacks(code(profile, of_step, choice))
    else:
        stacks = scope_stacks(scope(profile, of_step, choice))
    return json.loads(speedscope(profile, of_step, stacks, name="a test"))


def test_lines_are_above_their_ops() -> None:
    """Outermost line first, the op last; a line says its file."""
    document = written("code", ViewOptions())

    names = [frame["name"] for frame in document["shared"]["frames"]]
    time = document["profiles"][0]
    stacks = [[names[number] for number in stack] for stack in time["samples"]]
    assert ["train.py:10:main", "net.py:5:layer", "dense/product [MatMul]"] in stacks
    assert ["train.py:10:main", "loss [Sum]"] in stacks
    assert [UNKNOWN, "fused [_Fused]"] in stacks
    frame = document["shared"]["frames"][names.index("net.py:5:layer")]
    assert (frame["file"], frame["line"]) == ("/home/ada/net.py", 5)


def test_scopes_are_above_their_ops() -> None:
    """A node is not below itself."""
    document = written("scope", ViewOptions())

    names = [frame["name"] for frame in document["shared"]["frames"]]
    stacks = [[names[number] for number in each] for each in document["profiles"][0]["samples"]]
    assert ["dense", "dense/product [MatMul]"] in stacks


@pytest.mark.parametrize("view", ["code", "scope"])
@pytest.mark.parametrize(
    "choice", [ViewOptions(), ViewOptions(max_depth=2), ViewOptions(max_depth=1)]
)
def test_a_file_is_as_its_schema_says(view, choice) -> None:
    """As many weights as samples, which refer to frames; weights sum to the end value."""
    document = written(view, choice)

    frames = document["shared"]["frames"]
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    for profile in document["profiles"]:
        assert profile["type"] == "sampled"
        assert profile["unit"] in UNITS
        assert len(profile["samples"]) == len(profile["weights"])
        assert profile["endValue"] - profile["startValue"] == sum(profile["weights"])
        assert {number for stack in profile["samples"] for number in stack} <= set(
            range(len(frames))
        )
    assert document["profiles"][0]["endValue"] == sum(MICROS.values()) * 1000


def test_a_file_without_costs_still_opens() -> None:
    """speedscope wants a profile, if an empty one."""
    profile = graph_profile()
    nothing = Costs(costs(profile, -1).rows * 0)

    stacks = code_stacks(code(profile, nothing, ViewOptions()))
    document = json.loads(speedscope(profile, nothing, stacks, name="a test"))

    assert [(each["name"], each["samples"]) for each in document["profiles"]] == [("time", [])]
